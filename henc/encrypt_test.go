package henc_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// spy is a backend whose ring counts work, fails on demand, and remembers what was
// freed without being wiped.
type spy struct {
	cutrantt.Backend
	ring *spyRing
}

type spyRing struct {
	cutrantt.Ring
	forward  int // single-limb transforms
	inverse  int
	products int // single-limb results of a product
	steps    int // calls so far that may fail
	failAt   int // the call that fails; 0 for none
	live     map[*cutrantt.Batch]bool
	dirty    int // batches freed with residues left in them
}

// seedKAT is HKDF-SHA256 of 32 zero bytes with info "hencedge test" and a zero byte.
var seedKAT = henc.Seed{0x53, 0x26, 0xe1, 0xe2, 0x00, 0x4d, 0xcb, 0xf3, 0x2c, 0x87, 0xf6, 0x29, 0xdd, 0xde, 0xb6, 0xc5,
	0x9e, 0x26, 0x61, 0x27, 0xa1, 0xa5, 0xb6, 0x4e, 0x22, 0xa4, 0x5b, 0x17, 0x99, 0x3c, 0xf1, 0x0a}

var errSpy = errors.New("device lost")

func newSpy() *spy { return &spy{Backend: cpu.New()} }

func (s *spy) NewRing(logN int, m []cutrantt.Modulus, o cutrantt.Options) (cutrantt.Ring, error) {
	r, err := s.Backend.NewRing(logN, m, o)
	s.ring = &spyRing{Ring: r, live: map[*cutrantt.Batch]bool{}}
	return s.ring, err
}

func (r *spyRing) reset(failAt int) {
	*r = spyRing{Ring: r.Ring, failAt: failAt, live: map[*cutrantt.Batch]bool{}}
}

func (r *spyRing) step() error {
	if r.steps++; r.steps == r.failAt {
		return errSpy
	}
	return nil
}

func (r *spyRing) NewBatch(polys int, limbs []int, d cutrantt.Domain) (*cutrantt.Batch, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	b, err := r.Ring.NewBatch(polys, limbs, d)
	if err == nil {
		r.live[b] = true
	}
	return b, err
}

func (r *spyRing) Free(b *cutrantt.Batch) {
	host := make([]uint32, b.Len())
	if r.Ring.Download(host, b) == nil && slices.Max(host) != 0 {
		r.dirty++
	}
	delete(r.live, b)
	r.Ring.Free(b)
}

func (r *spyRing) Forward(dst, src *cutrantt.Batch) error {
	r.forward += dst.Polys() * len(dst.Limbs())
	return errors.Join(r.step(), r.Ring.Forward(dst, src))
}

func (r *spyRing) Inverse(dst, src *cutrantt.Batch) error {
	r.inverse += dst.Polys() * len(dst.Limbs())
	return errors.Join(r.step(), r.Ring.Inverse(dst, src))
}

func (r *spyRing) Convert(dst, src *cutrantt.Batch) error {
	r.forward += dst.Polys() * len(dst.Limbs())
	return errors.Join(r.step(), r.Ring.Convert(dst, src))
}

func (r *spyRing) Mul(dst, a, b *cutrantt.Batch) error {
	r.products += dst.Polys() * len(dst.Limbs())
	return errors.Join(r.step(), r.Ring.Mul(dst, a, b))
}

func (r *spyRing) MulOperand(dst, a *cutrantt.Batch, b cutrantt.Operand) error {
	r.products += dst.Polys() * a.Polys() * len(dst.Limbs())
	return errors.Join(r.step(), r.Ring.MulOperand(dst, a, b))
}

func (r *spyRing) Add(dst, a, b *cutrantt.Batch) error {
	return errors.Join(r.step(), r.Ring.Add(dst, a, b))
}

func (r *spyRing) Sub(dst, a, b *cutrantt.Batch) error {
	return errors.Join(r.step(), r.Ring.Sub(dst, a, b))
}

func (r *spyRing) SetFloats(dst *cutrantt.Batch, v []float64) error {
	return errors.Join(r.step(), r.Ring.SetFloats(dst, v))
}

func (r *spyRing) SampleTernary(dst *cutrantt.Batch, seed *[32]byte, label uint32) error {
	return errors.Join(r.step(), r.Ring.SampleTernary(dst, seed, label))
}

func (r *spyRing) SampleCBD(dst *cutrantt.Batch, seed *[32]byte, label uint32) error {
	return errors.Join(r.step(), r.Ring.SampleCBD(dst, seed, label))
}

// spied are both encryptors over a spy.
func spied(t *testing.T, n2 int) (*henc.Context, *spyRing, map[string]henc.SlotEncryptor, *secret.Decryptor) {
	t.Helper()
	p := must(parameters("toy-single"))(t)
	s := newSpy()
	ctx := must(henc.NewContext(p, henc.WithBackend(s), henc.WithN2(n2)))(t)
	key := must(secret.Generate(ctx, seedOf("spy")))(t)
	pk := must(key.PublicKey())(t)
	return ctx, s.ring, map[string]henc.SlotEncryptor{
		"public": must(henc.NewEncryptor(ctx, pk))(t),
		"seeded": secret.NewSeededEncryptor(ctx, key),
	}, secret.NewDecryptor(ctx, key)
}

// TestTransformsPerLimb: public-key encryption takes exactly three forward
// transforms and two products per limb, seeded encryption one of each.
func TestTransformsPerLimb(t *testing.T) {
	ctx, ring, encs, _ := spied(t, 16)
	for name, want := range map[string][2]int{"public": {3, 2}, "seeded": {1, 1}} {
		for level := range ctx.Parameters().MaxLevel() + 1 {
			ring.reset(0)
			must(encs[name].EncryptReal([]float64{1, -1}, level, 0, nil))(t)
			limbs := ctx.Parameters().LimbsAt(level)
			if ring.forward != want[0]*limbs || ring.products != want[1]*limbs || ring.inverse != 0 {
				t.Errorf("%s at level %d: %d forward, %d inverse transforms and %d products for %d limbs, want %d, 0 "+
					"and %d per limb",
					name, level, ring.forward, ring.inverse, ring.products, limbs, want[0], want[1])
			}
		}
	}
}

// TestSecretsAreWiped: whichever step fails, every batch is given back, and given
// back only after wiping; so is everything but the ciphertext on success.
func TestSecretsAreWiped(t *testing.T) {
	// With n2 = 1 no temporary holds public data only, so that all must be wiped.
	ctx, ring, encs, dec := spied(t, 1)
	ct := must(encs["seeded"].EncryptReal([]float64{0.5}, 1, 0, nil))(t)
	calls := map[string]func() error{
		"public": func() error { _, err := encs["public"].EncryptReal([]float64{1}, 1, 0, nil); return err },
		"seeded": func() error { _, err := encs["seeded"].EncryptReal([]float64{1}, 1, 0, nil); return err },
		"decrypt": func() error {
			_, err := dec.Decrypt(ct)
			return err
		},
		"generate": func() error {
			k, err := secret.Generate(ctx, nil)
			if err == nil {
				return k.Wipe()
			}
			return err
		},
		"keys": func() error {
			k, err := secret.FromCoefficients(ctx, make([]int32, ctx.Parameters().N()), nil)
			if err != nil {
				return err
			}
			_, err = k.RelinKey()
			return errors.Join(err, k.Wipe())
		},
	}
	kept := map[string]int{"public": 1, "seeded": 1, "keys": 1, "decrypt": 1}
	for name, call := range calls {
		for failAt := 0; failAt < 40; failAt++ {
			ring.reset(failAt)
			err := call()
			if failed := ring.steps >= failAt && failAt > 0; failed != errors.Is(err, errSpy) {
				t.Fatalf("%s, failure %d: %v", name, failAt, err)
			}
			want := kept[name]
			if err != nil {
				want = 0
			}
			if ring.dirty != 0 || len(ring.live) != want {
				t.Errorf("%s, failure %d: %d batches freed unwiped, %d still allocated, want 0 and %d", name, failAt,
					ring.dirty, len(ring.live), want)
			}
			if failAt > 0 && err == nil {
				break // every step has failed once
			}
		}
	}
}

// TestSeeds: randomness depends on every input, and only on them.
func TestSeeds(t *testing.T) {
	a, b := must(henc.NewSeed())(t), must(henc.NewSeed())(t)
	if *a == *b || *a == (henc.Seed{}) {
		t.Error("two fresh seeds are equal or zero")
	}
	a, b = must(henc.NewSeed([]byte("device"), nil, []byte("7")))(t),
		must(henc.NewSeed([]byte("device"), nil, []byte("7")))(t)
	if *a == *b {
		t.Error("hedged seeds are equal")
	}
	s := henc.Seed{1}
	derived := map[henc.Seed]string{}
	for name, d := range map[string]*henc.Seed{
		"a": must(s.Derive("a"))(t), "b": must(s.Derive("b"))(t), "a0": must(s.Derive("a", 0))(t),
		"a1": must(s.Derive("a", 1))(t), "a01": must(s.Derive("a", 0, 1))(t),
	} {
		if other, ok := derived[*d]; ok {
			t.Errorf("derived seeds %s and %s are equal", name, other)
		}
		derived[*d] = name
	}
	if *must(s.Derive("a", 1))(t) != *must((&henc.Seed{1}).Derive("a", 1))(t) {
		t.Error("derivation is not deterministic")
	}
	// RFC 5869 with SHA-256, no salt: computed with an independent implementation.
	if got := must((&henc.Seed{}).Derive("hencedge test"))(t); *got != seedKAT {
		t.Errorf("known answer: got %x, want %x", *got, seedKAT)
	}
	s.Wipe()
	(*henc.Seed)(nil).Wipe()
	if s != (henc.Seed{}) {
		t.Error("a wiped seed is not zero")
	}
	if _, err := (*henc.Seed)(nil).Derive("x"); !errors.Is(err, henc.ErrParams) {
		t.Errorf("nil seed: %v", err)
	}
}

// TestFreshRandomness: without a seed every encryption differs; with one it
// repeats; c1 of a seeded ciphertext follows from the public seed alone.
func TestFreshRandomness(t *testing.T) {
	r := newRig(t, "toy", 16)
	for name, enc := range map[string]henc.SlotEncryptor{"public": r.enc, "seeded": r.seeded} {
		one := func(seed *henc.Seed) []uint32 {
			return download(t, r, must(enc.EncryptReal([]float64{1}, 0, 0, seed))(t).Value)
		}
		if slices.Equal(one(nil), one(nil)) {
			t.Errorf("%s: two encryptions are equal", name)
		}
		if !slices.Equal(one(&henc.Seed{3}), one(&henc.Seed{3})) ||
			slices.Equal(one(&henc.Seed{3}), one(&henc.Seed{4})) {
			t.Errorf("%s: encryption does not follow its seed", name)
		}
	}
	ct := must(r.seeded.EncryptReal([]float64{1}, 0, 0, nil))(t)
	if ct.Seed == nil {
		t.Fatal("no public seed")
	}
	c1 := must(r.ctx.Ring().NewBatch(1, ct.Value.Limbs(), r.ctx.Domain()))(t)
	check(t, r.ctx.Ring().SampleUniform(c1, ct.Seed, henc.LabelCipherA))
	if all := download(t, r, ct.Value); !slices.Equal(all[len(all)/2:], download(t, r, c1)) {
		t.Error("c1 does not expand from the seed")
	}
	if pub := must(r.enc.EncryptReal(nil, 0, 0, nil))(t); pub.Seed != nil {
		t.Error("a public-key ciphertext carries a seed")
	}
}

// TestEncryptForms: real, complex and packed values come back.
func TestEncryptForms(t *testing.T) {
	r := newRig(t, "toy", 4)
	z := uniform(r.p.Slots(), 9)
	flat := make([]float64, 0, 2*len(z))
	for _, v := range z {
		flat = append(flat, real(v), imag(v))
	}
	for name, enc := range map[string]henc.SlotEncryptor{"public": r.enc, "seeded": r.seeded} {
		for _, level := range []int{0, r.p.MaxLevel()} {
			got := must(r.dec.DecryptComplex(must(enc.EncryptPacked(flat[:len(flat)-1], level, 0, nil))(t)))(t)
			got[len(got)-1] += complex(0, imag(z[len(z)-1]))
			if e := maxError(got, z); e > 0x1p-25 {
				t.Errorf("%s packed: error 2^%.1f", name, math.Log2(e))
			}
			if e := maxError(must(r.dec.DecryptComplex(must(enc.EncryptComplex(z, level, 0, nil))(t)))(t),
				z); e > 0x1p-25 {
				t.Errorf("%s complex: error 2^%.1f", name, math.Log2(e))
			}
			x := must(r.dec.DecryptReal(must(enc.EncryptReal(flat[:7], level, 0x1p45, nil))(t)))(t)
			for i, v := range x {
				want := 0.0
				if i < 7 {
					want = flat[i]
				}
				if math.Abs(v-want) > 0x1p-25 {
					t.Errorf("%s real: slot %d is %g, want %g", name, i, v, want)
				}
			}
			back := must(r.dec.DecryptPacked(must(enc.EncryptPacked(flat, level, 0, nil))(t)))(t)
			if len(back) != len(flat) || math.Abs(back[3]-flat[3]) > 0x1p-25 {
				t.Errorf("%s packed: %d values", name, len(back))
			}
		}
	}
}

// TestEncryptRefusals: bad arguments are errors.
func TestEncryptRefusals(t *testing.T) {
	r := newRig(t, "toy", 16)
	encs := map[string]henc.SlotEncryptor{"public": r.enc, "seeded": r.seeded}
	for name, enc := range encs {
		for _, tt := range []struct {
			name   string
			values []float64
			level  int
			scale  float64
			want   error
		}{
			{"level", []float64{1}, r.p.MaxLevel() + 1, 0, henc.ErrLevel},
			{"negative level", []float64{1}, -1, 0x1p20, henc.ErrLevel},
			{"small scale", []float64{1}, 0, 0.5, henc.ErrScale},
			{"NaN scale", []float64{1}, 0, math.NaN(), henc.ErrScale},
			{"infinite scale", []float64{1}, 0, math.Inf(1), henc.ErrScale},
			{"large scale", []float64{1}, 0, 0x1p60, henc.ErrScale},
			{"large value", []float64{1e9}, 0, 0, henc.ErrMessage},
			{"NaN", []float64{math.NaN()}, 0, 0, henc.ErrMessage},
			{"infinite", []float64{math.Inf(-1)}, 0, 0, henc.ErrMessage},
			{"too many", make([]float64, r.p.Slots()+1), 0, 0, henc.ErrMessage},
		} {
			if ct, err := enc.EncryptReal(tt.values, tt.level, tt.scale, nil); ct != nil || !errors.Is(err, tt.want) {
				t.Errorf("%s, %s: %v, want %q", name, tt.name, err, tt.want)
			}
		}
		if _, err := enc.EncryptPacked(make([]float64, 2*r.p.Slots()+1), 0, 0, nil); !errors.Is(err, henc.ErrMessage) {
			t.Errorf("%s packed: %v", name, err)
		}
		if _, err := enc.EncryptComplex([]complex128{complex(0, math.NaN())}, 0, 0, nil); !errors.Is(err,
			henc.ErrMessage) {
			t.Errorf("%s complex: %v", name, err)
		}
	}
}

// TestEncryptRefusesObjects: nil, wiped and foreign objects are errors.
func TestEncryptRefusesObjects(t *testing.T) {
	r, other := newRig(t, "toy", 16), newRig(t, "toy-single", 16)
	var nilEnc *henc.Encryptor
	var nilSeeded *secret.SeededEncryptor
	wiped := must(secret.Generate(r.ctx, nil))(t)
	check(t, wiped.Wipe())
	check(t, wiped.Wipe())
	for _, tt := range []struct {
		name string
		f    func() error
		want error
	}{
		{"nil encryptor", func() error { _, err := nilEnc.EncryptReal(nil, 0, 0, nil); return err }, henc.ErrParams},
		{"nil encryptor, coefficients", func() error { _, err := nilEnc.Encrypt(nil, 0, 0, nil); return err },
			henc.ErrParams},
		{"nil seeded", func() error { _, err := nilSeeded.EncryptPacked(nil, 0, 0, nil); return err }, henc.ErrParams},
		{"seeded without key", func() error {
			_, err := secret.NewSeededEncryptor(r.ctx, nil).EncryptReal(nil, 0, 0, nil)
			return err
		}, henc.ErrParams},
		{"seeded without context", func() error {
			_, err := secret.NewSeededEncryptor(nil, r.key).EncryptReal(nil, 0, 0, nil)
			return err
		}, henc.ErrParams},
		{"seeded with foreign key", func() error {
			_, err := secret.NewSeededEncryptor(r.ctx, other.key).EncryptReal(nil, 0, 0, nil)
			return err
		}, henc.ErrParams},
		{"seeded with wiped key", func() error {
			_, err := secret.NewSeededEncryptor(r.ctx, wiped).EncryptReal(nil, 0, 0, nil)
			return err
		}, secret.ErrWiped},
		{"few coefficients", func() error { _, err := r.enc.Encrypt(make([]float64, 3), 0, 0, nil); return err },
			henc.ErrMessage},
		{"half coefficients", func() error {
			c := make([]float64, r.p.N())
			c[5] = 0.5
			_, err := r.seeded.Encrypt(c, 0, 0, nil)
			return err
		}, henc.ErrMessage},
		{"no public key", func() error { _, err := henc.NewEncryptor(r.ctx, nil); return err }, henc.ErrParams},
		{"no context", func() error { _, err := henc.NewEncryptor(nil, r.pk); return err }, henc.ErrParams},
		{"empty public key", func() error { _, err := henc.NewEncryptor(r.ctx, &henc.PublicKey{}); return err },
			henc.ErrParams},
		{"foreign public key", func() error { _, err := henc.NewEncryptor(r.ctx, other.pk); return err },
			cutrantt.ErrForeign},
		{"ciphertext as public key", func() error {
			ct := must(r.enc.EncryptReal(nil, 0, 0, nil))(t)
			_, err := henc.NewEncryptor(r.ctx, &henc.PublicKey{Value: ct.Value})
			return err
		}, henc.ErrParams},
	} {
		if err := tt.f(); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
