package conformance

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

var encryptLabels = cutrantt.EncryptionLabels{V: 11, E0: 12, E1: 13, Mask: 14}

// compose encrypts step by step with the methods of Ring; key is (b, a), or s
// where the job has a public seed.
func compose(g *rig, limbs []int, n2 int, key *cutrantt.Batch, at []int, j cutrantt.Encryption) *cutrantt.Batch {
	g.Helper()
	r, coeffs, ntt := g.ring, cutrantt.Coeffs(n2), cutrantt.NTT(n2)
	batch := func(polys int, d cutrantt.Domain) *cutrantt.Batch {
		b, err := r.NewBatch(polys, limbs, d)
		g.ok(err)
		return b
	}
	poly := func(b *cutrantt.Batch, i int) *cutrantt.Batch {
		p, err := b.Slice(i, i+1, 0, len(limbs))
		g.ok(err)
		return p
	}
	out, m, e := batch(2, ntt), batch(1, coeffs), batch(1, coeffs)
	g.ok(r.SetFloats(m, j.Message))
	g.ok(r.SampleCBD(e, j.Seed, encryptLabels.E0))
	g.ok(r.Add(m, m, e))
	g.ok(r.Forward(m, m))
	for p := range key.Polys() { // the limbs of the key in the order of limbs
		k := batch(1, ntt)
		for i := range limbs {
			to, err := k.Slice(0, 1, i, i+1)
			g.ok(err)
			from, err := key.Slice(p, p+1, at[i], at[i]+1)
			g.ok(err)
			g.ok(r.Copy(to, from))
		}
		if j.Mask != nil {
			g.ok(r.SampleUniform(poly(out, 1), j.Mask, encryptLabels.Mask))
			g.ok(r.Mul(poly(out, 0), poly(out, 1), k))
			g.ok(r.Sub(poly(out, 0), m, poly(out, 0)))
			return out
		}
		v := batch(1, coeffs)
		g.ok(r.SampleTernary(v, j.Seed, encryptLabels.V))
		g.ok(r.Forward(v, v))
		g.ok(r.Mul(poly(out, p), v, k))
		if p == 1 {
			m = batch(1, coeffs)
			g.ok(r.SampleCBD(m, j.Seed, encryptLabels.E1))
			g.ok(r.Forward(m, m))
		}
		g.ok(r.Add(poly(out, p), poly(out, p), m))
	}
	return out
}

// messages have coefficients that are small, near 2^51, near 2^62, and none.
func (g *rig) messages(count int) []cutrantt.Encryption {
	var jobs []cutrantt.Encryption
	for i := range count {
		bound := []float64{1 << 20, 1 << 51, 1<<62 - 1<<10, 0}[i%4]
		j := cutrantt.Encryption{Bound: bound, Seed: &[32]byte{byte(i), 1}, Mask: &[32]byte{byte(i), 2},
			Message: make([]float64, g.ring.N())}
		for k := range j.Message {
			j.Message[k] = math.RoundToEven((2*g.rng.Float64() - 1) * bound)
		}
		j.Message[0], j.Message[1] = bound, -bound
		jobs = append(jobs, j)
	}
	return jobs
}

// TestEncrypting compares encryption in few kernels with the steps it stands for.
func TestEncrypting(t *testing.T) {
	eachCompared(t, func(t *testing.T, b cutrantt.Backend) {
		for _, c := range []struct{ logN, moduli, jobs int }{{10, 4, 7}, {11, 3, 2}, {13, 6, 3}, {14, 3, 1}, {15, 2, 1},
			{16, 3, 2}, {17, 3, 1}} {
			short := testing.Short() && c.logN > 13 // every kernel once
			if short {
				c.moduli, c.jobs = 2, 1
			}
			for _, n2 := range columns {
				if short && n2 != 16 && (n2 != 1 || c.logN > 15) {
					continue
				}
				for _, m := range append(cutrantt.Methods(), cutrantt.MethodAuto) {
					if !m.Supports(n2) || m != cutrantt.MethodAuto && c.logN > 10 {
						continue
					}
					t.Run(fmt.Sprintf("2^%d/n2=%d/%v", c.logN, n2, m), func(t *testing.T) {
						ms := append(moduli(t, c.logN, c.moduli-1), rejecting(t, c.logN))
						g := newRig(t, b, c.logN, ms, m)
						enc := encrypting(t, g.ring)
						testEncrypting(g, enc, c.moduli, n2, c.jobs)
					})
				}
			}
		}
	})
}

func testEncrypting(g *rig, enc cutrantt.Encrypting, count, n2, k int) {
	order := upTo(count)
	order[0], order[count-1] = order[count-1], order[0]
	key := g.batch(order, cutrantt.NTT(n2), random, random).got
	op, err := g.ring.Precompute(key)
	g.ok(err)
	s, err := key.Slice(0, 1, 0, count)
	g.ok(err)
	// what agents use
	promised := g.ring.Backend().Name() == "cuda" && n2 == 16 && g.ring.Method() == cutrantt.MethodAuto
	for _, limbs := range [][]int{upTo(count), {1}} {
		at := make([]int, len(limbs))
		for i, l := range limbs {
			for at[i] = 0; order[at[i]] != l; at[i]++ {
			}
		}
		compare := func(what string, out []*cutrantt.Batch, err error, jobs []cutrantt.Encryption, promised bool) {
			g.Helper()
			if errors.Is(err, cutrantt.ErrNotSupported) && !promised {
				return
			}
			g.ok(err)
			for i, j := range jobs {
				if out[i].Domain() != cutrantt.NTT(n2) || out[i].Polys() != 2 {
					g.Fatalf("%s, message %d: %v", what, i, out[i].Shape())
				}
				g.equal(fmt.Sprintf("%s, message %d", what, i), download(g, g.ring, out[i]),
					download(g, g.ring, compose(g, limbs, n2, key, at, j)))
			}
		}
		large := g.messages(1)
		large[0].Bound = 0x1p300
		for i := range large[0].Message {
			large[0].Message[i] *= 0x1p280
		}
		jobs := g.messages(k)
		out, err := enc.EncryptSeeded(s, limbs, encryptLabels, jobs)
		compare("seeded", out, err, jobs, promised)
		out, err = enc.EncryptSeeded(s, limbs, encryptLabels, large)
		compare("seeded, large", out, err, large, false)
		for i := range jobs {
			jobs[i].Mask = nil
		}
		large[0].Mask = nil
		out, err = enc.EncryptPublic(op, limbs, encryptLabels, jobs)
		compare("public", out, err, jobs, promised)
		out, err = enc.EncryptPublic(op, limbs, encryptLabels, large)
		compare("public, large", out, err, large, false)
	}
}

// encrypting is the ring's fused encryption. Every backend has it but the reference,
// which encrypts step by step: the definition that the others are compared with.
func encrypting(t *testing.T, r cutrantt.Ring) cutrantt.Encrypting {
	t.Helper()
	enc, ok := r.(cutrantt.Encrypting)
	if !ok {
		t.Fatal("this backend does not encrypt at once")
	}
	return enc
}

// TestEncryptingRefuses: arguments that do not fit are errors.
func TestEncryptingRefuses(t *testing.T) {
	eachCompared(t, func(t *testing.T, b cutrantt.Backend) {
		g := newRig(t, b, 10, moduli(t, 10, 3), cutrantt.MethodAuto)
		enc := encrypting(t, g.ring)
		key := g.batch([]int{0, 1}, cutrantt.NTT(16), random, random).got
		op, err := g.ring.Precompute(key)
		g.ok(err)
		three, err := g.ring.Precompute(g.batch([]int{0, 1}, cutrantt.NTT(16), random, random, random).got)
		g.ok(err)
		s := g.batch([]int{0, 1}, cutrantt.NTT(16), random).got
		coeffs := g.batch([]int{0, 1}, cutrantt.Coeffs(16), random).got
		good := g.messages(2)
		short, noSeed, noMask := g.messages(2), g.messages(2), g.messages(2)
		short[1].Message = short[1].Message[1:]
		noSeed[1].Seed = nil
		noMask[1].Mask = nil
		released, err := g.ring.Precompute(key)
		g.ok(err)
		released.Release()
		for _, c := range []struct {
			what string
			want error
			f    func() ([]*cutrantt.Batch, error)
		}{
			{"nil operand", cutrantt.ErrForeign, func() ([]*cutrantt.Batch, error) {
				return enc.EncryptPublic(nil, []int{0}, encryptLabels, good)
			}},
			{"released operand", cutrantt.ErrForeign, func() ([]*cutrantt.Batch, error) {
				return enc.EncryptPublic(released, []int{0}, encryptLabels, good)
			}},
			{"three polynomials", cutrantt.ErrShape, func() ([]*cutrantt.Batch, error) {
				return enc.EncryptPublic(three, []int{0}, encryptLabels, good)
			}},
			{"a limb that the key lacks", cutrantt.ErrShape, func() ([]*cutrantt.Batch, error) {
				return enc.EncryptPublic(op, []int{0, 2}, encryptLabels, good)
			}},
			{"no limbs", cutrantt.ErrShape, func() ([]*cutrantt.Batch, error) {
				return enc.EncryptPublic(op, nil, encryptLabels, good)
			}},
			{"a limb twice", cutrantt.ErrShape, func() ([]*cutrantt.Batch, error) {
				return enc.EncryptPublic(op, []int{0, 0}, encryptLabels, good)
			}},
			{"short message", cutrantt.ErrShape, func() ([]*cutrantt.Batch, error) {
				return enc.EncryptPublic(op, []int{0}, encryptLabels, short)
			}},
			{"no seed", cutrantt.ErrRange, func() ([]*cutrantt.Batch, error) {
				return enc.EncryptPublic(op, []int{0}, encryptLabels, noSeed)
			}},
			{"no public seed", cutrantt.ErrRange, func() ([]*cutrantt.Batch, error) {
				return enc.EncryptSeeded(s, []int{0}, encryptLabels, noMask)
			}},
			{"key in coefficients", cutrantt.ErrDomain, func() ([]*cutrantt.Batch, error) {
				return enc.EncryptSeeded(coeffs, []int{0}, encryptLabels, good)
			}},
			{"key of two polynomials", cutrantt.ErrShape, func() ([]*cutrantt.Batch, error) {
				return enc.EncryptSeeded(key, []int{0}, encryptLabels, good)
			}},
			{"nil key", cutrantt.ErrForeign, func() ([]*cutrantt.Batch, error) {
				return enc.EncryptSeeded(nil, []int{0}, encryptLabels, good)
			}},
		} {
			if out, err := c.f(); !errors.Is(err, c.want) || out != nil {
				t.Errorf("%s: %v, %v; want %q", c.what, out, err, c.want)
			}
		}
		if out, err := enc.EncryptPublic(op, []int{0}, encryptLabels, nil); err != nil || len(out) != 0 {
			t.Errorf("no messages: %v, %v", out, err)
		}
	})
}

// embedding is the transform over n slots with random roots: a ring takes them as they are.
func (g *rig) embedding(n, each int, scale float64) *cutrantt.Embedding {
	m := &cutrantt.Embedding{Roots: make([]float64, 2*n), Scale: scale, Each: each}
	for i := range n {
		m.Roots[2*i+1], m.Roots[2*i] = math.Sincos(2 * math.Pi * g.rng.Float64())
	}
	return m
}

// embed makes coefficients of values as cutrantt.Embedding says.
func embed(m *cutrantt.Embedding, values []float64) []float64 {
	n := len(m.Roots) / 2
	re, im := make([]float64, n), make([]float64, n)
	for i, v := range values {
		if part := i % m.Each; part == 0 {
			re[i/m.Each] = v
		} else {
			im[i/m.Each] = v
		}
	}
	for h := n / 2; h >= 1; h /= 2 {
		for i := range n {
			if i&h != 0 {
				continue
			}
			j := i + h
			c, s := m.Roots[2*(h+i%h)], m.Roots[2*(h+i%h)+1]
			dr, di := re[i]-re[j], im[i]-im[j]
			re[i], im[i] = re[i]+re[j], im[i]+im[j]
			re[j] = float64(dr*c) + float64(di*s)
			im[j] = float64(di*c) - float64(dr*s)
		}
	}
	out := make([]float64, 2*n)
	for k := range n {
		at := int(bits.Reverse32(uint32(k)) >> (33 - bits.Len32(uint32(n))))
		out[k] = math.RoundToEven(float64(re[at]/float64(n)) * m.Scale)
		out[n+k] = math.RoundToEven(float64(im[at]/float64(n)) * m.Scale)
	}
	return out
}

// TestEncryptingSlots compares the encryption of slots with that of their coefficients.
func TestEncryptingSlots(t *testing.T) {
	eachGPU(t, func(t *testing.T, b cutrantt.Backend) {
		for logN := 10; logN <= 17; logN++ { // the passes differ
			if testing.Short() && logN > 15 {
				continue
			}
			t.Run(fmt.Sprintf("2^%d", logN), func(t *testing.T) {
				g := newRig(t, b, logN, moduli(t, logN, 2), cutrantt.MethodAuto)
				enc, ok := g.ring.(cutrantt.Encoding)
				if !ok {
					t.Fatal("this backend does not encode")
				}
				g.testSlots(enc)
			})
		}
	})
}

func (g *rig) testSlots(enc cutrantt.Encoding) {
	g.Helper()
	n := g.ring.N() / 2
	key := g.batch([]int{0, 1}, cutrantt.NTT(16), random, random).got
	op, err := g.ring.Precompute(key)
	g.ok(err)
	s, err := key.Slice(0, 1, 0, 2)
	g.ok(err)
	for each := 1; each <= 2; each++ {
		m := g.embedding(n, each, 0x1p40)
		var jobs, want []cutrantt.Encryption
		for i, count := range []int{each * n, 0, 1, each*n - 1, n/2 + 1} {
			j := cutrantt.Encryption{Embedding: m, Bound: 0x1p60, Message: make([]float64, count),
				Seed: &[32]byte{byte(i), 3}, Mask: &[32]byte{byte(i), 4}}
			for k := range j.Message {
				j.Message[k] = (2*g.rng.Float64() - 1) * []float64{1, 0x1p18, 0x1p-60, 0x1p-1040}[k%4]
			}
			jobs = append(jobs, j)
			j.Message, j.Embedding = embed(m, j.Message), nil
			want = append(want, j)
		}
		compare := func(what string, f func([]cutrantt.Encryption) ([]*cutrantt.Batch, error), lo, hi int) {
			g.Helper()
			got, err := f(jobs[lo:hi])
			if !enc.Encodes() {
				if !errors.Is(err, cutrantt.ErrNotSupported) {
					g.Fatalf("%s: %v, want %v", what, err, cutrantt.ErrNotSupported)
				}
				return
			}
			g.ok(err)
			expect, err := f(want[lo:hi])
			g.ok(err)
			for i := range got {
				g.equal(fmt.Sprintf("%s, message %d of %d to %d, %d values a slot", what, i, lo, hi, each),
					download(g, g.ring, got[i]), download(g, g.ring, expect[i]))
			}
		}
		for _, part := range [][2]int{{0, 1}, {0, len(jobs)}, {1, 3}, {4, 5}} { // some have full messages
			compare("public", func(j []cutrantt.Encryption) ([]*cutrantt.Batch, error) {
				return enc.EncryptPublic(op, []int{1, 0}, encryptLabels, j)
			}, part[0], part[1])
			compare("seeded", func(j []cutrantt.Encryption) ([]*cutrantt.Batch, error) {
				return enc.EncryptSeeded(s, []int{0, 1}, encryptLabels, j)
			}, part[0], part[1])
		}
	}
}

// TestEncryptingSlotsRefuses: embeddings that do not fit are errors.
func TestEncryptingSlotsRefuses(t *testing.T) {
	eachCompared(t, func(t *testing.T, b cutrantt.Backend) {
		g := newRig(t, b, 10, moduli(t, 10, 2), cutrantt.MethodAuto)
		op, err := g.ring.Precompute(g.batch([]int{0, 1}, cutrantt.NTT(16), random, random).got)
		g.ok(err)
		ring := encrypting(t, g.ring)
		enc, ok := g.ring.(cutrantt.Encoding)
		encodes := ok && enc.Encodes()
		jobs := func(change func(jobs []cutrantt.Encryption)) []cutrantt.Encryption {
			m := g.embedding(512, 1, 1<<20)
			two := g.messages(2)
			for i := range two {
				two[i].Message, two[i].Embedding = make([]float64, 512), m
			}
			change(two)
			return two
		}
		type encryptions = []cutrantt.Encryption
		for what, c := range map[string]struct {
			want   error
			change func(j encryptions)
		}{
			"another embedding": {cutrantt.ErrShape, func(j encryptions) {
				j[1].Embedding = g.embedding(512, 1, 1<<20)
			}},
			"coefficients beside slots": {cutrantt.ErrShape, func(j encryptions) { j[1].Embedding = nil }},
			"slots beside coefficients": {cutrantt.ErrShape, func(j encryptions) {
				j[0].Embedding, j[0].Message = nil, make([]float64, 1024)
				j[1].Message = j[0].Message
			}},
			"too many values": {cutrantt.ErrShape, func(j encryptions) { j[1].Message = make([]float64, 513) }},
			"too few roots": {cutrantt.ErrRange, func(j encryptions) {
				j[0].Embedding.Roots = j[0].Embedding.Roots[2:]
			}},
			"three a slot":     {cutrantt.ErrRange, func(j encryptions) { j[0].Embedding.Each = 3 }},
			"no scale":         {cutrantt.ErrRange, func(j encryptions) { j[0].Embedding.Scale = 0.5 }},
			"an endless scale": {cutrantt.ErrRange, func(j encryptions) { j[0].Embedding.Scale = math.Inf(1) }},
			"large":            {cutrantt.ErrNotSupported, func(j encryptions) { j[1].Bound = 1 << 62 }},
		} {
			want := c.want
			if !encodes {
				want = cutrantt.ErrNotSupported
			}
			out, err := ring.EncryptPublic(op, []int{0, 1}, encryptLabels, jobs(c.change))
			if !errors.Is(err, want) || out != nil {
				t.Errorf("%s: %v, %d results; want %q", what, err, len(out), want)
			}
		}
	})
}
