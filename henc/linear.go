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
// The rotations of z are hoisted twice: they share the digits of z, and they and their sums have the special primes too
// (double hoisting, section 4.2 there), so that a division by these comes once for each giant step and once at
// the end, and not for each rotation. The giant steps are taken side by side, each with a key of its own. Without one
// of these keys the outer sum is by Horner's rule from both ends, so that
// it takes a key for +s*B and one for -s*B, whatever the number of giant steps. A baby step without a
// key of its own is made of those by s*2^i.
type LinearTransform struct {
	ctx    *Context
	level  int
	limbs  []int // of the diagonals: those of the level, and the special ones if anything is rotated
	scale  float64
	steps  steps
	giants map[int][]term
	flat   bool // the diagonals are polynomials in X^N2
}

// steps is how the rotations of a transform are cut into baby and giant steps.
type steps struct {
	stride int          // s
	size   int          // B
	lo, hi int          // range of g
	index  map[int]int  // of each rotation 0..n-1, divided by s, centred where that is shorter
	babies []int        // rotations
	used   map[int]bool // giant steps with a diagonal
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
// ErrLevel or ErrScale. Memory: for each diagonal one polynomial of LimbsAt(level) limbs and, unless there is none
// but diagonal 0, of the special ones.
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
		giants: map[int][]term{}, limbs: ctx.params.QLimbs(level),
	}
	if lt.steps.rotates() {
		lt.limbs = append(lt.limbs, ctx.params.PLimbs()...)
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
	return len(s.rotations(false)) // each has a key of its own, and two steps never the same
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
	// A baby step is cheaper than a giant one, which has digits and a division of its own.
	for s.size = 1; s.size*s.size < 2*(hi-lo+1) && hi > lo; s.size *= 2 {
	}
	s.lo, s.hi = floorDiv(lo, s.size), floorDiv(hi, s.size)
	babies := map[int]bool{}
	s.used = map[int]bool{}
	for _, i := range s.index {
		g := floorDiv(i, s.size)
		babies[s.stride*(i-s.size*g)], s.used[g] = true, true
	}
	s.babies = slices.Sorted(maps.Keys(babies))
	return s
}

// rotates reports whether there is a rotation but that by 0.
func (s *steps) rotates() bool {
	return s.lo != 0 || s.hi != 0 || len(s.babies) > 1 || s.babies[0] != 0
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
// the stride times powers of two, and the giant steps of each other.
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
	if least && s.lo < 0 {
		ks = append(ks, s.giant(-1))
	}
	if least && s.hi > 0 {
		ks = append(ks, s.giant(1))
	}
	for g := range s.used {
		if !least && g != 0 {
			ks = append(ks, s.giant(g))
		}
	}
	slices.Sort(ks)
	return slices.Compact(ks)
}

// giant is the rotation of a giant step.
func (s *steps) giant(g int) int { return g * s.size * s.stride }

// low is the least power of two, times the stride, that a baby step is the sum of others and.
func (s *steps) low(baby int) int { return baby / s.stride & (-baby / s.stride) * s.stride }

// encode rotates each diagonal to its giant step and encodes it. Where the values of all repeat after n/gap slots, they
// are polynomials in X^gap: what rounding leaves in their other coefficients is dropped.
func (lt *LinearTransform) encode(diagonals map[int][]complex128) error {
	n, s := lt.ctx.params.Slots(), &lt.steps
	turned := make([]complex128, n)
	gap := n
	for _, d := range diagonals {
		gap = min(gap, n/period(d))
	}
	lt.flat = gap%lt.ctx.N2() == 0
	for _, k := range slices.Sorted(maps.Keys(diagonals)) {
		g := floorDiv(s.index[k], s.size)
		by := ((g*s.size*s.stride)%n + n) % n
		for j := range turned {
			turned[(j+by)%n] = diagonals[k][j]
		}
		pt, err := lt.ctx.encoder.encode(lt.level, lt.scale, lt.limbs, func() ([]float64, error) {
			coeffs, err := lt.ctx.encoder.EncodeCoeffs(turned, lt.scale)
			for i := range coeffs {
				if i%gap != 0 {
					coeffs[i] = 0
				}
			}
			return coeffs, err
		})
		if err != nil {
			return fmt.Errorf("diagonal %d: %w", k, err)
		}
		baby, _ := slices.BinarySearch(s.babies, s.stride*(s.index[k]-s.size*g))
		lt.giants[g] = append(lt.giants[g], term{baby, pt.Value})
	}
	return nil
}

// period is the least power of two after which the values repeat. Their number is a power of two.
func period(values []complex128) int {
	p := len(values)
	for p > 1 && slices.Equal(values[:p/2], values[p/2:p]) {
		p /= 2
	}
	return p
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
	if err := ev.valid(opTransform, a); err != nil {
		return nil, err
	}
	return first(ev.batch().Transform(alone(a), lt))
}

const opTransform = "linear transform"

// Transform is Evaluator.Transform for each item. Items under one evaluator's keys share what is read: on a GPU
// every key and every diagonal of the matrix comes from memory once for all of them. Memory: for each item, two
// polynomials for each baby step and four for each giant one, over the limbs of the diagonals.
func (be *BatchEvaluator) Transform(a *Ciphertexts, lt *LinearTransform) (*Ciphertexts, error) {
	return be.TransformRescale(a, lt, 0)
}

// TransformRescale is Transform followed by levels rescalings, 0 to lt.Level(). The division by the special primes does
// them at once, so that there is one rounding. It fails like Transform and Rescale.
func (be *BatchEvaluator) TransformRescale(a *Ciphertexts, lt *LinearTransform, levels int) (*Ciphertexts, error) {
	const op = opTransform
	if err := be.valid(op, a); err != nil {
		return nil, err
	}
	if lt == nil || lt.ctx != be.ctx {
		return nil, fmt.Errorf("%s: %w: the transform belongs to another context", op, ErrParams)
	}
	if a.level != lt.level {
		return nil, fmt.Errorf("%s: %w: the ciphertext is at level %d, the transform is for %d", op, ErrLevel, a.level,
			lt.level)
	}
	scale := a.scale * lt.scale
	if err := be.ctx.params.CheckScale(lt.level, scale); err != nil {
		return nil, fmt.Errorf("%s: result at 2^%.1f: %w", op, math.Log2(scale), err)
	}
	if levels < 0 || levels > lt.level {
		return nil, fmt.Errorf("%s: %w: cannot rescale %d times at level %d", op, ErrLevel, levels, lt.level)
	}
	for level := lt.level; level > lt.level-levels; level-- {
		var err error
		if scale, err = be.evs[0].rescaled(level, scale); err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
	}
	return be.result(op, lt.level-levels, scale, func(c *chain.Chain, out *Ciphertexts) {
		t := transformer{be: be, lt: lt, chain: c, domain: be.ctx.Domain()}
		if lt.steps.rotates() {
			t.outer(out.whole, t.turn(a))
			return
		}
		product := out.whole
		if levels > 0 {
			product = c.Result(product.Polys(), be.ctx.params.QLimbs(lt.level), t.domain)
		}
		c.Op3(be.ctx.ring.Mul, product, be.joined(c, a), lt.giants[0][0].value)
		if levels > 0 {
			c.Op2(be.ctx.ring.DivRound, out.whole, product)
		}
	})
}

// transformer is a Transform at work. Its batches have the special limbs, but for what it says, and two polynomials
// for each item: those of one step lie next to each other, so that a GPU that takes key switches in the order of their
// results reads each key once.
type transformer struct {
	be     *BatchEvaluator
	lt     *LinearTransform
	chain  *chain.Chain
	domain cutrantt.Domain
}

// items is how many ciphertexts there are.
func (t *transformer) items() int { return len(t.be.evs) }

// key is the prepared key of item i for a rotation.
func (t *transformer) key(i, k int) (key cutrantt.Operand, galois uint64) {
	galois = GaloisElement(t.be.ctx.params, k)
	t.chain.Do(func() (err error) {
		key, err = t.be.evs[i].galois(fmt.Sprintf("rotate by %d", k), galois, t.lt.level)
		return err
	})
	return key, galois
}

// switchAll switches the items.
func (t *transformer) switchAll(items []cutrantt.KeySwitch) {
	t.chain.Do(func() error { return cutrantt.SwitchKeys(t.be.ctx.ring, t.be.ctx.gadget(), items) })
}

// divided is b over the special primes, rounded: without their limbs.
func (t *transformer) divided(b *cutrantt.Batch) *cutrantt.Batch {
	out := t.chain.Result(b.Polys(), t.be.ctx.params.QLimbs(t.lt.level), t.domain)
	t.chain.Op2(t.be.ctx.ring.DivRound, out, b)
	return out
}

// turn rotates a by every baby step, times the special primes: hoisted where there are keys, and the others by one
// more rotation of an earlier step.
func (t *transformer) turn(a *Ciphertexts) []*cutrantt.Batch {
	s, c, n := &t.lt.steps, t.chain, t.items()
	all := c.Result(2*n*len(s.babies), t.lt.limbs, t.domain)
	out := c.Each(all, 2*n)
	if c.Err() != nil {
		return nil
	}
	steps := make([]turning, n)
	for i := range steps {
		steps[i] = turning{from: t.parents(t.be.evs[i]), whole: map[int]*cutrantt.Batch{0: a.items[i]}}
	}
	at := func(b, i int) *cutrantt.Batch {
		k, ok := slices.BinarySearch(s.babies, b)
		if !ok { // a step only on the way to others
			return c.Result(2, t.lt.limbs, t.domain)
		}
		return c.View(out[k], 2*i, 2*i+2, 0, len(t.lt.limbs))
	}
	if s.babies[0] == 0 && a.whole != nil {
		t.lift(out[0], a.whole)
	} else if s.babies[0] == 0 {
		for i, item := range a.items {
			t.lift(at(0, i), item)
		}
	}
	for _, parent := range parentsOf(steps) { // each before what is made of it
		var items []cutrantt.KeySwitch
		for i := range steps {
			items = append(items, t.children(&steps[i], parent, i, at)...)
		}
		if c.Err() != nil {
			return nil
		}
		t.switchAll(items)
		for i := range steps {
			for _, b := range steps[i].from[parent] {
				if steps[i].from[b] != nil && b != 0 {
					steps[i].whole[b] = t.divided(steps[i].made[b])
				}
			}
		}
	}
	return out
}

// turning is how the baby steps of one item are made.
type turning struct {
	from  map[int][]int           // see parents
	whole map[int]*cutrantt.Batch // of those that others are made of, without special limbs
	made  map[int]*cutrantt.Batch // of the last parent
}

// parentsOf are the steps that others are made of, of all items, ascending.
func parentsOf(steps []turning) []int {
	var all []int
	for i := range steps {
		all = slices.AppendSeq(all, maps.Keys(steps[i].from))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// children are the key switches for the baby steps of item i that are made of parent. at is where they go.
func (t *transformer) children(
	s *turning, parent, i int, at func(b, i int) *cutrantt.Batch,
) (items []cutrantt.KeySwitch) {
	s.made = map[int]*cutrantt.Batch{}
	if len(s.from[parent]) == 0 {
		return nil
	}
	halves := t.chain.Each(s.whole[parent], 1)
	for _, b := range s.from[parent] {
		if b == 0 {
			continue
		}
		key, g := t.key(i, b-parent)
		if t.chain.Err() != nil {
			return nil
		}
		s.made[b] = at(b, i)
		items = append(items, cutrantt.KeySwitch{Dst: s.made[b], X: halves[1], Low: halves[0], Key: key, Galois: g})
	}
	return items
}

// parents are the baby steps under the keys of ev, by the one that they are made of: 0 where there is a key.
func (t *transformer) parents(ev *Evaluator) map[int][]int {
	s, from := &t.lt.steps, map[int][]int{}
	keyed := func(k int) bool {
		return k == 0 || ev.keys != nil && ev.keys.Galois[GaloisElement(t.be.ctx.params, k)] != nil
	}
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
	return from
}

// lift sets dst to the product of the special primes times b, which has no special limbs.
func (t *transformer) lift(dst, b *cutrantt.Batch) {
	c, r, own := t.chain, t.be.ctx.ring, len(b.Limbs())
	c.Do(func() error { dst.SetDomain(t.domain); return nil })
	factors := t.be.ctx.gadget().Product(r.Moduli(), b.Limbs())
	low, special := c.View(dst, 0, b.Polys(), 0, own), c.View(dst, 0, b.Polys(), own, len(t.lt.limbs))
	c.Do(func() error {
		once := []cutrantt.Term{{Of: []*cutrantt.Batch{b}, By: factors}}
		return cutrantt.Combine(r, []*cutrantt.Batch{low}, once, nil, false)
	})
	c.Do(func() error { return r.Wipe(special) })
}

// inner is the inner sums, of the giant steps from lo to hi: nil where there are no diagonals. Those that are rotated
// lie next to each other, so that one launch divides all of them. With images, room for their images follows the sum of
// giant step 0: they are added up where they lie.
func (t *transformer) inner(turned []*cutrantt.Batch, images bool) (sums []*cutrantt.Batch, room *cutrantt.Batch) {
	s, c, n := &t.lt.steps, t.chain, 2*t.items()
	order := t.rotated()
	still := len(order)
	slots := still
	if s.used[0] {
		order, slots = append(order, 0), slots+1
	}
	if images {
		slots += still
	}
	all := c.Result(n*slots, t.lt.limbs, t.domain)
	if images {
		room = c.View(all, n*still, n*slots, 0, len(t.lt.limbs))
	}
	dst := c.Each(all, n)
	if c.Err() != nil {
		return nil, nil
	}
	dst = dst[:len(order)]
	sums = make([]*cutrantt.Batch, s.hi-s.lo+1)
	rows := make([][]*cutrantt.Batch, len(order))
	for i, g := range order {
		rows[i] = make([]*cutrantt.Batch, len(turned))
		for _, d := range t.lt.giants[g] {
			rows[i][d.baby] = d.value
		}
		sums[g-s.lo] = dst[i]
	}
	c.Do(func() error { return cutrantt.SumProducts(t.be.ctx.ring, dst, turned, rows, t.lt.flat) })
	return sums, room
}

// rotated are the giant steps but 0, ascending.
func (t *transformer) rotated() []int {
	gs := slices.Sorted(maps.Keys(t.lt.steps.used))
	return slices.DeleteFunc(gs, func(g int) bool { return g == 0 })
}

// outer sets dst to the sum of the inner sums, each rotated to its giant step, over the special primes and those that
// dst has not. What way each item takes follows from its own keys alone.
func (t *transformer) outer(dst *cutrantt.Batch, turned []*cutrantt.Batch) {
	direct := 0
	for _, ev := range t.be.evs {
		if t.hasGiants(ev) {
			direct++
		}
	}
	if direct == 0 || direct == t.items() {
		sums, room := t.inner(turned, direct > 0)
		t.outerOf(dst, sums, room)
		return
	}
	c := t.chain
	sums, _ := t.inner(turned, false)
	for i, ev := range t.be.evs {
		part := func(b *cutrantt.Batch) *cutrantt.Batch {
			if b == nil || c.Err() != nil {
				return nil
			}
			return c.View(b, 2*i, 2*i+2, 0, len(b.Limbs()))
		}
		one, its := *t, make([]*cutrantt.Batch, len(sums))
		one.be = ev.batch()
		for g, sum := range sums {
			its[g] = part(sum)
		}
		if c.Err() != nil {
			return
		}
		var room *cutrantt.Batch
		if t.hasGiants(ev) {
			room = one.roomFor(its)
		}
		one.outerOf(part(dst), its, room)
	}
}

// roomFor is the room of inner for sums that lie elsewhere.
func (t *transformer) roomFor(sums []*cutrantt.Batch) *cutrantt.Batch {
	c, n, slots := t.chain, 2*t.items(), len(t.lt.steps.used)
	room := c.Result(n*slots, t.lt.limbs, t.domain)
	if t.lt.steps.used[0] {
		c.Op2(t.be.ctx.ring.Copy, c.View(room, 0, n, 0, len(t.lt.limbs)), sums[-t.lt.steps.lo])
	}
	return room
}

// hasGiants reports whether ev has a key for each giant step.
func (t *transformer) hasGiants(ev *Evaluator) bool {
	for _, g := range t.rotated() {
		k := GaloisElement(t.be.ctx.params, t.lt.steps.giant(g))
		if ev.keys == nil || ev.keys.Galois[k] == nil {
			return false
		}
	}
	return true
}

// outerOf is outer for items that go the same way: with room that of inner, without it Horner's.
func (t *transformer) outerOf(dst *cutrantt.Batch, sums []*cutrantt.Batch, room *cutrantt.Batch) {
	var sum *cutrantt.Batch
	if room != nil {
		sum = t.sideBySide(sums, room)
	} else {
		sum = t.horner(sums)
	}
	t.chain.Op2(t.be.ctx.ring.DivRound, dst, sum)
}

// sideBySide is the sum of the inner sums, each rotated by a key switch of its own. It overwrites what room has.
func (t *transformer) sideBySide(sums []*cutrantt.Batch, room *cutrantt.Batch) *cutrantt.Batch {
	s, c, n := &t.lt.steps, t.chain, 2*t.items()
	var turned []*cutrantt.Batch
	var by []int
	for _, g := range t.rotated() {
		turned, by = append(turned, sums[g-s.lo]), append(by, s.giant(g))
	}
	left := len(s.used)
	if len(turned) > 0 {
		t.rotateAll(c.View(room, n*(left-len(turned)), n*left, 0, len(t.lt.limbs)), turned, by)
	}
	all := c.Each(c.View(room, 0, n*left, 0, len(t.lt.limbs)), n)
	if c.Err() != nil {
		return nil
	}
	var others []cutrantt.Term // are added to the first
	for _, b := range all[1:] {
		others = append(others, cutrantt.Term{Of: []*cutrantt.Batch{b}})
	}
	c.Do(func() error { return cutrantt.Combine(t.be.ctx.ring, all[:1], others, nil, true) })
	return all[0]
}

// horner is the sum of the inner sums, by rotations to the next giant step only.
func (t *transformer) horner(sums []*cutrantt.Batch) *cutrantt.Batch {
	s, c := &t.lt.steps, t.chain
	take := func(g int) *cutrantt.Batch {
		if g < s.lo || g > s.hi || c.Err() != nil {
			return nil
		}
		return sums[g-s.lo]
	}
	var ends [2]*cutrantt.Batch // of the giant steps that are left from 1 up, and from -1 down
	for g := max(s.hi, -s.lo); g > 0; g-- {
		for i, next := range []*cutrantt.Batch{take(g), take(-g)} {
			ends[i] = t.plus(ends[i], next)
		}
		var at, by []int
		var turned []*cutrantt.Batch
		for end, k := range []int{s.giant(1), s.giant(-1)} {
			if ends[end] != nil {
				at, by, turned = append(at, end), append(by, k), append(turned, ends[end])
			}
		}
		if len(turned) == 0 {
			continue
		}
		all := c.Result(2*t.items()*len(turned), t.lt.limbs, t.domain)
		t.rotateAll(all, turned, by)
		for i, next := range c.Each(all, 2*t.items()) {
			ends[at[i]] = next
		}
	}
	return t.plus(t.plus(ends[0], ends[1]), take(0))
}

// rotateAll rotates each of cts by its number of slots, all in one set of key switches. Their images lie next to each
// other in dst.
func (t *transformer) rotateAll(dst *cutrantt.Batch, cts []*cutrantt.Batch, by []int) {
	c, n := t.chain, t.items()
	var items []cutrantt.KeySwitch
	var second []*cutrantt.Batch
	for k, ct := range cts {
		for i := range n {
			key, g := t.key(i, by[k])
			items = append(items, cutrantt.KeySwitch{Low: c.Poly(ct, 2*i), Key: key, Galois: g})
			second = append(second, c.Poly(ct, 2*i+1))
		}
	}
	divided := c.Each(c.Result(len(items), t.be.ctx.params.QLimbs(t.lt.level), t.domain), 1)
	results := c.Each(dst, 2)
	c.Do(func() error { return cutrantt.DivRounds(t.be.ctx.ring, divided, second) })
	if c.Err() != nil {
		return
	}
	for i := range items {
		items[i].Dst, items[i].X = results[i], divided[i]
	}
	t.switchAll(items)
}

// plus is the sum of a and b, either of which may be nil. It overwrites a.
func (t *transformer) plus(a, b *cutrantt.Batch) *cutrantt.Batch {
	if a == nil {
		return b
	}
	if b != nil {
		t.chain.Op3(t.be.ctx.ring.Add, a, a, b)
	}
	return a
}
