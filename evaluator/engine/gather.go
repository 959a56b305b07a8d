package engine

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/transport"
)

// gatherer queues the jobs of one device and runs those of the same form in batches.
//
//   - An idle device starts at once with whatever is queued, so a lone job never waits.
//     Jobs that arrive while it computes form the next batch: batches grow with the load.
//   - A second batch may start while the first is computed, so that the device never idles
//     between two. It starts when it is as large as the first (a smaller one would only split
//     a batch that is still growing) or when its oldest job has waited for Options.Latency.
//   - Jobs of one routine and key whose windows stand at different places become one item:
//     their windows are added up, and each job reads its result at its own place. It joins those
//     that are queued when its batch starts. The processor, once half of its batches run, waits
//     for a job at every place too, but no longer than Options.Latency: at once it would take the
//     jobs one by one, and have no time for those that arrive.
//   - Jobs on compact windows of one routine and key become one item too: their windows are bootstrapped together,
//     which gives them their places. They wait for each other until there is one for every place or the
//     oldest has waited for Options.Latency, even if the device is idle. Two such items in a batch share a bootstrap.
//   - A batch has at most width.most items, and its values take at most width.memory bytes.
//   - The queue whose oldest job has waited longest goes first, and its oldest jobs first.
//   - A job that is alone is repeated as a whole: see replays.
//   - Each job gets its own answer. After an error, unless the device failed, both halves of
//     the batch run again: only the faulty job fails, and a batch that exhausted the memory
//     may fit in parts. A single job then waits until other batches have freed theirs.
type gatherer struct {
	width   width
	latency time.Duration
	onBatch func() // may be nil
	// bootstrap makes the inputs of groups of jobs on compact windows, by group: those of job k at place k.
	bootstrap func(...[]*ticket) ([]map[program.Input]*henc.Ciphertext, error)
	replays   replays

	mu      sync.Mutex
	lines   map[[32]byte][]*ticket // queues by form, oldest job first; none is empty
	running int                    // batches
	newest  int                    // jobs in the batch that was started last
	held    int                    // batches that run, or whose results are not freed yet
	frees   int                    // batches that have freed their memory
	freed   chan struct{}          // closed by the next of them; nil: nobody waits
	alarm   *time.Timer            // starts the next batch after Options.Latency
}

// width bounds what a device computes at a time.
type width struct {
	batches int   // running at a time
	most    int   // items in a batch
	memory  int64 // bytes for the values of a batch; 0: no bound
}

// ticket is a queued job.
type ticket struct {
	item  program.Item
	place int // of its windows; of compact ones it is chosen for the batch
	// compact are its windows if they are compact, and key is theirs. The item has no inputs then. Windows for
	// different sums are not bootstrapped together.
	compact map[program.Input]*compactWindow
	key     transport.KeyRef
	sum     *Sum
	since   time.Time
	ready   chan struct{} // closed when share or err is set
	share   share
	err     error
}

// run runs one item in a batch and returns its share of the results. The caller must call
// share.done. place is where its windows stand, of Routine.Places.
func (g *gatherer) run(it program.Item, place int) (share, error) {
	return g.queue(&ticket{item: it, place: place})
}

// queue is run for a ticket.
func (g *gatherer) queue(t *ticket) (share, error) {
	t.since, t.ready = time.Now(), make(chan struct{})
	form := t.item.Routine.Form()
	g.mu.Lock()
	g.lines[form] = append(g.lines[form], t)
	g.start()
	g.mu.Unlock()
	<-t.ready
	return t.share, t.err
}

// start starts every batch that is due. The caller holds the lock.
func (g *gatherer) start() {
	for g.running < g.width.batches {
		form, wait := g.next()
		if wait < 0 {
			return
		}
		if wait > 0 {
			g.wake(wait)
			return
		}
		batch, rest := g.take(g.lines[form])
		if g.lines[form] = rest; len(rest) == 0 {
			delete(g.lines, form)
		}
		g.running++
		g.newest = len(batch)
		go g.serve(batch)
	}
}

// next returns the queue that is due first, and the time until then; a negative time means
// that all queues are empty.
func (g *gatherer) next() (form [32]byte, wait time.Duration) {
	wait = -1
	var oldest time.Time
	for f, line := range g.lines {
		since, left := line[0].since, time.Duration(0)
		if g.grows(line) {
			left = max(g.latency-time.Since(since), 0)
		}
		if wait < 0 || left < wait || left == wait && since.Before(oldest) {
			form, wait, oldest = f, left, since
		}
	}
	return form, wait
}

// grows reports whether a queue should wait for more jobs.
func (g *gatherer) grows(line []*ticket) bool {
	if rooms := line[0].item.Routine.Compact(); rooms > 0 {
		return len(line) < rooms
	}
	if g.width.most > 1 {
		return g.running > 0 && len(line) < g.newest
	}
	return g.running > 0 && 2*g.running >= g.width.batches && !complete(line)
}

// complete reports whether jobs of the kind of the first one are at every place.
func complete(line []*ticket) bool {
	first, at := line[0].item, map[int]bool{}
	for _, t := range line {
		if t.item.Routine == first.Routine && t.item.Evaluator == first.Evaluator {
			at[t.place] = true
		}
		if len(at) >= first.Routine.Places() {
			return true
		}
	}
	return false
}

// wake calls start again after wait.
func (g *gatherer) wake(wait time.Duration) {
	if g.alarm != nil {
		g.alarm.Reset(wait)
		return
	}
	g.alarm = time.AfterFunc(wait, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.start()
	})
}

// take returns the jobs of a queue that fit into one batch, and the others.
func (g *gatherer) take(line []*ticket) (batch, rest []*ticket) {
	most := g.width.most
	if g.width.memory > 0 {
		most = min(most, int(g.width.memory/max(line[0].item.Routine.Peak(), 1)))
	}
	if g.width.memory == 0 && line[0].item.Routine.Compact() > 0 {
		most = max(most, groups) // which take little longer than one
	}
	m := merger{most: max(most, 1)}
	for i, t := range line {
		if m.full() {
			return batch, append(rest, line[i:]...)
		}
		if m.add(t) {
			batch = append(batch, t)
		} else {
			rest = append(rest, t)
		}
	}
	return batch, rest
}

// merger makes items of jobs. It puts a job to the first item of its routine and key that has
// no other job at its place.
type merger struct {
	most  int // items
	items [][]*ticket
	room  int            // jobs that items can take yet
	of    map[kind][]int // the items of a kind that may have more than one job
	at    map[spot]int   // how many of them have a job at a place: the first ones
}

// kind is what jobs have in common whose windows can be added up.
type kind struct {
	routine   program.Routine
	evaluator *henc.Evaluator
	sum       *Sum // of compact windows
}

type spot struct {
	kind
	place int
}

// full reports whether no job can be added.
func (m *merger) full() bool { return len(m.items) >= m.most && m.room == 0 }

// add reports whether there is room for a job.
func (m *merger) add(t *ticket) bool {
	k := kind{t.item.Routine, t.item.Evaluator, t.sum}
	if t.compact != nil {
		return m.addCompact(k, t)
	}
	at, several := spot{k, t.place}, t.item.Routine.Places() > 1
	if n := m.at[at]; several && n < len(m.of[k]) {
		i := m.of[k][n]
		m.items[i] = append(m.items[i], t)
		m.at[at]++
		m.room--
		return true
	}
	if len(m.items) >= m.most {
		return false
	}
	if several {
		if m.of == nil {
			m.of, m.at = map[kind][]int{}, map[spot]int{}
		}
		m.of[k] = append(m.of[k], len(m.items))
		m.at[at]++
		m.room += t.item.Routine.Places() - 1
	}
	m.items = append(m.items, []*ticket{t})
	return true
}

// addCompact reports whether there is room for a job on compact windows: at the next place of the newest item of its
// kind, or in a new item.
func (m *merger) addCompact(k kind, t *ticket) bool {
	rooms := t.item.Routine.Compact()
	if all := m.of[k]; len(all) > 0 {
		if i := all[len(all)-1]; len(m.items[i]) < rooms {
			m.items[i] = append(m.items[i], t)
			m.room--
			return true
		}
	}
	if len(m.items) >= m.most {
		return false
	}
	if m.of == nil {
		m.of, m.at = map[kind][]int{}, map[spot]int{}
	}
	m.of[k] = append(m.of[k], len(m.items))
	m.room += rooms - 1
	m.items = append(m.items, []*ticket{t})
	return true
}

// items returns what runs for jobs whose windows are added up, or bootstrapped together.
func (g *gatherer) items(all [][]*ticket) ([]program.Item, error) {
	out, alone := make([]program.Item, len(all)), map[kind]int{}
	bootstrap := func(at ...int) error {
		var jobs [][]*ticket
		for _, i := range at {
			jobs = append(jobs, all[i])
		}
		inputs, err := g.bootstrap(jobs...)
		if err != nil {
			return err
		}
		for n, i := range at {
			out[i].Inputs = inputs[n]
		}
		return nil
	}
	for i, jobs := range all {
		t := jobs[0]
		if out[i] = t.item; t.compact == nil {
			for _, more := range jobs[1:] {
				out[i].Added = append(out[i].Added, more.item.Inputs)
			}
			continue
		}
		k := kind{t.item.Routine, t.item.Evaluator, t.sum}
		other, found := alone[k]
		if !found {
			alone[k] = i
			continue
		}
		delete(alone, k)
		if err := bootstrap(other, i); err != nil {
			return nil, err
		}
	}
	for _, i := range alone {
		if err := bootstrap(i); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// serve runs a batch. Its place is free for the next one when the first job reads its
// result, which shows that the device has finished, or at once if all jobs failed.
func (g *gatherer) serve(batch []*ticket) {
	place := sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.running--
		g.start()
	})
	sortByKey(batch)
	if !g.answer(batch, place) {
		place()
	}
}

// answer runs the jobs of a batch and gives each its result or error. It reports whether
// any job has a result.
func (g *gatherer) answer(batch []*ticket, place func()) bool {
	m := merger{most: len(batch)}
	for _, t := range batch {
		m.add(t)
	}
	if g.onBatch != nil {
		g.onBatch()
	}
	start := time.Now()
	items, err := g.items(m.items)
	var b *program.Batch
	if err == nil {
		b, err = g.compute(items)
	}
	if err != nil && len(batch) > 1 && !errors.Is(err, cutrantt.ErrDevice) {
		half := len(batch) / 2
		first := g.answer(batch[:half], place)
		return g.answer(batch[half:], place) || first
	}
	all := &shared{batch: b, place: place, freed: g.release}
	all.left.Store(int32(len(batch)))
	took := time.Since(start) / time.Duration(len(batch))
	for i, jobs := range m.items {
		one := &whole{jobs: len(jobs)}
		for k, t := range jobs {
			if t.compact != nil {
				t.place = k
			}
			if t.err = err; err == nil {
				t.share = share{all, one, i, t.place, took}
			}
			close(t.ready)
		}
	}
	return err == nil
}

// compute runs items together. One item for which there is no memory waits until another batch
// has freed its own, and runs again.
func (g *gatherer) compute(items []program.Item) (b *program.Batch, err error) {
	for try := 0; ; try++ {
		g.mu.Lock()
		g.held++
		before, alone := g.frees, len(items) == 1 && g.running == 1
		g.mu.Unlock()
		if alone {
			b = g.replays.run(items[0])
		}
		if b != nil {
			return b, nil
		}
		if b, err = program.RunBatch(items); err == nil {
			return b, nil
		}
		g.release()
		if errors.Is(err, cutrantt.ErrMemory) {
			g.replays.forget()
		}
		if len(items) > 1 || try == memoryTries || !errors.Is(err, cutrantt.ErrMemory) ||
			errors.Is(err, cutrantt.ErrDevice) || !g.awaitFree(before+1) {
			return nil, err
		}
	}
}

// memoryTries is how often an item waits for memory. Others may take what was freed.
const memoryTries = 8

// release notes that a batch has freed its memory.
func (g *gatherer) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held--
	g.frees++
	if g.freed != nil {
		close(g.freed)
		g.freed = nil
	}
}

// awaitFree returns once more than seen batches have freed their memory. It reports false if no
// batch is left that could.
func (g *gatherer) awaitFree(seen int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.frees == seen {
		if g.held == 0 {
			return false
		}
		if g.freed == nil {
			g.freed = make(chan struct{})
		}
		freed := g.freed
		g.mu.Unlock()
		<-freed
		g.mu.Lock()
	}
	return true
}

// sortByKey groups the jobs by key, because neighbours in a batch share the key that they
// switch to. The key of the oldest job comes first.
func sortByKey(batch []*ticket) {
	order := map[*henc.Evaluator]int{}
	for _, t := range batch {
		if _, known := order[t.item.Evaluator]; !known {
			order[t.item.Evaluator] = len(order)
		}
	}
	slices.SortStableFunc(batch, func(a, b *ticket) int { return order[a.item.Evaluator] - order[b.item.Evaluator] })
}

// shared holds the results of a batch until the last job is done with its share.
type shared struct {
	batch *program.Batch
	place func()
	freed func()
	left  atomic.Int32
}

// share is what one job gets of its batch.
type share struct {
	all  *shared
	of   *whole
	at   int           // of the job's item in the batch
	spot int           // where the job's windows stand
	took time.Duration // the batch's time divided by its jobs
}

// whole is an item, whose results are those of one job or several.
type whole struct {
	jobs  int
	write sync.Once
	rooms [][]byte // of its results, if they are several jobs'
	err   error
	into  sync.Once // the sum of its windows
	add   error
}

// results returns how many results the job has.
func (s share) results() int { return s.all.batch.Results() }

// result returns result k of the job's item.
func (s share) result(k int) *henc.Ciphertext { return s.all.batch.Result(s.at, k) }

// written returns the results of the job's item as Result.Room has them. Several jobs get the
// same memory.
func (s share) written(write func(...*henc.Ciphertext) ([][]byte, error)) ([][]byte, error) {
	all := func() ([][]byte, error) {
		cts := make([]*henc.Ciphertext, s.results())
		for k := range cts {
			cts[k] = s.result(k)
		}
		return write(cts...)
	}
	if s.of.jobs == 1 {
		return all()
	}
	s.of.write.Do(func() { s.of.rooms, s.of.err = all() })
	return s.of.rooms, s.of.err
}

// done releases the results of the job. The first call also frees the place of the batch:
// a result that was read shows that the device has finished.
func (s share) done() {
	s.all.place()
	if s.all.left.Add(-1) == 0 {
		s.all.batch.Free()
		s.all.freed()
	}
}
