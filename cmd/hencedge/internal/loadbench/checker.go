package loadbench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/transport"
)

// checker takes every result, and compares its header with the windows that were fed and
// with what its program promises. It counts: each set of windows gives each program one
// result. Of every one in K results of a program, the first of them included, it keeps the
// object, to be verified and decrypted later.
type checker struct {
	bed     *bed
	outside *outside

	failed chan struct{} // closed when err is set
	once   sync.Once
	err    error

	each    int64 // results of a window, if that is the same for all; else 0
	lagging int64 // results that n windows of every device give, less n for each program

	programs map[string]*tracked
	parts    [64]part // by the first byte of an id
	results  atomic.Int64
	bytes    atomic.Int64   // of messages that carried results
	one      atomic.Int64   // K
	copying  sync.WaitGroup // objects of kept that are still to be copied
	taking   sync.WaitGroup // packs that are still to be checked

	mu      sync.Mutex
	kept    []*kept
	came    sync.Cond    // a result came, while somebody waits for one
	waiting atomic.Int64 // who wait
}

// part has what is known of some of the windows and objects. Many goroutines bring results at a time: with one lock
// for all of them, a result waited 1 ms for it at 28,000 results a second.
type part struct {
	mu      sync.Mutex
	windows map[[32]byte]sent // by the id of the sealed window
	open    map[[32]byte]*pieces
	done    map[[32]byte]bool // complete results
	_       [32]byte          // so that two parts seldom share a line of a cache
}

// part returns the part of a window or an object.
func (c *checker) part(id [32]byte) *part { return &c.parts[int(id[0])%len(c.parts)] }

// sent is a window that was fed.
type sent struct {
	device int
	n      int64
	at     time.Time // its last chunk
}

// delay is the latency of a result: from the last chunk of its last window.
type delay struct {
	at   time.Time // when the result came
	took time.Duration
}

// pieces is a result of which chunks are missing.
type pieces struct {
	parts [][]byte
	have  int
}

// kept is an object of which results will be compared.
type kept struct {
	topic   string
	sealed  []byte
	results []keptResult
}

// keptResult is one of them.
type keptResult struct {
	program *tracked
	at      int    // its place in the object
	inputs  []sent // in the order of the circuit's
}

// tracked is a program and which results of it came.
type tracked struct {
	planned *evaluator.Planned
	config  *config.Program
	inputs  []program.Input
	devices []int // of the inputs
	place   int   // of their windows, of Options.Places
	numbers *numbers

	mu     sync.Mutex
	made   bits    // by the place of the newest windows
	taken  int64   // results since the last reset
	delays []delay // of them
}

// numbers are the sequence numbers of a program, of a class those of all devices.
type numbers struct {
	mu  sync.Mutex
	had bits
}

// add adds a number and reports whether it was new and in range.
func (n *numbers) add(i int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.had.add(i)
}

// bits is a set of small numbers.
type bits []uint64

// maxBit bounds what one result can make a set grow to.
const maxBit = 1 << 32

// add adds i and reports whether it was new and in range.
func (b *bits) add(i int64) bool {
	if i < 0 || i >= maxBit {
		return false
	}
	for int64(len(*b)) <= i/64 {
		*b = append(*b, 0)
	}
	word, bit := &(*b)[i/64], uint64(1)<<(i%64)
	was := *word&bit != 0
	*word |= bit
	return !was
}

func newChecker(b *bed, o *outside) *checker {
	c := &checker{bed: b, outside: o, failed: make(chan struct{}), programs: map[string]*tracked{}}
	c.one.Store(1)
	for i := range c.parts {
		c.parts[i].windows, c.parts[i].open = map[[32]byte]sent{}, map[[32]byte]*pieces{}
		c.parts[i].done = map[[32]byte]bool{}
	}
	index := map[string]int{}
	for i, d := range b.devices {
		index[d.name] = i
	}
	for i := range b.plan.Programs {
		planned := &b.plan.Programs[i]
		subjects := []string{""}
		if planned.Circuit.Class() != "" {
			subjects = nil
			for _, d := range b.devices {
				subjects = append(subjects, d.name)
			}
		}
		numbers := new(numbers)
		for _, subject := range subjects {
			t := &tracked{planned: planned, config: &b.cfg.Programs[i], numbers: numbers}
			t.inputs = planned.Circuit.Inputs()
			for _, in := range t.inputs {
				t.devices = append(t.devices, index[cmp.Or(in.Device, subject)])
			}
			t.place = b.devices[t.devices[0]].place
			c.programs[nameOf(planned.Name, subject)] = t
		}
	}
	c.came.L = &c.mu
	c.each, c.lagging = c.perWindow(), c.expected(maxBit)-maxBit*int64(len(c.programs))
	return c
}

// perWindow returns how many programs read each device, or 0 if the numbers differ or a
// program reads several.
func (c *checker) perWindow() int64 {
	count := make([]int64, len(c.bed.devices))
	for _, t := range c.programs {
		for _, d := range t.devices[1:] {
			if d != t.devices[0] {
				return 0
			}
		}
		count[t.devices[0]]++
	}
	if slices.Max(count) != slices.Min(count) {
		return 0
	}
	return count[0]
}

// await waits until so many results came.
func (c *checker) await(ctx context.Context, results int64) error {
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.came.Broadcast()
	})()
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.results.Load() < results && ctx.Err() == nil {
		c.came.Wait()
	}
	return ctx.Err()
}

// add counts results, and wakes those who wait for them.
func (c *checker) add(results int) {
	c.results.Add(int64(results))
	if c.waiting.Load() > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.came.Broadcast()
	}
}

// nameOf names a program, for a class that of one device.
func nameOf(program, subject string) string {
	if subject == "" {
		return program
	}
	return program + "." + subject
}

// fail ends the run with the first error.
func (c *checker) fail(err error) {
	c.once.Do(func() {
		c.err = err
		close(c.failed)
	})
}

// expected is how many results windows 0 to fed-1 of every device give.
func (c *checker) expected(fed int64) (n int64) {
	for _, t := range c.programs {
		low, high := int64(0), int64(-1)
		for _, in := range t.inputs {
			low = max(low, int64(in.Lag))
			if last := fed + int64(in.Lag); high < 0 || last < high {
				high = last
			}
		}
		n += max(high-low, 0)
	}
	return n
}

// sent notes a window just before its last chunk is handed over. If it was due at a time,
// it counts from there on.
func (c *checker) sent(p *prepared) {
	at := p.due
	if at.IsZero() {
		at = time.Now()
	}
	of := c.part(p.id)
	of.mu.Lock()
	defer of.mu.Unlock()
	of.windows[p.id] = sent{p.device, p.n, at}
}

// window returns a window that was fed.
func (c *checker) window(id [32]byte) (sent, bool) {
	of := c.part(id)
	of.mu.Lock()
	defer of.mu.Unlock()
	w, ok := of.windows[id]
	return w, ok
}

// take takes a chunk of a result. It keeps nothing of payload. Packs have hundreds of results and are published one
// after the other, so they are checked while the service goes on, as it would behind a broker.
func (c *checker) take(topic string, payload []byte) {
	at := time.Now()
	if c.bed.o.Pack == 0 {
		c.check(topic, payload, at)
		return
	}
	var own []byte
	spend(&c.outside.checking, func() { own = bytes.Clone(payload) })
	c.taking.Go(func() { c.check(topic, own, at) })
}

// check is take for a chunk that came at a time.
func (c *checker) check(topic string, payload []byte, at time.Time) {
	spend(&c.outside.checking, func() {
		if err := c.chunk(topic, payload, at); err != nil {
			c.fail(fmt.Errorf("result on %s: %w", topic, err))
		}
	})
}

func (c *checker) chunk(topic string, payload []byte, at time.Time) error {
	piece, err := transport.UnmarshalChunk(payload, transport.DefaultMaxObject)
	if err != nil {
		return err
	}
	sealed, err := c.join(piece, len(payload))
	if sealed == nil || err != nil {
		return err
	}
	return c.object(topic, sealed, piece.Total == 1, at)
}

// object checks and counts the results of an object, and keeps some. transient says that its
// bytes are the caller's.
func (c *checker) object(topic string, sealed []byte, transient bool, at time.Time) error {
	m, body, err := transport.Peek(sealed)
	if err != nil {
		return err
	}
	results, _, err := m.Results(body)
	if err != nil {
		return err
	}
	of := make([]*tracked, len(results))
	for i := range results {
		r := &results[i]
		if of[i] = c.programs[nameOf(r.Program, r.Subject)]; of[i] == nil {
			return fmt.Errorf("unknown program %q", r.Program)
		}
		if err := c.header(of[i], topic, r, m.Packed > 0); err != nil {
			return err
		}
	}
	k := &kept{topic: topic, sealed: sealed}
	if err := c.counted(results, of, k, at); err != nil || len(k.results) == 0 {
		return err
	}
	defer c.copying.Done()
	if transient { // copied without the lock, which all results want at a time
		k.sealed = bytes.Clone(sealed)
	}
	return nil
}

// counted counts the results of an object, whose programs are of. If some of them are kept, it adds to c.copying.
func (c *checker) counted(results []transport.Meta, of []*tracked, k *kept, at time.Time) error {
	for i := range results {
		inputs, number, err := c.count(of[i], &results[i], at)
		if err != nil {
			return err
		}
		if number%c.one.Load() == 0 {
			k.results = append(k.results, keptResult{of[i], i, inputs})
		}
	}
	if len(k.results) > 0 {
		c.copying.Add(1)
		c.mu.Lock()
		c.kept = append(c.kept, k)
		c.mu.Unlock()
	}
	return nil
}

// join returns the object that a chunk completes, or nil. It copies the chunk without a lock.
func (c *checker) join(piece *transport.Chunk, size int) ([]byte, error) {
	data := piece.Data
	if piece.Total > 1 { // else it is read before payload is gone
		data = bytes.Clone(data)
	}
	parts, err := c.note(piece, data, size)
	switch {
	case parts == nil || err != nil:
		return nil, err
	case len(parts) == 1:
		return data, nil
	}
	return bytes.Join(parts, nil), nil
}

// note keeps data, a copy of a chunk's, and returns the parts of the object once all are there.
func (c *checker) note(piece *transport.Chunk, data []byte, size int) ([][]byte, error) {
	c.bytes.Add(int64(size))
	of := c.part(piece.Object)
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.done[piece.Object] {
		if c.bed.o.Broker == "" {
			return nil, fmt.Errorf("object %x came twice", piece.Object[:6])
		}
		return nil, nil // QoS 1
	}
	p := of.open[piece.Object]
	if p == nil {
		p = &pieces{parts: make([][]byte, piece.Total)}
		of.open[piece.Object] = p
	}
	if piece.Total != len(p.parts) {
		return nil, fmt.Errorf("object %x in %d chunks and in %d", piece.Object[:6], piece.Total, len(p.parts))
	}
	if p.parts[piece.Index] != nil {
		return nil, nil
	}
	p.parts[piece.Index] = data
	if p.have++; p.have < piece.Total {
		return nil, nil
	}
	delete(of.open, piece.Object)
	of.done[piece.Object] = true
	return p.parts, nil
}

// header compares the header of a result, which came in a pack or alone, with what its
// program promises.
func (c *checker) header(t *tracked, topic string, m *transport.Meta, packed bool) error {
	circuit, out := t.planned.Circuit, t.planned.Circuit.OutputAt(t.place)
	want := cmp.Or(t.planned.Topic, transport.ResultTopic(c.bed.cfg.Broker.TopicPrefix, m.Program))
	if packed { // in any slot
		want = transport.ResultTopic(c.bed.cfg.Broker.TopicPrefix, transport.PackProgram)
		out.Slot = m.Post.Slot
	}
	if c.bed.o.Compact > 0 && m.Post != nil && circuit.Reads(m.Post.Slot) { // at a place that the service chose
		out.Slot = m.Post.Slot
	}
	switch {
	case packed != circuit.Packed():
		return fmt.Errorf("program %s: packed is %t, want %t", m.Program, packed, circuit.Packed())
	case topic != want:
		return fmt.Errorf("program %s belongs on %s", m.Program, want)
	case m.Kind != transport.KindResult || m.Device != evaluatorName || m.KeyID != c.bed.meta.KeyID ||
		m.KeyEpoch != c.bed.meta.KeyEpoch || m.Params != circuit.Parameters().Hash():
		return fmt.Errorf("program %s: header %+v", m.Program, m)
	case m.Layout != circuit.Hash() || m.Level != circuit.Level() || m.Scale != circuit.Scale():
		return fmt.Errorf("program %s: level %d, scale %g, hash %x; want %d, %g, %x", m.Program, m.Level, m.Scale,
			m.Layout[:6], circuit.Level(), circuit.Scale(), circuit.Hash())
	case m.Post == nil || *m.Post != (transport.Post{A: out.A, B: out.B, Sqrt: out.Sqrt, Slot: out.Slot,
		Count: out.Count, Bound: out.Bound}):
		return fmt.Errorf("program %s: to be read with %+v, want %+v", m.Program, m.Post, out)
	case int(m.Samples) != c.bed.o.Samples || len(m.Inputs) != len(t.inputs):
		return fmt.Errorf("program %s: of %d windows with %d samples, want %d with %d", m.Program, len(m.Inputs),
			m.Samples, len(t.inputs), c.bed.o.Samples)
	}
	return nil
}

var errTwice = errors.New("this result was made already")

// count notes a result. It returns its windows and how many of its program came before it.
func (c *checker) count(t *tracked, m *transport.Meta, at time.Time) (inputs []sent, before int64, err error) {
	inputs = make([]sent, len(m.Inputs))
	var last time.Time
	for i, id := range m.Inputs {
		w, ok := c.window(id)
		if !ok {
			return nil, 0, fmt.Errorf("program %s: of window %x, which was not fed", m.Program, id[:6])
		}
		place := w.n + int64(t.inputs[i].Lag)
		first := inputs[0].n + int64(t.inputs[0].Lag)
		if w.device != t.devices[i] || i > 0 && place != first {
			return nil, 0, fmt.Errorf("program %s: input %d is window %d of %s", m.Program, i, w.n,
				c.bed.devices[w.device].name)
		}
		inputs[i] = w
		if w.at.After(last) {
			last = w.at
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if place := inputs[0].n + int64(t.inputs[0].Lag); !t.made.add(place) {
		return nil, 0, fmt.Errorf("program %s, window %d: %w", m.Program, place, errTwice)
	}
	if !t.numbers.add(int64(m.Sequence)) {
		return nil, 0, fmt.Errorf("program %s, number %d: %w", m.Program, m.Sequence, errTwice)
	}
	t.delays = append(t.delays, delay{at, at.Sub(last)})
	t.taken++
	c.add(1)
	return inputs, t.taken - 1, nil
}

// counts returns how many results came, and the bytes of their messages.
func (c *checker) counts() (results, bytes int64) { return c.results.Load(), c.bytes.Load() }

// reset begins a segment in which one of K results of each program is kept.
func (c *checker) reset(one int64) {
	c.one.Store(max(one, 1))
	c.taken()
	for _, t := range c.programs {
		t.mu.Lock()
		t.taken, t.delays = 0, nil
		t.mu.Unlock()
	}
}

// delays returns the latencies of the results that came between two times.
func (c *checker) delays(from, to time.Time) (list []delay) {
	for _, t := range c.programs {
		t.mu.Lock()
		for _, d := range t.delays {
			if d.at.After(from) && !d.at.After(to) {
				list = append(list, d)
			}
		}
		t.mu.Unlock()
	}
	return list
}

// taken returns the objects that were kept, and keeps them no longer.
func (c *checker) taken() []*kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.kept
	c.kept = nil
	return list
}
