package henc

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/wire"
)

// tinyParams has two primes of 14 and 16 bits at degree 2^10, so that malformed
// inputs stay small.
func tinyParams(t testing.TB) Parameters {
	t.Helper()
	p, err := NewParameters(ParametersLiteral{Name: "tiny", LogN: 10, LogScale: 10, Mode: ModeSingle, Depth: 1,
		Q: []uint32{12289, 40961}, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// randomCiphertext is uniform; with seeded, c1 comes from the seed.
func randomCiphertext(t testing.TB, c *Context, level int, scale float64, seeded bool) *Ciphertext {
	t.Helper()
	ct, err := c.NewCiphertext(level, scale)
	if err != nil {
		t.Fatal(err)
	}
	seed := [32]byte{byte(level), 1}
	for i, label := range []uint32{77, LabelCipherA} {
		poly, err := ct.Value.Slice(i, i+1, 0, len(ct.Value.Limbs()))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Ring().SampleUniform(poly, &seed, label); err != nil {
			t.Fatal(err)
		}
	}
	if seeded {
		ct.Seed = &seed
	}
	return ct
}

func mustMarshal(t testing.TB, c *Context, ct *Ciphertext) []byte {
	t.Helper()
	b, err := c.MarshalCiphertext(ct)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSeededSize: a seeded ciphertext is within 1 % of N*log2(Q)/8 bytes, and a
// full one of twice that, at every level of every set.
func TestSeededSize(t *testing.T) {
	for _, name := range append(Names(), InsecureNames()...) {
		p := mustNamed(t, name)
		c := mustContext(t, p)
		for level := 0; level <= p.MaxLevel(); level++ {
			for _, seeded := range []bool{true, false} {
				ideal := float64(p.N()) * p.LogQ(level) / 8
				if !seeded {
					ideal *= 2
				}
				if top := level == p.MaxLevel(); p.LogN() > 15 || p.LogN() == 15 && !(top && seeded) ||
					!top && level > 0 {
					// Marshalling all of them would take long.
					if n := p.CiphertextBytes(level, seeded); float64(n) > 1.01*ideal {
						t.Errorf("%s level %d seeded %v: up to %d bytes, ideal %.0f", name, level, seeded, n, ideal)
					}
					continue
				}
				b := mustMarshal(t, c, randomCiphertext(t, c, level, p.ScaleAt(level), seeded))
				if n := float64(len(b)); n > 1.01*ideal || n < ideal {
					t.Errorf("%s level %d seeded %v: %d bytes, ideal %.0f: %+.2f %%", name, level, seeded, len(b),
						ideal, 100*(n/ideal-1))
				}
				if limit := p.CiphertextBytes(level, seeded); len(b) > limit || len(b) < limit-60 {
					t.Errorf("%s level %d seeded %v: %d bytes, predicted %d", name, level, seeded, len(b), limit)
				}
			}
		}
	}
}

func TestCiphertextRoundTripProperty(t *testing.T) {
	small, tiny := smallParams(t), tinyParams(t)
	ctxs := map[string]*Context{}
	for _, n2 := range []int{1, 2, 4, 8, 16} {
		for _, p := range []Parameters{small, tiny} {
			ctxs[fmt.Sprint(p.Name(), n2)] = mustContext(t, p, WithN2(n2))
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		p := rapid.SampledFrom([]Parameters{small, tiny}).Draw(rt, "params")
		from := ctxs[fmt.Sprint(p.Name(), rapid.SampledFrom([]int{1, 2, 4, 8, 16}).Draw(rt, "from"))]
		to := ctxs[fmt.Sprint(p.Name(), rapid.SampledFrom([]int{1, 2, 4, 8, 16}).Draw(rt, "to"))]
		level := rapid.IntRange(0, p.MaxLevel()).Draw(rt, "level")
		scale := rapid.Float64Range(1, math.Exp2(p.LogQ(level)-1.5)).Draw(rt, "scale")
		ct := randomCiphertext(t, from, level, scale, rapid.Bool().Draw(rt, "seeded"))
		b := mustMarshal(t, from, ct)
		if again := mustMarshal(t, from, ct); !bytes.Equal(again, b) {
			rt.Fatal("marshalling is not deterministic")
		}
		got, err := to.UnmarshalCiphertext(b)
		if err != nil {
			rt.Fatal(err)
		}
		if got.Level != level || got.Scale != scale || to.CheckCiphertext(got) != nil {
			rt.Fatalf("level %d scale %g", got.Level, got.Scale)
		}
		if from == to {
			if !bytes.Equal(mustMarshal(t, to, got), b) {
				rt.Fatal("re-marshalling differs")
			}
			return
		}
		if got.Seed != nil {
			rt.Fatal("a converted ciphertext keeps its seed")
		}
		// Both in the one complete domain are equal.
		x, y := inDomain(t, from, ct, cutrantt.NTT(1)), inDomain(t, to, got, cutrantt.NTT(1))
		if !slices.Equal(x, y) {
			rt.Fatal("the conversion changed the ciphertext")
		}
	})
}

func inDomain(t testing.TB, c *Context, ct *Ciphertext, d cutrantt.Domain) []uint32 {
	t.Helper()
	b, err := c.Ring().NewBatch(2, ct.Value.Limbs(), d)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ring().Convert(b, ct.Value); err != nil {
		t.Fatal(err)
	}
	x := make([]uint32, b.Len())
	if err := c.Ring().Download(x, b); err != nil {
		t.Fatal(err)
	}
	return x
}

// rawCiphertext writes any ciphertext array, valid or not.
type rawCiphertext struct {
	params        [32]byte
	level         uint64
	scale         float64
	n2, transform uint64
	seed          []byte
	polys         [][]byte
}

func (r rawCiphertext) bytes(t testing.TB) []byte {
	t.Helper()
	w := wire.NewWriter(wire.KindCiphertext, r.params, 9, 0)
	w.Uint(r.level)
	w.Float(r.scale)
	w.Uint(r.n2)
	w.Uint(r.transform)
	w.Blob(r.seed)
	w.Array(len(r.polys))
	for _, p := range r.polys {
		w.Blob(p)
	}
	b, err := w.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestUnmarshalCiphertextRefuses(t *testing.T) {
	p := tinyParams(t)
	c := mustContext(t, p)
	q := p.Q()
	good := goodCiphertext(p)
	one := good.polys[0]
	size := len(one)
	with := func(mod func(*rawCiphertext)) []byte { return good.with(t, mod) }
	limb0 := cutrantt.PackedBytes(p.N(), q[0])
	setAt := func(b []byte, at int, v byte) []byte { b = slices.Clone(b); b[at] = v; return b }
	zeroLimb := append(make([]byte, limb0), one[limb0:]...)
	for _, tc := range []struct {
		name string
		b    []byte
		want error
	}{
		{"good", good.bytes(t), nil},
		{"good seeded", with(func(r *rawCiphertext) { r.seed, r.polys = make([]byte, 32), r.polys[:1] }), nil},
		{"good, other n2", with(func(r *rawCiphertext) { r.n2 = 1 }), nil},
		{"good, coefficients", with(func(r *rawCiphertext) { r.transform = 0 }), nil},
		{"good, zero c0", with(func(r *rawCiphertext) { r.polys[0] = make([]byte, size) }), nil},
		{"other parameters", with(func(r *rawCiphertext) { r.params[0] ^= 1 }), ErrParams},
		{"level above", with(func(r *rawCiphertext) { r.level = 2 }), ErrLevel},
		{"level huge", with(func(r *rawCiphertext) { r.level = 1 << 63 }), ErrLevel},
		{"level of other residues", with(func(r *rawCiphertext) { r.level = 0 }), ErrLength},
		{"scale 0", with(func(r *rawCiphertext) { r.scale = 0 }), ErrScale},
		{"scale negative", with(func(r *rawCiphertext) { r.scale = -1024 }), ErrScale},
		{"scale below 1", with(func(r *rawCiphertext) { r.scale = 0.5 }), ErrScale},
		{"scale above Q/2", with(func(r *rawCiphertext) { r.scale = 0x1p29 }), ErrScale},
		{"n2 = 0", with(func(r *rawCiphertext) { r.n2 = 0 }), ErrDomain},
		{"n2 = 3", with(func(r *rawCiphertext) { r.n2 = 3 }), ErrDomain},
		{"n2 = 32", with(func(r *rawCiphertext) { r.n2 = 32 }), ErrDomain},
		{"n2 = 256+16", with(func(r *rawCiphertext) { r.n2 = 272 }), ErrDomain},
		{"transform 2", with(func(r *rawCiphertext) { r.transform = 2 }), ErrDomain},
		{"transform huge", with(func(r *rawCiphertext) { r.transform = 1<<63 + 1 }), ErrDomain},
		{"no polynomial", with(func(r *rawCiphertext) { r.polys = nil }), ErrDegree},
		{"degree 0 without a seed", with(func(r *rawCiphertext) { r.polys = r.polys[:1] }), ErrDegree},
		{"degree 2", with(func(r *rawCiphertext) { r.polys = append(r.polys, one[:1]) }), ErrDegree},
		{"seed and c1", with(func(r *rawCiphertext) { r.seed = make([]byte, 32) }), ErrDegree},
		{"short seed", with(func(r *rawCiphertext) { r.seed, r.polys = make([]byte, 31), r.polys[:1] }), ErrLength},
		{"long seed", with(func(r *rawCiphertext) { r.seed, r.polys = make([]byte, 33), r.polys[:1] }), ErrLength},
		{"short c0", with(func(r *rawCiphertext) { r.polys[0] = one[1:] }), ErrLength},
		{"long c1", with(func(r *rawCiphertext) { r.polys[1] = append(one, 1) }), ErrLength},
		{"empty c1", with(func(r *rawCiphertext) { r.polys[1] = []byte{} }), ErrLength},
		{"null c1", with(func(r *rawCiphertext) { r.polys[1] = nil }), ErrMalformed},
		{"residue of c0 too large",
			with(func(r *rawCiphertext) { r.polys[0] = setAt(setAt(setAt(one, 1, 255), 2, 255), 3, 255) }), ErrRange},
		{"last residue of c1 too large", with(func(r *rawCiphertext) { r.polys[1] = setAt(one, size-1, 255) }),
			ErrRange},
		{"c1 zero", with(func(r *rawCiphertext) { r.polys[1] = make([]byte, size) }), ErrDegenerate},
		{"c1 zero modulo the first prime", with(func(r *rawCiphertext) { r.polys[1] = zeroLimb }), ErrDegenerate},
		{"c1 zero modulo the last prime",
			with(func(r *rawCiphertext) { r.polys[1] = append(one[:limb0:limb0], make([]byte, size-limb0)...) }),
			ErrDegenerate},
		{"trailing", append(good.bytes(t), 0xf6), ErrMalformed},
		{"too large", append(good.bytes(t), make([]byte, 200)...), ErrTooLarge},
		{"empty", nil, ErrTruncated},
		{"version", setAt(good.bytes(t), 1, wire.Version+1), ErrVersion},
		{"downgrade", setAt(good.bytes(t), 1, 1), ErrVersion},
		{"kind", setAt(good.bytes(t), 2, 2), ErrKind},
		{"elements", setAt(good.bytes(t), 0, 0x88), ErrMalformed},
		{"not an array", setAt(good.bytes(t), 0, 0xa9), ErrMalformed},
	} {
		ct, err := c.UnmarshalCiphertext(tc.b)
		if !errors.Is(err, tc.want) || (ct == nil) != (tc.want != nil) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	if _, err := mustContext(t, smallParams(t)).UnmarshalCiphertext(good.bytes(t)); !errors.Is(err, ErrParams) {
		t.Errorf("another context: %v", err)
	}
}

// goodCiphertext returns a ciphertext at level 1: every pair of residues is below q^2, and
// nothing is zero.
func goodCiphertext(p Parameters) rawCiphertext {
	one := bytes.Repeat([]byte{1}, p.PackedBytes(1))
	return rawCiphertext{p.Hash(), 1, 1024, 16, 1, nil, [][]byte{one, one}}
}

// with returns the bytes of a changed ciphertext.
func (r rawCiphertext) with(t *testing.T, change func(*rawCiphertext)) []byte {
	t.Helper()
	r.polys = slices.Clone(r.polys)
	change(&r)
	return r.bytes(t)
}

// TestPeekLevel: a header is read without parameters, so any possible level is taken.
func TestPeekLevel(t *testing.T) {
	good := goodCiphertext(tinyParams(t))
	for level, want := range map[uint64]error{MaxPrimes: nil, MaxPrimes + 1: ErrLevel, 1 << 63: ErrLevel} {
		h, err := PeekCiphertext(good.with(t, func(r *rawCiphertext) { r.level = level }))
		if !errors.Is(err, want) || err == nil && h.Level != int(level) {
			t.Errorf("peek at level %d: %+v, %v", level, h, err)
		}
	}
}

// TestTruncatedAndFlipped: every prefix is refused as truncated, and a flipped bit
// either is refused or gives other bytes back.
func TestTruncatedAndFlipped(t *testing.T) {
	c := mustContext(t, tinyParams(t))
	h := func(b []byte) Header {
		h, err := PeekCiphertext(b)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for _, seeded := range []bool{true, false} {
		b := mustMarshal(t, c, randomCiphertext(t, c, 0, 64, seeded))
		for n := range b {
			if _, err := c.UnmarshalCiphertext(b[:n]); !errors.Is(err, ErrTruncated) {
				t.Fatalf("%d of %d bytes: %v", n, len(b), err)
			}
			if _, err := PeekCiphertext(b[:n]); err != nil && !errors.Is(err, ErrTruncated) {
				t.Fatalf("peek at %d of %d bytes: %v", n, len(b), err)
			}
		}
		for bit := 0; bit < 8*len(b); bit += 1 + bit/2000*37 { // all of the header, some of the rest
			f := slices.Clone(b)
			f[bit/8] ^= 1 << (bit % 8)
			if ct, err := c.UnmarshalCiphertext(f); err == nil && h(f).Domain == c.Domain() {
				if back := mustMarshal(t, c, ct); !bytes.Equal(back, f) {
					t.Fatalf("bit %d: accepted, but marshals differently", bit)
				}
			}
		}
	}
}

func TestMarshalCiphertextRefuses(t *testing.T) {
	p := tinyParams(t)
	c := mustContext(t, p)
	zero, err := c.NewCiphertext(1, 1024)
	if err != nil {
		t.Fatal(err)
	}
	pt, err := c.NewPlaintext(1, 1024)
	if err != nil {
		t.Fatal(err)
	}
	wrongSeed := randomCiphertext(t, c, 1, 1024, true)
	wrongSeed.Seed = &[32]byte{99}
	level := randomCiphertext(t, c, 1, 1024, false)
	level.Level = 0
	scale := randomCiphertext(t, c, 1, 1024, false)
	scale.Scale = math.NaN()
	foreign := randomCiphertext(t, mustContext(t, p, WithN2(1)), 1, 1024, false)
	for _, tc := range []struct {
		name string
		ct   *Ciphertext
		want error
	}{
		{"nil", nil, ErrDegree},
		{"empty", &Ciphertext{}, ErrDegree},
		{"one polynomial", &Ciphertext{Value: pt.Value, Level: 1, Scale: 1024}, ErrDegree},
		{"zero", zero, ErrDegenerate},
		{"wrong seed", wrongSeed, ErrSeed},
		{"level", level, ErrLevel},
		{"scale", scale, ErrScale},
		{"domain", foreign, ErrDomain},
		{"another ring's", randomCiphertext(t, mustContext(t, p), 1, 1024, false), cutrantt.ErrForeign},
	} {
		if _, err := c.MarshalCiphertext(tc.ct); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

func TestClone(t *testing.T) {
	c := mustContext(t, tinyParams(t))
	ct := randomCiphertext(t, c, 1, 1024, true)
	b := mustMarshal(t, c, ct)
	copied, err := ct.Clone(c)
	if err != nil || !bytes.Equal(mustMarshal(t, c, copied), b) {
		t.Fatalf("clone: %v", err)
	}
	if err := c.Ring().Wipe(ct.Value); err != nil {
		t.Fatal(err)
	}
	*ct.Seed = [32]byte{}
	if !bytes.Equal(mustMarshal(t, c, copied), b) {
		t.Error("the clone shares memory")
	}
	if _, err := (*Ciphertext)(nil).Clone(c); !errors.Is(err, ErrDegree) {
		t.Errorf("clone of nil: %v", err)
	}
}
