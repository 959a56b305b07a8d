package main

import (
	"fmt"
	"strings"
)

// The forward transform for primes below 2^28: a butterfly is a product, a sum and a
// difference, five instructions, and residues grow by less than q in each level, as
// products of what is below 2^31 are in (-q, q). lazyPrime says which passes reduce
// first what they do not multiply: then |x| is below 5q/4.

// lazyModular starts a function with the constants of lazyPrime.words. precise is
// floor(2^38/q)*2^16 in every lane, coarse is 2^31/q, rounded but for an error of 1/128.
func (g *file) lazyModular(name, signature, doc string) (f *function, coarse vreg) {
	f = g.new(name, strings.Replace(signature, "q uint32", "m *uint32", 1), doc)
	f.lazy = true
	p := f.param("m")
	f.q, f.q2, coarse = f.take(), f.take(), f.take()
	f.loadNext(f.q, p)
	f.loadNext(f.q2, p) // precise: lazy code has no use for 2q
	f.opBy(roundRight32, coarse, f.q2, 23)
	return f, coarse
}

// residue brings x, |x| < 2^31, to [0, q). SQDMULH with precise gives x/q*2^23, which is
// below 2^31 as q is above 2^23, and is off by less than 2^-6*2^23 for q below 2^28; so
// the remainder is in (-q, q).
func (f *function) residue(x vreg) {
	t := f.take()
	f.op(dmulh, t, x, f.q2)
	f.opBy(signedRight, t, t, 23)
	f.op(mls, x, t, f.q)
	f.give(t)
	f.least(x, f.q)
}

func lazy(g *file) {
	for reduced, kind := range []string{"Lazy", "Reduced"} {
		first := func(f *function, coarse vreg) func(x []vreg) {
			if reduced == 0 {
				return func([]vreg) {}
			}
			return func(x []vreg) {
				f.each(len(x)/2, func(i int) {
					t := f.take()
					f.op(rdmulh, t, x[i], coarse)
					f.op(mls, x[i], t, f.q)
					f.give(t)
				})
			}
		}
		what := []string{"", " The first level reduces what it does not multiply."}[reduced]
		for k := 1; k <= 3; k++ {
			f, coarse := g.lazyModular(fmt.Sprintf("forward%d%s", k, kind), passArgs,
				fmt.Sprintf(`is forward%d for primes below 2^28, m is lazyPrime.words.
Residues are signed, below 2^31, and may grow by q in each level.%s`, k, what))
			reduce := first(f, coarse)
			f.pass(k, 1, nil, func(x []vreg, w [][]twiddle) {
				reduce(x)
				f.levels(x, w)
			})
		}
		f, coarse := g.lazyModular("forwardLast"+kind, "x *uint32, blocks int, s *uint64, q uint32",
			`is forwardLast for primes below 2^28, m is lazyPrime.words.
Residues are signed, below 2^31 after five levels that may add q each; results are in [0, q).`+what)
		f.last(first(f, coarse))
	}
}
