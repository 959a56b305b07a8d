package rangecover

import (
	"fmt"
	"io"
	"math/bits"
	"sync"
)

// Machine computes with encrypted slots, or plain ones. Plaintexts are vectors of Plan.Slots numbers modulo t.
// A machine must be safe for concurrent use if Run is called from several goroutines.
type Machine[C any] interface {
	// Form returns the constants of a form plus the sum of its bits, each times its numbers. Form i of block b is
	// always the same, so that a machine can keep what it makes of it.
	Form(block, form int) (C, error)
	Mul(a, b C) (C, error)
	Add(a, b C) (C, error)
	AddPlain(a C, plain []uint64) (C, error)
	MulPlain(a C, plain []uint64) (C, error)
	// Back moves slot i-k to slot i in both rows, cyclically, k a power of two.
	Back(a C, k int) (C, error)
	// Swap exchanges the two rows.
	Swap(a C) (C, error)
}

// Result is what a block leaves for the key holder: slots of Test are zero where a row ends, and only there, and in
// the same slots Values has a word of each output's share, outputs first.
type Result[C any] struct {
	Test   C
	Values []C // Outputs * Words
}

// Wrong computes the numbers of wrong splits of block b: one in the slot of each place.
func Wrong[C any](p *Plan, m Machine[C], b int) (C, error) {
	block := &p.Blocks[b]
	var none C
	factors := make([]C, len(block.Forms))
	for i := range factors {
		var err error
		if factors[i], err = m.Form(b, i); err != nil {
			return none, err
		}
	}
	for len(factors) > 1 { // a balanced product, for the least depth
		var next []C
		for i := 0; i+1 < len(factors); i += 2 {
			f, err := m.Mul(factors[i], factors[i+1])
			if err != nil {
				return none, err
			}
			next = append(next, f)
		}
		if len(factors)%2 == 1 {
			next = append(next, factors[len(factors)-1])
		}
		factors = next
	}
	sum, err := m.AddPlain(factors[0], p.Dense(block.Add))
	for j := 0; j < block.Log && err == nil; j++ {
		var moved C
		if moved, err = m.Back(sum, 1<<j); err == nil {
			sum, err = m.Add(sum, moved)
		}
	}
	return sum, err
}

// Dense returns entries as a vector of slots modulo T.
func (p *Plan) Dense(entries []Entry) []uint64 {
	out := make([]uint64, p.Slots)
	for _, e := range entries {
		out[e.Slot] = p.mod(e.Value)
	}
	return out
}

func (p *Plan) mod(v int64) uint64 {
	r := v % int64(p.T)
	if r < 0 {
		r += int64(p.T)
	}
	return uint64(r)
}

// Blinding is the randomness of one evaluation: a random order of blocks, and a random share for each tree.
type Blinding struct {
	Order  []int
	shares [][]uint64 // of each tree, for each output, modulo 2^(Words*WordBits)
	from   io.Reader
	plan   *Plan
}

// NewBlinding draws from an unpredictable reader (crypto/rand.Reader). Every row needs a blinding of its own.
func (p *Plan) NewBlinding(from io.Reader) (*Blinding, error) {
	bl := &Blinding{plan: p, from: from, Order: make([]int, len(p.Blocks))}
	random := &uniform{from: from}
	for i := range bl.Order {
		j := int(random.below(uint64(i + 1)))
		bl.Order[i], bl.Order[j] = bl.Order[j], i
	}
	last := make([]uint64, p.Outputs)
	for o, v := range p.Base {
		last[o] = uint64(v)
	}
	for range p.Trees - 1 {
		share := make([]uint64, p.Outputs)
		for o := range share {
			share[o] = random.below(1 << p.sumBits())
			last[o] -= share[o]
		}
		bl.shares = append(bl.shares, share)
	}
	bl.shares = append(bl.shares, last)
	return bl, random.err
}

func (p *Plan) sumBits() int { return p.Words * p.WordBits() }

// Blind turns the numbers of wrong splits of block b into its result.
func Blind[C any](bl *Blinding, m Machine[C], b int, wrong C) (Result[C], error) {
	p := bl.plan
	half, random := p.Slots/2, &uniform{from: bl.from}
	by, swap := int(random.below(uint64(half))), random.below(2) == 1
	moved, err := wrong, error(nil)
	for j := 1; j < half && err == nil; j *= 2 {
		if by&j != 0 {
			moved, err = m.Back(moved, j)
		}
	}
	if swap && err == nil {
		moved, err = m.Swap(moved)
	}
	if err != nil {
		return Result[C]{}, err
	}
	places := make(map[int][]int64, len(p.Blocks[b].Places))
	for _, place := range p.Blocks[b].Places {
		slot := place.Slot/half*half + (place.Slot%half+by)%half
		if swap {
			slot = (slot + half) % p.Slots
		}
		places[slot] = place.Leaf
	}
	return blindMoved(bl, random, m, moved, places, p.Blocks[b].Tree)
}

// blindMoved multiplies by random numbers at the places and fills every other slot with random ones.
func blindMoved[C any](
	bl *Blinding, random *uniform, m Machine[C], moved C, places map[int][]int64, tree int,
) (Result[C], error) {
	p := bl.plan
	var out Result[C]
	plains := func(value func(leaf []int64) uint64, least uint64) (C, error) {
		mul, add := make([]uint64, p.Slots), make([]uint64, p.Slots)
		for s := range mul {
			r := least + random.below(p.T-least)
			if leaf, is := places[s]; is {
				mul[s], add[s] = r, value(leaf)
			} else {
				add[s] = r
			}
		}
		if random.err != nil {
			return moved, random.err
		}
		c, err := m.MulPlain(moved, mul)
		if err != nil {
			return c, err
		}
		return m.AddPlain(c, add)
	}
	var err error
	if out.Test, err = plains(func([]int64) uint64 { return 0 }, 1); err != nil {
		return out, err
	}
	for o := range p.Outputs {
		for w := range p.Words {
			c, err := plains(func(leaf []int64) uint64 {
				return (uint64(leaf[o]) + bl.shares[tree][o]) >> (w * p.WordBits()) & (1<<p.WordBits() - 1)
			}, 0)
			if err != nil {
				return out, err
			}
			out.Values = append(out.Values, c)
		}
	}
	return out, nil
}

// Run evaluates all blocks, workers of them at a time, and returns their results in a random order. The reader of
// randomness must be safe for concurrent use if workers is more than 1.
func Run[C any](p *Plan, m Machine[C], random io.Reader, workers int) ([]Result[C], error) {
	bl, err := p.NewBlinding(random)
	if err != nil {
		return nil, err
	}
	out := make([]Result[C], len(p.Blocks))
	err = Each(len(out), workers, func(i int) error {
		wrong, err := Wrong(p, m, bl.Order[i])
		if err != nil {
			return err
		}
		out[i], err = Blind(bl, m, bl.Order[i], wrong)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Each calls f for every number below n, from several workers. It returns the first error, after which it starts
// nothing more.
func Each(n, workers int, f func(i int) error) error {
	var (
		mu    sync.Mutex
		next  int
		first error
		group sync.WaitGroup
	)
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if first != nil || next == n {
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range max(1, min(workers, n)) {
		group.Go(func() {
			for i, more := take(); more; i, more = take() {
				if err := f(i); err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return first
}

// Shape is what the key holder must know to open results.
type Shape struct {
	Trees, Outputs, Words, WordBits int
}

// Shape returns the shape of the plan's results.
func (p *Plan) Shape() Shape { return Shape{p.Trees, p.Outputs, p.Words, p.WordBits()} }

// Open returns the sums of the outputs from decrypted results. It fails unless there is one zero for each tree, if
// lengths differ, and for an impossible shape.
func (s Shape) Open(results []Result[[]uint64]) ([]int64, error) {
	if s.Outputs < 1 || s.Words < 1 || s.WordBits < 1 || s.Words > 64 || s.WordBits > 64/s.Words {
		return nil, fmt.Errorf("%w: results of %d outputs with %d words of %d bits", ErrPlan, s.Outputs, s.Words,
			s.WordBits)
	}
	sums := make([]uint64, s.Outputs)
	zeros := 0
	for _, r := range results {
		if len(r.Values) != s.Outputs*s.Words {
			return nil, fmt.Errorf("%w: %d values in a block, not %d", ErrPlan, len(r.Values), s.Outputs*s.Words)
		}
		for slot, v := range r.Test {
			if v != 0 {
				continue
			}
			zeros++
			for i, values := range r.Values {
				if len(values) != len(r.Test) {
					return nil, fmt.Errorf("%w: %d and %d slots", ErrPlan, len(values), len(r.Test))
				}
				sums[i/s.Words] += values[slot] << (i % s.Words * s.WordBits)
			}
		}
	}
	if zeros != s.Trees {
		return nil, fmt.Errorf("%w: %d leaves found for %d trees: the results do not belong together",
			ErrPlan, zeros, s.Trees)
	}
	out := make([]int64, s.Outputs)
	shift := 64 - s.Words*s.WordBits
	for o, v := range sums {
		out[o] = int64(v<<shift) >> shift
	}
	return out, nil
}

// uniform draws numbers below a bound; after an error it draws zeros.
type uniform struct {
	from io.Reader
	buf  []byte
	err  error
}

func (u *uniform) below(n uint64) uint64 {
	mask := uint64(1)<<bits.Len64(n-1) - 1
	for u.err == nil {
		if len(u.buf) < 8 {
			u.buf = make([]byte, 1<<12)
			if _, u.err = io.ReadFull(u.from, u.buf); u.err != nil {
				break
			}
		}
		v := uint64(0)
		for _, b := range u.buf[:8] {
			v = v<<8 | uint64(b)
		}
		u.buf = u.buf[8:]
		if v &= mask; v < n {
			return v
		}
	}
	return 0
}
