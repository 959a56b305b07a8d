package bfv_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/secret"
)

// TestParameters: named sets are within the security table, and what does not fit is refused by name.
func TestParameters(t *testing.T) {
	for _, name := range bfv.Names() {
		p := must(bfv.Named(name, 0))(t)
		if b := p.Base(); b.Insecure() || b.LogQP() > float64(b.SecurityBound()) || p.T() != bfv.DefaultT {
			t.Errorf("%s: log2(QP) = %.1f, bound %d, t = %d", name, b.LogQP(), b.SecurityBound(), p.T())
		}
	}
	if _, err := bfv.Named("bfv99", 0); !errors.Is(err, henc.ErrUnknownSet) {
		t.Errorf("an unknown set: %v", err)
	}
	q := must(bfv.Named("bfv13", 0))(t).Base().Q()[0]
	for _, plain := range []uint32{1, 2, 65536, 40961, q, math.MaxUint32} {
		if _, err := bfv.Named("bfv13", plain); !errors.Is(err, bfv.ErrPlainModulus) {
			t.Errorf("t = %d: %v", plain, err)
		}
	}
	if _, err := bfv.NewParameters(henc.Parameters{}, 0); !errors.Is(err, henc.ErrParams) {
		t.Errorf("zero parameters: %v", err)
	}
	if _, err := bfv.NewContext(bfv.Parameters{}); !errors.Is(err, henc.ErrParams) {
		t.Errorf("a context of zero parameters: %v", err)
	}
	lit := toy(t, 0).Base().Literal()
	lit.LogN, lit.Insecure, lit.PsiQ, lit.PsiP = 13, false, nil, nil
	p13 := must(bfv.Named("bfv13", 0))(t).Base().Literal()
	lit.Q, lit.P, lit.Alpha = append(p13.Q, must(bfv.Named("bfv14", 0))(t).Base().Q()[10]), p13.P, 1
	if _, err := henc.NewParameters(lit); !errors.Is(err, henc.ErrSecurity) {
		t.Errorf("240 bits at 2^13: %v", err)
	}
}

// TestRefused: every operation refuses what it cannot do, by the error that its documentation names.
func TestRefused(t *testing.T) {
	r := newRig(t, toy(t, 65537))
	other := newRig(t, toy(t, 12289))
	a := r.slots(t, []uint64{1})
	foreign := other.slots(t, []uint64{1})
	noisy := &bfv.Ciphertext{Value: a.Value, Noise: bfv.Noise{Deviation: 0x1p140}}
	keyless, wrong := bfv.NewEvaluator(r.ctx, nil), secret.NewIntegerDecryptor(r.ctx, other.key)
	values := []*bfv.Ciphertext{a}
	encode := func(values ...uint64) func() error {
		return func() error { _, err := r.ctx.EncodeSlots(values); return err }
	}
	type ct = *bfv.Ciphertext
	evaluate := func(f func() (ct, error)) func() error {
		return func() error { _, err := f(); return err }
	}
	reading := func(b []byte, deviation float64) func() error {
		return func() error {
			ct, err := r.ctx.Unmarshal(b, bfv.Noise{Deviation: deviation})
			if err != nil && ct != nil {
				t.Error("a ciphertext beside an error")
			}
			return err
		}
	}
	body, theirs := must(r.ctx.Marshal(a))(t), must(other.ctx.Marshal(foreign))(t)
	for name, c := range map[string]struct {
		want error
		f    func() error
	}{
		"a value of t":    {henc.ErrMessage, encode(65537)},
		"a huge value":    {henc.ErrMessage, encode(1 << 63)},
		"too many values": {henc.ErrMessage, encode(make([]uint64, 1025)...)},
		"no plaintext":    {henc.ErrMessage, evaluate(func() (ct, error) { return r.enc.Encrypt(nil, nil) })},
		"no key":          {henc.ErrNoKey, evaluate(func() (ct, error) { return keyless.Mul(a, a) })},
		"no rotation key": {henc.ErrNoKey, evaluate(func() (ct, error) { return r.ev.RotateRows(a, 5) })},
		"even element":    {henc.ErrParams, evaluate(func() (ct, error) { return r.ev.Automorphism(a, 2) })},
		"no ciphertext":   {henc.ErrDegree, evaluate(func() (ct, error) { return r.ev.Add(a, nil) })},
		"unequal batches": {henc.ErrParams, func() error { _, err := r.ev.MulBatch(values, nil); return err }},
		"noise":           {bfv.ErrNoise, evaluate(func() (ct, error) { return r.ev.Add(noisy, noisy) })},
		"noisy product":   {bfv.ErrNoise, evaluate(func() (ct, error) { return r.ev.Mul(noisy, a) })},
		"huge constant":   {bfv.ErrNoise, evaluate(func() (ct, error) { return r.ev.MulConst(noisy, 1<<20) })},
		"no factor":       {henc.ErrMessage, evaluate(func() (ct, error) { return r.ev.MulPlain(a, nil) })},
		"no products":     {henc.ErrParams, evaluate(func() (ct, error) { return r.ev.SumPlain(nil, nil) })},
		"another context": {cutrantt.ErrForeign, evaluate(func() (ct, error) { return r.ev.Add(a, foreign) })},
		"another t":       {henc.ErrScale, reading(theirs, 1)},
		"unknown noise":   {bfv.ErrNoise, reading(body, math.NaN())},
		"garbage":         {henc.ErrMalformed, reading([]byte{1, 2, 3}, 1)},
		"another's key":   {henc.ErrParams, func() error { _, err := wrong.Slots(a); return err }},
	} {
		if err := c.f(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestNothingPanics calls every method with good, empty, hostile and foreign arguments, also on nil and zero
// receivers.
func TestNothingPanics(t *testing.T) {
	r, other := newRig(t, toy(t, 65537)), newRig(t, toy(t, 12289))
	a := r.slots(t, []uint64{1})
	freed := r.slots(t, []uint64{2})
	r.ctx.Free(freed)
	pt := must(r.ctx.EncodeSlots([]uint64{3}))(t)
	body := must(r.ctx.Marshal(a))(t)
	factor := must(r.ctx.Factor(pt))(t)
	pool := map[reflect.Type][]reflect.Value{}
	add := func(vs ...any) {
		for _, v := range vs {
			pool[reflect.TypeOf(v)] = append(pool[reflect.TypeOf(v)], reflect.ValueOf(v))
		}
	}
	add(a, freed, other.slots(t, nil), (*bfv.Ciphertext)(nil), &bfv.Ciphertext{}, &bfv.Ciphertext{Value: pt.Value},
		&bfv.Ciphertext{Value: a.Value, Noise: bfv.Noise{Deviation: math.Inf(1), Degree: -1}})
	add(pt, (*bfv.Plaintext)(nil), &bfv.Plaintext{}, &bfv.Plaintext{Value: a.Value})
	add(factor, (*bfv.Factor)(nil), &bfv.Factor{})
	add([]*bfv.Ciphertext{a}, []*bfv.Ciphertext{nil, a}, []*bfv.Ciphertext(nil))
	add([]*bfv.Factor{factor}, []*bfv.Factor{nil}, []*bfv.Factor(nil))
	add([]*bfv.Plaintext{pt}, []*bfv.Plaintext{nil}, []*bfv.Plaintext(nil))
	add([]*henc.Seed{nil}, []*henc.Seed(nil), []*henc.Seed{{1}, {2}})
	add([]*henc.Ciphertext{nil}, []*henc.Ciphertext(nil))
	add(r.ctx.Scaled(a), other.ctx.Scaled(a), (*henc.Ciphertext)(nil), &henc.Ciphertext{})
	add(a.Value, pt.Value, (*cutrantt.Batch)(nil), &cutrantt.Batch{})
	add((*henc.Seed)(nil), &henc.Seed{1})
	add(0, 1, -1, math.MaxInt, math.MinInt)
	add(int64(0), int64(math.MinInt64))
	add(uint64(0), uint64(1), uint64(5), uint64(math.MaxUint64))
	add(0.0, 1.0, math.NaN(), math.Inf(1), -1.0)
	add(bfv.Noise{}, a.Noise, bfv.Noise{Deviation: math.NaN(), Degree: math.MaxInt}, bfv.Noise{Degree: math.MinInt})
	add([]uint64(nil), []uint64{1, 2}, make([]uint64, 5000), []uint64{math.MaxUint64})
	add([]byte(nil), body, body[:50])
	rng := rand.New(rand.NewPCG(1, 2))
	for _, receiver := range []any{
		r.ctx, (*bfv.Context)(nil), &bfv.Context{}, r.p, bfv.Parameters{}, r.p.Noise(), bfv.NoiseModel{},
		r.enc, (*bfv.Encryptor)(nil), &bfv.Encryptor{}, r.ev, (*bfv.Evaluator)(nil), &bfv.Evaluator{},
		bfv.NewEvaluator(nil, nil), bfv.NewEvaluator(r.ctx, &henc.EvaluationKeys{}),
		r.dec, (*secret.IntegerDecryptor)(nil), &secret.IntegerDecryptor{}, secret.NewIntegerDecryptor(nil, nil),
		secret.NewIntegerDecryptor(r.ctx, nil), r.seeded, (*secret.IntegerEncryptor)(nil), &secret.IntegerEncryptor{},
		secret.NewIntegerEncryptor(nil, r.key),
	} {
		v := reflect.ValueOf(receiver)
		for i := range v.NumMethod() {
			m, name := v.Method(i), v.Type().Method(i).Name
			if name == "Free" || name == "Wipe" || name == "Lift" {
				continue // of what others need
			}
			for range 40 {
				var in []reflect.Value
				for j := range m.Type().NumIn() {
					of := pool[m.Type().In(j)]
					if len(of) == 0 {
						t.Fatalf("there are no arguments for %T.%s", receiver, name)
					}
					in = append(in, of[rng.IntN(len(of))])
				}
				if m.Type().IsVariadic() {
					m.CallSlice(in)
				} else {
					m.Call(in)
				}
			}
		}
	}
}

// FuzzUnmarshal: no input panics, and an accepted one marshals to the same bytes.
func FuzzUnmarshal(f *testing.F) {
	r := newRig(f, toy(f, 65537))
	pt := must(r.ctx.EncodeSlots([]uint64{1, 2, 3}))(f)
	for _, ct := range []*bfv.Ciphertext{
		must(r.enc.Encrypt(pt, seedOf("fuzz")))(f), must(r.seeded.Encrypt(pt, seedOf("fuzz")))(f),
	} {
		b := must(r.ctx.Marshal(ct))(f)
		f.Add(b, ct.Noise.Deviation)
		f.Add(b[:len(b)/2], math.NaN())
	}
	f.Fuzz(func(t *testing.T, b []byte, noise float64) {
		ct, err := r.ctx.Unmarshal(b, bfv.Noise{Deviation: noise, Degree: 1})
		if err != nil {
			return
		}
		again, err := r.ctx.Marshal(ct)
		if err != nil {
			t.Fatal(err)
		}
		h := must(henc.PeekCiphertext(b))(t)
		if h.Domain == r.ctx.Base().Domain() && string(again) != string(b) {
			t.Fatal("accepted, but marshals differently")
		}
	})
}
