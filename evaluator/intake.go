package evaluator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/pieces"
	"github.com/hencedge/hencedge/transport"
)

// handle takes one message from the broker. It acknowledges bad messages too, because they
// would only come back. It does not acknowledge a message that comes while the service
// stops, so that the broker keeps it.
func (s *Service) handle(d transport.Delivery) {
	if err := d.CheckFresh(); err != nil {
		s.refuse(d.Topic, err)
		d.Ack()
		return
	}
	if s.roster.strange("up", d.Topic) {
		s.refuse(d.Topic, fmt.Errorf("%w: no such device is configured or enrolled", transport.ErrUnknownSigner))
		d.Ack()
		return
	}
	err := s.receiver.Feed(d.Topic, d.Payload)
	if errors.Is(err, errStopping) || errors.Is(err, transport.ErrClosed) {
		return
	}
	if err != nil { // counted by the receiver
		s.report(Reason(err), d.Topic, err)
	}
	d.Ack()
}

// stage queues a complete object, waiting for room; its topic waits with it.
func (s *Service) stage(o transport.Staged) error {
	if !s.turns.give(s.staged, staged{Staged: o, at: time.Now()}, s.quit) {
		return errStopping
	}
	// An intake that waited goes on here and now, where the object is in the processor's cache. Whoever feeds may
	// have more to do, and another processor takes 50 to 100 us to wake.
	if len(s.staged) == 0 {
		runtime.Gosched()
	}
	return nil
}

// stop ends the intake.
func (s *Service) stop() {
	close(s.quit)
	s.receiver.Close()
}

var errStopping = errors.New("the evaluator is stopping")

// intakeLoop takes what was staged until ctx ends, and then what is left.
func (s *Service) intakeLoop(ctx, working context.Context) {
	for {
		o, ok := next(s.staged, ctx.Done())
		if !ok {
			return
		}
		s.admit(working, o)
	}
}

// staged is a complete object that no intake has taken yet.
type staged struct {
	transport.Staged
	at   time.Time // when it was queued
	turn turn
}

// admit takes one object after those before it of its topic, which are verified at the same
// time. From then on it counts against the bounds of the joiner, no longer against those of
// the receiver.
func (s *Service) admit(working context.Context, o staged) {
	defer o.Done()
	s.stages.took(stageReceive, o.Took)
	s.stages.since(stageQueue, o.at)
	v := s.custody.verify(o.Staged)
	start := time.Now()
	s.tracedWindow(o, v, start)
	o.turn.wait()
	defer o.turn.end()
	s.stages.since(stageTurn, start)
	s.custody.take(working, o.Staged, v)
}

// intakes is how many objects are verified and decoded at a time: more than there are
// workers, since some wait for a device, for the disk or for their turn.
func (p *pipeline) intakes() int { return 2 * p.workers }

// verdict is what came of verifying an object. obj is nil if it could not be verified.
type verdict struct {
	obj *transport.Object
	w   *window
	err error
}

// open verifies one object.
func (p *pipeline) open(o transport.Staged) (*transport.Object, error) {
	start := time.Now()
	var obj *transport.Object
	var err error
	if transport.IsShort(o.Begin()) {
		obj, err = p.openShort(o.Topic, o.Whole())
	} else {
		obj, err = p.verifier.OpenStaged(o)
	}
	if err == nil {
		p.stages.since(stageVerify, start)
	}
	return obj, err
}

// reopen verifies an object that was taken under a topic before.
func (p *pipeline) reopen(topic string, sealed []byte) (*transport.Object, error) {
	if transport.IsShort(sealed) {
		return p.openShort(topic, sealed)
	}
	return transport.Open(sealed, p.verifier)
}

// openShort verifies a short object. The topic says which stream's header it was signed with, and the key epoch
// that it names which key set's.
func (p *pipeline) openShort(topic string, sealed []byte) (*transport.Object, error) {
	path := strings.Split(topic, "/")
	if len(path) < 2 {
		return nil, fmt.Errorf("%w: %q", transport.ErrWrongTopic, topic)
	}
	id := streamID{path[len(path)-2], path[len(path)-1]}
	src := p.source(id)
	if src == nil || src.stream.Compact() == 0 {
		return nil, fmt.Errorf("%w: stream %s/%s has no compact windows here", transport.ErrWrongLayout, id.device,
			id.stream)
	}
	epoch, err := transport.ShortEpoch(sealed)
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("%w: a window of %s/%s under epoch %d, for which there are no keys", transport.ErrWrongEpoch,
		id.device, id.stream, epoch)
	for ref, k := range p.keys {
		if ref.Epoch != epoch || k.params.Hash() != src.hash {
			continue
		}
		known := transport.Meta{Device: id.device, Stream: id.stream, KeyID: ref.ID, Params: src.hash,
			Layout: src.layout}
		engine.CompactHeader(&known)
		var obj *transport.Object
		if obj, err = p.verifier.OpenShort(known, sealed); err == nil || !errors.Is(err, transport.ErrSignature) {
			return obj, err
		}
	}
	return nil, err
}

// accepted counts a window that passed every check.
func (p *pipeline) accepted(w *window, results int) {
	p.tally.change(func(t *Stats) { t.Accepted++ })
	p.devices.note(w.stream, nil, p.now())
	if twin, news := p.devices.duplicates.note(w.signer, &w.meta, p.now()); twin {
		p.tally.change(func(t *Stats) { t.Twins++ })
		if news {
			p.toldTwice(&w.meta)
		}
	}
	p.log.Debug("window accepted", "device", w.meta.Device, "stream", w.meta.Stream, "sequence", w.meta.Sequence,
		"samples", w.meta.Samples, "results", results)
}

// window checks what the header and the body of a verified object say, and
// decodes it.
func (p *pipeline) window(obj *transport.Object) (*window, error) {
	start := time.Now()
	m := &obj.Meta
	id := streamID{m.Device, m.Stream}
	src := p.source(id)
	if src == nil {
		return nil, fmt.Errorf("%w: stream %s/%s is not configured", transport.ErrWrongLayout, m.Device, m.Stream)
	}
	if m.Params != src.hash {
		return nil, fmt.Errorf("%w: stream %s/%s is configured for %s", transport.ErrWrongParams, m.Device, m.Stream,
			src.params.Name())
	}
	if err := p.inTime(m); err != nil {
		return nil, err
	}
	at, err := src.place(m)
	if err != nil {
		return nil, err
	}
	data, err := p.ciphertext(src, obj)
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w", m.Device, m.Stream, err)
	}
	p.stages.since(stageDecode, start)
	return &window{stream: id, place: at, byTime: src.stream.Window.ByTime(), data: data, meta: *m, id: obj.ID,
		signer: obj.Signer, at: p.now()}, nil
}

// ciphertext checks the body of a window against its header and what programs take, and decodes it.
func (p *pipeline) ciphertext(src *source, obj *transport.Object) (*engine.Ciphertext, error) {
	m := &obj.Meta
	if src.stream.Compact() > 0 {
		known := *m
		engine.CompactHeader(&known)
		if err := m.CheckBody(src.hash, known.Level, known.Scale); err != nil {
			return nil, err
		}
		return p.engine.ReceiveCompact(src.hash, src.stream, m, pieces.Join(obj.InPieces()))
	}
	body := obj.InPieces()
	h, err := henc.PeekCiphertext(body[0])
	if err != nil && len(body) > 1 { // whole, for the error
		h, err = henc.PeekCiphertext(pieces.Join(body))
	}
	if err != nil {
		return nil, err
	}
	if src.scale != 0 {
		if h.Scale != src.scale {
			return nil, fmt.Errorf("%w: body scale %g, that of whole numbers modulo %d is %g",
				transport.ErrBodyMismatch,
				h.Scale, henc.DefaultT, src.scale)
		}
		h.Scale = henc.DefaultT
	}
	if err := m.CheckBody(h.Params, h.Level, h.Scale); err != nil {
		return nil, err
	}
	for _, prog := range src.users {
		if err := prog.accepts(streamID{m.Device, m.Stream}, h.Level, h.Scale); err != nil {
			return nil, err
		}
	}
	return p.engine.ReceivePieces(src.hash, body, engine.Turn{Layout: src.layout, Place: int(m.Place)})
}

// inTime refuses readings that were made after their epoch's overlap ended.
func (p *pipeline) inTime(m *transport.Meta) error {
	k, known := p.keys[transport.KeyRef{ID: m.KeyID, Epoch: m.KeyEpoch}]
	if !known {
		return fmt.Errorf("%w: epoch %d of key set %x", transport.ErrWrongKey, m.KeyEpoch, m.KeyID)
	}
	if !k.until.IsZero() && m.End > k.until.UnixNano() {
		return fmt.Errorf("%w: epoch %d is accepted for readings until %s, this window ends %s",
			transport.ErrWrongEpoch,
			m.KeyEpoch,
			k.until.Format(time.RFC3339), time.Unix(0, m.End).UTC().Format(time.RFC3339))
	}
	if k.params.Hash() != m.Params {
		return fmt.Errorf("%w: key set %x is for %s", transport.ErrWrongParams, m.KeyID, k.params.Name())
	}
	return nil
}

// queue queues a job, waiting for room. It reports false when the service stops before.
func (p *pipeline) queue(working context.Context, j *job) bool {
	for _, one := range j.all() {
		one.queued = time.Now()
	}
	if p.jobs.push(working, j) {
		return true
	}
	for _, one := range j.all() {
		p.failed(one, working.Err())
	}
	return false
}

// makeVerifier returns a verifier for the streams that programs read.
func (p *pipeline) makeVerifier() (*transport.Verifier, error) {
	o := transport.VerifierOptions{
		Trust: p.roster.trust, Kinds: []transport.Kind{transport.KindReading}, Keys: slices.Collect(maps.Keys(p.keys)),
		Layout: func(device, stream string) ([32]byte, bool) {
			src := p.source(streamID{device, stream})
			if src == nil {
				return [32]byte{}, false
			}
			return src.layout, true
		},
		Replay: p.state.Guard(), NoReplay: p.cfg.Store != nil, MaxObject: int(p.cfg.Limits.Object),
		TopicPrefix: p.cfg.Broker.TopicPrefix,
	}
	for _, prog := range p.plan.Programs {
		if hash := prog.params.Hash(); !slices.Contains(o.Params, hash) {
			o.Params = append(o.Params, hash)
		}
	}
	v, err := transport.NewVerifier(o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return v, nil
}

// turns lets the objects of one topic through in the order in which they were queued, whichever intakes work on them.
// Every object that was queued must be ended: those behind it wait for that.
type turns struct {
	giving sync.Mutex // so that objects are queued in the order of their turns: an intake never waits for one behind

	mu   sync.Mutex
	last map[string]chan struct{} // by topic: closed when the newest object has ended
}

// turn is the place of an object among those of its topic.
type turn struct {
	of     *turns
	topic  string
	before <-chan struct{} // closed when the object before it has ended; nil: there is none
	over   chan struct{}
}

// give queues an object with its turn. It waits for room, and returns false once quit is closed.
func (t *turns) give(queue chan<- staged, o staged, quit <-chan struct{}) bool {
	t.giving.Lock()
	defer t.giving.Unlock()
	select {
	case <-quit:
		return false
	default:
	}
	o.turn = t.place(o.Topic)
	select {
	case queue <- o:
		return true
	case <-quit: // nothing comes after this object
		o.turn.end()
		return false
	}
}

// next returns an object of the queue. After quit it returns what is left, and then false.
func next(queue <-chan staged, quit <-chan struct{}) (o staged, ok bool) {
	select {
	case o = <-queue:
		return o, true
	case <-quit:
	}
	select {
	case o = <-queue:
		return o, true
	default:
		return o, false
	}
}

func (t *turns) place(topic string) turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = map[string]chan struct{}{}
	}
	at := turn{of: t, topic: topic, before: t.last[topic], over: make(chan struct{})}
	t.last[topic] = at.over
	return at
}

// wait returns when the objects before have ended.
func (at turn) wait() {
	if at.before != nil {
		<-at.before
	}
}

// end lets the next object through. It comes after wait.
func (at turn) end() {
	close(at.over)
	at.of.mu.Lock()
	defer at.of.mu.Unlock()
	if at.of.last[at.topic] == at.over {
		delete(at.of.last, at.topic)
	}
}
