package conformance

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
)

// TestMulTensor compares products of ciphertexts, squares among them, with the
// reference, which composes them; one and several items.
func TestMulTensor(t *testing.T) {
	eachFused(t, func(t *testing.T, b cutrantt.Backend, logN, n2 int) {
		g := newRig(t, b, logN, moduli(t, logN, 3), cutrantt.MethodAuto)
		limbs, d := []int{2, 0, 1}, cutrantt.NTT(n2)
		var dst, x, y []pair
		for i := range 3 {
			x = append(x, g.batch(limbs, d, patterns[i%len(patterns)], random))
			y = append(y, g.batch(limbs, d, largest, patterns[(i+4)%len(patterns)]))
			dst = append(dst, g.blank(3, limbs, cutrantt.Coeffs(1)))
		}
		y = append(y[:2], x[2]) // the last is a square
		for _, c := range [][2]int{{0, 1}, {2, 3}, {0, 3}} {
			g.many(fmt.Sprintf("products %d to %d", c[0], c[1]), dst[c[0]:c[1]],
				func(r cutrantt.Ring, of func([]pair) []*cutrantt.Batch) error {
					return cutrantt.MulTensor(r, of(dst[c[0]:c[1]]), of(x[c[0]:c[1]]), of(y[c[0]:c[1]]))
				})
		}
	})
}

// TestDivRoundsFew divides by few limbs, with columns of 2^11 and 2^12, for which GPUs
// have kernels of their own.
func TestDivRoundsFew(t *testing.T) {
	eachGPU(t, func(t *testing.T, b cutrantt.Backend) {
		for _, n2 := range []int{2, 1} {
			g := newRig(t, b, 12, moduli(t, 12, 4), cutrantt.MethodAuto)
			for _, keep := range []int{1, 3} {
				limbs := []int{1, 0, 2, 3} // the small modulus is kept
				x, y := g.batch(limbs, cutrantt.NTT(n2), random, extremes), g.blank(2, limbs[:keep], cutrantt.Coeffs(1))
				g.many(fmt.Sprintf("n2 = %d: divide 4 limbs to %d", n2, keep), []pair{y},
					func(r cutrantt.Ring, of func([]pair) []*cutrantt.Batch) error {
						return cutrantt.DivRounds(r, of([]pair{y}), of([]pair{x}))
					})
			}
		}
	})
}

// TestDivRoundsLong divides with columns of 2^14, for which GPUs have a kernel that makes no images: batches, in place,
// and the ends of key switches with sums and with images. It compares with the CPU, as the reference is slow there.
func TestDivRoundsLong(t *testing.T) {
	eachGPU(t, func(t *testing.T, b cutrantt.Backend) {
		g := newRig(t, b, 14, moduli(t, 14, 8), cutrantt.MethodAuto)
		var err error
		g.ref, err = cpu.New().NewRing(14, g.ring.Moduli(), cutrantt.Options{})
		g.ok(err)
		d, limbs := cutrantt.NTT(1), []int{1, 0, 2, 3}
		var dst, src []pair
		for i := range 2 {
			src = append(src, g.batch(limbs, d, []pattern{random, largest}[i], extremes))
			dst = append(dst, g.blank(2, limbs[:2], cutrantt.Coeffs(1)))
		}
		g.many("divide 4 limbs to 2", dst, func(r cutrantt.Ring, of func([]pair) []*cutrantt.Batch) error {
			return cutrantt.DivRounds(r, of(dst), of(src))
		})
		leading := g.slice(src[0], 0, 2, 0, 3)
		g.run("divide in place", leading, func(r cutrantt.Ring, of func(pair) *cutrantt.Batch) error {
			return r.DivRound(of(leading), of(src[0]))
		})
		for _, c := range []switchCase{
			{what: "long columns, a sum of one", alpha: 2, limbs: 3, keep: 3, lows: 1, items: 2},
			{what: "long columns, turned", alpha: 2, limbs: 3, keep: 3, lows: 2, items: 1, galois: []uint64{5}},
			{what: "long columns, merged", alpha: 2, limbs: 3, keep: 2, lows: 2, items: 1},
		} {
			g.switchKeys(c, d)
		}
	})
}

// TestDivRounds compares division of several batches at once with the reference.
func TestDivRounds(t *testing.T) {
	eachFused(t, func(t *testing.T, b cutrantt.Backend, logN, n2 int) {
		g := newRig(t, b, logN, moduli(t, logN, 6), cutrantt.MethodAuto)
		for _, keep := range []int{1, 4} {
			var dst, src []pair
			for range 3 {
				src = append(src, g.batch(upTo(6), cutrantt.NTT(n2), random, extremes))
				dst = append(dst, g.blank(2, upTo(keep), cutrantt.Coeffs(1)))
			}
			g.many(fmt.Sprintf("divide 6 limbs to %d", keep), dst,
				func(r cutrantt.Ring, of func([]pair) []*cutrantt.Batch) error {
					return cutrantt.DivRounds(r, of(dst), of(src))
				})
		}
	})
}

// TestCollect compares copies of several batches to one with the reference: whole
// batches and views of some limbs, and batches that do not fit.
func TestCollect(t *testing.T) {
	eachFused(t, func(t *testing.T, b cutrantt.Backend, logN, n2 int) {
		g := newRig(t, b, logN, moduli(t, logN, 4), cutrantt.MethodAuto)
		d := cutrantt.NTT(n2)
		var src []pair
		for i := range 3 {
			src = append(src, g.batch([]int{1, 0, 2, 3}, d, patterns[i%len(patterns)], random))
		}
		leading := func(all []*cutrantt.Batch, limbs int) (out []*cutrantt.Batch) {
			for _, x := range all {
				v, err := x.Slice(0, 2, 0, limbs)
				g.ok(err)
				out = append(out, v)
			}
			return out
		}
		for _, limbs := range []int{4, 2} {
			for _, n := range []int{1, 3} {
				dst := g.blank(2*n, []int{1, 0, 2, 3}[:limbs], cutrantt.Coeffs(1))
				g.many(fmt.Sprintf("%d limbs of %d batches", limbs, n), []pair{dst},
					func(r cutrantt.Ring, of func([]pair) []*cutrantt.Batch) error {
						return cutrantt.Collect(r, of([]pair{dst})[0], leading(of(src[:n]), limbs))
					})
			}
		}
		small, x := g.blank(2, []int{1, 0, 2, 3}, d).got, src[0].got
		for what, c := range map[string]struct {
			dst  *cutrantt.Batch
			src  []*cutrantt.Batch
			want error
		}{
			"too much":         {small, []*cutrantt.Batch{x, src[1].got}, cutrantt.ErrShape},
			"other limbs":      {small, leading([]*cutrantt.Batch{x}, 3), cutrantt.ErrShape},
			"itself":           {x, []*cutrantt.Batch{x}, cutrantt.ErrShape},
			"nothing":          {small, nil, cutrantt.ErrForeign},
			"no batch":         {small, []*cutrantt.Batch{nil}, cutrantt.ErrForeign},
			"no place":         {nil, []*cutrantt.Batch{x}, cutrantt.ErrForeign},
			"different shapes": {small, []*cutrantt.Batch{x, leading([]*cutrantt.Batch{x}, 2)[0]}, cutrantt.ErrShape},
		} {
			if err := cutrantt.Collect(g.ring, c.dst, c.src); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", what, err, c.want)
			}
		}
	})
}

// switchCase is key switches of one shape.
type switchCase struct {
	what         string
	alpha, limbs int
	keep, lows   int // keep 0: all limbs and the special ones, so that nothing is divided
	items        int
	galois       []uint64
	hoisted      bool
	wholeLow     bool  // the sums have the special limbs too
	of, at       []int // whose source each item has, and its place among results side by side
}

// TestSwitchKeys compares key switches with the reference: digits of one and of
// several limbs, a short last digit, sums of one and two polynomials, merged with
// rescaling, turned, hoisted, and several at once under different keys.
func TestSwitchKeys(t *testing.T) {
	eachFused(t, func(t *testing.T, b cutrantt.Backend, logN, n2 int) {
		method := cutrantt.MethodAuto
		if n2 == 4 {
			method = cutrantt.MethodToomCook4 // keys in a form of their own
		}
		g := newRig(t, b, logN, moduli(t, logN, 8), method)
		for _, c := range []switchCase{
			{what: "one limb a digit", alpha: 1, limbs: 5, keep: 5, items: 1},
			{what: "short last digit, sum", alpha: 2, limbs: 5, keep: 5, lows: 2, items: 1},
			{what: "one digit, merged", alpha: 5, limbs: 5, keep: 3, lows: 2, items: 1},
			{what: "merged with a sum of one", alpha: 2, limbs: 5, keep: 4, lows: 1, items: 2},
			{what: "lower level, turned", alpha: 2, limbs: 3, keep: 3, lows: 1, items: 1, galois: []uint64{5}},
			{what: "hoisted", alpha: 3, limbs: 5, keep: 5, lows: 1, items: 3,
				galois: []uint64{25, 1, uint64(2<<logN - 1)}, hoisted: true},
			{what: "independent", alpha: 2, limbs: 5, keep: 5, lows: 2, items: 3, galois: []uint64{0, 5, 3}},
		} {
			if n2 <= 2 && c.keep != c.limbs || n2 == 1 && c.items > 1 {
				continue // the reference is slow there
			}
			g.switchKeys(c, cutrantt.NTT(n2))
		}
	})
}

// TestSwitchKeysWhole: key switches whose sums are not divided, and results that lie side by side and do not.
func TestSwitchKeysWhole(t *testing.T) {
	eachFused(t, func(t *testing.T, b cutrantt.Backend, logN, n2 int) {
		g := newRig(t, b, logN, moduli(t, logN, 8), cutrantt.MethodAuto)
		for _, c := range []switchCase{
			{what: "not divided", alpha: 2, limbs: 5, items: 1},
			{what: "not divided, hoisted", alpha: 3, limbs: 5, lows: 1, items: 4,
				galois: []uint64{25, 1, uint64(2<<logN - 1), 7}, hoisted: true},
			{what: "not divided, whole sums", alpha: 2, limbs: 3, lows: 2, items: 2, galois: []uint64{5, 3},
				wholeLow: true},
			{what: "not divided, each of a source of its own", alpha: 3, limbs: 5, lows: 1, items: 3, wholeLow: true,
				galois: []uint64{25, 7, uint64(2<<logN - 1)}, at: []int{0, 1, 2}},
			{what: "not divided, of two sources by turns", alpha: 3, limbs: 5, lows: 1, items: 6,
				galois: []uint64{25, 1, 7, 25, 1, 7}, of: []int{0, 0, 0, 1, 1, 1}, at: []int{0, 2, 4, 1, 3, 5}},
		} {
			g.switchKeys(c, cutrantt.NTT(n2))
		}
	})
}

// switchKeys compares one case with the reference.
func (g *rig) switchKeys(c switchCase, d cutrantt.Domain) {
	g.Helper()
	q, special := []int{3, 0, 1, 4, 2}, []int{5, 6}
	gadget := cutrantt.Gadget{Alpha: c.alpha, Special: special}
	key := func() (k [2]cutrantt.Operand) {
		p := g.batch([]int{3, 0, 7, 1, 4, 2, 5, 6}, d, patternsFor(2*gadget.Digits(c.limbs))...) // one limb more
		var err error
		k[0], err = g.ring.Precompute(p.got)
		g.ok(err)
		k[1], err = g.ref.Precompute(p.want)
		g.ok(err)
		return k
	}
	to, added := q[:c.keep], q[:c.limbs]
	if c.keep == 0 {
		to = slices.Concat(q[:c.limbs], special)
	}
	if c.wholeLow {
		added = to
	}
	results := g.blank(2*c.items, to, cutrantt.Coeffs(1)) // side by side, but for the last
	var dst, x, low []pair
	var keys [][2]cutrantt.Operand
	for i := range c.items {
		switch {
		case c.of != nil && slices.Index(c.of, c.of[i]) < i:
			x = append(x, x[slices.Index(c.of, c.of[i])])
		case !c.hoisted || i == 0:
			x = append(x, g.batch(q[:c.limbs], d, patterns[(i+c.alpha)%2*3]))
		default:
			x = append(x, x[0])
		}
		if c.lows > 0 {
			low = append(low, g.batch(added, d, patternsFor(c.lows)...))
		}
		switch {
		case c.at != nil:
			dst = append(dst, g.slice(results, 2*c.at[i], 2*c.at[i]+2, 0, len(to)))
		case i < max(c.items-1, 1):
			dst = append(dst, g.slice(results, 2*i, 2*i+2, 0, len(to)))
		default:
			dst = append(dst, g.blank(2, to, cutrantt.Coeffs(1)))
		}
		keys = append(keys, key())
	}
	g.many(c.what, dst, func(r cutrantt.Ring, of func([]pair) []*cutrantt.Batch) error {
		items := make([]cutrantt.KeySwitch, c.items)
		for i := range items {
			items[i] = cutrantt.KeySwitch{Dst: of(dst)[i], X: of(x)[i], Key: keys[i][0]}
			if r != g.ring {
				items[i].Key = keys[i][1]
			}
			if c.lows > 0 {
				items[i].Low = of(low)[i]
			}
			if c.galois != nil {
				items[i].Galois = c.galois[i]
			}
		}
		return cutrantt.SwitchKeys(r, gadget, items)
	})
	for _, p := range append(x, low...) {
		g.same("source of "+c.what, p)
	}
}

// TestSumProducts compares sums of products with the reference: more sums than a kernel makes at a time, more
// products than an accumulator takes, products that are left out, sums of none, factors at their largest, and flat
// ones.
func TestSumProducts(t *testing.T) {
	eachFused(t, func(t *testing.T, b cutrantt.Backend, logN, n2 int) {
		g := newRig(t, b, logN, moduli(t, logN, 3), cutrantt.MethodAuto)
		limbs, d := []int{2, 0, 1}, cutrantt.NTT(n2)
		for _, c := range []struct {
			sums, terms, polys, gaps int
			flat                     bool
		}{
			{1, 1, 2, 0, false}, {2, 3, 2, 2, false}, {5, 9, 2, 4, false}, {4, 13, 2, 0, false}, {3, 2, 3, 5, false},
			{5, 4, 4, 3, false}, {3, 5, 6, 4, false}, {1, 1, 2, 0, true}, {5, 9, 2, 4, true}, {4, 27, 2, 0, true},
			{3, 13, 4, 5, true},
		} {
			var dst, a []pair
			factors := make([][]pair, c.sums)
			for t := range c.terms {
				fill := []pattern{largest, patterns[t%len(patterns)], random, extremes, alternating, random}
				a = append(a, g.batch(limbs, d, fill[:c.polys]...))
			}
			for i := range factors {
				dst = append(dst, g.blank(c.polys, limbs, cutrantt.Coeffs(1)))
				for t := range c.terms {
					if c.gaps > 0 && (i*c.terms+t)%c.gaps == 1 || c.gaps > 0 && i == 1 {
						factors[i] = append(factors[i], pair{})
						continue
					}
					fill := []pattern{largest, random, extremes}[(i+t/9)%3]
					if c.flat {
						fill = firstColumn(fill, 1<<logN/n2)
					}
					factors[i] = append(factors[i], g.batch(limbs, d, fill))
				}
			}
			what := fmt.Sprintf("%d sums of %d products of %d polynomials", c.sums, c.terms, c.polys)
			g.many(what, dst, func(r cutrantt.Ring, of func([]pair) []*cutrantt.Batch) error {
				rows := make([][]*cutrantt.Batch, c.sums)
				for i := range rows {
					rows[i] = of(factors[i])
				}
				return cutrantt.SumProducts(r, of(dst), of(a), rows, c.flat)
			})
			for _, p := range a {
				g.same("shared factor of "+what, p)
			}
		}
	})
}

// TestOneKey compares key switches of many items under one key with the reference:
// GPUs of servers then have the sums from the tensor cores, 16 items at a time, where a
// digit's and a key's residues at their largest meet 16 at once.
func TestOneKey(t *testing.T) {
	eachGPU(t, func(t *testing.T, b cutrantt.Backend) { // elsewhere items are one after the other
		g := newRig(t, b, 10, moduli(t, 10, 7), cutrantt.MethodAuto)
		d := cutrantt.NTT(4)
		q, special := []int{3, 0, 1, 4, 2}, []int{5, 6}
		for _, c := range []struct{ alpha, limbs, keep, lows, items int }{
			{1, 4, 4, 0, 32}, // 4 digits
			{1, 5, 5, 1, 33}, // 5: too many for it
			{2, 5, 4, 2, 49}, // 3, merged with a rescaling
			{2, 4, 3, 1, 34}, // 2, likewise
			{5, 5, 5, 2, 31}, // 1, and too few items
			{5, 5, 5, 2, 32},
		} {
			gadget := cutrantt.Gadget{Alpha: c.alpha, Special: special}
			what := fmt.Sprintf("%d items of %d digits", c.items, gadget.Digits(c.limbs))
			p := g.batch([]int{3, 0, 1, 4, 2, 5, 6}, d, append(patternsFor(2*gadget.Digits(c.limbs)-1), largest)...)
			var keys [2]cutrantt.Operand
			var err error
			keys[0], err = g.ring.Precompute(p.got)
			g.ok(err)
			keys[1], err = g.ref.Precompute(p.want)
			g.ok(err)
			var dst, x, low []pair
			for i := range c.items {
				x = append(x, g.batch(q[:c.limbs], d, patterns[(i+3)%len(patterns)]))
				if c.lows > 0 {
					low = append(low, g.batch(q[:c.limbs], d, patternsFor(c.lows)...))
				}
				dst = append(dst, g.blank(2, q[:c.keep], cutrantt.Coeffs(1)))
			}
			g.many(what, dst, func(r cutrantt.Ring, of func([]pair) []*cutrantt.Batch) error {
				items := make([]cutrantt.KeySwitch, c.items)
				for i := range items {
					items[i] = cutrantt.KeySwitch{Dst: of(dst)[i], X: of(x)[i], Key: keys[0]}
					if r != g.ring {
						items[i].Key = keys[1]
					}
					if c.lows > 0 {
						items[i].Low = of(low)[i]
					}
				}
				return cutrantt.SwitchKeys(r, gadget, items)
			})
		}
	})
}

// TestFusedRefuses: what the items have to agree in.
func TestFusedRefuses(t *testing.T) {
	eachBackend(t, func(t *testing.T, b cutrantt.Backend) {
		r, err := b.NewRing(10, moduli(t, 10, 5), cutrantt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := cutrantt.NTT(4)
		batch := func(polys int, limbs []int, d cutrantt.Domain) *cutrantt.Batch {
			x, err := cutrantt.NewResult(r, polys, limbs, d)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Wipe(x); err != nil {
				t.Fatal(err)
			}
			return x
		}
		q := []int{0, 1, 2}
		x, low, dst := batch(1, q, d), batch(2, q, d), batch(2, q, d)
		key, err := r.Precompute(batch(4, upTo(5), d))
		if err != nil {
			t.Fatal(err)
		}
		good := cutrantt.KeySwitch{Dst: dst, X: x, Low: low, Key: key}
		gadget := cutrantt.Gadget{Alpha: 2, Special: []int{3, 4}}
		if err := cutrantt.SwitchKeys(r, gadget, []cutrantt.KeySwitch{good}); err != nil {
			t.Fatal(err)
		}
		with := func(f func(*cutrantt.KeySwitch)) []cutrantt.KeySwitch {
			k := good
			f(&k)
			return []cutrantt.KeySwitch{k}
		}
		type item = cutrantt.KeySwitch
		for _, c := range []struct {
			what   string
			gadget cutrantt.Gadget
			items  []item
			want   error
		}{
			{"no digit", cutrantt.Gadget{Special: []int{3}}, []item{good}, cutrantt.ErrShape},
			{"no special modulus", cutrantt.Gadget{Alpha: 2}, []item{good}, cutrantt.ErrShape},
			{"an unknown special modulus", cutrantt.Gadget{Alpha: 2, Special: []int{9}}, []item{good},
				cutrantt.ErrShape},
			{"a special modulus of X", cutrantt.Gadget{Alpha: 2, Special: []int{2}}, []item{good}, cutrantt.ErrShape},
			{"no key", gadget, with(func(k *item) { k.Key = nil }), cutrantt.ErrForeign},
			{"nothing to switch", gadget, with(func(k *item) { k.X = nil }), cutrantt.ErrForeign},
			{"no result", gadget, with(func(k *item) { k.Dst = nil }), cutrantt.ErrForeign},
			{"coefficients", gadget, with(func(k *item) { k.X = batch(1, q, cutrantt.Coeffs(4)) }), cutrantt.ErrDomain},
			{"another layout", gadget, with(func(k *item) { k.X = batch(1, q, cutrantt.NTT(8)) }), cutrantt.ErrShape},
			{"two polynomials", gadget, with(func(k *item) { k.X = low }), cutrantt.ErrShape},
			{"a result of one polynomial", gadget, with(func(k *item) { k.Dst = batch(1, q, d) }), cutrantt.ErrShape},
			{"limbs that do not lead", gadget, with(func(k *item) { k.Dst = batch(2, []int{1, 2}, d) }),
				cutrantt.ErrShape},
			{"a sum of three", gadget, with(func(k *item) { k.Low = batch(3, q, d) }), cutrantt.ErrShape},
			{"a sum of other limbs", gadget, with(func(k *item) { k.Low = batch(2, q[:2], d) }), cutrantt.ErrShape},
			{"the result in the sum", gadget, with(func(k *item) { k.Low = dst }), cutrantt.ErrShape},
			{"too few digits in the key", cutrantt.Gadget{Alpha: 1, Special: []int{3, 4}}, []item{good},
				cutrantt.ErrShape},
			{"an even element", gadget, with(func(k *item) { k.Galois = 4 }), cutrantt.ErrRange},
			{"a large element", gadget, with(func(k *item) { k.Galois = 2049 }), cutrantt.ErrRange},
			{"one result twice", gadget, []item{good, good}, cutrantt.ErrShape},
		} {
			wantErr(t, c.what, cutrantt.SwitchKeys(r, c.gadget, c.items), c.want)
		}
		refuseProducts(t, r, d, batch)
	})
}

// refuseProducts: what the factors of products, and the sources of quotients, have to agree in.
func refuseProducts(t *testing.T, r cutrantt.Ring, d cutrantt.Domain,
	batch func(polys int, limbs []int, d cutrantt.Domain) *cutrantt.Batch) {
	t.Helper()
	type list = []*cutrantt.Batch
	q := []int{0, 1, 2}
	low, dst, three := batch(2, q, d), batch(2, q, d), batch(3, q, d)
	wantErr(t, "products of two factors", cutrantt.MulTensor(r, list{three}, list{low, low}, list{low, low}),
		cutrantt.ErrShape)
	wantErr(t, "a product of two polynomials", cutrantt.MulTensor(r, list{dst}, list{low}, list{low}),
		cutrantt.ErrShape)
	wantErr(t, "a product without a factor", cutrantt.MulTensor(r, list{three}, list{low}, list{nil}),
		cutrantt.ErrForeign)
	wantErr(t, "a product of coefficients",
		cutrantt.MulTensor(r, list{three}, list{batch(2, q, cutrantt.Coeffs(4))}, list{low}), cutrantt.ErrDomain)
	one, two := batch(1, q, d), list{low}
	for _, c := range []struct {
		what   string
		dst, a list
		b      []list
		want   error
	}{
		{"sums of other rows", list{dst}, two, nil, cutrantt.ErrShape},
		{"sums of nothing", list{dst}, nil, []list{nil}, cutrantt.ErrForeign},
		{"a row too short", list{dst}, two, []list{{}}, cutrantt.ErrShape},
		{"a factor of two polynomials", list{dst}, two, []list{{low}}, cutrantt.ErrShape},
		{"a factor of other limbs", list{dst}, two, []list{{batch(1, q[:2], d)}}, cutrantt.ErrShape},
		{"a factor of coefficients", list{dst}, two, []list{{batch(1, q, cutrantt.Coeffs(4))}}, cutrantt.ErrDomain},
		{"shared factors of other shapes", list{dst}, list{low, one}, []list{{one, one}}, cutrantt.ErrShape},
		{"a sum of one polynomial", list{batch(1, q, d)}, two, []list{{one}}, cutrantt.ErrShape},
		{"a sum that is nothing", list{nil}, two, []list{{one}}, cutrantt.ErrForeign},
		{"a sum in its factor", list{low}, two, []list{{one}}, cutrantt.ErrShape},
		{"one sum twice", list{dst, dst}, two, []list{{one}, {one}}, cutrantt.ErrShape},
		{"other layouts", list{dst}, two, []list{{batch(1, q, cutrantt.NTT(8))}}, cutrantt.ErrDomain},
	} {
		wantErr(t, c.what, cutrantt.SumProducts(r, c.dst, c.a, c.b, false), c.want)
	}
	wantErr(t, "quotients of other shapes", cutrantt.DivRounds(r, list{batch(2, q[:1], d), batch(2, q[:2], d)},
		list{low, dst}), cutrantt.ErrShape)
	wantErr(t, "a quotient in its source", cutrantt.DivRounds(r, list{low}, list{low}), cutrantt.ErrShape)
	wantErr(t, "a quotient of nothing", cutrantt.DivRounds(r, list{low}, list{nil}), cutrantt.ErrForeign)
	wantErr(t, "a quotient that is nothing", cutrantt.DivRounds(r, list{nil}, list{low}), cutrantt.ErrForeign)
}

// eachFused runs f for every backend but the reference: those that compose with
// two numbers of columns, as the operations themselves are tested with all.
func eachFused(t *testing.T, f func(t *testing.T, b cutrantt.Backend, logN, n2 int)) {
	eachCompared(t, func(t *testing.T, b cutrantt.Backend) {
		r, err := b.NewRing(10, moduli(t, 10, 1), cutrantt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, fused := r.(cutrantt.Fused)
		for _, n2 := range columns {
			// The CPU fuses with one column, and takes the steps otherwise.
			if n2 == 4 || fused && (n2 == 1 || b.Name() != "cpu") {
				t.Run(fmt.Sprintf("n2=%d", n2), func(t *testing.T) { f(t, b, 10, n2) })
			}
		}
	})
}

// patternsFor is count patterns, not all alike.
func patternsFor(count int) []pattern {
	p := make([]pattern, count)
	for i := range p {
		p[i] = patterns[i*5%len(patterns)]
	}
	return p
}

// many is run for several results.
func (g *rig) many(what string, dst []pair, op func(r cutrantt.Ring, of func([]pair) []*cutrantt.Batch) error) {
	g.Helper()
	side := func(f func(pair) *cutrantt.Batch) func([]pair) []*cutrantt.Batch {
		return func(ps []pair) []*cutrantt.Batch {
			out := make([]*cutrantt.Batch, len(ps))
			for i, p := range ps {
				out[i] = f(p)
			}
			return out
		}
	}
	if err := op(g.ring, side(func(p pair) *cutrantt.Batch { return p.got })); err != nil {
		g.Fatalf("%s: %v", what, err)
	}
	if err := op(g.ref, side(func(p pair) *cutrantt.Batch { return p.want })); err != nil {
		g.Fatalf("%s: reference: %v", what, err)
	}
	for i, p := range dst {
		g.same(fmt.Sprintf("%s, item %d", what, i), p)
	}
}
