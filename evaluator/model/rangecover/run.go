package rangecover

import (
	"fmt"
	"io"
	"math/bits"
	"slices"
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
	// SumPlain is the sum of as[i] times plains[i], at least one.
	SumPlain(as []C, plains [][]uint64) (C, error)
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
func Wrong[C any](p *Plan, m Machine[C], b int) (C, error) { return wrongs(p, m, b, 1) }

// wrongs is Wrong by so many workers.
func wrongs[C any](p *Plan, m Machine[C], b, workers int) (C, error) {
	block := &p.Blocks[b]
	var none C
	factors := make([]C, len(block.Forms))
	err := Each(len(factors), workers, func(i int) (err error) {
		factors[i], err = m.Form(b, i)
		return err
	})
	if err != nil {
		return none, err
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
	return blind(bl, m, b, wrong, 1)
}

// moved is a ciphertext after rotation, with where its places are then.
type moved[C any] struct {
	ct     C
	places []Place
}

// blind is Blind by so many workers.
func blind[C any](bl *Blinding, m Machine[C], b int, wrong C, workers int) (Result[C], error) {
	p := bl.plan
	block, random := &p.Blocks[b], &uniform{from: bl.from}
	if len(block.Parts) == 0 {
		one, err := turn(p, random, m, block, wrong)
		if err != nil {
			return Result[C]{}, err
		}
		return hide(bl, m, []moved[C]{one}, workers)
	}
	by := make([]int, len(block.Parts))
	for i := range by {
		by[i] = int(random.below(uint64(p.Segment)))
	}
	if random.err != nil {
		return Result[C]{}, random.err
	}
	all := make([]moved[C], 2*len(by))
	err := Each(len(by), workers, func(i int) (err error) {
		all[2*i], all[2*i+1], err = spin(p, m, &block.Parts[i], wrong, by[i])
		return err
	})
	if err != nil {
		return Result[C]{}, err
	}
	all = slices.DeleteFunc(all, func(one moved[C]) bool { return len(one.places) == 0 })
	return hide(bl, m, all, workers)
}

// turn rotates both rows by a random number of slots, and exchanges them or not.
func turn[C any](p *Plan, random *uniform, m Machine[C], block *Block, wrong C) (moved[C], error) {
	half := p.Slots / 2
	by, swap := int(random.below(uint64(half))), random.below(2) == 1
	out := moved[C]{}
	var err error
	if random.err != nil {
		return out, random.err
	}
	if out.ct, err = back(p, m, wrong, by); err == nil && swap {
		out.ct, err = m.Swap(out.ct)
	}
	for _, place := range block.Places {
		place.Slot = place.Slot/half*half + (place.Slot%half+by)%half
		if swap {
			place.Slot = (place.Slot + half) % p.Slots
		}
		out.places = append(out.places, place)
	}
	return out, err
}

// spin rotates the places of a part within its segment: by some slots, and those that would leave it a segment less.
// For a random number of slots each leaf is equally likely to be in each slot of the segment.
func spin[C any](p *Plan, m Machine[C], part *Part, wrong C, by int) (less, more moved[C], err error) {
	half := p.Slots / 2
	shift := part.To - part.First + by
	if less.ct, err = back(p, m, wrong, ((shift-p.Segment)%half+half)%half); err != nil {
		return less, more, err
	}
	more.ct = less.ct
	if p.Segment < half {
		more.ct, err = m.Back(less.ct, p.Segment)
	}
	for _, place := range part.Places {
		if place.Slot+shift < part.To+p.Segment {
			place.Slot += shift
			more.places = append(more.places, place)
		} else {
			place.Slot += shift - p.Segment
			less.places = append(less.places, place)
		}
	}
	return less, more, err
}

// back moves slot i-by to slot i in both rows.
func back[C any](p *Plan, m Machine[C], a C, by int) (C, error) {
	var err error
	for j := 1; j < p.Slots/2 && err == nil; j *= 2 {
		if by&j != 0 {
			a, err = m.Back(a, j)
		}
	}
	return a, err
}

// hide multiplies by random numbers at the places and fills every other slot with random ones.
func hide[C any](bl *Blinding, m Machine[C], all []moved[C], workers int) (Result[C], error) {
	p := bl.plan
	cts := make([]C, len(all))
	for i, one := range all {
		cts[i] = one.ct
	}
	plains := func(value func(at Place) uint64, least uint64) (C, error) {
		random := &uniform{from: bl.from}
		add, muls := make([]uint64, p.Slots), make([][]uint64, len(all))
		for s := range add {
			add[s] = least + random.below(p.T-least)
		}
		for i, one := range all {
			muls[i] = make([]uint64, p.Slots)
			for _, at := range one.places {
				muls[i][at.Slot], add[at.Slot] = add[at.Slot], value(at)
			}
		}
		if random.err != nil {
			var none C
			return none, random.err
		}
		c, err := m.SumPlain(cts, muls)
		if err != nil {
			return c, err
		}
		return m.AddPlain(c, add)
	}
	out := Result[C]{Values: make([]C, p.Outputs*p.Words)}
	err := Each(1+len(out.Values), workers, func(i int) (err error) {
		if i == 0 {
			out.Test, err = plains(func(Place) uint64 { return 0 }, 1)
			return err
		}
		o, w := (i-1)/p.Words, (i-1)%p.Words
		out.Values[i-1], err = plains(func(at Place) uint64 {
			return (uint64(at.Leaf[o]) + bl.shares[at.Tree][o]) >> (w * p.WordBits()) & (1<<p.WordBits() - 1)
		}, 0)
		return err
	})
	return out, err
}

// Run evaluates all blocks, workers of them at a time, and returns their results in a random order. The reader of
// randomness must be safe for concurrent use if workers is more than 1.
func Run[C any](p *Plan, m Machine[C], random io.Reader, workers int) ([]Result[C], error) {
	bl, err := p.NewBlinding(random)
	if err != nil {
		return nil, err
	}
	out := make([]Result[C], len(p.Blocks))
	within := max(1, workers/len(out)) // workers for each block, where these are few
	err = Each(len(out), workers, func(i int) error {
		wrong, err := wrongs(p, m, bl.Order[i], within)
		if err != nil {
			return err
		}
		out[i], err = blind(bl, m, bl.Order[i], wrong, within)
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
