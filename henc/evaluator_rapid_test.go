package henc_test

import (
	"errors"
	"maps"
	"math"
	"math/cmplx"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/henc"
	"pgregory.net/rapid"
)

// modelled is a ciphertext beside the numbers that it should hold.
type modelled struct {
	ct   *henc.Ciphertext
	z    []complex128
	size float64 // largest |z|
	err  float64 // bound on the error of every slot
}

func (m modelled) refresh() modelled {
	m.size = 0
	for _, v := range m.z {
		m.size = max(m.size, cmplx.Abs(v))
	}
	return m
}

// step is what an operation should give: a result, or an error of one kind.
type step struct {
	modelled
	level   int
	scale   float64
	refused error
}

// TestRandomPrograms runs random sequences of operations, valid or not, against a
// model on complex numbers. Every step must give the model's numbers within a bound
// that follows from the noise model, at the level and scale of the rules, or refuse
// with the right error.
func TestRandomPrograms(t *testing.T) {
	for _, set := range []string{"toy", "toy-single"} {
		t.Run(set, func(t *testing.T) {
			r := newRig(t, set, 4)
			ev := r.evaluator(t)
			rapid.Check(t, func(t *rapid.T) { randomProgram(t, r, ev) })
		})
	}
}

func randomProgram(t *rapid.T, r *rig, ev *henc.Evaluator) {
	p, slots := r.p, r.p.Slots()
	model := p.Noise()
	bound := func(deviation float64) float64 { return model.Max(math.Sqrt2*deviation, slots) }
	encrypt := func(level int) modelled {
		z := uniform(slots, rapid.Uint64().Draw(t, "values"))
		enc, dev := henc.SlotEncryptor(r.enc), model.FreshPK(p.ScaleAt(level))
		if rapid.Bool().Draw(t, "seeded") {
			enc, dev = r.seeded, model.FreshSeeded(p.ScaleAt(level))
		}
		ct, err := enc.EncryptComplex(z, level, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		return modelled{ct: ct, z: z, err: bound(dev)}.refresh()
	}
	pool := []modelled{encrypt(p.MaxLevel()), encrypt(p.MaxLevel()),
		encrypt(rapid.IntRange(0, p.MaxLevel()).Draw(t, "level"))}
	pick := func(name string) modelled { return rapid.SampledFrom(pool).Draw(t, name) }
	each := func(f func(j int) complex128) []complex128 {
		z := make([]complex128, slots)
		for j := range z {
			z[j] = f(j)
		}
		return z
	}
	limit := func(level int) float64 { return math.Exp2(p.LogQ(level) - 1) }
	ksBound := func(level int, scale float64) float64 { return bound(model.KeySwitch(level, scale)) }
	rot := func(a modelled, k int) []complex128 {
		k = (k%slots + slots) % slots
		return append(append([]complex128(nil), a.z[k:]...), a.z[:k]...)
	}
	// fits refuses a result scale that the level cannot hold.
	fits := func(level int, scale float64) error {
		if scale < 1 || scale > limit(level) {
			return henc.ErrScale
		}
		return nil
	}
	tolerance := func(a, b modelled) float64 {
		return p.ScaleTolerance(a.ct.Level, max(a.ct.Scale, b.ct.Scale))
	}
	sums := func(a, b modelled) error {
		if a.ct.Level != b.ct.Level {
			return henc.ErrLevel
		}
		if math.Abs(a.ct.Scale-b.ct.Scale) > tolerance(a, b)*max(a.ct.Scale, b.ct.Scale) {
			return henc.ErrScale
		}
		return nil
	}
	operations := map[string]func() (*henc.Ciphertext, step, error){
		"add": func() (*henc.Ciphertext, step, error) {
			a, b := pick("a"), pick("b")
			ct, err := ev.Add(a.ct, b.ct)
			// The scales may differ within the tolerance, an error relative to b.
			return ct, step{modelled{z: each(func(j int) complex128 { return a.z[j] + b.z[j] }),
				err: a.err + b.err + b.size*tolerance(a, b)}, a.ct.Level, a.ct.Scale, sums(a, b)}, err
		},
		"sub": func() (*henc.Ciphertext, step, error) {
			a, b := pick("a"), pick("b")
			ct, err := ev.Sub(a.ct, b.ct)
			return ct, step{modelled{z: each(func(j int) complex128 { return a.z[j] - b.z[j] }),
				err: a.err + b.err + b.size*tolerance(a, b)}, a.ct.Level, a.ct.Scale, sums(a, b)}, err
		},
		"neg": func() (*henc.Ciphertext, step, error) {
			a := pick("a")
			ct, err := ev.Neg(a.ct)
			return ct, step{modelled{z: each(func(j int) complex128 { return -a.z[j] }), err: a.err}, a.ct.Level,
				a.ct.Scale, nil}, err
		},
		"mul": func() (*henc.Ciphertext, step, error) {
			a, b := pick("a"), pick("b")
			ct, err := ev.Mul(a.ct, b.ct)
			scale := a.ct.Scale * b.ct.Scale
			s := step{modelled{z: each(func(j int) complex128 { return a.z[j] * b.z[j] }),
				err: a.size*b.err + b.size*a.err + a.err*b.err + ksBound(a.ct.Level, scale)}, a.ct.Level, scale,
				fits(a.ct.Level, scale)}
			if a.ct.Level != b.ct.Level {
				s.refused = henc.ErrLevel
			}
			return ct, s, err
		},
		"mul rescale": func() (*henc.Ciphertext, step, error) {
			a, b := pick("a"), pick("b")
			ct, err := ev.MulRescale(a.ct, b.ct)
			level, product := a.ct.Level, a.ct.Scale*b.ct.Scale
			scale := product / p.RescaleFactor(level)
			s := step{modelled{z: each(func(j int) complex128 { return a.z[j] * b.z[j] }),
				err: a.size*b.err + b.size*a.err + a.err*b.err + bound(model.MulRescale(level, scale))},
				level - 1, scale, nil}
			if a.ct.Level != b.ct.Level {
				s.refused = henc.ErrLevel
			} else if s.refused = fits(level, product); s.refused == nil && level == 0 {
				s.refused = henc.ErrLevel
			} else if s.refused == nil {
				s.refused = fits(level-1, scale)
			}
			return ct, s, err
		},
		"rescale": func() (*henc.Ciphertext, step, error) {
			a := pick("a")
			ct, err := ev.Rescale(a.ct)
			scale := a.ct.Scale / p.RescaleFactor(a.ct.Level)
			s := step{modelled{z: a.z, err: a.err + bound(model.Rescale(scale))}, a.ct.Level - 1, scale,
				fits(a.ct.Level-1, scale)}
			if a.ct.Level == 0 {
				s.refused = henc.ErrLevel
			}
			return ct, s, err
		},
		"drop": func() (*henc.Ciphertext, step, error) {
			a, n := pick("a"), rapid.IntRange(-1, 3).Draw(t, "levels")
			ct, err := ev.DropLevel(a.ct, n)
			s := step{modelled{z: a.z, err: a.err}, a.ct.Level - n, a.ct.Scale, fits(a.ct.Level-n, a.ct.Scale)}
			if n < 0 || n > a.ct.Level {
				s.refused = henc.ErrLevel
			}
			return ct, s, err
		},
		"plain": func() (*henc.Ciphertext, step, error) {
			a, z := pick("a"), uniform(slots, rapid.Uint64().Draw(t, "values"))
			pt, err := r.ctx.Encoder().EncodeComplex(z, a.ct.Level, a.ct.Scale)
			if err != nil { // the message is too large for the modulus left
				return nil, step{refused: henc.ErrMessage}, err
			}
			rounding := bound(model.Encode(a.ct.Scale)) + math.Sqrt2*16*0x1p-52
			if rapid.Bool().Draw(t, "product") {
				ct, err := ev.MulPlain(a.ct, pt)
				scale := a.ct.Scale * a.ct.Scale
				return ct, step{modelled{z: each(func(j int) complex128 { return a.z[j] * z[j] }),
					err: 2*a.err + a.size*rounding}, a.ct.Level, scale, fits(a.ct.Level, scale)}, err
			}
			ct, err := ev.SubPlain(a.ct, pt)
			return ct, step{modelled{z: each(func(j int) complex128 { return a.z[j] - z[j] }), err: a.err + rounding},
				a.ct.Level, a.ct.Scale, nil}, err
		},
		"constant": func() (*henc.Ciphertext, step, error) {
			a, v := pick("a"), rapid.Float64Range(-2, 2).Draw(t, "constant")
			if rapid.Bool().Draw(t, "add") {
				ct, err := ev.AddConst(a.ct, v)
				s := step{modelled{z: each(func(j int) complex128 { return a.z[j] + complex(v, 0) }),
					err: a.err + 0.5/a.ct.Scale + 0x1p-50}, a.ct.Level, a.ct.Scale, nil}
				if math.Abs(math.RoundToEven(v*a.ct.Scale)) >= limit(a.ct.Level) {
					s.refused = henc.ErrMessage
				}
				return ct, s, err
			}
			scale := a.ct.Scale * 0x1p20
			ct, err := ev.MulConst(a.ct, v, 0x1p20)
			s := step{modelled{z: each(func(j int) complex128 { return a.z[j] * complex(v, 0) }),
				err: 2*a.err + a.size*0x1p-21}, a.ct.Level, scale, fits(a.ct.Level, scale)}
			return ct, s, err
		},
		"integer": func() (*henc.Ciphertext, step, error) {
			a, v := pick("a"), rapid.Int64Range(-5, 5).Draw(t, "integer")
			ct, err := ev.MulInt(a.ct, v)
			return ct, step{modelled{z: each(func(j int) complex128 { return a.z[j] * complex(float64(v), 0) }),
				err: a.err * math.Abs(float64(v))}, a.ct.Level, a.ct.Scale, nil}, err
		},
		"rotate": func() (*henc.Ciphertext, step, error) {
			a, k := pick("a"),
				rapid.SampledFrom([]int{0, 1, -1, 2, 4, 5, slots + 1, 3, math.MinInt, math.MaxInt}).Draw(t, "rotation")
			ct, err := ev.Rotate(a.ct, k)
			s := step{modelled{z: rot(a, k%slots), err: a.err + ksBound(a.ct.Level, a.ct.Scale)}, a.ct.Level,
				a.ct.Scale, nil}
			if k == 3 {
				s.refused = henc.ErrNoKey
			}
			return ct, s, err
		},
		"conjugate": func() (*henc.Ciphertext, step, error) {
			a := pick("a")
			ct, err := ev.Conjugate(a.ct)
			return ct, step{modelled{z: each(func(j int) complex128 { return cmplx.Conj(a.z[j]) }),
				err: a.err + ksBound(a.ct.Level, a.ct.Scale)}, a.ct.Level, a.ct.Scale, nil}, err
		},
		"sum": func() (*henc.Ciphertext, step, error) {
			a, n := pick("a"), rapid.SampledFrom([]int{0, 1, 2, 3, 4, 8}).Draw(t, "count")
			ct, err := ev.SumSlots(a.ct, n, 1)
			s := step{modelled{z: each(func(j int) complex128 {
				var v complex128
				for i := range n {
					v += a.z[(j+i)%slots]
				}
				return v
			}), err: float64(max(n, 1)) * (a.err + ksBound(a.ct.Level, a.ct.Scale))}, a.ct.Level, a.ct.Scale, nil}
			if n == 0 || n == 3 {
				s.refused = henc.ErrMessage
			}
			return ct, s, err
		},
	}
	names := slices.Sorted(maps.Keys(operations))
	for range rapid.IntRange(1, 8).Draw(t, "steps") {
		name := rapid.SampledFrom(names).Draw(t, "operation")
		ct, want, err := operations[name]()
		if want.refused != nil {
			if !errors.Is(err, want.refused) {
				t.Fatalf("%s: %v, want %v", name, err, want.refused)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if ct.Level != want.level || math.Abs(ct.Scale/want.scale-1) > 1e-12 {
			t.Fatalf("%s: level %d scale 2^%.3f, want %d and 2^%.3f", name, ct.Level, math.Log2(ct.Scale), want.level,
				math.Log2(want.scale))
		}
		m := want.modelled.refresh()
		m.ct = ct
		if (m.size+m.err)*ct.Scale > limit(ct.Level)/2 {
			continue // the message no longer fits below the modulus: its value is lost
		}
		got, err := r.dec.DecryptComplex(ct)
		if err != nil {
			t.Fatalf("%s: decrypt: %v", name, err)
		}
		float := m.size * 0x1p-46
		if e := maxError(got, m.z); !(e <= 1.01*m.err+float) {
			t.Fatalf("%s: error 2^%.2f, bound 2^%.2f", name, math.Log2(e), math.Log2(m.err+float))
		}
		pool = append(pool, m)
	}
}
