package henc

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// LinearTransform is a public n x n matrix over the slots, n = N/2, given by its nonzero
// diagonals and encoded for one level. It is immutable and safe for concurrent use.
//
// With diagonal k as the vector d_k, slot j of the product is the sum over k of
// d_k[j]*z[j+k]. The sum runs in baby and giant steps (Halevi and Shoup, CRYPTO 2018, section 4;
// Bossuat et al., EUROCRYPT 2021, section 4). With the distance s of the diagonals and
// k = s*(b + B*g), 0 <= b < B,
//
//	result = sum over g of rotate_(s*B*g)(sum over b of rotate_(-s*B*g)(d_k) * rotate_(s*b)(z))
//
// The rotations of z are hoisted. The outer sum is by Horner's rule from both ends, so that
// it takes a key for +s*B and one for -s*B, whatever the number of giant steps. A baby step without a
// key of its own is made of those by s*2^i.
type LinearTransform struct {
	ctx    *Context
	level  int
	scale  float64
	steps  steps
	giants map[int][]term
}

// steps is how the rotations of a transform are cut into baby and giant steps.
type steps struct {
	stride int         // s
	size   int         // B
	lo, hi int         // range of g
	index  map[int]int // of each rotation 0..n-1, divided by s, centred where that is shorter
	babies []int       // rotations
}

// term is one encoded diagonal.
type term struct {
	baby  int // index into steps.babies
	value *cutrantt.Batch
}

// NewLinearTransform encodes the diagonals of a matrix at the given level and scale. Key k
// is the rotation that the diagonal belongs to, taken modulo N/2. A diagonal has N/2 values.
// The values are rounded to multiples of 1/scale in their coefficients, see Encoder. It fails
// with ErrMessage without a diagonal, for one of another length and where Encoder does, and with
// ErrLevel or ErrScale. Memory: one polynomial of LimbsAt(level) limbs for each diagonal.
func NewLinearTransform(
	ctx *Context, diagonals map[int][]complex128, level int, scale float64,
) (*LinearTransform, error) {
	const op = "linear transform"
	if err := ctx.ready(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if err := ctx.params.CheckScale(level, scale); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	n := ctx.params.Slots()
	byRotation := make(map[int][]complex128, len(diagonals))
	for k, d := range diagonals {
		r := (k%n + n) % n
		if len(d) != n || byRotation[r] != nil {
			return nil, fmt.Errorf("%s: %w: diagonal %d has %d values or is given twice; it needs %d", op, ErrMessage,
				k, len(d), n)
		}
		byRotation[r] = d
	}
	if len(byRotation) == 0 {
		return nil, fmt.Errorf("%s: %w: no diagonals", op, ErrMessage)
	}
	lt := &LinearTransform{
		ctx: ctx, level: level, scale: scale, steps: newSteps(n, slices.Sorted(maps.Keys(byRotation))),
		giants: map[int][]term{},
	}
	if err := lt.encode(byRotation); err != nil {
		lt.Free()
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return lt, nil
}

// TransformRotations are the rotations whose Galois keys a LinearTransform over n slots with
// these diagonals needs, ascending. There are none for an n outside 1..2^16.
func TransformRotations(n int, diagonals []int) []int { return transformRotations(n, diagonals, false) }

// LeastTransformRotations are the fewest that will do. A LinearTransform is slower with them.
func LeastTransformRotations(n int, diagonals []int) []int {
	return transformRotations(n, diagonals, true)
}

// TransformSwitches is the number of key switches of such a LinearTransform, with the keys of
// TransformRotations.
func TransformSwitches(n int, diagonals []int) int {
	s, ok := stepsOf(n, diagonals)
	if !ok {
		return 0
	}
	count := s.hi - s.lo
	for _, b := range s.babies {
		if b != 0 {
			count++
		}
	}
	return count
}

func transformRotations(n int, diagonals []int, least bool) []int {
	s, ok := stepsOf(n, diagonals)
	if !ok {
		return nil
	}
	all, few := s.rotations(false), s.rotations(true)
	if least && len(few) < len(all) {
		return few
	}
	return all
}

// stepsOf cuts the rotations of diagonals; ok is false without any, and for an n outside 1..2^16.
func stepsOf(n int, diagonals []int) (s steps, ok bool) {
	if n < 1 || n > 1<<(cutrantt.MaxLogN-1) || len(diagonals) == 0 {
		return s, false
	}
	ks := make([]int, len(diagonals))
	for i, k := range diagonals {
		ks[i] = (k%n + n) % n
	}
	slices.Sort(ks)
	return newSteps(n, slices.Compact(ks)), true
}

// newSteps cuts rotations, ascending in 0..n-1 and at least one.
func newSteps(n int, rotations []int) steps {
	s := steps{stride: n}
	for _, k := range rotations {
		for a := k; a != 0; {
			s.stride, a = a, s.stride%a
		}
	}
	plain, centred := map[int]int{}, map[int]int{}
	for _, k := range rotations {
		plain[k], centred[k] = k/s.stride, k/s.stride
		if 2*k > n {
			centred[k] -= n / s.stride
		}
	}
	s.index = plain
	lo, hi := span(plain)
	if l, h := span(centred); h-l < hi-lo {
		s.index, lo, hi = centred, l, h
	}
	for s.size = 1; s.size*s.size < hi-lo+1; s.size *= 2 {
	}
	s.lo, s.hi = floorDiv(lo, s.size), floorDiv(hi, s.size)
	used := map[int]bool{}
	for _, i := range s.index {
		used[s.stride*(i-s.size*floorDiv(i, s.size))] = true
	}
	s.babies = slices.Sorted(maps.Keys(used))
	return s
}

// span is the smallest and the largest value.
func span(m map[int]int) (lo, hi int) {
	values := slices.Collect(maps.Values(m))
	return slices.Min(values), slices.Max(values)
}

func floorDiv(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// rotations are what the steps need keys for, ascending. With least the baby steps are made of those by
// the stride times powers of two.
func (s *steps) rotations(least bool) []int {
	var ks []int
	for _, b := range s.babies {
		if !least && b != 0 {
			ks = append(ks, b)
		}
		for rest := b; least && rest != 0; rest -= s.low(rest) {
			ks = append(ks, s.low(rest))
		}
	}
	if s.lo < 0 {
		ks = append(ks, -s.size*s.stride)
	}
	if s.hi > 0 {
		ks = append(ks, s.size*s.stride)
	}
	slices.Sort(ks)
	return slices.Compact(ks)
}

// low is the least power of two, times the stride, that a baby step is the sum of others and.
func (s *steps) low(baby int) int { return baby / s.stride & (-baby / s.stride) * s.stride }

// encode rotates each diagonal to its giant step and encodes it.
func (lt *LinearTransform) encode(diagonals map[int][]complex128) error {
	n, s := lt.ctx.params.Slots(), &lt.steps
	turned := make([]complex128, n)
	for _, k := range slices.Sorted(maps.Keys(diagonals)) {
		g := floorDiv(s.index[k], s.size)
		by := ((g*s.size*s.stride)%n + n) % n
		for j := range turned {
			turned[(j+by)%n] = diagonals[k][j]
		}
		pt, err := lt.ctx.encoder.EncodeComplex(turned, lt.level, lt.scale)
		if err != nil {
			return fmt.Errorf("diagonal %d: %w", k, err)
		}
		baby, _ := slices.BinarySearch(s.babies, s.stride*(s.index[k]-s.size*g))
		lt.giants[g] = append(lt.giants[g], term{baby, pt.Value})
	}
	return nil
}

// Level is the level of the operand.
func (lt *LinearTransform) Level() int {
	if lt == nil {
		return 0
	}
	return lt.level
}

// Scale is the scale of the encoded matrix, by which the operand's scale is multiplied.
func (lt *LinearTransform) Scale() float64 {
	if lt == nil {
		return 0
	}
	return lt.scale
}

// Diagonals is the number of encoded diagonals.
func (lt *LinearTransform) Diagonals() int {
	if lt == nil {
		return 0
	}
	n := 0
	for _, terms := range lt.giants {
		n += len(terms)
	}
	return n
}

// Rotations are the rotations whose Galois keys make Transform fast, ascending. Those of
// LeastTransformRotations will do.
func (lt *LinearTransform) Rotations() []int {
	if lt == nil {
		return nil
	}
	return lt.steps.rotations(false)
}

// Free gives the memory of the diagonals back. The transform must not be used again.
func (lt *LinearTransform) Free() {
	if lt == nil {
		return
	}
	for _, terms := range lt.giants {
		for _, t := range terms {
			lt.ctx.ring.Free(t.value)
		}
	}
}

// Transform multiplies the slots of a by the matrix. The scales multiply and nothing is
// rescaled. It fails with ErrLevel unless a is at lt.Level(), with ErrNoKey without the keys of
// LeastTransformRotations, and with ErrScale where the product does not fit.
func (ev *Evaluator) Transform(a *Ciphertext, lt *LinearTransform) (*Ciphertext, error) {
	const op = "linear transform"
	if err := ev.valid(op, a); err != nil {
		return nil, err
	}
	if lt == nil || lt.ctx != ev.ctx {
		return nil, fmt.Errorf("%s: %w: the transform belongs to another context", op, ErrParams)
	}
	if a.Level != lt.level {
		return nil, fmt.Errorf("%s: %w: the ciphertext is at level %d, the transform is for %d", op, ErrLevel, a.Level,
			lt.level)
	}
	scale := a.Scale * lt.scale
	if err := ev.ctx.params.CheckScale(lt.level, scale); err != nil {
		return nil, fmt.Errorf("%s: result at 2^%.1f: %w", op, math.Log2(scale), err)
	}
	turned, err := ev.turn(a, &lt.steps)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	sums, err := ev.inner(lt, turned, scale)
	ev.free(turned...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	out, err := ev.outer(lt, sums)
	ev.free(sums...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return out, nil
}

// turn rotates a by every baby step: hoisted where there are keys, and the others by one more rotation
// of an earlier step.
func (ev *Evaluator) turn(a *Ciphertext, s *steps) ([]*Ciphertext, error) {
	keyed := func(k int) bool {
		return k == 0 || ev.keys != nil && ev.keys.Galois[GaloisElement(ev.ctx.params, k)] != nil
	}
	if !slices.ContainsFunc(s.babies, func(b int) bool { return !keyed(b) }) {
		return ev.RotateMany(a, s.babies)
	}
	from := map[int][]int{} // baby steps, by the one that they are made of
	var add func(b int)
	add = func(b int) {
		parent := 0
		if !keyed(b) {
			if parent = b - s.low(b); parent != 0 {
				add(parent)
			}
		}
		if !slices.Contains(from[parent], b) {
			from[parent] = append(from[parent], b)
		}
	}
	for _, b := range s.babies {
		add(b)
	}
	made := map[int]*Ciphertext{}
	for _, parent := range slices.Sorted(maps.Keys(from)) { // each before what is made of it
		source, ks := a, slices.Clone(from[parent])
		if parent != 0 {
			source = made[parent]
		}
		for i := range ks {
			ks[i] -= parent
		}
		next, err := ev.RotateMany(source, ks)
		if err != nil {
			ev.free(slices.Collect(maps.Values(made))...)
			return nil, err
		}
		for i, b := range from[parent] {
			made[b] = next[i]
		}
	}
	out := make([]*Ciphertext, len(s.babies))
	for i, b := range s.babies {
		out[i] = made[b]
		delete(made, b)
	}
	ev.free(slices.Collect(maps.Values(made))...)
	return out, nil
}

// inner is the inner sums, of the giant steps from lo to hi: nil where there are no diagonals.
func (ev *Evaluator) inner(lt *LinearTransform, turned []*Ciphertext, scale float64) ([]*Ciphertext, error) {
	var used []int
	var rows [][]*cutrantt.Batch
	for g := lt.steps.lo; g <= lt.steps.hi; g++ {
		if len(lt.giants[g]) == 0 {
			continue
		}
		row := make([]*cutrantt.Batch, len(turned))
		for _, t := range lt.giants[g] {
			row[t.baby] = t.value
		}
		used, rows = append(used, g-lt.steps.lo), append(rows, row)
	}
	made, err := ev.ctx.results(
		"inner sums", lt.level, 1, len(rows), scale, func(c *chain.Chain, out []*Ciphertexts) {
			sums, factors := make([]*cutrantt.Batch, len(out)), make([]*cutrantt.Batch, len(turned))
			for i, r := range out {
				sums[i] = r.whole
			}
			for i, t := range turned {
				factors[i] = t.Value
			}
			c.Do(func() error { return cutrantt.SumProducts(ev.ctx.ring, sums, factors, rows) })
		},
	)
	if err != nil {
		return nil, err
	}
	sums := make([]*Ciphertext, lt.steps.hi-lt.steps.lo+1)
	for i, at := range used {
		sums[at] = made[i].At(0)
	}
	return sums, nil
}

// outer is the sum of the inner sums, each rotated to its giant step. It frees or returns those that it has used
// and sets them to nil.
func (ev *Evaluator) outer(lt *LinearTransform, sums []*Ciphertext) (*Ciphertext, error) {
	s := &lt.steps
	take := func(g int) *Ciphertext {
		if g < s.lo || g > s.hi {
			return nil
		}
		sum := sums[g-s.lo]
		sums[g-s.lo] = nil
		return sum
	}
	by := s.size * s.stride
	var ends [2]*Ciphertext // of the giant steps that are left from 1 up, and from -1 down
	for g := max(s.hi, -s.lo); g > 0; g-- {
		var err error
		for i, next := range []*Ciphertext{take(g), take(-g)} {
			if ends[i], err = ev.plus(ends[i], next); err != nil {
				ev.free(ends[1-i])
				return nil, err
			}
		}
		turned, err := ev.rotateBoth(ends, by)
		ev.free(ends[:]...)
		if err != nil {
			return nil, err
		}
		ends = turned
	}
	sum, err := ev.plus(ends[0], ends[1])
	if err != nil {
		return nil, err
	}
	return ev.plus(sum, take(0))
}

// rotateBoth rotates the first by as many slots and the second back, either of which may be nil.
func (ev *Evaluator) rotateBoth(cts [2]*Ciphertext, by int) (out [2]*Ciphertext, err error) {
	const op = "rotate"
	var at []int
	var items []cutrantt.KeySwitch
	for i, k := range []int{by, -by} {
		if cts[i] == nil {
			continue
		}
		g := GaloisElement(ev.ctx.params, k)
		key, err := ev.galois(fmt.Sprintf("%s by %d", op, k), g, cts[i].Level)
		if err != nil {
			return out, err
		}
		at, items = append(at, i), append(items, cutrantt.KeySwitch{Key: key, Galois: g})
	}
	if len(at) == 0 {
		return out, nil
	}
	first := cts[at[0]]
	made, err := ev.ctx.results(
		op, first.Level, 1, len(at), first.Scale, func(c *chain.Chain, made []*Ciphertexts) {
			for i := range items {
				halves := c.Each(cts[at[i]].Value, 1)
				if c.Err() != nil {
					return
				}
				items[i].Dst, items[i].Low, items[i].X = made[i].whole, halves[0], halves[1]
			}
			c.Do(func() error { return cutrantt.SwitchKeys(ev.ctx.ring, ev.ctx.gadget(), items) })
		},
	)
	if err != nil {
		return out, err
	}
	for i, to := range at {
		out[to] = made[i].At(0)
	}
	return out, nil
}

// plus is the sum of a and b, either of which may be nil. It frees them, or returns one of them.
func (ev *Evaluator) plus(a, b *Ciphertext) (*Ciphertext, error) {
	if a == nil {
		return b, nil
	}
	if b == nil {
		return a, nil
	}
	defer ev.free(b)
	if err := ev.ctx.ring.Add(a.Value, a.Value, b.Value); err != nil {
		ev.free(a)
		return nil, err
	}
	return a, nil
}

// free gives ciphertexts back; nil is left alone.
func (ev *Evaluator) free(cts ...*Ciphertext) {
	for _, ct := range cts {
		if ct != nil {
			ev.ctx.ring.Free(ct.Value)
		}
	}
}
