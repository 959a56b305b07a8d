package keyholder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/spool"
)

// backlog bounds the number of complete objects that wait to be taken. WatchOptions.Limits
// bounds their bytes.
const backlog = 64

// Watch reads results as they arrive, until ctx ends; it then returns nil. It begins with
// Reader.Load. Objects that cannot be read are reported and do not affect later ones.
//
// Watch has two halves, so that nobody outside can learn what a result decrypts to. One
// checks signed headers, puts results into an inbox and sends receipts. The other decrypts
// what is in the inbox and hands it on. The first learns nothing from the second except
// how much room the inbox has.
func Watch(ctx context.Context, r *Reader, o WatchOptions) error {
	if o.Client == nil {
		return errors.New("watch results: no client")
	}
	w, err := newWatch(r, o)
	if err != nil {
		return fmt.Errorf("watch results: %w", err)
	}
	defer w.inbox.close()
	ctx, stop := context.WithCancel(ctx)
	var halves sync.WaitGroup
	defer halves.Wait()
	defer stop()
	if err := w.listen(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("watch results: %w", err)
	}
	if o.Receipts != nil {
		halves.Go(func() { o.Receipts.send(ctx) })
	}
	if o.OnReady != nil {
		o.OnReady()
	}
	failed := make(chan error, 1)
	took := make(chan struct{})
	halves.Go(func() {
		defer close(took)
		if err := w.takeAll(ctx); err != nil {
			failed <- err
			stop()
		}
	})
	if err = w.readAll(ctx); err == nil {
		<-took // after Count results it ends by itself, and the last of them gets its receipt
	}
	stop()
	halves.Wait()
	close(failed)
	return errors.Join(err, <-failed)
}

// newWatch loads the keys, and the results that an earlier process took.
func newWatch(r *Reader, o WatchOptions) (*watch, error) {
	if err := r.Load(); err != nil {
		return nil, err
	}
	if o.TopicPrefix == "" {
		o.TopicPrefix = transport.DefaultPrefix
	}
	w := &watch{r: r, o: o, log: slog.Default(), queue: make(chan transport.Staged, backlog),
		refused: make(chan refusal, backlog), own: map[string]bool{}}
	for _, t := range o.Topics {
		w.own[t] = true
	}
	path, s := "", (*seen)(nil)
	if o.Receipts != nil {
		path, s, w.log = o.Receipts.state, o.Receipts.seen, o.Receipts.log
	} else {
		s, _ = openSeen("", maxSeen) // fails with files only
	}
	var err error
	if w.inbox, err = openInbox(path, o.Limits.MaxObject, s, w.log); err != nil {
		return nil, err
	}
	err = w.inbox.recover(func(results []transport.Meta, sealed []byte) {
		w.taken += len(results)
		_, _ = transport.Open(sealed, r.view.Load().live) // spends its number, where that was not saved
		if o.Receipts != nil {
			o.Receipts.remember(results[0].Device, transport.ObjectID(sealed))
		}
	})
	if err != nil {
		w.inbox.close()
	}
	return w, err
}

// filters returns the topics to subscribe to.
func (w *watch) filters() ([]string, error) {
	filters := w.o.Topics[:len(w.o.Topics):len(w.o.Topics)]
	for _, p := range w.o.Programs {
		if err := transport.CheckName(p); err != nil {
			return nil, fmt.Errorf("program: %w", err)
		}
		filters = append(filters, transport.ResultTopic(w.o.TopicPrefix, p))
	}
	if packed := transport.ResultTopic(w.o.TopicPrefix, transport.PackProgram); len(w.o.Programs) > 0 &&
		!slices.Contains(filters, packed) {
		filters = append(filters, packed)
	}
	if len(w.o.Programs) == 0 {
		filters = append(filters, transport.ResultFilter(w.o.TopicPrefix))
	}
	return filters, nil
}

// listen subscribes to results and to what evaluators ask.
func (w *watch) listen(ctx context.Context) error {
	w.receiver = transport.NewReceiver(w.o.Limits, func(s transport.Staged) error {
		select {
		case w.queue <- s:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	context.AfterFunc(ctx, w.receiver.Close)
	filters, err := w.filters()
	if err != nil {
		return err
	}
	if err := transport.SubscribeAll(ctx, w.o.Client, filters, w.handle); err != nil {
		return err
	}
	if w.o.Receipts != nil {
		return w.o.Receipts.listen(ctx, w, w.receiver)
	}
	return nil
}

// handle takes one message from the broker. If Watch is ending, it does not acknowledge
// the message, so that the broker keeps it.
func (w *watch) handle(d transport.Delivery) {
	err := d.CheckFresh()
	if err == nil {
		err = w.receiver.Feed(d.Topic, d.Payload)
	}
	if errors.Is(err, transport.ErrHandler) || errors.Is(err, transport.ErrClosed) {
		return
	}
	if err != nil {
		select {
		case w.refused <- refusal{d.Topic, err}:
		default: // a flood of bad chunks is counted by the receiver, not reported one by one
		}
	}
	d.Ack()
}

// takeAll is the first half of Watch. Results that still wait when ctx ends are not taken
// and get no receipt.
func (w *watch) takeAll(ctx context.Context) error {
	for ctx.Err() == nil && (w.o.Count <= 0 || w.taken < w.o.Count) {
		select {
		case <-ctx.Done():
		case f := <-w.refused:
			w.refuse(f.topic, f.err)
		case s := <-w.queue:
			if err := w.take(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// take accepts or refuses one object by its signed header. Its error ends Watch.
func (w *watch) take(ctx context.Context, s transport.Staged) error {
	defer s.Done()
	topic := s.Topic
	if w.own[topic] {
		topic = ""
	}
	arrived := time.Now()
	obj, p, err := w.r.take(topic, s.Sealed, w.o.Programs)
	verified := time.Now()
	var results []transport.Meta
	if err == nil {
		results = w.inbox.seen.fresh(p.metas())
	}
	if err == nil && len(results) == 0 {
		m := &obj.Meta
		err = fmt.Errorf("%w: %s of %s, boot epoch %d, sequence %d; is the store of the evaluator an old copy?",
			ErrRepeated, m.Program, m.Device, m.BootEpoch, m.Sequence)
		if w.o.Receipts != nil {
			w.o.Receipts.taken(m.Device, obj.ID) // so that its evaluator deletes it
		}
	}
	if err != nil {
		if w.o.Receipts != nil {
			w.o.Receipts.refuse(s.Topic, s.Sealed, err, w.receiver)
		}
		w.refuse(s.Topic, err)
		return nil
	}
	for _, err := range p.refused {
		w.refuse(s.Topic, err)
	}
	if err := w.inbox.put(ctx, results, s.Topic, s.Sealed); err != nil {
		w.r.giveBack(obj)
		w.receiver.Forget(s.Topic, obj.ID)
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("watch results: %w", err)
	}
	w.taken += len(results)
	w.tracedTaken(obj, results, s, arrived, verified)
	if w.o.Receipts == nil {
		return nil
	}
	if err := w.o.Receipts.save(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	w.o.Receipts.taken(obj.Meta.Device, obj.ID)
	return nil
}

// readAll is the second half of Watch.
func (w *watch) readAll(ctx context.Context) error {
	for n := 0; w.o.Count <= 0 || n < w.o.Count; {
		l := w.inbox.next(ctx)
		if l == nil {
			return nil
		}
		read, err := w.read(ctx, l, w.o.Count-n)
		if err != nil {
			return err
		}
		n += read
	}
	return nil
}

// read decrypts the results of one object and hands them on, at most most of them if that
// is positive. It returns how many are done with. Its error ends Watch; the object then
// stays in the inbox, as it does while a result of it is left.
func (w *watch) read(ctx context.Context, l *spool.Lease, most int) (int, error) {
	sealed, err := l.Sealed()
	if errors.Is(err, spool.ErrDamaged) {
		w.unread(l.Topic, fmt.Errorf("inbox of results: %w", err))
		return 1, nil
	}
	if err != nil {
		l.Return(diskRetry)
		w.log.Error("the inbox cannot be read", "error", err)
		return 0, nil
	}
	start := time.Now()
	results, err := w.r.again(sealed, w.o.Programs)
	decrypted := time.Now()
	if err != nil {
		if ctx.Err() != nil { // for want of its keys, perhaps
			l.Return(0)
			return 0, nil
		}
		w.inbox.setAside(l, sealed)
		w.unread(l.Topic, err)
		return 1, nil
	}
	read := 0
	for _, res := range results {
		if res.Packed > 0 && w.inbox.seen.handed(res.made()) {
			continue // before a restart, or in another pack
		}
		if most > 0 && read == most {
			l.Return(0)
			return read, nil
		}
		w.tracedResult("decrypt", res, start, decrypted)
		handed := time.Now()
		if err := w.handOn(ctx, res); err != nil {
			l.Return(0)
			return read, err
		}
		w.tracedResult("store", res, handed, time.Now())
		read++
	}
	if all, err := transport.PeekResults(sealed); err == nil {
		w.inbox.seen.release(all)
	}
	l.Done()
	return read, nil
}

// handOn hands a result on, and remembers that.
func (w *watch) handOn(ctx context.Context, res *Result) error {
	if w.o.OnResult != nil {
		if err := w.o.OnResult(res); err != nil {
			return err
		}
	}
	return persist(ctx, w.log, func() error { return w.inbox.seen.add(res.made()) })
}
