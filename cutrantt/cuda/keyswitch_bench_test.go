package cuda

import (
	"fmt"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

// benchSwitch is the shape of a key switch: q primes and p special ones, digits
// of p limbs, with its random operands.
type benchSwitch struct {
	r              *ring
	gadget         cutrantt.Gadget
	a, t, out, key []*cutrantt.Batch
	ops            []cutrantt.Operand
}

func newBenchSwitch(b *testing.B, logN, q, p, n2 int) *benchSwitch {
	r := benchRing(b, logN, q+p, cutrantt.MethodAuto)
	d := cutrantt.NTT(n2)
	s := &benchSwitch{r: r, gadget: cutrantt.Gadget{Alpha: p, Special: upTo(q + p)[q:]}}
	s.a, s.t = r.uniform(b, benchSets, 2, upTo(q), d), r.uniform(b, benchSets, 3, upTo(q), d)
	s.out = r.uniform(b, benchSets, 2, upTo(q), d)
	s.key = r.uniform(b, 3, 2*s.gadget.Digits(q), upTo(q+p), d)
	for _, k := range s.key {
		o, err := r.Precompute(k)
		if err != nil {
			b.Fatal(err)
		}
		s.ops = append(s.ops, o)
	}
	return s
}

// uniform is count batches of uniform residues, made on the device.
func (r *ring) uniform(b *testing.B, count, polys int, limbs []int, d cutrantt.Domain) []*cutrantt.Batch {
	b.Helper()
	out := make([]*cutrantt.Batch, count)
	for i := range out {
		x, err := r.NewResult(polys, limbs, d)
		if err != nil {
			b.Fatal(err)
		}
		for p := range polys {
			v, err := x.Slice(p, p+1, 0, len(limbs))
			if err != nil {
				b.Fatal(err)
			}
			if err := r.SampleUniform(v, &[32]byte{byte(i)}, uint32(p)); err != nil {
				b.Fatal(err)
			}
		}
		out[i] = x
	}
	return out
}

func (s *benchSwitch) part(b *cutrantt.Batch, lo, hi int) *cutrantt.Batch {
	v, _ := b.Slice(lo, hi, 0, len(b.Limbs()))
	return v
}

func (s *benchSwitch) tensor(i int) error {
	return cutrantt.MulTensor(s.r, s.t[i:i+1], s.a[i:i+1], s.a[(i+1)%benchSets:][:1])
}

func (s *benchSwitch) item(dst *cutrantt.Batch, i int) cutrantt.KeySwitch {
	return cutrantt.KeySwitch{Dst: dst, X: s.part(s.t[i], 2, 3), Low: s.part(s.t[i], 0, 2), Key: s.ops[i%3]}
}

// BenchmarkKeySwitch times whole operations of a server by the number of columns:
// the product of two ciphertexts, the same merged with a rescaling by two primes,
// a rotation, and a rescaling alone. Results are checked by the other tests.
func BenchmarkKeySwitch(b *testing.B) {
	for _, c := range []struct {
		logN, q, p int
		n2         []int
	}{{16, 66, 22, []int{16, 8, 4, 2}}, {15, 24, 8, []int{16, 8, 4, 2}}, {14, 12, 3, []int{16, 8, 4, 2, 1}},
		{13, 6, 1, []int{16, 8, 4, 2, 1}}, {13, 5, 2, []int{8, 4}}} {
		for _, n2 := range c.n2 {
			s := newBenchSwitch(b, c.logN, c.q, c.p, n2)
			at := func(op string) string { return fmt.Sprintf("%s/2^%d/%d+%d/n2=%d", op, c.logN, c.q, c.p, n2) }
			run := func(op string, f func(i int) error) {
				b.Run(at(op), func(b *testing.B) {
					before := s.r.launches.Load()
					if err := f(0); err != nil {
						b.Fatal(err)
					}
					n := s.r.launches.Load() - before
					timeGPU(b, s.r, benchSets, f)
					b.ReportMetric(float64(n), "launches")
				})
			}
			run("hmult", s.product)
			run("hrotate", func(i int) error {
				return cutrantt.SwitchKeys(s.r, s.gadget, []cutrantt.KeySwitch{{
					Dst: s.out[i], X: s.part(s.a[i], 1, 2), Low: s.part(s.a[i], 0, 1), Key: s.ops[i%3], Galois: 5,
				}})
			})
			low := make([]*cutrantt.Batch, benchSets)
			for i := range low {
				low[i], _ = s.r.NewResult(2, upTo(c.q-2), cutrantt.NTT(n2))
			}
			run("hmult+rescale", func(i int) error {
				if err := s.tensor(i); err != nil {
					return err
				}
				return cutrantt.SwitchKeys(s.r, s.gadget, []cutrantt.KeySwitch{s.item(low[i], i)})
			})
			run("rescale", func(i int) error { return s.r.DivRound(low[i], s.a[i]) })
			if c.logN == 16 {
				s.steps(b, run)
			}
		}
	}
}

// benchBatch is count products at a time of independent ciphertexts under keys of
// their own, of 64 in all.
type benchBatch struct {
	r              *ring
	gadget         cutrantt.Gadget
	count          int
	x, y, products []*cutrantt.Batch
	items          []cutrantt.KeySwitch
}

func newBenchBatch(b *testing.B, logN, q, p, n2, count int) *benchBatch {
	b.Helper()
	const most = 64
	r := benchRing(b, logN, q+p, cutrantt.MethodAuto)
	f := &benchBatch{r: r, gadget: cutrantt.Gadget{Alpha: p, Special: upTo(q + p)[q:]}, count: count}
	d := cutrantt.NTT(n2)
	f.x, f.y = r.uniform(b, most, 2, upTo(q), d), r.uniform(b, most, 2, upTo(q), d)
	out, keys := r.uniform(b, most, 2, upTo(q), d), r.uniform(b, most, 2*f.gadget.Digits(q), upTo(q+p), d)
	t := r.uniform(b, 1, 3*most, upTo(q), d)[0]
	for i := range most {
		op, err := r.Precompute(keys[i])
		if err != nil {
			b.Fatal(err)
		}
		part := func(lo, hi int) *cutrantt.Batch {
			v, _ := t.Slice(3*i+lo, 3*i+hi, 0, q)
			return v
		}
		f.products = append(f.products, part(0, 3))
		f.items = append(f.items, cutrantt.KeySwitch{Dst: out[i], X: part(2, 3), Low: part(0, 2), Key: op})
	}
	return f
}

func (f *benchBatch) run(i int) error {
	lo := i * f.count % len(f.items)
	hi := lo + f.count
	if err := cutrantt.MulTensor(f.r, f.products[lo:hi], f.x[lo:hi], f.y[lo:hi]); err != nil {
		return err
	}
	return cutrantt.SwitchKeys(f.r, f.gadget, f.items[lo:hi])
}

// BenchmarkBatch times products of 64 independent ciphertexts under 64 keys in
// one set of launches, in us for all of them, beside one at a time.
func BenchmarkBatch(b *testing.B) {
	for _, c := range []struct{ logN, q, p int }{{14, 12, 3}, {13, 6, 1}} {
		for _, n2 := range []int{16, 8, 4} {
			f := newBenchBatch(b, c.logN, c.q, c.p, n2, 1)
			for _, f.count = range []int{1, 4, 16, 64} {
				b.Run(fmt.Sprintf("2^%d/%d+%d/n2=%d/%d", c.logN, c.q, c.p, n2, f.count), func(b *testing.B) {
					timeGPU(b, f.r, benchSets, f.run)
					b.ReportMetric(float64(f.count), "ciphertexts")
				})
			}
		}
	}
}

// steps times the parts of a key switch of the first set's shape.
func (s *benchSwitch) steps(b *testing.B, run func(op string, f func(i int) error)) {
	r, q, n2 := s.r, len(s.a[0].Limbs()), int(s.a[0].Domain().N2)
	all := q + len(s.gadget.Special)
	run("step/tensor", s.tensor)
	run("step/square", func(i int) error { return cutrantt.MulTensor(r, s.t[i:i+1], s.a[i:i+1], s.a[i:i+1]) })
	wide := r.uniform(b, benchSets, 3, upTo(all), cutrantt.Coeffs(n2)) // as many residues as three digits
	var sw *switching
	if err := r.exec(func() (err error) {
		sw, err = r.switching(s.gadget, upTo(q), upTo(q), upTo(all), n2)
		return err
	}); err != nil {
		b.Fatal(err)
	}
	do := func(f func(i int) error) func(i int) error {
		return func(i int) error { return r.exec(func() error { return f(i) }) }
	}
	run("step/inverse", do(func(i int) error {
		return r.inverse(r.tensor(s.out[i]), r.tensor(s.part(s.t[i], 2, 3)), 1, upTo(q), n2)
	}))
	run("step/modup", do(func(i int) error {
		return r.convertBasis(r.tensor(wide[i]), r.tensor(s.a[i]), 1, sw.modUp)
	}))
	run("step/forward", do(func(i int) error {
		return r.forward(r.tensor(wide[i]), r.tensor(wide[i]), 1, sw.up, n2)
	}))
	run("step/inner", do(func(i int) error {
		x := keySwitch{x: r.tensor(s.part(s.a[i], 0, 1)), key: s.ops[i%3].(*operand).tensor()}
		t := r.tensor(wide[i])
		return r.inner(t, r.tensor(wide[(i+1)%benchSets]), sw, n2, 0, []int{0}, []keySwitch{x})
	}))
	run("step/divide", do(func(i int) error {
		t := r.tensor(wide[i])
		item := divideItem{dst: r.tensor(s.out[i]), low: r.tensor(s.a[i]), numbers: divideNumbers{galois: 1, lows: 2},
			from: t}
		return r.divide([]divideItem{item}, []tensor{t.limb(q, r.n)}, 2, sw.drop, sw.keep, n2)
	}))
	run("step/divide+turn", do(func(i int) error {
		t := r.tensor(wide[i])
		item := divideItem{dst: r.tensor(s.out[i]), low: r.tensor(s.a[i]), numbers: divideNumbers{galois: 5, lows: 1},
			from: t}
		return r.divide([]divideItem{item}, []tensor{t.limb(q, r.n)}, 2, sw.drop, sw.keep, n2)
	}))
}
