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

// gatherer runs jobs on one device, those of one form together.
//
//   - An idle device starts at once with what is there, so that a lone window waits for
//     nothing. What comes while it computes gathers. When it is done it takes all of that:
//     batches grow with the load by themselves.
//   - A second batch goes to the device while it computes the first, so that it does not
//     idle between two, once it is as large as the first (a small one would only break up
//     what still gathers) or its oldest job has waited for Options.Latency.
//   - A batch has at most width.most jobs, and its values at most width.memory bytes.
//   - Lines are served by the age of their oldest job, and within a line the oldest first.
//   - Every job gets an answer of its own: after an error other than a failed device each
//     half of the batch runs again, so that only the job at fault fails, and what does not
//     fit into memory together may fit in parts.
type gatherer struct {
	width   width
	latency time.Duration
	onBatch func() // may be nil

	mu      sync.Mutex
	lines   map[[32]byte][]*ticket // by form, oldest first; none is empty
	running int                    // batches
	newest  int                    // jobs of the batch that was started last
	alarm   *time.Timer            // for the oldest job that waits while the device computes
}

// width bounds what a device does at a time.
type width struct {
	batches int   // under way
	most    int   // jobs of a batch
	memory  int64 // bytes of the values of a batch; 0: as the number of jobs allows
}

// ticket is a job that waits for its batch.
type ticket struct {
	item  program.Item
	since time.Time
	ready chan struct{} // closed when share or err is set
	share share
	err   error
}

// run runs one item, together with others, and returns its share of the results. share.done
// must be called.
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

// start starts the batches whose time has come. It needs the lock.
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

// next returns the line to start with and how long it still waits, the shortest of all; a
// negative time if there is none.
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

// wake calls start again after a while.
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

// fit returns how many jobs of a line make a batch.
func (g *gatherer) fit(line []*ticket) int {
	n := min(len(line), g.width.most)
	if g.width.memory > 0 {
		n = min(n, int(g.width.memory/max(line[0].item.Routine.Peak(), 1)))
	}
	return max(n, 1)
}

// serve runs a batch and gives its place free once the device is done with it.
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

// answer runs jobs together and tells each what came of it. It reports whether any has a
// result.
func (g *gatherer) answer(batch []*ticket, place func()) bool {
	items := make([]program.Item, len(batch))
	for i, t := range batch {
		items[i] = t.item
	}
	if g.onBatch != nil {
		g.onBatch()
	}
	start := time.Now()
	b, err := program.RunBatch(items)
	if err != nil && len(batch) > 1 && !errors.Is(err, cutrantt.ErrDevice) {
		half := len(batch) / 2
		first := g.answer(batch[:half], place)
		return g.answer(batch[half:], place) || first
	}
	all := &shared{batch: b, place: place}
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

// sortByKey brings jobs under one key together, in the order of each key's oldest: their
// key switches share the key.
func sortByKey(batch []*ticket) {
	order := map[*henc.Evaluator]int{}
	for _, t := range batch {
		if _, known := order[t.item.Evaluator]; !known {
			order[t.item.Evaluator] = len(order)
		}
	}
	slices.SortStableFunc(batch, func(a, b *ticket) int { return order[a.item.Evaluator] - order[b.item.Evaluator] })
}

// shared are the results of a batch, freed with its last share.
type shared struct {
	batch *program.Batch
	place func()
	left  atomic.Int32
}

// share is the part of one job.
type share struct {
	all  *shared
	at   int
	took time.Duration // of the batch's time
}

// results returns how many results the job has.
func (s share) results() int { return s.all.batch.Results() }

// result returns result k of the job.
func (s share) result(k int) *henc.Ciphertext { return s.all.batch.Result(s.at, k) }

// done tells that the results are not needed any more. The first share that was read tells
// that the device has finished the batch.
func (s share) done() {
	s.all.place()
	if s.all.left.Add(-1) == 0 {
		s.all.batch.Free()
	}
}
