package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/mqtt"
)

func compareStreams(a, b streamID) int {
	return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.stream, b.stream))
}

// loadKeys returns the keys that were handed in, or loads the configured ones, and how to
// read them into another context.
func (s *Service) loadKeys() (all []engine.Keys, read func(*henc.Context) ([]engine.Keys, error), err error) {
	if s.deps.Keys != nil {
		return s.deps.Keys, s.deps.ReadKeys, nil
	}
	sets, err := engine.ConfiguredKeySets(s.cfg)
	if err != nil {
		return nil, nil, err
	}
	if all, err = sets.Load(s.deps.Context); err != nil {
		return nil, nil, err
	}
	if s.deps.ReadKeys != nil {
		return all, s.deps.ReadKeys, nil
	}
	return all, sets.Read, nil
}

// openEngine loads the evaluation keys, checks that they can do what the programs need,
// and makes the engine that computes with them.
func (s *Service) openEngine() ([]engine.Keys, error) {
	all, read, err := s.loadKeys()
	if err != nil {
		return nil, err
	}
	if s.keys, err = admitKeys(s.plan, all); err != nil {
		return nil, err
	}
	s.engine, err = engine.New(all, engine.Options{ReadKeys: read, More: s.deps.More, Reopen: s.deps.Reopen,
		Policy: s.cfg.BackendFallback, Stop: s.broken, Now: s.now, Logger: s.log,
		OnFallback: func() { s.tally.change(func(t *Stats) { t.Fallbacks++ }) }})
	return all, err
}

// admitKeys returns the key epochs in use. It refuses keys that do not go together or
// cannot do what the programs need.
func admitKeys(plan *Plan, all []engine.Keys) (map[transport.KeyRef]keyEpoch, error) {
	contexts := map[[32]byte]*henc.Context{}
	epochs := map[transport.KeyRef]keyEpoch{}
	for _, k := range all {
		if k.Context == nil || k.Evaluation == nil {
			return nil, fmt.Errorf("%w: keys without a context", engine.ErrKeys)
		}
		params := k.Context.Parameters()
		if c := contexts[params.Hash()]; c != nil && c != k.Context {
			return nil, fmt.Errorf("%w: keys for %s come with different contexts", engine.ErrKeys, params.Name())
		}
		contexts[params.Hash()] = k.Context
		ref := k.Ref()
		if _, known := epochs[ref]; known {
			return nil, fmt.Errorf("%w: epoch %d of key set %x is there twice", engine.ErrKeys, ref.Epoch, ref.ID)
		}
		epochs[ref] = keyEpoch{params: params, until: k.AcceptUntil}
	}
	for _, n := range plan.Needs() {
		if err := checkNeed(n, all); err != nil {
			return nil, err
		}
	}
	return epochs, nil
}

// checkNeed refuses keys for the parameters of a need that lack something.
func checkNeed(n Need, all []engine.Keys) error {
	const remedy = "ask the key holder for keys made with --for this configuration"
	found := false
	for _, k := range all {
		p := k.Context.Parameters()
		if p.Name() != n.Params {
			continue
		}
		found = true
		where := fmt.Sprintf("epoch %d of key set %x (%s)", k.Evaluation.Epoch, k.Evaluation.KeyID, n.Params)
		if n.Relinearise && k.Evaluation.Relin == nil {
			return fmt.Errorf("%w: %s has no relinearisation key; %s", engine.ErrKeys, where, remedy)
		}
		var missing []int
		for _, r := range n.Rotations {
			if k.Evaluation.Galois[henc.GaloisElement(p, r)] == nil {
				missing = append(missing, r)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("%w: %s lacks rotations by %v; %s", engine.ErrKeys, where, missing, remedy)
		}
	}
	if !found {
		return fmt.Errorf("%w: there are no keys for parameters %s; add the key set to key_sets", engine.ErrKeys, n.Params)
	}
	return nil
}

// makeSources prepares the streams that programs read.
func (s *Service) makeSources(progs []*runnable) error {
	for _, p := range progs {
		for _, in := range p.planned.Circuit.Inputs() {
			id := streamID{in.Device, in.Stream}
			src := s.sources[id]
			if src == nil {
				st := findStream(s.cfg, in.Device, in.Stream)
				src = &source{stream: st.Stream, params: p.planned.params, hash: p.planned.params.Hash(), layout: st.LayoutHash()}
				s.sources[id] = src
			}
			if !slices.Contains(src.users, p) {
				src.users = append(src.users, p)
			}
		}
	}
	for _, st := range s.cfg.Streams {
		if s.sources[streamID{st.Device, st.Name}] == nil {
			s.log.Info("no program reads this stream", "device", st.Device, "stream", st.Name)
		}
	}
	return nil
}

// warnUseless points out programs whose results say little.
func (s *Service) warnUseless() {
	for i := range s.plan.Programs {
		if c := s.plan.Programs[i].Circuit; !c.Useful() {
			s.log.Warn("the promised error is more than a hundredth of the range of results; see evaluator explain",
				"program", c.Name(), "promise", c.Output().Bound, "params", c.Parameters().Name())
		}
	}
}

// makeVerifier lists what is accepted.
func (s *Service) makeVerifier() (*transport.Verifier, error) {
	trust, err := s.trust()
	if err != nil {
		return nil, err
	}
	o := transport.VerifierOptions{
		Trust: trust, Kinds: []transport.Kind{transport.KindReading}, Keys: slices.Collect(maps.Keys(s.keys)),
		Layouts: map[string][32]byte{},
		Replay:  s.state.Guard(), NoReplay: s.cfg.Store != nil, MaxObject: int(s.cfg.Limits.Object),
		TopicPrefix: s.cfg.Broker.TopicPrefix,
	}
	for id, src := range s.sources {
		o.Layouts[transport.StreamKey(id.device, id.stream)] = src.layout
		if !slices.Contains(o.Params, src.hash) {
			o.Params = append(o.Params, src.hash)
		}
	}
	v, err := transport.NewVerifier(o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return v, nil
}

// trust are the devices' keys.
func (s *Service) trust() (*transport.TrustStore, error) {
	trust := transport.NewTrustStore()
	for _, d := range s.cfg.Devices {
		pub, err := transport.ParsePublicKey(d.PublicKey)
		if err == nil {
			err = trust.AddDevice(d.Name, pub)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: device %s: %w", ErrConfig, d.Name, err)
		}
	}
	return trust, nil
}

// filters are all that the service subscribes to.
func (s *Service) filters() []string {
	prefix := s.cfg.Broker.TopicPrefix
	out := []string{transport.ReceiptTopic(prefix, s.cfg.Name)}
	for id := range s.sources {
		out = append(out, transport.ReadingTopic(prefix, id.device, id.stream))
	}
	for _, device := range s.deviceNames() {
		out = append(out, transport.AskTopic(prefix, device), transport.StatusTopic(prefix, device))
	}
	return out
}

// dial connects to the broker, with a birth message and a last will.
func (s *Service) dial(ctx context.Context) (transport.Client, error) {
	o, err := daemon.BrokerOptions(s.cfg.Broker, s.log)
	if err != nil {
		return nil, fmt.Errorf("%w: broker: %w", ErrConfig, err)
	}
	o.Birth = func() (transport.Message, error) { return s.status(true) }
	o.Will = func() (transport.Message, error) { return s.status(false) }
	o.OnRefused, o.Background, o.Filters = s.refuse, true, s.filters()
	var c transport.Client
	dialled := make(chan struct{})
	defer close(dialled)
	o.OnConnect = func() {
		s.log.Info("connected to the broker", "url", o.URL)
		if <-dialled; c != nil { // a broker may have forgotten what it retained
			s.announce(ctx, c)
		}
	}
	o.OnLost = func(err error) { s.log.Warn("connection to the broker lost", "error", err) }
	if c, err = mqtt.Dial(ctx, o); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", o.URL, err)
	}
	return c, nil
}

// status is a sealed birth or death message.
func (s *Service) status(online bool) (transport.Message, error) {
	body, err := transport.MarshalStatus(transport.Status{Online: online, Version: s.deps.Version,
		Since: s.now().UnixNano()})
	if err != nil {
		return transport.Message{}, err
	}
	now := s.now().UnixNano()
	m := transport.Meta{Kind: transport.KindStatus, Device: s.cfg.Name, Start: now, End: now}
	m.BootEpoch, m.Sequence = s.state.Sequence("status")
	sealed, err := transport.Seal(m, body, s.signer)
	if err != nil {
		return transport.Message{}, err
	}
	pieces, err := transport.Split(sealed, int(s.cfg.Broker.ChunkSize))
	if err != nil || len(pieces) != 1 {
		return transport.Message{}, fmt.Errorf("status of %d bytes in %d messages: %w", len(sealed), len(pieces), err)
	}
	payload, err := pieces[0].Marshal()
	return transport.Message{Topic: m.Topic(s.cfg.Broker.TopicPrefix), Payload: payload, Retain: true}, err
}

// goodbye announces an orderly stop, for which the last will is not sent.
func (s *Service) goodbye(client transport.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTimeout)
	defer cancel()
	var err error
	if client.Connected() {
		var m transport.Message
		if m, err = s.status(false); err == nil {
			err = client.Publish(ctx, m.Topic, m.Payload, m.Retain)
		}
	} else {
		cancel() // there is nobody to wait for
	}
	// It is closed in any case: one that stays would go on connecting under the name of
	// the next start of this process.
	if cerr := client.Close(ctx); ctx.Err() == nil {
		err = errors.Join(err, cerr)
	}
	if err != nil {
		s.log.Warn("the connection did not close cleanly", "error", err)
	}
}

const goodbyeTimeout = 5 * time.Second
