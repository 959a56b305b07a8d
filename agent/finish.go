package agent

import (
	"crypto/sha256"

	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/transport"
)

// finish seals a window, counts it and tells the observer.
func (a *Agent) finish(s *stream, w *source.Window) (*seal.Sealed, error) {
	sequence, err := a.state.Take(s.Config.Name)
	if err != nil {
		return nil, err
	}
	out, err := a.sealed(s.Stream.Stream, w, seal.Identity{Device: a.cfg.Device, Boot: a.state.Boot(), Sequence: sequence, BootID: a.bootID})
	if err != nil {
		return nil, err
	}
	s.sealed.windows.Add(1)
	if w.Samples < s.Config.Window.Samples {
		s.sealed.partial.Add(1)
	}
	s.sealed.bodyBytes.Add(uint64(out.Body))
	s.sealed.objectBytes.Add(uint64(len(out.Object)))
	s.sealed.encryptNanos.Add(uint64(out.Encrypt))
	a.log.Debug("window sealed", "stream", s.Config.Name, "sequence", sequence, "samples", w.Samples, "bytes", len(out.Object), "encrypt", out.Encrypt)
	if a.deps.Observer != nil {
		chunks, err := transport.Split(out.Object, int(a.cfg.Broker.ChunkSize))
		if err != nil {
			return nil, err
		}
		a.deps.Observer(Observation{Meta: out.Meta, Object: sha256.Sum256(out.Object), Values: w.Values,
			Encrypt: out.Encrypt, Body: out.Body, Sealed: len(out.Object), Chunks: len(chunks)})
		return out, nil
	}
	return out, nil
}
