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
)

// gatherer queues the jobs of one device and runs those of the same form in batches.
//
//   - An idle device starts at once with whatever is queued, so a lone job never waits.
//     Jobs that arrive while it computes form the next batch: batches grow with the load.
//   - A second batch may start while the first is computed, so that the device never idles
//     between two. It starts when it is as large as the first (a smaller one would only split
//     a batch that is still growing) or when its oldest job has waited for Options.Latency.
//   - Jobs of one routine and key whose windows stand at different places become one item:
//     their windows are added up, and each job reads its result at its own place. Such a job
//     waits for no other one: it joins those that are queued when its batch starts.
//   - A batch has at most width.most items, and its values take at most width.memory bytes.
//   - The queue whose oldest job has waited longest goes first, and its oldest jobs first.
//   - Each job gets its own answer. After an error, unless the device failed, both halves of
//     the batch run again: only the faulty job fails, and a batch that exhausted the memory
//     may fit in parts. A single job then waits until other batches have freed theirs.
type gatherer struct {
	width   width
	latency time.Duration
	onBatch func() // may be nil

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
	place int // of its windows
	since time.Time
	ready chan struct{} // closed when share or err is set
	share share
	err   error
}

// run runs one item in a batch and returns its share of the results. The caller must call
// share.done. place is where its windows stand, of Routine.Places.
func (g *gatherer) run(it program.Item, place int) (share, error) {
	t := &ticket{item: it, place: place, since: time.Now(), ready: make(chan struct{})}
	form := it.Routine.Form()
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
		if g.running > 0 && g.width.most > 1 && len(line) < g.newest {
			left = max(g.latency-time.Since(since), 0)
		}
		if wait < 0 || left < wait || left == wait && since.Before(oldest) {
			form, wait, oldest = f, left, since
		}
	}
	return form, wait
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
}

type spot struct {
	kind
	place int
}

// full reports whether no job can be added.
func (m *merger) full() bool { return len(m.items) >= m.most && m.room == 0 }

// add reports whether there is room for a job.
func (m *merger) add(t *ticket) bool {
	k := kind{t.item.Routine, t.item.Evaluator}
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

// item returns what runs for jobs whose windows are added up.
func item(jobs []*ticket) program.Item {
	it := jobs[0].item
	for _, t := range jobs[1:] {
		it.Added = append(it.Added, t.item.Inputs)
	}
	return it
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
	items := make([]program.Item, len(m.items))
	for i, jobs := range m.items {
		items[i] = item(jobs)
	}
	if g.onBatch != nil {
		g.onBatch()
	}
	start := time.Now()
	b, err := g.compute(items)
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
		for _, t := range jobs {
			if t.err = err; err == nil {
				t.share = share{all, one, i, took}
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
		before := g.frees
		g.mu.Unlock()
		if b, err = program.RunBatch(items); err == nil {
			return b, nil
		}
		g.release()
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
	took time.Duration // the batch's time divided by its jobs
}

// whole is an item, whose results are those of one job or several.
type whole struct {
	jobs  int
	write sync.Once
	rooms [][]byte // of its results, if they are several jobs'
	err   error
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
