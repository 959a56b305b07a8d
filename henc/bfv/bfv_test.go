package bfv_test

import (
	"testing"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
)

// sets are the parameters of most tests.
func sets(t *testing.T) map[string]bfv.Parameters {
	return map[string]bfv.Parameters{
		"toy": toy(t, 65537), "toy, small t": toy(t, 12289), "toy, large t": toy(t, 786433),
		"bfv13": must(bfv.Named("bfv13", 0))(t),
	}
}

// TestOperations compares every operation with integers modulo t, slot by slot.
func TestOperations(t *testing.T) {
	for name, p := range sets(t) {
		t.Run(name, func(t *testing.T) {
			for _, n2 := range []int{1, 16} {
				r := newRig(t, p, henc.WithN2(n2))
				m, n := uint64(p.T()), p.N()
				x, y := r.values(n, 1), r.values(n, 2)
				a, b := r.slots(t, x), r.slots(t, y)
				plain := must(r.ctx.EncodeSlots(y))(t)
				r.expect(t, "encrypt", a, func(i int) uint64 { return x[i] })
				r.expect(t, "encrypt seeded", must(r.seeded.Encrypt(plain, nil))(t),
					func(i int) uint64 { return y[i] })
				r.expect(t, "add", must(r.ev.Add(a, b))(t), func(i int) uint64 { return (x[i] + y[i]) % m })
				r.expect(t, "subtract", must(r.ev.Sub(a, b))(t), func(i int) uint64 { return (x[i] + m - y[i]) % m })
				r.expect(t, "negate", must(r.ev.Neg(a))(t), func(i int) uint64 { return (m - x[i]) % m })
				r.expect(t, "add plaintext", must(r.ev.AddPlain(a, plain))(t),
					func(i int) uint64 { return (x[i] + y[i]) % m })
				r.expect(t, "subtract plaintext", must(r.ev.SubPlain(a, plain))(t),
					func(i int) uint64 { return (x[i] + m - y[i]) % m })
				r.expect(t, "multiply by constant", must(r.ev.MulConst(a, -3))(t),
					func(i int) uint64 { return (m - x[i]) * 3 % m })
				factor := must(r.ctx.Factor(plain))(t)
				r.expect(t, "multiply by plaintext", must(r.ev.MulPlain(a, factor))(t),
					func(i int) uint64 { return x[i] * y[i] % m })
				product := must(r.ev.Mul(a, b))(t)
				r.expect(t, "multiply", product, func(i int) uint64 { return x[i] * y[i] % m })
				r.expect(t, "square", must(r.ev.Mul(a, a))(t), func(i int) uint64 { return x[i] * x[i] % m })
				half := n / 2
				for _, k := range rotations {
					r.expect(t, "rotate", must(r.ev.RotateRows(product, k))(t), func(i int) uint64 {
						j := i/half*half + (i%half+k+half)%half
						return x[j] * y[j] % m
					})
				}
				r.expect(t, "swap rows", must(r.ev.SwapRows(a))(t), func(i int) uint64 { return x[(i+half)%n] })
			}
		})
	}
}
