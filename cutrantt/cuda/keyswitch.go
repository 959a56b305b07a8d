package cuda

import (
	"cmp"
	"fmt"
	"iter"
	"runtime"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
)

var _ cutrantt.Fused = (*ring)(nil)

func (r *ring) NewResult(polys int, limbs []int, d cutrantt.Domain) (*cutrantt.Batch, error) {
	if err := r.check.Shape(polys, limbs, d); err != nil {
		return nil, err
	}
	r.tune(int(d.N2))
	n := polys * len(limbs) * r.n
	m := r.reuse(n, r.backend.mapped)
	if m == nil {
		err := r.exec(func() (err error) {
			m, err = r.allocateKind(n, r.backend.mapped)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return cutrantt.MakeBatch(cutrantt.Shape{Polys: polys, Limbs: limbs, Domain: d}, r.n, m), nil
}

func (r *ring) MulTensor(dst, a, b []*cutrantt.Batch) error {
	if len(dst) == 0 {
		return nil
	}
	all := slices.Concat(dst, a, b)
	if err := r.check.Batches(all...); err != nil {
		return err
	}
	limbs, d := a[0].Limbs(), a[0].Domain()
	squares := 0
	items := make([]tensorItem, len(dst))
	for i := range dst {
		items[i] = tensorItem{a: r.tensor(a[i]), b: r.tensor(b[i]), dst: r.tensor(dst[i])}
		if items[i].a == items[i].b {
			squares++
		}
	}
	name := "tensor"
	if squares == len(dst) && (d.N2 == 4 || d.N2 == 8) { // where it has a kernel
		name = "square"
	}
	err := r.exec(func() error {
		for part := range slices.Chunk(items, mostItems) {
			if err := products(r, numbered(name, int(d.N2)), limbs, int(d.N2), args{}, part); err != nil {
				return err
			}
		}
		return nil
	}, all...)
	if err != nil {
		return err
	}
	for _, x := range dst {
		x.SetDomain(d)
	}
	return nil
}

// products queues a kernel of kernels/keyswitch.cu.
func products[A kernelArgs, I item](r *ring, name string, limbs []int, n2 int, a A, items []I) error {
	n1, p := r.n/n2, head(&a)
	t, err := r.twiddles(n1)
	if err != nil {
		return err
	}
	if p.limbs, err = r.list(limbs); err != nil {
		return err
	}
	p.tw, p.ts, p.logN2 = t.at, t.stride, uint32(log2(n2))
	return launchItems(r, name, len(items)*max(n1/(128*neighbours(n2)), 1), len(limbs), 128, 0, a, items)
}

// keySwitch is one item of SwitchKeys.
type keySwitch struct {
	dst, x, low, key tensor
	galois           uint64
	lowLimbs         int
}

func (r *ring) SwitchKeys(g cutrantt.Gadget, items []cutrantt.KeySwitch) error {
	if len(items) == 0 {
		return nil
	}
	first := items[0]
	limbs, keep, n2 := first.X.Limbs(), first.Dst.Limbs(), int(first.X.Domain().N2)
	all := slices.Concat(limbs, g.Special)
	if err := r.check.Shape(2, all, first.X.Domain()); err != nil {
		return err
	}
	raised := len(keep) == len(all)
	if raised && n2 != raisedColumns {
		return fmt.Errorf("%w: sums that are not divided, with %d columns", cutrantt.ErrNotSupported, n2)
	}
	if !r.converts(min(g.Alpha, len(limbs))) || !raised && !r.converts(len(all)-len(keep)) {
		return fmt.Errorf(
			"%w: a change of basis from more than %d limbs, or without tensor cores", cutrantt.ErrNotSupported,
			mostConverted,
		)
	}
	batches, work := make([]*cutrantt.Batch, 0, 3*len(items)), make([]keySwitch, len(items))
	lows := 0
	for i, it := range items {
		before := len(batches)
		if batches = append(batches, it.Dst, it.X); it.Low != nil {
			batches, lows = append(batches, it.Low), it.Low.Polys()
		}
		if err := r.check.Batches(batches[before:]...); err != nil {
			return err
		}
		o, ok := it.Key.(*operand)
		if !ok || o == nil || o.ring != r.base() || o.mem.Len() == 0 {
			return fmt.Errorf("%w: operand of another ring or backend, or released", cutrantt.ErrForeign)
		}
		if o.words != n2 {
			return fmt.Errorf("%w: the key is prepared for another method", cutrantt.ErrNotSupported)
		}
		r.recorded.noteKey(o)
		work[i] = keySwitch{dst: r.tensor(it.Dst), x: r.tensor(it.X), key: o.tensor(), galois: max(it.Galois, 1)}
		if it.Low != nil {
			work[i].low, work[i].lowLimbs = r.tensor(it.Low), len(it.Low.Limbs())
		}
	}
	most := r.mostSwitched(4*r.n*(g.Digits(len(limbs))*len(all)+3*len(all)+2*len(keep)), work, raised)
	err := r.exec(func() error {
		s, err := r.switching(g, limbs, keep, first.Key.Shape().Limbs, n2)
		if err != nil {
			return err
		}
		for part := range slices.Chunk(work, most) {
			if err := r.switchKeys(s, n2, lows, part); err != nil {
				return err
			}
		}
		return nil
	}, batches...)
	runtime.KeepAlive(items)
	if err != nil {
		return err
	}
	for _, it := range items {
		it.Dst.SetDomain(first.X.Domain())
	}
	return nil
}

// mostSwitched is how many of work, each of perItem bytes, are switched with one set of launches. Sums that are not
// divided need memory only for the digits of different X. They are sorted by their results: those that lie next to
// each other take one launch, and items under one key that follow one another read it from memory once.
func (r *ring) mostSwitched(perItem int, work []keySwitch, raised bool) int {
	most := max(min(r.backend.scratch/perItem, mostItems), 1)
	if !raised {
		return most
	}
	different := map[tensor]bool{}
	for _, it := range work {
		different[it.x] = true
	}
	if len(different) > most {
		return most
	}
	slices.SortStableFunc(work, func(a, b keySwitch) int { return cmp.Compare(a.dst.at, b.dst.at) })
	return mostItems
}

// switching is what a key switch of a shape needs, on the device.
type switching struct {
	digits                          int
	limbs, special, keep, all, drop []int
	up                              []int // modulus of each limb of all digits' extensions
	modUp                           conversion
	where                           []int   // limbs of all in the key
	sources                         pointer // of kernels/keyswitch.cu, inner
	factors                         pointer // P as a factor, for each of limbs
	ones                            pointer // 1 as a factor, for each of all
	words                           int     // of sources, factors and ones
	few                             few     // if digits have few limbs
}

// switching makes the constants of a shape once.
func (r *ring) switching(g cutrantt.Gadget, limbs, keep, key []int, n2 int) (*switching, error) {
	name := limbsKey([]byte{'s'}, []int{g.Alpha, len(keep), n2}, limbs, g.Special, key)
	if s, ok := r.switchings[string(name)]; ok {
		return s, nil
	}
	s := &switching{
		digits: g.Digits(len(limbs)), limbs: slices.Clone(limbs), special: slices.Clone(g.Special),
		all: slices.Concat(limbs, g.Special),
	}
	s.keep, s.drop = s.all[:len(keep)], s.all[len(keep):]
	for _, l := range s.all {
		at := slices.Index(key, l)
		if at < 0 {
			return nil, fmt.Errorf("%w: the key has no limb for modulus %d", cutrantt.ErrShape, l)
		}
		s.where = append(s.where, at)
	}
	parts := make([]part, s.digits)
	words := make([]uint32, len(s.all)*s.digits)
	for d := range parts {
		lo, hi := d*g.Alpha, min((d+1)*g.Alpha, len(limbs))
		p := part{from: s.all[lo:hi], first: lo}
		for i, l := range s.all {
			if lo <= i && i < hi {
				words[i*s.digits+d] = 1<<31 | uint32(i)
				continue
			}
			words[i*s.digits+d] = uint32(len(s.up))
			p.to, p.place = append(p.to, l), append(p.place, len(s.up))
			s.up = append(s.up, l)
		}
		parts[d] = p
	}
	var err error
	if s.modUp, err = r.conversion(append(name, 'u'), func() []part { return parts }); err != nil {
		return nil, err
	}
	if s.few, err = r.fewLimbs(slices.Clone(name), limbs, n2, func() []part { return parts }); err != nil {
		return nil, err
	}
	if len(words)%2 != 0 {
		words = append(words, 0)
	}
	sources := len(words)
	for i, c := range g.Product(r.check.Moduli(), limbs) {
		words = append(words, c, quotient(c, r.check.Moduli()[limbs[i]].Q))
	}
	factors := len(words)
	for _, l := range s.all {
		words = append(words, 1, quotient(1, r.check.Moduli()[l].Q))
	}
	s.words = len(words)
	if s.sources, err = r.constant(words); err != nil {
		return nil, err
	}
	s.factors, s.ones = s.sources+pointer(4*sources), s.sources+pointer(4*factors)
	r.switchings[string(name)] = s
	return s, nil
}

// switchKeys queues the launches for items: the inverse transform of X, the
// extension of all digits, their transform, the sums with the keys, and the
// division. lows is the number of polynomials of low.
func (r *ring) switchKeys(s *switching, n2, lows int, items []keySwitch) error {
	var free []func()
	defer func() {
		for _, f := range free {
			f()
		}
	}()
	scratch := func(polys, limbs int) (tensor, error) {
		t, release, err := r.scratch(polys, limbs)
		if err == nil {
			free = append(free, release)
		}
		return t, err
	}

	var xs []tensor // different ones
	which, place := make([]int, len(items)), map[tensor]int{}
	for i, it := range items {
		at, known := place[it.x]
		if !known {
			at = len(xs)
			place[it.x] = at
			xs = append(xs, it.x)
		}
		which[i] = at
	}
	coeffs, err := scratch(len(xs), len(s.limbs))
	if err != nil {
		return err
	}
	if err := r.inverseOf(coeffs, xs, 1, s.limbs, n2, s.few.last); err != nil {
		return err
	}
	digits, err := scratch(len(xs), len(s.up))
	if err != nil {
		return err
	}
	if err := r.extendDigits(digits, coeffs, len(xs), s, n2); err != nil {
		return err
	}
	if len(s.drop) == 0 {
		for at := range adjacent(items) {
			part := items[at.from:at.to]
			if err := r.inner(part[0].dst, digits, s, n2, lows, which[at.from:at.to], part); err != nil {
				return err
			}
		}
		return nil
	}
	acc, err := scratch(2*len(items), len(s.all))
	if err != nil {
		return err
	}
	if err := r.inner(acc, digits, s, n2, lows, which, items); err != nil {
		return err
	}
	merged := len(s.keep) < len(s.limbs)
	out := make([]divideItem, len(items))
	for i, it := range items {
		out[i] = divideItem{
			dst: it.dst, numbers: divideNumbers{galois: it.galois, lows: uint64(lows)}, from: acc.poly(2 * i),
		}
		if lows > 0 && !merged {
			out[i].low = it.low
		}
	}
	rest := acc.limb(len(s.keep), r.n)
	return r.divide(out, []tensor{rest}, 2, s.drop, s.keep, n2)
}

// raisedColumns is n2 of the kernel that writes images of sums which are not divided.
const raisedColumns = 4

type span struct{ from, to int }

// adjacent are the longest runs of items whose results lie next to each other.
func adjacent(items []keySwitch) iter.Seq[span] {
	return func(yield func(span) bool) {
		for from := 0; from < len(items); {
			to := from + 1
			for to < len(items) && items[to].dst == items[from].dst.poly(2*(to-from)) {
				to++
			}
			if !yield(span{from, to}) {
				return
			}
			from = to
		}
	}
}

// inverseOdd is the inverse of an odd number modulo 2^64.
func inverseOdd(g uint64) uint64 {
	x := g // right in three bits, and in twice as many each time
	for range 5 {
		x *= 2 - g*x
	}
	return x
}

// inner queues the sums of digits times keys. If nothing is dropped their images are the results.
func (r *ring) inner(acc, digits tensor, s *switching, n2, lows int, which []int, items []keySwitch) error {
	in := make([]innerItem, len(items))
	a := innerArgs{
		args:    args{dst: acc.at, ds: acc.stride},
		sources: s.sources, special: s.factors, digits: uint32(s.digits), lows: uint32(lows),
	}
	if lows > 0 && len(s.keep) != len(s.limbs) {
		if a.merged = uint32(items[0].lowLimbs); items[0].lowLimbs > len(s.limbs) {
			a.special = s.ones
		}
	}
	for i, it := range items {
		g := uint64(1)
		if len(s.drop) == 0 {
			g = it.galois
		}
		in[i] = innerItem{key: it.key, low: it.low, x: tensor{it.x.at, g},
			extension: tensor{digits.poly(which[i]).at, inverseOdd(g) & uint64(2*r.n-1)}}
	}
	var err error
	if a.at, err = r.list(s.where); err != nil {
		return err
	}
	if r.backend.oneKey && n2 == 4 && len(s.drop) > 0 && s.digits <= oneKeyDigits && len(items) >= leastOneKey &&
		sameKey(items) {
		return r.oneKey(s.all, a, in)
	}
	return products(r, numbered("inner", n2), s.all, n2, a, in)
}

// sameKey reports whether one key switches all items.
func sameKey(items []keySwitch) bool {
	for _, it := range items[1:] {
		if it.key != items[0].key {
			return false
		}
	}
	return true
}

// oneKey queues kernels/onekey.cu, with the arguments of inner.
func (r *ring) oneKey(limbs []int, a innerArgs, items []innerItem) error {
	t, err := r.twiddles(r.n / 4)
	if err != nil {
		return err
	}
	if a.limbs, err = r.list(limbs); err != nil {
		return err
	}
	a.tw, a.ts, a.logN2 = t.at, t.stride, 2
	for part := range slices.Chunk(items, mostOneKey) {
		a.items = uint32(len(part))
		if err := launchItems(
			r, "onekey_4", r.n/4/oneKeyRows, len(limbs), oneKeyThreads, oneKeyShared, a, part,
		); err != nil {
			return err
		}
		a.dst += pointer(4 * 2 * len(part) * int(a.ds))
	}
	return nil
}

// inverseOf queues the inverse transforms of polys polynomials at each of xs to
// dst, next to each other; last: see inverseTimes.
func (r *ring) inverseOf(dst tensor, xs []tensor, polys int, limbs []int, n2 int, last pointer) error {
	if len(xs) == 1 {
		return r.inverseTimes(dst, xs[0], polys, limbs, n2, last)
	}
	step := xs[1].at - xs[0].at
	even := polys == 1 && xs[1].at > xs[0].at
	for i := range xs[1:] {
		even = even && xs[i+1].at == xs[i].at+step
	}
	if even {
		return r.inverseTimes(dst, tensor{xs[0].at, uint64(step / 4)}, len(xs), limbs, n2, last)
	}
	if err := r.collectItems(dst, xs, polys, len(limbs)); err != nil {
		return err
	}
	return r.inverseTimes(dst, dst, len(xs)*polys, limbs, n2, last)
}

// collectItems queues copies of polys polynomials at each of xs to dst, next to each other.
func (r *ring) collectItems(dst tensor, xs []tensor, polys, limbs int) error {
	items := make([]collectItem, len(xs))
	for i, x := range xs {
		items[i] = collectItem{from: x}
	}
	for part := range slices.Chunk(items, mostItems) {
		a := collectArgs{args: args{dst: dst.at, ds: dst.stride}, polys: uint32(polys)}
		if err := launchItems(r, "collect", len(part)*polys*(r.n>>10), limbs, 256, 0, a, part); err != nil {
			return err
		}
		dst = dst.poly(len(part) * polys)
	}
	return nil
}

func (r *ring) Collect(dst *cutrantt.Batch, src []*cutrantt.Batch) error {
	if err := r.check.Batches(dst); err != nil {
		return err
	}
	if err := r.check.Batches(src...); err != nil {
		return err
	}
	xs := make([]tensor, len(src))
	for i, b := range src {
		xs[i] = r.tensor(b)
	}
	err := r.exec(func() error { return r.collectItems(r.tensor(dst), xs, src[0].Polys(), len(dst.Limbs())) },
		append(slices.Clip(src), dst)...)
	if err == nil {
		dst.SetDomain(src[0].Domain())
	}
	return err
}
