package agent

import (
	"crypto/sha256"

	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/transport"
)

// finish seals a window, counts it and tells the observer.
func (a *Agent) finish(s *stream, w *source.Window) (*sealed, error) {
	sequence, err := a.state.take(s.cfg.Name)
	if err != nil {
		return nil, err
	}
	out, err := a.sealed(s.sealStream, w, identity{a.cfg.Device, a.state.boot(), sequence, a.bootID})
	if err != nil {
		return nil, err
	}
	s.sealed.windows.Add(1)
	if w.Samples < s.cfg.Window.Samples {
		s.sealed.partial.Add(1)
	}
	s.sealed.bodyBytes.Add(uint64(out.body))
	s.sealed.objectBytes.Add(uint64(len(out.object)))
	s.sealed.encryptNanos.Add(uint64(out.encrypt))
	a.log.Debug("window sealed", "stream", s.cfg.Name, "sequence", sequence, "samples", w.Samples, "bytes", len(out.object), "encrypt", out.encrypt)
	if a.deps.Observer != nil {
		chunks, err := transport.Split(out.object, int(a.cfg.Broker.ChunkSize))
		if err != nil {
			return nil, err
		}
		a.deps.Observer(Observation{Meta: out.meta, Object: sha256.Sum256(out.object), Values: w.Values,
			Encrypt: out.encrypt, Body: out.body, Sealed: len(out.object), Chunks: len(chunks)})
		return out, nil
	}
	return out, nil
}
