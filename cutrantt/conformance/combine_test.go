package conformance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

// TestCombine compares linear combinations with the reference, which takes the separate operations: none, few and more
// terms than a kernel takes, factors and residues at their largest, terms without factors, constants, results that are
// set and added to, views, and both domains.
func TestCombine(t *testing.T) {
	eachCompared(t, func(t *testing.T, b cutrantt.Backend) {
		for _, d := range []cutrantt.Domain{cutrantt.NTT(4), cutrantt.NTT(1), cutrantt.Coeffs(4)} {
			g := newRig(t, b, 11, moduli(t, 11, 4), cutrantt.MethodAuto)
			for _, c := range []struct {
				terms, items, polys  int
				constants, add, bare bool // bare: terms without factors
			}{
				{0, 3, 2, true, true, false}, {0, 2, 2, false, true, false}, {1, 1, 1, false, false, true},
				{1, 2, 2, true, true, true}, {3, 2, 2, false, false, false}, {3, 2, 2, true, true, false},
				{4, 1, 4, true, false, true}, {5, 2, 3, false, true, true}, {15, 2, 1, true, true, false},
				{33, 2, 2, true, false, false},
			} {
				g.combine(fmt.Sprintf("%v: %+v", d, c), d, c.terms, c.items, c.polys, c.constants, c.add, c.bare)
			}
		}
	})
}

// combine compares one combination. Its results and terms are two limbs and polys of polys+1 polynomials of larger
// batches, so that what is around them shows.
func (g *rig) combine(what string, d cutrantt.Domain, terms, items, polys int, constants, add, bare bool) {
	g.Helper()
	limbs := []int{3, 2, 0, 1}
	view := func(p pair) pair { return g.slice(p, 1, polys+1, 1, 3) }
	top := func(below uint32) (c []uint32) {
		for _, l := range limbs[1:3] {
			c = append(c, g.ring.Moduli()[l].Q-1-below)
		}
		return c
	}
	fill := func(i int) []pattern { return append(patternsFor(polys), patterns[i%len(patterns)]) }
	var whole, dst []pair
	for i := range items {
		x := g.batch(limbs, d, fill(i)...)
		whole, dst = append(whole, x), append(dst, view(x))
	}
	sources, by := make([][]pair, terms), make([][]uint32, terms)
	for k := range sources {
		for i := range items {
			f := fill(k + i)
			if k%2 == 0 {
				f = slices.Repeat([]pattern{largest}, polys+1)
			}
			sources[k] = append(sources[k], view(g.batch(limbs, d, f...)))
		}
		if !bare || k%2 == 1 {
			by[k] = top(uint32(k / 3))
		}
	}
	var added []uint32
	if constants {
		added = top(0)
	}
	g.many(what, dst, func(r cutrantt.Ring, of func([]pair) []*cutrantt.Batch) error {
		list := make([]cutrantt.Term, terms)
		for k := range list {
			list[k] = cutrantt.Term{Of: of(sources[k]), By: by[k]}
		}
		return cutrantt.Combine(r, of(dst), list, added, add)
	})
	for i := range items {
		g.same("around a result of "+what, whole[i])
		for k := range sources {
			g.same("a term of "+what, sources[k][i])
		}
	}
}

// TestCombineRefuses: results, terms and factors that do not fit together.
func TestCombineRefuses(t *testing.T) {
	eachBackend(t, func(t *testing.T, b cutrantt.Backend) {
		r, err := b.NewRing(10, moduli(t, 10, 3), cutrantt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		batch := func(polys int, limbs []int, d cutrantt.Domain) *cutrantt.Batch {
			x, err := r.NewBatch(polys, limbs, d)
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
		type list = []*cutrantt.Batch
		q, d := []int{0, 1, 2}, cutrantt.NTT(4)
		x, y, dst := batch(2, q, d), batch(2, q, d), batch(2, q, d)
		ones := []uint32{1, 1, 1}
		of := func(by []uint32, b ...*cutrantt.Batch) []cutrantt.Term { return []cutrantt.Term{{Of: b, By: by}} }
		for _, c := range []struct {
			what      string
			dst       list
			terms     []cutrantt.Term
			constants []uint32
			add       bool
			want      error
		}{
			{"nothing", list{dst}, nil, ones, false, cutrantt.ErrShape},
			{"no result", list{nil}, of(ones, x), nil, false, cutrantt.ErrForeign},
			{"no second result", list{dst, nil}, of(ones, x, y), nil, false, cutrantt.ErrForeign},
			{"no batch", list{dst}, of(ones, nil), nil, false, cutrantt.ErrForeign},
			{"a batch too few", list{dst}, of(ones), nil, false, cutrantt.ErrShape},
			{"other polynomials", list{dst}, of(ones, batch(1, q, d)), nil, false, cutrantt.ErrShape},
			{"other limbs", list{dst}, of(ones, batch(2, q[:2], d)), nil, false, cutrantt.ErrShape},
			{"another domain", list{dst}, append(of(ones, x), of(ones, batch(2, q, cutrantt.Coeffs(4)))...), nil, false,
				cutrantt.ErrDomain},
			{"added to another domain", list{batch(2, q, cutrantt.NTT(1))}, of(ones, x), nil, true, cutrantt.ErrDomain},
			{"results of two shapes", list{dst, batch(2, q[:2], d)}, of(ones, x, y), nil, false, cutrantt.ErrShape},
			{"a term that is the result", list{dst}, of(ones, dst), nil, true, cutrantt.ErrShape},
			{"one result twice", list{dst, dst}, of(ones, x, y), nil, false, cutrantt.ErrShape},
			{"a factor too few", list{dst}, of(ones[:2], x), nil, false, cutrantt.ErrShape},
			{"a factor too large", list{dst}, of([]uint32{1, 1, 1 << 31}, x), nil, false, cutrantt.ErrRange},
			{"a constant too many", list{dst}, of(ones, x), []uint32{1, 1, 1, 1}, false, cutrantt.ErrShape},
			{"a constant too large", list{dst}, of(nil, x), []uint32{1, 1 << 31, 1}, false, cutrantt.ErrRange},
		} {
			wantErr(t, c.what, cutrantt.Combine(r, c.dst, c.terms, c.constants, c.add), c.want)
		}
		if err := cutrantt.Combine(r, nil, nil, nil, false); err != nil {
			t.Error(err)
		}
	})
}
