package evaluator

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/delivery"
	"github.com/hencedge/hencedge/transport/spool"
)

// stored is the part of a Service that has a store: it answers for the windows
// that it takes.
type stored struct {
	s       *Service
	store   *store
	asks    *transport.Verifier
	holders map[string][]ed25519.PublicKey
	shares  *shares

	admit sync.Mutex // from the joiner to the count of jobs
	leave []*window  // that the joiner let go; under admit

	outgoing *answers
	courier  atomic.Pointer[delivery.Courier]

	refused *transport.Refusals // of objects of trusted signers
	strange *transport.Refusals // of others

	pressure pressure
	course   continuity
	// toldMissing is what the log has of windows that are missing; of the housekeeping.
	toldMissing []string
	stranded    stranded

	known, sent, asked atomic.Uint64
}

// maxRefused bounds the refusals that are remembered.
const maxRefused = 4096

// holderName is the name that the key holder signs receipts under.
const holderName = holderDevice

// openDurable opens the store of a configuration; without one it is nil.
func (s *Service) openDurable(all []Keys) error {
	c := s.cfg.Store
	if c == nil {
		return nil
	}
	d := &stored{s: s, outgoing: newAnswers(), refused: transport.NewRefusals(maxRefused), strange: transport.NewRefusals(maxRefused), holders: map[string][]ed25519.PublicKey{}}
	for _, k := range all {
		if k.Holder != nil {
			d.holders[holderName] = append(d.holders[holderName], k.Holder)
		}
	}
	if c.Results == config.AckKeyHolder && len(d.holders) == 0 {
		return fmt.Errorf("%w: store.results is keyholder, and no key set names its holder's signing key", ErrKeys)
	}
	mark, trouble, err := s.state.pairStore(c)
	if err != nil {
		return err
	}
	if d.store, err = openStore(c, s.log); err != nil {
		return err
	}
	if d.store.trouble = trouble; trouble != "" {
		s.log.Error("the store is not the newest one", "trouble", trouble)
	}
	if err := s.state.keepMark(c, mark); err != nil {
		return errors.Join(err, d.store.close())
	}
	topics := map[string]string{}
	for i := range s.plan.Programs {
		topics[s.plan.Programs[i].Name] = s.topic(&s.plan.Programs[i])
	}
	d.shares = newShares(c, topics)
	s.durable = d
	return nil
}

// start prepares what needs the verifier: the asks of devices, and the windows
// of an earlier process, which count as taken from now on.
func (d *stored) start() error {
	s := d.s
	trust, err := s.trust()
	if err != nil {
		return err
	}
	if d.asks, err = transport.NewVerifier(transport.VerifierOptions{Trust: trust, Kinds: []transport.Kind{transport.KindAsk}, NoReplay: true, MaxObject: 2 << 20,
		TopicPrefix: s.cfg.Broker.TopicPrefix}); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	s.join.left = func(w *window) { d.leave = append(d.leave, w) }
	for _, e := range d.store.inbox.Entries() {
		l, sealed, err := d.store.inbox.Read(e)
		if l == nil || errors.Is(err, spool.ErrDamaged) {
			continue // counted and reported by the spool
		}
		if id := transport.ObjectID(sealed); err == nil && d.store.known(id) {
			// Worked off before a crash that brought its file back, or there twice:
			// to take it again would make its results again.
			l.Done()
			continue
		}
		l.Return(0)
		if err != nil {
			return fmt.Errorf("%w: inbox: %w", ErrState, err)
		}
		obj, err := transport.Open(sealed, s.verifier)
		if err != nil {
			d.strand(e.Topic, err)
			continue
		}
		d.store.hold(obj, e.Stream, e.Number)
	}
	return nil
}

// stranded are windows in the store that this configuration does not accept, though their
// devices have deleted them: the key of their epoch was taken away, say.
type stranded struct {
	sync.Mutex
	n     map[string]int   // by reason
	first map[string]error // of each reason
}

// strand notes one. It stays in the store, for a configuration that takes it.
func (d *stored) strand(topic string, err error) {
	reason := Reason(err)
	s := &d.stranded
	s.Lock()
	defer s.Unlock()
	if s.n == nil {
		s.n, s.first = map[string]int{}, map[string]error{}
	}
	if s.n[reason]++; s.n[reason] == 1 {
		s.first[reason] = fmt.Errorf("%s: %w", topic, err)
	}
	d.s.log.Error("a window in the store, which its device has deleted, is not accepted by this configuration; it stays there", "topic", topic, "error", err)
}

// health says which windows are stranded.
func (s *stranded) health() (out []string) {
	s.Lock()
	defer s.Unlock()
	for _, reason := range slices.Sorted(maps.Keys(s.n)) {
		out = append(out, fmt.Sprintf("store: %d windows that were acknowledged are not accepted by this configuration (%s), so their samples are in no result: "+
			"put back what it had when they came (keys of their epoch, streams, devices) and reload. The first: %v", s.n[reason], reason, s.first[reason]))
	}
	return out
}

// reload hands the windows of an earlier process to the joiner, in the order in
// which they were taken.
func (d *stored) reload(working context.Context) {
	for _, e := range d.store.inbox.Entries() {
		if working.Err() != nil {
			return
		}
		l := d.store.inbox.Take(e.Stream, e.Number)
		if l == nil {
			continue
		}
		sealed, err := l.Sealed()
		if errors.Is(err, spool.ErrDamaged) {
			continue
		}
		l.Return(0)
		var obj *transport.Object
		if err == nil {
			obj, err = transport.Open(sealed, d.s.verifier)
		}
		var w *window
		if err == nil {
			w, err = d.s.window(obj)
		}
		if err != nil {
			if obj != nil { // else start has told
				d.strand(e.Topic, err)
			}
			continue
		}
		d.insert(working, e.Topic, w)
	}
}

// take is the intake of a window: verified, not had before, written into the
// inbox, acknowledged, joined.
func (d *stored) take(working context.Context, o transport.Staged) {
	s, topic, sealed, id := d.s, o.Topic, o.Sealed, o.ID
	obj, err := s.verifier.OpenFrom(topic, sealed)
	var w *window
	if err == nil {
		if err = d.store.fresh(obj); err == nil {
			err = d.room(obj)
		}
		if err == nil {
			w, err = s.window(obj)
		}
	}
	if err == nil {
		d.course.first(obj, d.store.course)
		err = d.store.keep(working, obj, topic, sealed)
	}
	switch {
	case err == nil:
		d.pressure.worked()
		d.course.note(obj, s.now())
		d.outgoing.put(obj.Meta.Device, transport.ReceiptItem{Object: id, Outcome: transport.Taken})
		d.insert(working, topic, w)
	case errors.Is(err, errKnown):
		d.known.Add(1)
		d.outgoing.put(obj.Meta.Device, transport.ReceiptItem{Object: id, Outcome: transport.Taken})
	case errors.Is(err, errStore):
		s.receiver.Forget(topic, id) // so that it can be sent again
		s.refuse(topic, err)
		if !errors.Is(err, errShare) && d.store.inbox.Room(int64(len(sealed))) { // then the disk is at fault
			d.pressure.failed(s.now())
		}
		d.outgoing.put(obj.Meta.Device, transport.ReceiptItem{Object: id, Outcome: transport.Refused, Reason: transport.ReasonBusy})
	case deviceFault(err):
		s.receiver.Forget(topic, id)
		s.refuse(topic, err)
	default:
		d.refuse(o, obj, err)
	}
}

// refuse reports a window that is not taken, and tells its device. obj is nil for one
// that could not be verified.
func (d *stored) refuse(o transport.Staged, obj *transport.Object, err error) {
	s, topic, sealed, id := d.s, o.Topic, o.Sealed, o.ID
	err = s.explain(topic, sealed, err)
	s.refusedAt(topic, err)
	s.refuse(topic, err)
	reason := Reason(err)
	why := transport.Refusal{Reason: reason, Detail: detailOf(err)}
	device, ok := d.deviceOf(topic)
	switch {
	case obj != nil && reason == transport.ReasonOther: // perhaps another time
		s.receiver.Forget(topic, id)
		why.Detail = ""
	case obj != nil || tellable(reason):
		d.refused.Add(id, why)
	case errors.Is(err, transport.ErrWrongTopic): // anybody can send it there
		return
	default:
		// Who asks about it has it: windows signed with the key before, for example.
		d.strange.Add(id, why)
		if !errors.Is(err, transport.ErrUnknownSigner) || !s.devices.mayTell(device, s.now()) {
			return
		}
	}
	if ok {
		d.outgoing.put(device, transport.ReceiptItem{Object: id, Outcome: transport.Refused, Reason: reason, Detail: why.Detail})
	}
}

// room refuses a window while the results of one of its programs fill their share.
func (d *stored) room(obj *transport.Object) error {
	m := &obj.Meta
	if program, full := d.full(d.s.sources[streamID{m.Device, m.Stream}], true); full {
		return fmt.Errorf("%w: %w: program %s, which reads %s/%s", errStore, errShare, program, m.Device, m.Stream)
	}
	return nil
}

// tellable are the reasons that an object of a trusted signer is refused for when it is
// opened. Objects that anybody could have made get no answer unless somebody asks.
func tellable(reason string) bool {
	switch reason {
	case "malformed", "truncated", "too_large", "bad_signature", "unknown_signer", "wrong_topic", "wrong_kind", "unsupported_version", "downgraded", transport.ReasonOther:
		return false
	}
	return true
}

// deviceOf is the device that a topic of readings belongs to.
func (d *stored) deviceOf(topic string) (string, bool) {
	rest, ok := strings.CutPrefix(topic, d.s.cfg.Broker.TopicPrefix+"/up/")
	device, _, slash := strings.Cut(rest, "/")
	return device, ok && slash
}

// insert joins a window and queues the jobs that it completes, those aside whose
// results were made before. Jobs of a program follow each other in their order.
func (d *stored) insert(working context.Context, topic string, w *window) {
	s := d.s
	d.admit.Lock()
	jobs, err := s.join.add(w)
	if err != nil {
		d.leave = append(d.leave, w)
	}
	var do []*job
	for _, j := range jobs {
		j.key = resultKey(j.prog.planned.Name, j.ids())
		if d.store.wasMade(j.key) || d.skip(j) {
			continue
		}
		d.shares.begun(j.prog.planned.Name)
		d.store.need(j)
		j.after, j.over = j.prog.tail, make(chan struct{})
		j.prog.tail = j.over
		do = append(do, j)
	}
	d.admit.Unlock()
	d.settle()
	if err != nil {
		s.refuse(topic, err)
		return
	}
	s.accepted(w, len(do))
	for _, j := range do {
		select {
		case s.jobs <- j:
		case <-working.Done():
			close(j.over)
			s.failed(j, working.Err())
		}
	}
}

// settle lets go of the windows that the joiner let go.
func (d *stored) settle() {
	d.admit.Lock()
	leave := d.leave
	d.leave = nil
	d.admit.Unlock()
	for _, w := range leave {
		if err := d.store.left(w.id); err != nil {
			d.s.log.Error("a window cannot be signed off yet", "error", err)
		}
	}
}

// expire is the housekeeping.
func (d *stored) expire(now time.Time) {
	d.admit.Lock()
	d.s.join.expire(now)
	d.admit.Unlock()
	d.settle()
	d.tell(now)
	if err := d.store.sweep(); err != nil {
		d.s.log.Error("windows cannot be signed off yet", "error", err)
	}
	d.store.inbox.Tick()
}

// commit puts a result into the outbox, after the earlier results of its
// program. While the disk takes nothing it waits: the windows are safe.
func (d *stored) commit(ctx context.Context, j *job, make func() (sealed []byte, topic string, err error)) error {
	if j.after != nil {
		select {
		case <-j.after:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	sealed, topic, err := make()
	if err != nil {
		return err
	}
	for {
		err := d.store.put(ctx, j.key, spool.Item{Stream: j.prog.planned.Name, Topic: topic, Sealed: sealed})
		if err == nil {
			j.size = int64(len(sealed))
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, spool.ErrClosed) {
			return err
		}
		d.s.log.Error("a result waits for the disk", "program", j.prog.planned.Name, "error", err)
		t := time.NewTimer(time.Second)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

// finished ends a job: its windows may go when its result is in the outbox, or
// when it failed for a reason that will not change. After a device that failed
// they stay, for the next start.
func (d *stored) finished(ctx context.Context, j *job, err error) {
	d.shares.made(j.prog.planned.Name, j.size)
	if err == nil || ctx.Err() == nil && !errors.Is(err, errStore) && !errors.Is(err, spool.ErrClosed) && !deviceFault(err) {
		var serr error
		if err != nil {
			serr = d.store.failed(j.key)
		}
		if serr == nil {
			serr = d.store.settle(j)
		}
		if serr != nil {
			d.s.log.Error("a window cannot be signed off yet", "error", serr)
		}
	}
	if j.after != nil {
		select { // the order holds for those that fail too
		case <-j.after:
		case <-ctx.Done():
		}
	}
	close(j.over)
}

// sweep tries again what could not be signed off.
func (s *store) sweep() error {
	s.mu.Lock()
	var ids [][32]byte
	for id, h := range s.held {
		if h.left && h.refs == 0 {
			ids = append(ids, id)
		}
	}
	s.mu.Unlock()
	var err error
	for _, id := range ids {
		err = errors.Join(err, s.release(id))
	}
	return err
}

// startDelivery runs receipts and the delivery of results. The function that it
// returns waits for what was begun; call it when the work is done.
func (s *Service) startDelivery(ctx, working context.Context, client transport.Client, end func(), done <-chan struct{}) (hangUp func() error) {
	if s.durable == nil {
		return func() error { return nil }
	}
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	var failure error
	wg.Go(func() { s.durable.sendReceipts(sending, client) })
	wg.Go(func() {
		if failure = s.durable.deliver(sending, client); failure != nil {
			end() // results cannot be delivered any more
		}
	})
	return func() error {
		<-done
		s.durable.store.outbox.Close()
		// What is not delivered soon is delivered after the next start.
		t := time.AfterFunc(min(s.cfg.StopTimeout, lastDelivery), stop)
		defer t.Stop()
		go func() { // without a connection there is nothing to wait for
			for client.Connected() && sending.Err() == nil {
				if any, _ := s.durable.store.outbox.Waiting(); !any {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			stop()
		}()
		wg.Wait()
		return failure
	}
}

// lastDelivery is how long a stop waits for results to be delivered.
const lastDelivery = 2 * time.Second
