package conformance

import (
	"errors"
	"fmt"
	"math"
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
