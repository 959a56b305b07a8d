package engine

import (
	"slices"
	"sync"

	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
)

// replays repeats routines whose jobs come alone, as a whole: hundreds of operations are then one call of the device
// (program.Recorded).
//
//   - A routine is recorded when recordAfter jobs on it under one key came alone. That takes a few times as long as a
//     job.
//   - There are at most mostReplays. The one that was used longest ago makes room for the next.
//   - They take at most a quarter of the memory of a batch.
type replays struct {
	memory int64 // of a batch; 0: no bound

	mu    sync.Mutex
	alone map[replayOf]int // jobs that came alone; of at most mostCounted kinds
	made  []replay         // the one that was used last is last
}

const (
	recordAfter = 8
	mostReplays = 4
	mostCounted = 256
)

// replayOf is what is recorded.
type replayOf struct {
	routine   program.Routine
	evaluator *henc.Evaluator
}

type replay struct {
	replayOf
	recorded *program.Recorded // nil: it cannot be
}

// run runs an item that came alone. It returns nil where the item has to be run in the ordinary way, which tells what
// is wrong.
func (p *replays) run(it program.Item) *program.Batch {
	if len(it.Added) > 0 || it.Routine.Bootstraps() > 0 ||
		p.memory > 0 && it.Routine.Peak() > p.memory/(8*mostReplays) { // each needs two times Peak
		return nil
	}
	if !p.mu.TryLock() { // another one is being recorded
		return nil
	}
	defer p.mu.Unlock()
	of := replayOf{it.Routine, it.Evaluator}
	at := slices.IndexFunc(p.made, func(r replay) bool { return r.replayOf == of })
	if at < 0 {
		if !p.often(of) {
			return nil
		}
		recorded, err := program.Record(it)
		if err != nil {
			recorded = nil
		}
		if len(p.made) == mostReplays {
			p.made = slices.Delete(p.made, 0, 1)
		}
		at = len(p.made)
		p.made = append(p.made, replay{of, recorded})
	}
	one := p.made[at]
	p.made = append(slices.Delete(p.made, at, at+1), one)
	if one.recorded == nil {
		return nil
	}
	b, err := one.recorded.Run(it.Inputs)
	if err != nil {
		p.made = p.made[:len(p.made)-1]
	}
	return b
}

// often counts an item that came alone, and reports whether there were enough of its kind.
func (p *replays) often(of replayOf) bool {
	if p.alone == nil {
		p.alone = map[replayOf]int{}
	}
	if p.alone[of]++; p.alone[of] >= recordAfter {
		delete(p.alone, of)
		return true
	}
	if len(p.alone) > mostCounted {
		clear(p.alone)
	}
	return false
}

// forget gives up what was recorded.
func (p *replays) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.alone)
	clear(p.made)
	p.made = nil
}
