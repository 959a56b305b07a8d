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
//   - A batch has at most width.most jobs, and its values take at most width.memory bytes.
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
	most    int   // jobs in a batch
	memory  int64 // bytes for the values of a batch; 0: no bound
}

// ticket is a queued job.
type ticket struct {
	item  program.Item
	since time.Time
	ready chan struct{} // closed when share or err is set
	share share
	err   error
}

// run runs one item in a batch and returns its share of the results. The caller must call
// share.done.
func (g *gatherer) run(it program.Item) (share, error) {
	t := &ticket{item: it, since: time.Now(), ready: make(chan struct{})}
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
		line := g.lines[form]
		n := g.fit(line)
		batch := slices.Clone(line[:n])
		if g.lines[form] = line[n:]; n == len(line) {
			delete(g.lines, form)
		}
		g.running++
		g.newest = n
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
		if g.running > 0 && g.width.most > 1 && len(line) < min(g.width.most, g.newest) {
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

// fit returns how many jobs of a queue fit into one batch.
func (g *gatherer) fit(line []*ticket) int {
	n := min(len(line), g.width.most)
	if g.width.memory > 0 {
		n = min(n, int(g.width.memory/max(line[0].item.Routine.Peak(), 1)))
	}
	return max(n, 1)
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
	items := make([]program.Item, len(batch))
	for i, t := range batch {
		items[i] = t.item
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
	for i, t := range batch {
		if t.err = err; err == nil {
			t.share = share{all, i, took}
		}
		close(t.ready)
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
	at   int           // of the job in the batch
	took time.Duration // the batch's time divided by its jobs
}

// results returns how many results the job has.
func (s share) results() int { return s.all.batch.Results() }

// result returns result k of the job.
func (s share) result(k int) *henc.Ciphertext { return s.all.batch.Result(s.at, k) }

// done releases the results of the job. The first call also frees the place of the batch:
// a result that was read shows that the device has finished.
func (s share) done() {
	s.all.place()
	if s.all.left.Add(-1) == 0 {
		s.all.batch.Free()
		s.all.freed()
	}
}
