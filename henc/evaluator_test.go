package henc_test

import (
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"slices"
	"sync"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// download is every residue of a ciphertext.
func download(t testing.TB, r *rig, b *cutrantt.Batch) []uint32 {
	t.Helper()
	out := make([]uint32, b.Len())
	check(t, r.ctx.Ring().Download(out, b))
	return out
}

// TestOperations compares every operation with the same on plain numbers, for
// single and pair rescaling, short last digits, and the complete and the
// incomplete transform.
func TestOperations(t *testing.T) {
	for _, set := range []string{"toy", "toy-single", "edge13-d3"} {
		for _, n2 := range []int{1, 4, 16} {
			t.Run(fmt.Sprintf("%s/%d", set, n2), func(t *testing.T) { operations(t, newRig(t, set, n2)) })
		}
	}
}

func operations(t *testing.T, r *rig) {
	o := newOperands(t, r)
	a, p := o.a, r.p
	// The public-key noise of b dominates: a factor of 8 for the constants.
	fresh := p.Noise().Max(math.Sqrt2*p.Noise().FreshPK(a.Scale), p.Slots())
	before := download(t, r, a.Value)
	for _, tt := range append(o.arithmetic(), o.moves()...) {
		ct, err := tt.ct()
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got := must(r.dec.DecryptComplex(ct))(t)
		if e := maxError(got, o.each(tt.want)); e > 8*fresh {
			t.Errorf("%s: error 2^%.1f, want at most 2^%.1f", tt.name, math.Log2(e), math.Log2(8*fresh))
		}
		if ct.Level != tt.level || math.Abs(ct.Scale/tt.scale-1) > 1e-12 {
			t.Errorf("%s: level %d scale 2^%.3f, want level %d scale 2^%.3f", tt.name, ct.Level, math.Log2(ct.Scale),
				tt.level, math.Log2(tt.scale))
		}
	}
	if !slices.Equal(before, download(t, r, a.Value)) {
		t.Error("an operation changed its input")
	}
}

// operands are what operations are tested with: x encrypted as a, y as b and encoded as py.
type operands struct {
	ev    *henc.Evaluator
	p     henc.Parameters
	top   int // level of all
	slots int
	x, y  []complex128
	a, b  *henc.Ciphertext
	py    *henc.Plaintext
}

func newOperands(t *testing.T, r *rig) *operands {
	t.Helper()
	o := &operands{ev: r.evaluator(t), p: r.p, top: r.p.MaxLevel(), slots: r.p.Slots()}
	o.x, o.y = uniform(o.slots, 1), uniform(o.slots, 2)
	o.a = must(r.seeded.EncryptComplex(o.x, o.top, 0, seedOf("x")))(t)
	o.b = must(r.enc.EncryptComplex(o.y, o.top, 0, seedOf("y")))(t)
	o.py = must(r.ctx.Encoder().EncodeComplex(o.y, o.top, o.a.Scale))(t)
	return o
}

// each returns f of every slot.
func (o *operands) each(f func(j int) complex128) []complex128 {
	z := make([]complex128, o.slots)
	for j := range z {
		z[j] = f(j)
	}
	return z
}

// rotated returns slot j of x rotated by k.
func (o *operands) rotated(j, k int) complex128 { return o.x[((j+k)%o.slots+o.slots)%o.slots] }

// operationTest is an operation with the slots, level and scale that it must give.
type operationTest struct {
	name  string
	ct    func() (*henc.Ciphertext, error)
	want  func(j int) complex128
	level int
	scale float64
}

// arithmetic are the sums and products.
func (o *operands) arithmetic() []operationTest {
	ev, p, top, x, y, a, b, py := o.ev, o.p, o.top, o.x, o.y, o.a, o.b, o.py
	return []operationTest{
		{"add", func() (*henc.Ciphertext, error) { return ev.Add(a, b) }, func(j int) complex128 { return x[j] + y[j] },
			top, a.Scale},
		{"sub", func() (*henc.Ciphertext, error) { return ev.Sub(a, b) }, func(j int) complex128 { return x[j] - y[j] },
			top, a.Scale},
		{"neg", func() (*henc.Ciphertext, error) { return ev.Neg(a) }, func(j int) complex128 { return -x[j] }, top,
			a.Scale},
		{"add plain", func() (*henc.Ciphertext, error) { return ev.AddPlain(a, py) }, func(j int) complex128 {
			return x[j] + y[j]
		}, top, a.Scale},
		{"sub plain", func() (*henc.Ciphertext, error) { return ev.SubPlain(a, py) }, func(j int) complex128 {
			return x[j] - y[j]
		}, top, a.Scale},
		{"mul plain", func() (*henc.Ciphertext, error) { return ev.MulPlain(a, py) }, func(j int) complex128 {
			return x[j] * y[j]
		}, top, a.Scale * a.Scale},
		{"add const", func() (*henc.Ciphertext, error) { return ev.AddConst(a, -1.75) }, func(j int) complex128 {
			return x[j] - 1.75
		}, top, a.Scale},
		{"mul const", func() (*henc.Ciphertext, error) { return ev.MulConst(a, -0.7, 0x1p20) }, func(j int) complex128 {
			return -x[j] * complex(math.Round(0.7*0x1p20)/0x1p20, 0)
		}, top, a.Scale * 0x1p20},
		{"mul const, default scale", func() (*henc.Ciphertext, error) {
			c, err := ev.MulConst(a, 0.3, 0)
			if err != nil {
				return nil, err
			}
			return ev.Rescale(c)
		}, func(j int) complex128 { return 0.3 * x[j] }, top - 1, a.Scale},
		{"mul int", func() (*henc.Ciphertext, error) { return ev.MulInt(a, -3) }, func(j int) complex128 {
			return -3 * x[j]
		}, top, a.Scale},
		{"mul", func() (*henc.Ciphertext, error) { return ev.Mul(a, b) }, func(j int) complex128 { return x[j] * y[j] },
			top, a.Scale * b.Scale},
		{"square", func() (*henc.Ciphertext, error) { return ev.Mul(a, a) }, func(j int) complex128 {
			return x[j] * x[j]
		}, top, a.Scale * a.Scale},
		{"mul rescale", func() (*henc.Ciphertext, error) { return ev.MulRescale(a, b) }, func(j int) complex128 {
			return x[j] * y[j]
		}, top - 1, a.Scale * b.Scale / p.RescaleFactor(top)},
	}
}

// moves are the operations that move slots or change the level.
func (o *operands) moves() []operationTest {
	ev, top, slots, x, a := o.ev, o.top, o.slots, o.x, o.a
	return []operationTest{
		{"drop", func() (*henc.Ciphertext, error) { return ev.DropLevel(a, 1) }, func(j int) complex128 { return x[j] },
			top - 1, a.Scale},
		{"rotate", func() (*henc.Ciphertext, error) { return ev.Rotate(a, 5) }, func(j int) complex128 {
			return o.rotated(j, 5)
		}, top, a.Scale},
		{"rotate back", func() (*henc.Ciphertext, error) { return ev.Rotate(a, slots-1) }, func(j int) complex128 {
			return o.rotated(j, -1)
		}, top, a.Scale},
		{"rotate by nothing", func() (*henc.Ciphertext, error) { return ev.Rotate(a, -slots) }, func(j int) complex128 {
			return x[j]
		}, top, a.Scale},
		{"rotate lower", func() (*henc.Ciphertext, error) {
			c, err := ev.DropLevel(a, top)
			if err != nil {
				return nil, err
			}
			return ev.Rotate(c, 2)
		}, func(j int) complex128 { return o.rotated(j, 2) }, 0, a.Scale},
		{"conjugate", func() (*henc.Ciphertext, error) { return ev.Conjugate(a) }, func(j int) complex128 {
			return cmplx.Conj(x[j])
		}, top, a.Scale},
		{"sum slots", func() (*henc.Ciphertext, error) { return ev.SumSlots(a, 8, 1) }, func(j int) complex128 {
			var s complex128
			for i := range 8 {
				s += x[(j+i)%slots]
			}
			return s
		}, top, a.Scale},
		{"sum slots by two", func() (*henc.Ciphertext, error) { return ev.SumSlots(a, 4, slots+2) },
			func(j int) complex128 {
				return x[j] + x[(j+2)%slots] + x[(j+4)%slots] + x[(j+6)%slots]
			}, top, a.Scale},
	}
}

// TestHoisting: RotateMany equals Rotate bit for bit.
func TestHoisting(t *testing.T) {
	r := newRig(t, "toy-single", 16)
	ev := r.evaluator(t)
	a := must(r.seeded.EncryptReal(reals(r.p.Slots(), 3), r.p.MaxLevel(), 0, seedOf("hoist")))(t)
	ks := []int{1, 0, -1, 5, 1}
	many := must(ev.RotateMany(a, ks))(t)
	for i, k := range ks {
		one := must(ev.Rotate(a, k))(t)
		if !slices.Equal(download(t, r, one.Value), download(t, r, many[i].Value)) {
			t.Errorf("rotation %d: hoisted result differs", k)
		}
	}
}

// TestMethodsAgree: the residues do not depend on the Hadamard method.
func TestMethodsAgree(t *testing.T) {
	for _, n2 := range []int{4, 16} {
		var first []uint32
		for _, method := range cutrantt.Methods() {
			r := newRigMethod(t, "toy-single", n2, method)
			ev := r.evaluator(t)
			x := reals(r.p.Slots(), 4)
			a := must(r.enc.EncryptReal(x, r.p.MaxLevel(), 0, seedOf("m1")))(t)
			b := must(r.seeded.EncryptReal(x, r.p.MaxLevel(), 0, seedOf("m2")))(t)
			c := must(ev.MulRescale(must(ev.Rotate(a, 5))(t), b))(t)
			c = must(ev.Rescale(must(ev.Mul(c, c))(t)))(t)
			got := download(t, r, c.Value)
			if first == nil {
				first = got
			} else if !slices.Equal(got, first) {
				t.Errorf("n2=%d: %s gives other residues than %s", n2, method, cutrantt.Methods()[0])
			}
		}
	}
}

// TestKeysIndependentOfN2: the same seed gives the same keys for every n2.
func TestKeysIndependentOfN2(t *testing.T) {
	var id [16]byte
	for _, n2 := range []int{1, 2, 4, 8, 16} {
		r := newRig(t, "toy", n2)
		if id == [16]byte{} {
			id = r.pk.KeyID
		}
		if r.pk.KeyID != id || r.pk.KeyID == [16]byte{} {
			t.Errorf("n2=%d: key id %x, want %x", n2, r.pk.KeyID, id)
		}
	}
}

// TestSeedSurvivesDrop: c1 of fewer limbs still follows from the seed, so a dropped
// fresh ciphertext stays short on the wire; computed ones have no seed.
func TestSeedSurvivesDrop(t *testing.T) {
	r := newRig(t, "toy", 16)
	ev, x := r.evaluator(t), reals(r.p.Slots(), 8)
	a := must(r.seeded.EncryptReal(x, 2, 0, nil))(t)
	low := must(ev.DropLevel(a, 1))(t)
	b := must(r.ctx.MarshalCiphertext(low))(t) // fails if the seed does not give c1
	if len(b) > r.p.CiphertextBytes(1, true) {
		t.Errorf("%d bytes at level 1", len(b))
	}
	back := must(r.dec.DecryptComplex(must(r.ctx.UnmarshalCiphertext(b))(t)))(t)
	if e := maxError(back, complexes(x)); e > 0x1p-36 {
		t.Errorf("error 2^%.1f", math.Log2(e))
	}
	for name, ct := range map[string]*henc.Ciphertext{"rotate": must(ev.Rotate(a, 0))(t),
		"sum": must(ev.SumSlots(a, 1, 1))(t), "add": must(ev.AddConst(a, 1))(t)} {
		if ct.Seed != nil {
			t.Errorf("%s keeps a seed", name)
		}
	}
}

// TestConcurrentEvaluation runs operations that share inputs, keys and the first
// use of a key.
func TestConcurrentEvaluation(t *testing.T) {
	r := newRig(t, "toy-single", 8)
	r.evaluator(t)
	ev := henc.NewEvaluator(r.ctx, must(r.key.EvaluationKeys([]int{1}, false))(t))
	a := must(r.seeded.EncryptReal(reals(r.p.Slots(), 5), r.p.MaxLevel(), 0, seedOf("c")))(t)
	var wg sync.WaitGroup
	results := make([][]uint32, 8)
	for i := range results {
		wg.Go(func() {
			c, err := ev.Mul(a, a)
			if err == nil {
				c, err = ev.Rotate(c, 1)
			}
			if err != nil {
				t.Error(err)
				return
			}
			results[i] = make([]uint32, c.Value.Len())
			if err := r.ctx.Ring().Download(results[i], c.Value); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range results {
		if !slices.Equal(results[i], results[0]) {
			t.Errorf("result %d differs", i)
		}
	}
}

// TestRefusals: wrong levels, scales, keys, constants and foreign or missing
// objects are errors of the right kind, never panics.
func TestRefusals(t *testing.T) {
	r, other, wide := newRig(t, "toy", 16), newRig(t, "toy-single", 16), newRig(t, "toy", 4)
	ev, top := r.evaluator(t), r.p.MaxLevel()
	x := reals(r.p.Slots(), 6)
	a := must(r.seeded.EncryptReal(x, top, 0, seedOf("r")))(t)
	low := must(ev.DropLevel(a, 1))(t)
	bottom := must(ev.DropLevel(a, top))(t)
	scaled := must(r.seeded.EncryptReal(x, top, a.Scale*2, seedOf("s")))(t)
	foreign := must(other.seeded.EncryptReal(x, 0, 0, seedOf("f")))(t)
	columns := must(wide.seeded.EncryptReal(x, top, 0, seedOf("w")))(t)
	square := must(ev.Mul(a, a))(t)
	pt := must(r.ctx.Encoder().EncodeReal(x, top, a.Scale))(t)
	ptLow := must(r.ctx.Encoder().EncodeReal(x, 0, a.Scale))(t)
	twin := must(henc.NewContext(r.p, henc.WithN2(16)))(t) // same shapes, another ring
	none, empty := henc.NewEvaluator(r.ctx, nil), &henc.Ciphertext{}
	broken := henc.NewEvaluator(r.ctx, brokenKeys(t, r, other))
	var nilEv *henc.Evaluator
	one := func(_ []*henc.Ciphertext, err error) (*henc.Ciphertext, error) { return nil, err }
	for _, tt := range []struct {
		name string
		f    func() (*henc.Ciphertext, error)
		want error
	}{
		{"add levels", func() (*henc.Ciphertext, error) { return ev.Add(a, low) }, henc.ErrLevel},
		{"sub scales", func() (*henc.Ciphertext, error) { return ev.Sub(a, scaled) }, henc.ErrScale},
		{"add nil", func() (*henc.Ciphertext, error) { return ev.Add(a, nil) }, henc.ErrDegree},
		{"add empty", func() (*henc.Ciphertext, error) { return ev.Add(empty, a) }, henc.ErrDegree},
		{"add foreign", func() (*henc.Ciphertext, error) { return ev.Add(foreign, foreign) }, cutrantt.ErrForeign},
		{"add other columns", func() (*henc.Ciphertext, error) { return ev.Add(a, columns) }, henc.ErrDomain},
		{"another ring", func() (*henc.Ciphertext, error) { return henc.NewEvaluator(twin, nil).Neg(a) },
			cutrantt.ErrForeign},
		{"mul levels", func() (*henc.Ciphertext, error) { return ev.Mul(a, low) }, henc.ErrLevel},
		{"mul too large", func() (*henc.Ciphertext, error) { return ev.Mul(square, square) }, henc.ErrScale},
		{"mul rescale too large", func() (*henc.Ciphertext, error) { return ev.MulRescale(square, square) },
			henc.ErrScale},
		{"mul rescale at the bottom", func() (*henc.Ciphertext, error) {
			return ev.MulRescale(must(r.seeded.EncryptReal(x, 0, 0x1p20, nil))(t),
				must(r.seeded.EncryptReal(x, 0, 0x1p20, nil))(t))
		}, henc.ErrLevel},
		{"mul without key", func() (*henc.Ciphertext, error) { return none.Mul(a, a) }, henc.ErrNoKey},
		{"mul with empty key", func() (*henc.Ciphertext, error) { return broken.Mul(a, a) }, henc.ErrParams},
		{"rotate with nil key", func() (*henc.Ciphertext, error) { return broken.Rotate(a, 1) }, henc.ErrNoKey},
		{"rotate with foreign key", func() (*henc.Ciphertext, error) { return broken.Rotate(a, 2) }, henc.ErrParams},
		{"rotate without key", func() (*henc.Ciphertext, error) { return ev.Rotate(a, 3) }, henc.ErrNoKey},
		{"rotate many", func() (*henc.Ciphertext, error) { return one(ev.RotateMany(a, []int{1, 3})) }, henc.ErrNoKey},
		{"conjugate without key", func() (*henc.Ciphertext, error) { return none.Conjugate(a) }, henc.ErrNoKey},
		{"sum of three", func() (*henc.Ciphertext, error) { return ev.SumSlots(a, 3, 1) }, henc.ErrMessage},
		{"sum of none", func() (*henc.Ciphertext, error) { return ev.SumSlots(a, 0, 1) }, henc.ErrMessage},
		{"sum of too many", func() (*henc.Ciphertext, error) { return ev.SumSlots(a, 2*r.p.Slots(), 1) },
			henc.ErrMessage},
		{"sum without keys", func() (*henc.Ciphertext, error) { return ev.SumSlots(a, 16, 3) }, henc.ErrNoKey},
		{"rescale at the bottom", func() (*henc.Ciphertext, error) { return ev.Rescale(bottom) }, henc.ErrLevel},
		{"rescale to nothing", func() (*henc.Ciphertext, error) { return ev.Rescale(a.WithScale(2)) }, henc.ErrScale},
		{"drop too many", func() (*henc.Ciphertext, error) { return ev.DropLevel(a, top+1) }, henc.ErrLevel},
		{"drop negative", func() (*henc.Ciphertext, error) { return ev.DropLevel(a, -1) }, henc.ErrLevel},
		{"drop large scale", func() (*henc.Ciphertext, error) { return ev.DropLevel(square, top) }, henc.ErrScale},
		{"plain level", func() (*henc.Ciphertext, error) { return ev.AddPlain(a, ptLow) }, henc.ErrLevel},
		{"plain scale", func() (*henc.Ciphertext, error) { return ev.SubPlain(scaled, pt) }, henc.ErrScale},
		{"plain nil", func() (*henc.Ciphertext, error) { return ev.MulPlain(a, nil) }, henc.ErrDegree},
		{"plain empty", func() (*henc.Ciphertext, error) { return ev.MulPlain(a, &henc.Plaintext{}) }, henc.ErrDegree},
		{"const NaN", func() (*henc.Ciphertext, error) { return ev.AddConst(a, math.NaN()) }, henc.ErrMessage},
		{"const infinite", func() (*henc.Ciphertext, error) { return ev.MulConst(a, math.Inf(1), 1) }, henc.ErrMessage},
		{"const large", func() (*henc.Ciphertext, error) { return ev.AddConst(a, 1e300) }, henc.ErrMessage},
		{"const at the bottom", func() (*henc.Ciphertext, error) { return ev.MulConst(bottom, 0.5, 0) }, henc.ErrLevel},
		{"const scale", func() (*henc.Ciphertext, error) { return ev.MulConst(a, 1, 0.5) }, henc.ErrScale},
		{"const scale NaN", func() (*henc.Ciphertext, error) { return ev.MulConst(a, 1, math.NaN()) }, henc.ErrScale},
		{"const scale large", func() (*henc.Ciphertext, error) { return ev.MulConst(a, 1e-250, 1e250) }, henc.ErrScale},
		{"integer large", func() (*henc.Ciphertext, error) {
			return ev.MulInt(must(r.seeded.EncryptReal(nil, 0, 1, nil))(t), math.MinInt64)
		}, henc.ErrMessage},
		{"nil evaluator", func() (*henc.Ciphertext, error) { return nilEv.Neg(a) }, henc.ErrParams},
		{"evaluator without context", func() (*henc.Ciphertext, error) { return henc.NewEvaluator(nil, nil).Mul(a, a) },
			henc.ErrParams},
	} {
		ct, err := tt.f()
		if !errors.Is(err, tt.want) || ct != nil {
			t.Errorf("%s: got %v, want an error of kind %q", tt.name, err, tt.want)
		}
	}
}

// brokenKeys returns keys that are empty, nil or of another context.
func brokenKeys(t *testing.T, r, other *rig) *henc.EvaluationKeys {
	t.Helper()
	return &henc.EvaluationKeys{Relin: &henc.SwitchingKey{}, Galois: map[uint64]*henc.SwitchingKey{
		henc.GaloisElement(r.p, 1): nil, henc.GaloisElement(r.p, 2): other.relin(t)}}
}

func (r *rig) relin(t testing.TB) *henc.SwitchingKey {
	t.Helper()
	r.evaluator(t)
	return r.keys.Relin
}

func TestGaloisElement(t *testing.T) {
	p := newRig(t, "toy", 1).p
	for _, tt := range []struct {
		k    int
		want uint64
	}{{0, 1}, {1, 5}, {2, 25}, {512, 1}, {-512, 1}, {513, 5}, {-1, 1229}} { // 5*1229 = 6145 = 3*2048 + 1
		if got := henc.GaloisElement(p, tt.k); got != tt.want {
			t.Errorf("element of rotation %d is %d, want %d", tt.k, got, tt.want)
		}
	}
	if got := henc.GaloisElement(henc.Parameters{}, 3); got != 1 {
		t.Errorf("element without parameters is %d", got)
	}
	if got := henc.SumRotations(8, 3); !slices.Equal(got, []int{3, 6, 12}) {
		t.Errorf("rotations of a sum of 8 by 3: %v", got)
	}
}

// TestScaleTolerance: scales count as equal only where adding them as if they were
// costs no more than the noise that is there anyway.
func TestScaleTolerance(t *testing.T) {
	for _, set := range []string{"edge12-d1", "edge13-d2p"} {
		r := newRig(t, set, 16)
		p, ev := r.p, henc.NewEvaluator(r.ctx, nil)
		x := make([]float64, p.Slots())
		for i := range x {
			x[i] = 1
		}
		a, b := must(r.seeded.EncryptReal(nil, 1, 0, nil))(t), must(r.seeded.EncryptReal(x, 1, 0, nil))(t)
		noise := p.Noise().FreshSeeded(a.Scale)
		limit := min(noise, 0x1p-20)
		for _, off := range []float64{2 * limit, 0x1p-22, limit / 2, 0x1p-50} {
			sum, err := ev.Add(a, b.WithScale(b.Scale*(1+off)))
			if off > limit {
				if !errors.Is(err, henc.ErrScale) {
					t.Errorf("%s: a difference of a part in 2^%.0f over noise of 2^%.1f: %v", set, -math.Log2(off),
						math.Log2(noise), err)
				}
				continue
			}
			got := must(r.dec.DecryptReal(must(sum, err)(t)))(t)
			most := p.Noise().Max(2*noise, p.Slots()) + off
			for i, v := range got {
				if math.Abs(v-1) > most {
					t.Fatalf("%s: slot %d is off by 2^%.1f, at most 2^%.1f was expected", set, i,
						math.Log2(math.Abs(v-1)), math.Log2(most))
				}
			}
		}
	}
}
