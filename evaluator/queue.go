package evaluator

import (
	"context"
	"slices"
	"sync"
)

// jobQueue holds jobs until a worker is free.
//
//   - Programs take turns, whatever the number of their jobs: a device that floods fills the
//     line of its own programs, and the others wait for one job of each program at most.
//   - The jobs of one program leave in the order in which they came, since with a store each
//     waits for the one before it. So do those of all programs of a set, which share a line:
//     a job of one of them may come alone or with those of the others.
//   - The windows of all jobs are at most limit bytes, or those of one job. Who brings more
//     waits, behind those who wait already.
type jobQueue struct {
	limit int64

	mu      sync.Mutex
	some    *sync.Cond // a worker can go on: one is woken for each job
	waiting []*pushing // for room, in the order in which they came
	lines   map[lineID]*jobLine
	turns   []lineID // whose lines are not empty, the next one first
	bytes   int64
	closed  bool
}

// lineID names a program, or the first one of a set; for a class, that of one device.
type lineID struct {
	program *served
	device  string
}

func (p *runnable) line() lineID {
	if p.set != nil {
		return lineID{p.first, p.device}
	}
	return lineID{p.served, p.device}
}

// jobLine is the jobs of one program. That of each device of a class counts as its own.
type jobLine struct {
	jobs  []*job
	bytes int64
}

// pushing is a job that waits for room.
type pushing struct {
	job    *job
	size   int64
	queued chan struct{} // closed when the job is in its line
}

func newJobQueue(limit int64) *jobQueue {
	q := &jobQueue{limit: limit, lines: map[lineID]*jobLine{}}
	q.some = sync.NewCond(&q.mu)
	return q
}

// push adds a job, waiting for room. It reports false if ctx ends before.
func (q *jobQueue) push(ctx context.Context, j *job) bool {
	if ctx.Err() != nil {
		return false
	}
	p := &pushing{j, j.bytes(), make(chan struct{})}
	q.mu.Lock()
	q.waiting = append(q.waiting, p)
	q.fill()
	q.mu.Unlock()
	select {
	case <-p.queued:
		return true
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.waiting, p)
	if at < 0 { // meanwhile
		return true
	}
	q.waiting = slices.Delete(q.waiting, at, at+1)
	q.fill()
	return false
}

// fill puts the jobs that wait into their lines while there is room, in the order in which they
// came. It needs the lock.
func (q *jobQueue) fill() {
	for len(q.waiting) > 0 {
		p := q.waiting[0]
		if q.bytes > 0 && q.bytes+p.size > q.limit {
			return
		}
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		id := p.job.prog.line()
		line := q.lines[id]
		if line == nil {
			line = &jobLine{}
			q.lines[id] = line
			q.turns = append(q.turns, id)
		}
		line.jobs = append(line.jobs, p.job)
		line.bytes += p.size
		q.bytes += p.size
		close(p.queued)
		q.some.Signal()
	}
}

// pop returns the next job, waiting for one. It reports false once the queue is closed and
// empty.
func (q *jobQueue) pop() (*job, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.turns) == 0 {
		if q.closed {
			return nil, false
		}
		q.some.Wait()
	}
	p := q.turns[0]
	q.turns = q.turns[1:]
	line := q.lines[p]
	j := line.jobs[0]
	line.jobs[0] = nil
	line.jobs = line.jobs[1:]
	size := j.bytes()
	line.bytes -= size
	q.bytes -= size
	if len(line.jobs) > 0 {
		q.turns = append(q.turns, p)
	} else {
		delete(q.lines, p)
	}
	q.fill()
	return j, true
}

// close ends the queue once it is empty. Nothing is pushed any more.
func (q *jobQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.some.Broadcast()
}

// floods reports whether a program has taken more than its part of a queue that is filling
// up: a quarter of the room while more than half is taken, where others wait too.
func (q *jobQueue) floods(id lineID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.lines[id]
	return line != nil && len(q.lines) > 1 && 2*q.bytes > q.limit && 4*line.bytes > q.limit
}

// bytes returns the memory of the windows of a job.
func (j *job) bytes() (n int64) {
	p := j.prog.planned.Circuit.Parameters()
	for _, w := range j.inputs {
		n += 8 * int64(p.N()) * int64(p.LimbsAt(w.meta.Level))
	}
	return n
}
