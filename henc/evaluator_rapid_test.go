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
	x := newRandomRun(t, r, ev)
	operations := map[string]operation{}
	for _, group := range []map[string]operation{x.linear(), x.products(), x.public(), x.rotations()} {
		maps.Copy(operations, group)
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
		if (m.size+m.err)*ct.Scale > x.limit(ct.Level)/2 {
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
		x.pool = append(x.pool, m)
	}
}

// operation runs one step. It returns what the evaluator gave and what the model says.
type operation = func() (*henc.Ciphertext, step, error)

// randomRun is one random program: its operands are drawn from pool, which has the results
// of earlier steps.
type randomRun struct {
	t     *rapid.T
	r     *rig
	ev    *henc.Evaluator
	p     henc.Parameters
	model henc.NoiseModel
	pool  []modelled
}

func newRandomRun(t *rapid.T, r *rig, ev *henc.Evaluator) *randomRun {
	x := &randomRun{t: t, r: r, ev: ev, p: r.p, model: r.p.Noise()}
	top := r.p.MaxLevel()
	x.pool = []modelled{x.encrypt(top), x.encrypt(top), x.encrypt(rapid.IntRange(0, top).Draw(t, "level"))}
	return x
}

// encrypt draws a message and encrypts it.
func (x *randomRun) encrypt(level int) modelled {
	z := uniform(x.p.Slots(), rapid.Uint64().Draw(x.t, "values"))
	enc, dev := henc.SlotEncryptor(x.r.enc), x.model.FreshPK(x.p.ScaleAt(level))
	if rapid.Bool().Draw(x.t, "seeded") {
		enc, dev = x.r.seeded, x.model.FreshSeeded(x.p.ScaleAt(level))
	}
	ct, err := enc.EncryptComplex(z, level, 0, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	return modelled{ct: ct, z: z, err: x.bound(dev)}.refresh()
}

func (x *randomRun) pick(name string) modelled { return rapid.SampledFrom(x.pool).Draw(x.t, name) }

// each returns f of every slot.
func (x *randomRun) each(f func(j int) complex128) []complex128 {
	z := make([]complex128, x.p.Slots())
	for j := range z {
		z[j] = f(j)
	}
	return z
}

// bound returns the bound of an error with a deviation, over all slots.
func (x *randomRun) bound(deviation float64) float64 {
	return x.model.Max(math.Sqrt2*deviation, x.p.Slots())
}

func (x *randomRun) ksBound(level int, scale float64) float64 {
	return x.bound(x.model.KeySwitch(level, scale))
}

// limit returns half of the modulus of a level.
func (x *randomRun) limit(level int) float64 { return math.Exp2(x.p.LogQ(level) - 1) }

func (x *randomRun) rot(a modelled, k int) []complex128 {
	slots := x.p.Slots()
	k = (k%slots + slots) % slots
	return append(append([]complex128(nil), a.z[k:]...), a.z[:k]...)
}

// fits refuses a result scale that the level cannot hold.
func (x *randomRun) fits(level int, scale float64) error {
	if scale < 1 || scale > x.limit(level) {
		return henc.ErrScale
	}
	return nil
}

func (x *randomRun) tolerance(a, b modelled) float64 {
	return x.p.ScaleTolerance(a.ct.Level, max(a.ct.Scale, b.ct.Scale))
}

// sums refuses operands that cannot be added.
func (x *randomRun) sums(a, b modelled) error {
	if a.ct.Level != b.ct.Level {
		return henc.ErrLevel
	}
	if math.Abs(a.ct.Scale-b.ct.Scale) > x.tolerance(a, b)*max(a.ct.Scale, b.ct.Scale) {
		return henc.ErrScale
	}
	return nil
}

// linear are sums, and what keeps the scale.
func (x *randomRun) linear() map[string]operation {
	return map[string]operation{
		"add": func() (*henc.Ciphertext, step, error) {
			a, b := x.pick("a"), x.pick("b")
			ct, err := x.ev.Add(a.ct, b.ct)
			// The scales may differ within the tolerance, an error relative to b.
			return ct, step{modelled{z: x.each(func(j int) complex128 { return a.z[j] + b.z[j] }),
				err: a.err + b.err + b.size*x.tolerance(a, b)}, a.ct.Level, a.ct.Scale, x.sums(a, b)}, err
		},
		"sub": func() (*henc.Ciphertext, step, error) {
			a, b := x.pick("a"), x.pick("b")
			ct, err := x.ev.Sub(a.ct, b.ct)
			return ct, step{modelled{z: x.each(func(j int) complex128 { return a.z[j] - b.z[j] }),
				err: a.err + b.err + b.size*x.tolerance(a, b)}, a.ct.Level, a.ct.Scale, x.sums(a, b)}, err
		},
		"neg": func() (*henc.Ciphertext, step, error) {
			a := x.pick("a")
			ct, err := x.ev.Neg(a.ct)
			return ct, step{modelled{z: x.each(func(j int) complex128 { return -a.z[j] }), err: a.err}, a.ct.Level,
				a.ct.Scale, nil}, err
		},
		"drop": func() (*henc.Ciphertext, step, error) {
			a, n := x.pick("a"), rapid.IntRange(-1, 3).Draw(x.t, "levels")
			ct, err := x.ev.DropLevel(a.ct, n)
			s := step{modelled{z: a.z, err: a.err}, a.ct.Level - n, a.ct.Scale, x.fits(a.ct.Level-n, a.ct.Scale)}
			if n < 0 || n > a.ct.Level {
				s.refused = henc.ErrLevel
			}
			return ct, s, err
		},
		"integer": func() (*henc.Ciphertext, step, error) {
			a, v := x.pick("a"), rapid.Int64Range(-5, 5).Draw(x.t, "integer")
			ct, err := x.ev.MulInt(a.ct, v)
			return ct, step{modelled{z: x.each(func(j int) complex128 { return a.z[j] * complex(float64(v), 0) }),
				err: a.err * math.Abs(float64(v))}, a.ct.Level, a.ct.Scale, nil}, err
		},
	}
}

// products are the products of ciphertexts, and the rescaling that follows them.
func (x *randomRun) products() map[string]operation {
	return map[string]operation{
		"mul": func() (*henc.Ciphertext, step, error) {
			a, b := x.pick("a"), x.pick("b")
			ct, err := x.ev.Mul(a.ct, b.ct)
			scale := a.ct.Scale * b.ct.Scale
			s := step{modelled{z: x.each(func(j int) complex128 { return a.z[j] * b.z[j] }),
				err: a.size*b.err + b.size*a.err + a.err*b.err + x.ksBound(a.ct.Level, scale)}, a.ct.Level, scale,
				x.fits(a.ct.Level, scale)}
			if a.ct.Level != b.ct.Level {
				s.refused = henc.ErrLevel
			}
			return ct, s, err
		},
		"mul rescale": func() (*henc.Ciphertext, step, error) {
			a, b := x.pick("a"), x.pick("b")
			ct, err := x.ev.MulRescale(a.ct, b.ct)
			level, product := a.ct.Level, a.ct.Scale*b.ct.Scale
			scale := product / x.p.RescaleFactor(level)
			s := step{modelled{z: x.each(func(j int) complex128 { return a.z[j] * b.z[j] }),
				err: a.size*b.err + b.size*a.err + a.err*b.err + x.bound(x.model.MulRescale(level, scale))},
				level - 1, scale, nil}
			if a.ct.Level != b.ct.Level {
				s.refused = henc.ErrLevel
			} else if s.refused = x.fits(level, product); s.refused == nil && level == 0 {
				s.refused = henc.ErrLevel
			} else if s.refused == nil {
				s.refused = x.fits(level-1, scale)
			}
			return ct, s, err
		},
		"rescale": func() (*henc.Ciphertext, step, error) {
			a := x.pick("a")
			ct, err := x.ev.Rescale(a.ct)
			scale := a.ct.Scale / x.p.RescaleFactor(a.ct.Level)
			s := step{modelled{z: a.z, err: a.err + x.bound(x.model.Rescale(scale))}, a.ct.Level - 1, scale,
				x.fits(a.ct.Level-1, scale)}
			if a.ct.Level == 0 {
				s.refused = henc.ErrLevel
			}
			return ct, s, err
		},
	}
}

// public are the operations with plaintexts and constants.
func (x *randomRun) public() map[string]operation {
	return map[string]operation{
		"plain": func() (*henc.Ciphertext, step, error) {
			a, z := x.pick("a"), uniform(x.p.Slots(), rapid.Uint64().Draw(x.t, "values"))
			pt, err := x.r.ctx.Encoder().EncodeComplex(z, a.ct.Level, a.ct.Scale)
			if err != nil { // the message is too large for the modulus left
				return nil, step{refused: henc.ErrMessage}, err
			}
			rounding := x.bound(x.model.Encode(a.ct.Scale)) + math.Sqrt2*16*0x1p-52
			if rapid.Bool().Draw(x.t, "product") {
				ct, err := x.ev.MulPlain(a.ct, pt)
				scale := a.ct.Scale * a.ct.Scale
				return ct, step{modelled{z: x.each(func(j int) complex128 { return a.z[j] * z[j] }),
					err: 2*a.err + a.size*rounding}, a.ct.Level, scale, x.fits(a.ct.Level, scale)}, err
			}
			ct, err := x.ev.SubPlain(a.ct, pt)
			return ct, step{modelled{z: x.each(func(j int) complex128 { return a.z[j] - z[j] }), err: a.err + rounding},
				a.ct.Level, a.ct.Scale, nil}, err
		},
		"constant": func() (*henc.Ciphertext, step, error) {
			a, v := x.pick("a"), rapid.Float64Range(-2, 2).Draw(x.t, "constant")
			if rapid.Bool().Draw(x.t, "add") {
				ct, err := x.ev.AddConst(a.ct, v)
				s := step{modelled{z: x.each(func(j int) complex128 { return a.z[j] + complex(v, 0) }),
					err: a.err + 0.5/a.ct.Scale + 0x1p-50}, a.ct.Level, a.ct.Scale, nil}
				if math.Abs(math.RoundToEven(v*a.ct.Scale)) >= x.limit(a.ct.Level) {
					s.refused = henc.ErrMessage
				}
				return ct, s, err
			}
			scale := a.ct.Scale * 0x1p20
			ct, err := x.ev.MulConst(a.ct, v, 0x1p20)
			s := step{modelled{z: x.each(func(j int) complex128 { return a.z[j] * complex(v, 0) }),
				err: 2*a.err + a.size*0x1p-21}, a.ct.Level, scale, x.fits(a.ct.Level, scale)}
			return ct, s, err
		},
	}
}

// rotations are the operations that need Galois keys.
func (x *randomRun) rotations() map[string]operation {
	return map[string]operation{
		"rotate": func() (*henc.Ciphertext, step, error) {
			a, k := x.pick("a"),
				rapid.SampledFrom(
					[]int{0, 1, -1, 2, 4, 5, x.p.Slots() + 1, 3, math.MinInt, math.MaxInt},
				).Draw(x.t, "rotation")
			ct, err := x.ev.Rotate(a.ct, k)
			s := step{modelled{z: x.rot(a, k%x.p.Slots()), err: a.err + x.ksBound(a.ct.Level, a.ct.Scale)}, a.ct.Level,
				a.ct.Scale, nil}
			if k == 3 {
				s.refused = henc.ErrNoKey
			}
			return ct, s, err
		},
		"conjugate": func() (*henc.Ciphertext, step, error) {
			a := x.pick("a")
			ct, err := x.ev.Conjugate(a.ct)
			return ct, step{modelled{z: x.each(func(j int) complex128 { return cmplx.Conj(a.z[j]) }),
				err: a.err + x.ksBound(a.ct.Level, a.ct.Scale)}, a.ct.Level, a.ct.Scale, nil}, err
		},
		"sum": func() (*henc.Ciphertext, step, error) {
			a, n := x.pick("a"), rapid.SampledFrom([]int{0, 1, 2, 3, 4, 8}).Draw(x.t, "count")
			ct, err := x.ev.SumSlots(a.ct, n, 1)
			s := step{modelled{z: x.each(func(j int) complex128 {
				var v complex128
				for i := range n {
					v += a.z[(j+i)%x.p.Slots()]
				}
				return v
			}), err: float64(max(n, 1)) * (a.err + x.ksBound(a.ct.Level, a.ct.Scale))}, a.ct.Level, a.ct.Scale, nil}
			if n == 0 || n == 3 {
				s.refused = henc.ErrMessage
			}
			return ct, s, err
		},
	}
}
