package henc_test

import (
	"math"
	"testing"

	"github.com/hencedge/hencedge/henc"
)

// TestNoiseModel compares measured standard deviations with the predicted ones: over
// the N real and imaginary parts of the slots of one ciphertext (N >= 2^10, so the
// estimate itself is within 2.2 % of the truth at one deviation), within 15 %.
func TestNoiseModel(t *testing.T) {
	for _, set := range []string{"toy", "toy-single", "edge12-d1", "edge13-d3", "edge13-d2p"} {
		r := newRig(t, set, 16)
		ev, p, m, top := r.evaluator(t), r.p, r.p.Noise(), r.p.MaxLevel()
		s := p.DefaultScale()
		z := uniform(p.Slots(), 11)
		seeded := must(r.seeded.EncryptComplex(z, top, 0, seedOf("noise seeded")))(t)
		public := must(r.enc.EncryptComplex(z, top, 0, seedOf("noise public")))(t)
		exact := must(r.dec.DecryptComplex(seeded))(t) // what later errors are measured from
		measure := func(ct *henc.Ciphertext, from []complex128) float64 {
			return deviation(must(r.dec.DecryptComplex(ct))(t), from)
		}
		type row struct {
			name      string
			got, want float64
		}
		tests := []row{
			{"encode",
				deviation(must(r.ctx.Encoder().DecodeComplex(must(r.ctx.Encoder().EncodeComplex(z, top, s))(t)))(t), z),
				m.Encode(s)},
			{"fresh seeded", measure(seeded, z), m.FreshSeeded(s)},
			{"fresh public", measure(public, z), m.FreshPK(s)},
		}
		// The constant 1 at an integral scale that the dropped primes do not divide,
		// then Rescale: only rounding.
		odd := math.Trunc(0.73 * p.RescaleFactor(top))
		one := must(ev.Rescale(must(ev.MulConst(seeded, 1, odd))(t)))(t)
		tests = append(tests, row{"rescale", measure(one, exact), m.Rescale(one.Scale)})
		// Conjugation: key switching alone; at every level.
		for level := 0; level <= top; level++ {
			low := must(ev.DropLevel(seeded, top-level))(t)
			got := must(r.dec.DecryptComplex(must(ev.Conjugate(low))(t)))(t)
			for j := range got {
				got[j] = complex(real(got[j]), -imag(got[j]))
			}
			tests = append(tests, row{"key switch", deviation(got, exact), m.KeySwitch(level, s)})
		}
		// A product: the operands' noise dominates before rescaling.
		want := make([]complex128, len(z))
		for j := range z {
			want[j] = z[j] * z[j]
		}
		rms := math.Sqrt(2.0 / 3) // of a complex slot: E|z|^2 = 2/3
		product := m.Product(rms, m.FreshSeeded(s), rms, m.FreshPK(s))
		mul := must(ev.Mul(seeded, public))(t)
		tests = append(tests, row{"product", measure(mul, want), math.Hypot(product, m.KeySwitch(top, s*s))})
		low := s * s / p.RescaleFactor(top)
		fused := math.Hypot(m.Square(rms, m.FreshSeeded(s)), m.MulRescale(top, low))
		tests = append(tests, row{"fused square", measure(must(ev.MulRescale(seeded, seeded))(t), want), fused})
		for _, tt := range tests {
			if ratio := tt.got / tt.want; !(ratio > 0.85 && ratio < 1.15) {
				t.Errorf("%s, %s: measured 2^%.3f, predicted 2^%.3f", set, tt.name, math.Log2(tt.got),
					math.Log2(tt.want))
			} else {
				t.Logf("%-11s %-12s measured/predicted %.3f", set, tt.name, ratio)
			}
		}
		// The bound holds and is not vacuous.
		worst := maxError(exact, z)
		if bound := m.Max(math.Sqrt2*m.FreshSeeded(s), p.Slots()); worst > bound || worst < bound/16 {
			t.Errorf("%s: largest fresh error 2^%.2f, bound 2^%.2f", set, math.Log2(worst), math.Log2(bound))
		}
	}
}

func TestNoiseModelWithoutKeys(t *testing.T) {
	p := must(henc.Named("edge12-add"))(t)
	if k := p.Noise().KeySwitch(0, p.DefaultScale()); !math.IsInf(k, 1) {
		t.Errorf("key switching without special primes has deviation %g", k)
	}
}
