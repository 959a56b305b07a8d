package evaluator

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/interval"
	"github.com/hencedge/hencedge/evaluator/store"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/spool"
)

// stored is custody with a store: a window is on disk before its device gets a receipt,
// and stays there until its results are. Windows are taken, and the results of each
// program are made, in order.
type stored struct {
	p        *pipeline
	store    *store.Store
	receipts *store.Receipts
	out      *outgoing
	repeated atomic.Uint64 // windows that came again

	joining sync.Mutex // held while a window is joined and its jobs are queued, in their order

	admit sync.Mutex // held from the joiner to the count of the jobs
	gone  []*window  // windows that the joiner let go; under admit
}

// openStored opens the store. The windows of an earlier process count as taken from
// now on.
func openStored(p *pipeline, keys []engine.Keys) (*stored, error) {
	c := p.cfg.Store
	var holders []ed25519.PublicKey
	for _, k := range keys {
		if k.Holder != nil {
			holders = append(holders, k.Holder)
		}
	}
	if c.Results == config.AckKeyHolder && len(holders) == 0 {
		return nil, fmt.Errorf("%w: store.results is keyholder, and no key set names its holder's signing key",
			engine.ErrKeys)
	}
	receipts, err := p.makeReceipts()
	if err != nil {
		return nil, err
	}
	d := &stored{p: p, receipts: receipts, out: &outgoing{p: p, receipts: receipts, holders: holders}}
	if err := d.open(c); err != nil {
		return nil, err
	}
	p.join.left = func(w *window) { d.gone = append(d.gone, w) }
	if err := d.store.Windows.Recover(d.recovered); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// makeReceipts returns receipts that the service signs.
func (p *pipeline) makeReceipts() (*store.Receipts, error) {
	seal := func(r transport.Receipt) ([]byte, error) {
		number := func() (uint64, uint64) { return p.state.Sequence("receipt") }
		return transport.SealReceipt(r, p.cfg.Name, p.signer, p.now(), number)
	}
	r, err := store.NewReceipts(p.roster.trust, p.cfg.Broker.TopicPrefix, p.log, seal)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return r, nil
}

// open opens the store, if it is the one that belongs to the state.
func (d *stored) open(c *config.Store) error {
	p := d.p
	o := store.Options{Topics: map[string]string{}, Packed: map[string]bool{}, Reader: d.out.reader(),
		Name: p.cfg.Name, State: p.cfg.State,
		Mark: p.state.Mark(), Logger: p.log}
	for i := range p.plan.Programs {
		pr := &p.plan.Programs[i]
		if pr.Circuit.Packed() {
			o.Packed[pr.Name], o.Topics[transport.PackProgram] = true, p.packTopic()
			continue
		}
		o.Topics[pr.Name] = p.topic(pr)
	}
	var err error
	if d.store, err = store.Open(c, o); err != nil {
		return err
	}
	d.out.results = d.store.Results
	if mark := d.store.Mark(); mark != nil {
		if err := p.state.KeepMark(mark); err != nil {
			return errors.Join(err, d.close())
		}
	}
	return nil
}

// recovered verifies a window of an earlier process.
func (d *stored) recovered(topic string, sealed []byte) (*transport.Object, bool) {
	obj, err := d.p.reopen(topic, sealed)
	if err != nil {
		d.store.Windows.Strand(topic, Reason(err), err)
	}
	return obj, err == nil
}

func (d *stored) resume(working context.Context) {
	for topic, sealed := range d.store.Windows.All() {
		if working.Err() != nil {
			return
		}
		obj, err := d.p.reopen(topic, sealed)
		if err != nil {
			continue // recovered has told
		}
		w, err := d.p.window(obj)
		if err != nil {
			d.store.Windows.Strand(topic, Reason(err), err)
			continue
		}
		d.insert(working, topic, w)
	}
}

// verify does not decode a window that is known already, which costs most. keep finds that
// again, after the objects before this one.
func (d *stored) verify(o transport.Staged) (v verdict) {
	if v.obj, v.err = d.p.open(o); v.err != nil {
		return v
	}
	if v.err = d.store.Windows.Fresh(v.obj); v.err == nil {
		v.w, v.err = d.p.window(v.obj)
	}
	return v
}

func (d *stored) take(working context.Context, o transport.Staged, v verdict) {
	p, obj := d.p, v.obj
	err := d.keep(working, o, v)
	switch {
	case err == nil:
		d.receipts.Put(obj.Meta.Device, transport.ReceiptItem{Object: o.ID, Outcome: transport.Taken})
		d.insert(working, o.Topic, v.w)
	case errors.Is(err, store.ErrKnown):
		d.repeated.Add(1)
		d.receipts.Put(obj.Meta.Device, transport.ReceiptItem{Object: o.ID, Outcome: transport.Taken})
	case errors.Is(err, store.ErrBusy):
		p.receiver.Forget(o.Topic, o.ID) // so that it can be sent again
		p.refuse(o.Topic, err)
		d.receipts.Put(obj.Meta.Device, busy(o.ID))
	case role.DeviceFailed(err):
		p.receiver.Forget(o.Topic, o.ID)
		p.refuse(o.Topic, err)
	default:
		d.refuse(o, obj, err)
	}
}

// keep writes a verified window into the store.
func (d *stored) keep(working context.Context, o transport.Staged, v verdict) error {
	if v.obj == nil {
		return v.err
	}
	if err := d.store.Windows.Fresh(v.obj); err != nil {
		return err
	}
	m := &v.obj.Meta
	if program, blocked := d.blocked(streamID{m.Device, m.Stream}, true); blocked {
		return fmt.Errorf("%w: %w: program %s, which reads %s/%s", store.ErrBusy, store.ErrShare, program,
			m.Device, m.Stream)
	}
	if program, floods := d.floods(streamID{m.Device, m.Stream}); floods {
		return fmt.Errorf("%w: program %s has too many windows of %s/%s before it", store.ErrBusy, program,
			m.Device, m.Stream)
	}
	if v.err != nil {
		return v.err
	}
	defer d.p.stages.since(stageStore, time.Now())
	return d.store.Windows.Keep(working, v.obj, o.Topic, o.Sealed, d.p.now())
}

// floods names a program that reads a stream and has more jobs waiting than its part.
func (d *stored) floods(id streamID) (program string, floods bool) {
	src := d.p.source(id)
	if src == nil { // its device was removed meanwhile
		return "", false
	}
	for _, p := range src.users {
		line := lineID{program: p}
		if p.planned.Circuit.Class() != "" {
			line.device = id.device
		}
		if d.p.jobs.floods(line) {
			return p.planned.Name, true
		}
	}
	return "", false
}

// blocked names a program that reads a stream and whose results fill their share.
func (d *stored) blocked(id streamID, probe bool) (program string, blocked bool) {
	return d.store.Results.Blocked(d.p.source(id).readers(), d.p.now(), probe)
}

// insert joins a window and queues the jobs that it completes, except those that
// already have a result. The jobs of a program follow each other in their order.
func (d *stored) insert(working context.Context, topic string, w *window) {
	p := d.p
	d.joining.Lock()
	defer d.joining.Unlock()
	start := time.Now()
	d.admit.Lock()
	jobs, err := p.join.add(w)
	if err != nil {
		d.gone = append(d.gone, w)
	}
	jobs = slices.DeleteFunc(jobs, func(j *job) bool { return !d.begin(j) })
	var closed []closedSums
	if err == nil {
		var parts []*job
		parts, closed = d.addTo(w)
		jobs = append(jobs, parts...)
	}
	d.admit.Unlock()
	for _, c := range closed {
		p.ready(c.run, c.sums)
	}
	d.settle()
	if err != nil {
		p.refuse(topic, err)
		return
	}
	p.stages.since(stageJoin, start)
	p.accepted(w, len(jobs))
	for _, j := range gather(jobs) {
		if !p.queue(working, j) {
			for _, one := range j.all() {
				if one.over != nil {
					close(one.over)
				}
			}
		}
	}
}

// begin counts a job and puts it behind the one before of its program. It reports
// whether the job is to be done.
func (d *stored) begin(j *job) bool {
	name, ids := j.prog.planned.Name, j.ids()
	if d.store.Results.Made(name, ids) || d.skip(j) {
		return false
	}
	d.store.Results.Begin(name)
	d.store.Windows.Need(ids)
	j.after, j.over = j.prog.tail, make(chan struct{})
	j.prog.tail = j.over
	return true
}

// closedSums are sums of a program that a window has closed.
type closedSums struct {
	run  *fleetRun
	sums []*interval.Sum
}

// addTo returns the jobs that add a window to sums, except those of results that were made. It
// needs admit.
func (d *stored) addTo(w *window) (jobs []*job, closed []closedSums) {
	one := [][32]byte{w.id}
	runs := d.p.fleetsOf(w.stream)
	for _, run := range runs {
		name := run.planned.Name
		if d.store.Results.Used(name, w.id) || d.store.Results.Made(name, one) {
			continue
		}
		key := transport.KeyRef{ID: w.meta.KeyID, Epoch: w.meta.KeyEpoch}
		if d.store.Results.Made(name, intervalMark(w.place.n, key)) {
			d.leaveOut(run, w, fmt.Errorf("%w: device %s, before a restart", interval.ErrLate, w.stream.device))
			continue
		}
		j, ready, err := d.p.addTo(run, w)
		if err != nil {
			d.leaveOut(run, w, err)
		} else {
			d.store.Windows.Need(one)
			jobs = append(jobs, j)
		}
		closed = append(closed, closedSums{run, ready})
	}
	if len(runs) > 0 && !d.p.join.follows(w.stream) {
		d.gone = append(d.gone, w)
	}
	return jobs, closed
}

// leaveOut reports a window that is not in the result of its interval, once.
func (d *stored) leaveOut(run *fleetRun, w *window, err error) {
	name := run.planned.Name
	d.p.leftOut(run, err)
	if err := d.store.Results.Fail(name, [][32]byte{w.id}); err != nil {
		d.p.log.Error("a window that came too late cannot be noted yet", "program", name, "error", err)
	}
}

// intervalMark stands, in place of windows, for an interval whose result under a key was made.
func intervalMark(number int64, key transport.KeyRef) [][32]byte {
	return [][32]byte{sha256.Sum256(fmt.Appendf(nil, "interval %d is closed under %x %d", number, key.ID, key.Epoch))}
}

func (d *stored) admitSum(j *job) bool {
	d.admit.Lock()
	defer d.admit.Unlock()
	name := j.prog.planned.Name
	if d.store.Results.Skips(name) {
		d.p.state.Sequence("result " + name)
		if err := d.settleJob(j, true); err != nil {
			d.p.log.Error("a result that is not made cannot be noted yet", "program", name, "error", err)
		}
		return false
	}
	d.store.Results.Begin(name)
	j.after, j.over = j.prog.tail, make(chan struct{})
	j.prog.tail = j.over
	return true
}

// added lets a window go that cannot be added. After a device that failed it stays, for the
// next start.
func (d *stored) added(j *job, err error) bool {
	if err == nil {
		return true
	}
	if !final(err) {
		return false
	}
	if err := d.settleJob(j, true); err != nil {
		d.p.log.Error("a window cannot be signed off yet", "error", err)
	}
	return true
}

func (d *stored) addAgain(j *job) (*engine.Sum, error) {
	sum := new(engine.Sum)
	for _, w := range j.sum.Windows {
		topic, sealed, ok := d.store.Windows.Read(w.ID)
		if !ok {
			return nil, fmt.Errorf("%w, and a window of device %s is not in the store any more", engine.ErrLost,
				w.Device)
		}
		obj, err := d.p.reopen(topic, sealed)
		if err == nil {
			err = d.p.addWindow(sum, j, obj)
		}
		if err != nil {
			sum.Free()
			return nil, fmt.Errorf("%s: %w", topic, err)
		}
	}
	return sum, nil
}

// skip notes a job whose result is not made, because nobody reads its program and the
// share of that is full. The number of the result is used up: the gap tells the reader.
func (d *stored) skip(j *job) bool {
	name := j.prog.planned.Name
	if !d.store.Results.Skips(name) {
		return false
	}
	d.p.state.Sequence("result " + name)
	if err := d.store.Results.Fail(name, j.ids()); err != nil {
		d.p.log.Error("a result that is not made cannot be noted yet", "program", name, "error", err)
	}
	return true
}

// settle releases the windows that the joiner let go.
func (d *stored) settle() {
	d.admit.Lock()
	gone := d.gone
	d.gone = nil
	d.admit.Unlock()
	for _, w := range gone {
		if err := d.store.Windows.Leave(w.id); err != nil {
			d.p.log.Error("a window cannot be signed off yet", "error", err)
		}
	}
}

// publish puts a result into the outbox, after the earlier results of its program.
func (d *stored) publish(ctx context.Context, j *job, seal func() (*result, error)) (*result, error) {
	if err := d.enter(ctx, j); err != nil {
		return nil, err
	}
	r, err := seal()
	if err != nil {
		return nil, err
	}
	name := j.prog.planned.Name
	err = d.put(ctx, name, func() error {
		if j.sum != nil {
			return d.putSum(ctx, j, r)
		}
		return d.store.Results.Put(ctx, name, j.ids(), r.topic, r.sealed.Bytes)
	})
	if err != nil {
		return nil, err
	}
	j.size = int64(len(r.sealed.Bytes))
	return r, nil
}

// put calls write until it succeeds. While the disk takes nothing it waits: the windows are
// safe.
func (d *stored) put(ctx context.Context, program string, write func() error) error {
	defer d.p.stages.since(stagePublish, time.Now())
	for {
		err := write()
		if err == nil || ctx.Err() != nil || errors.Is(err, spool.ErrClosed) {
			return err
		}
		d.p.log.Error("a result waits for the disk", "program", program, "error", err)
		if err := role.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// putSum writes the result of a sum. Its windows are claimed before: those of a result that
// was not written wait for another one.
func (d *stored) putSum(ctx context.Context, j *job, r *result) error {
	name := j.prog.planned.Name
	if !j.claimed {
		if err := d.store.Results.Claim(name, j.ids()); err != nil {
			return err
		}
		j.claimed = true
	}
	return d.store.Results.PutFleet(ctx, name, j.ids(), r.topic, r.sealed.Bytes)
}

// enter fails once ctx is over, even if the job before has ended: that may have been given up because of ctx, and its
// result, made after a restart, would come behind this one.
func (d *stored) enter(ctx context.Context, j *job) error {
	if j.after == nil {
		return nil
	}
	defer d.p.stages.since(stageOrder, time.Now())
	return await(ctx, j.after)
}

// entered lets the next job of the program enter. What the job holds is let go when its
// pack is in the outbox.
func (d *stored) entered(j *job) {
	close(j.over)
	j.over = nil
}

func (d *stored) publishPack(ctx context.Context, jobs []*job, seal sealPack) (*result, error) {
	r, results, err := seal()
	if err != nil {
		return nil, err
	}
	err = d.put(ctx, transport.PackProgram, func() error {
		return d.store.Results.PutPack(ctx, results, r.topic, r.sealed.Bytes)
	})
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		j.size = max(int64(len(r.sealed.Bytes)/len(jobs)), 1)
	}
	return r, nil
}

// finish lets the windows of a job go if its result is in the outbox, or if it failed
// for good. After a stop or a device that failed they stay, for the next start.
func (d *stored) finish(ctx context.Context, j *job, err error) {
	name := j.prog.planned.Name
	d.store.Results.End(name, j.size)
	if err == nil || ctx.Err() == nil && final(err) {
		if err := d.settleJob(j, err != nil); err != nil {
			d.p.log.Error("a window cannot be signed off yet", "error", err)
		}
	}
	if j.over == nil { // it is in a pack, behind the job before it
		return
	}
	if j.after != nil {
		select { // jobs that fail keep the order too
		case <-j.after:
		case <-ctx.Done():
		}
	}
	close(j.over)
}

func (d *stored) settleJob(j *job, failed bool) error {
	if j.sum != nil {
		if err := d.closeSum(j, failed); err != nil {
			return err
		}
	} else if failed {
		if err := d.store.Results.Fail(j.prog.planned.Name, j.ids()); err != nil {
			return err
		}
	}
	return d.store.Windows.Settle(j.ids())
}

// closeSum notes that an interval has its result, or none.
func (d *stored) closeSum(j *job, failed bool) error {
	name := j.prog.planned.Name
	if failed {
		if err := d.store.Results.Claim(name, j.ids()); err != nil {
			return err
		}
		if err := d.store.Results.FailFleet(name, j.ids()); err != nil {
			return err
		}
	}
	return d.store.Results.Fail(name, intervalMark(j.sum.Number, j.sum.Key))
}

func (d *stored) expire(now time.Time) {
	d.admit.Lock()
	d.p.join.expire(now)
	d.admit.Unlock()
	d.settle()
	if err := d.store.Housekeeping(now, d.out.now()); err != nil {
		d.p.log.Error("windows cannot be signed off yet", "error", err)
	}
}

func (d *stored) deliver(ctx context.Context, client transport.Client, end func(), done <-chan struct{}) func() error {
	return d.out.start(ctx, client, end, done)
}

func (d *stored) describe(st *State) {
	st.Missing = d.store.Windows.Gaps()
	for name, w := range d.store.Results.Waiting() {
		c := st.Programs[name]
		c.Waiting = &w
		st.Programs[name] = c
	}
}

func (d *stored) health(now time.Time) []string {
	return append(d.store.Health(now, d.out.now()), d.out.health()...)
}

func (d *stored) collect(ch chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	count := func(desc *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(v), labels...)
	}
	st := d.store.Stats()
	gauge(descInbox, float64(st.Windows))
	gauge(descInBytes, float64(st.WindowBytes))
	gauge(descOutbox, float64(st.Results))
	gauge(descOutBytes, float64(st.ResultBytes))
	count(descDamaged, st.Damaged)
	for name, w := range d.store.Results.Waiting() {
		gauge(descWaiting, float64(w.Results), name)
		gauge(descWaitByte, float64(w.Bytes), name)
		gauge(descWaitAge, w.Oldest.Seconds(), name)
		gauge(descShare, float64(w.Share), name)
		gauge(descUnread, map[bool]float64{true: 1}[w.Unread], name)
		count(descSkipped, w.Skipped, name)
	}
	missing, ofClass := map[string]uint64{}, map[string]uint64{}
	for _, g := range d.store.Windows.Gaps() {
		n := g.Last - g.First + 1
		if class := d.p.roster.class(g.Device); class != "" {
			ofClass[class] += n
		} else {
			missing[g.Device] += n
		}
	}
	for _, dev := range d.p.cfg.Devices {
		if dev.Class == "" {
			gauge(descMissing, float64(missing[dev.Name]), dev.Name)
		}
	}
	for _, c := range d.p.cfg.Classes {
		gauge(descClassMissing, float64(ofClass[c.Name]), c.Name)
	}
	asked, sent := d.receipts.Counts()
	count(descKnown, d.repeated.Load())
	count(descReceipts, sent)
	count(descAsks, asked)
	delivered := d.out.stats()
	count(descSent, delivered.Delivered)
	count(descRetries, delivered.Retries)
}

func (d *stored) close() error { return d.store.Close() }
