package henc_test

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/prng"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/internal/keymat"
)

// secretOf is s over all moduli.
func secretOf(t *testing.T, r *rig) *cutrantt.Batch {
	t.Helper()
	s := must(r.ctx.Ring().NewBatch(1, r.p.QPLimbs(r.p.MaxLevel()), cutrantt.Coeffs(r.ctx.N2())))(t)
	check(t, r.ctx.Ring().SetSmall(s, must(r.key.Coefficients())(t)))
	check(t, r.ctx.Ring().Forward(s, s))
	return s
}

// small are the coefficients of b, which must be the same small integers modulo
// every limb.
func small(t *testing.T, r *rig, b *cutrantt.Batch) []int32 {
	t.Helper()
	c := must(r.ctx.Ring().NewBatch(1, b.Limbs(), cutrantt.Coeffs(1)))(t)
	check(t, r.ctx.Ring().Convert(c, b))
	host, n := download(t, r, c), r.p.N()
	out := make([]int32, n)
	for l, m := range b.Limbs() {
		q := r.p.Moduli()[m].Q
		for i := range n {
			v := int32(host[l*n+i])
			if host[l*n+i] > q/2 {
				v -= int32(q)
			}
			if l == 0 {
				out[i] = v
			} else if out[i] != v {
				t.Fatalf("coefficient %d is %d modulo the first prime and %d modulo limb %d", i, out[i], v, l)
			}
		}
	}
	return out
}

// checkNoise fails unless e looks like a fresh centred binomial polynomial that was
// not seen before.
func checkNoise(t *testing.T, name string, e []int32, seen map[string][]int32) {
	t.Helper()
	sum := 0.0
	for _, v := range e {
		if v < -21 || v > 21 {
			t.Fatalf("%s: noise of %d", name, v)
		}
		sum += float64(v) * float64(v)
	}
	if dev := math.Sqrt(sum / float64(len(e))); math.Abs(dev/prng.Sigma-1) > 0.1 {
		t.Errorf("%s: noise of deviation %.3f, want %.3f", name, dev, prng.Sigma)
	}
	for other, f := range seen {
		if slices.Equal(e, f) {
			t.Errorf("%s has the noise of %s", name, other)
		}
	}
	seen[name] = e
}

// TestKeyStructure opens every key with the secret: digit d of a key from target to
// under must hide exactly e_d + P*target on the primes of digit d, with noise and
// uniform halves of its own.
func TestKeyStructure(t *testing.T) {
	for _, set := range []string{"toy", "toy-single"} {
		for _, n2 := range []int{1, 16} {
			r := newRig(t, set, n2)
			r.evaluator(t)
			ring, p, s := r.ctx.Ring(), r.p, secretOf(t, r)
			like := func() *cutrantt.Batch { return must(ring.NewBatch(1, s.Limbs(), s.Domain()))(t) }
			seen, halves := map[string][]int32{}, map[string][]int32{}
			open := func(name string, value *cutrantt.Batch, d int, under, target *cutrantt.Batch) {
				b, a := must(value.Slice(2*d, 2*d+1, 0, len(s.Limbs())))(t),
					must(value.Slice(2*d+1, 2*d+2, 0, len(s.Limbs())))(t)
				e := like()
				check(t, ring.Mul(e, a, under))
				check(t, ring.Add(e, e, b))
				if target != nil {
					lift := make([]uint32, len(s.Limbs())) // P on the primes of digit d, 0 elsewhere
					for i := d * p.Alpha(); i < min((d+1)*p.Alpha(), len(p.Q())); i++ {
						lift[i] = uint32(new(big.Int).Mod(p.PProduct(), big.NewInt(int64(p.Q()[i]))).Uint64())
					}
					g := like()
					check(t, ring.MulScalar(g, target, lift))
					check(t, ring.Sub(e, e, g))
				}
				checkNoise(t, name, small(t, r, e), seen)
				first := make([]int32, p.N())
				for i, v := range download(t, r, a)[:p.N()] {
					first[i] = int32(v)
				}
				for other, h := range halves {
					if slices.Equal(first, h) {
						t.Errorf("%s has the uniform half of %s", name, other)
					}
				}
				halves[name] = first
			}
			open("public key", r.pk.Value, 0, s, nil)
			square := like()
			check(t, ring.Mul(square, s, s))
			for d := range p.Dnum(p.MaxLevel()) {
				open(fmt.Sprintf("relinearisation key, digit %d", d), r.keys.Relin.Value, d, s, square)
			}
			for _, k := range []int{1, -1} {
				// The key of element g is from s to phi_(1/g)(s): the inverse rotation.
				turned := like()
				check(t, ring.Automorphism(turned, s, henc.GaloisElement(p, -k)))
				for d := range p.Dnum(p.MaxLevel()) {
					open(fmt.Sprintf("galois key of rotation %d, digit %d", k, d),
						r.keys.Galois[henc.GaloisElement(p, k)].Value, d, turned, s)
				}
			}
		}
	}
}

// TestEncryptionStructure rebuilds a public-key ciphertext from its seed, term by
// term, and opens a seeded one: its noise must come from the secret seed and be
// unrelated to the public one.
func TestEncryptionStructure(t *testing.T) {
	for _, n2 := range []int{1, 16} {
		r := newRig(t, "toy", n2)
		ring, p, level := r.ctx.Ring(), r.p, 1
		limbs := p.QLimbs(level)
		coeffs := must(r.ctx.Encoder().EncodeCoeffs(uniform(p.Slots(), 5), p.ScaleAt(level)))(t)
		seed := seedOf("structure")
		draw := func(f func([]int32, *[32]byte, uint32), s *[32]byte, label uint32) []int32 {
			v := make([]int32, p.N())
			f(v, s, label)
			return v
		}
		lifted := func(v []int32, message bool) *cutrantt.Batch {
			b := must(ring.NewBatch(1, limbs, cutrantt.Coeffs(n2)))(t)
			x := make([]float64, p.N())
			for i := range x {
				x[i] = float64(v[i])
			}
			check(t, ring.SetFloats(b, x))
			if message {
				mb := must(ring.NewBatch(1, limbs, cutrantt.Coeffs(n2)))(t)
				check(t, ring.SetFloats(mb, coeffs))
				check(t, ring.Add(b, b, mb))
			}
			check(t, ring.Forward(b, b))
			return b
		}
		v := lifted(draw(prng.Ternary, (*[32]byte)(seed), keymat.LabelV), false)
		want := must(ring.NewBatch(2, limbs, r.ctx.Domain()))(t)
		for k, e := range []*cutrantt.Batch{
			lifted(draw(prng.CBD, (*[32]byte)(seed), keymat.LabelE0), true),
			lifted(draw(prng.CBD, (*[32]byte)(seed), keymat.LabelE1), false),
		} {
			w := must(want.Slice(k, k+1, 0, len(limbs)))(t)
			check(t, ring.Mul(w, v, must(r.pk.Value.Slice(k, k+1, 0, len(limbs)))(t)))
			check(t, ring.Add(w, w, e))
		}
		ct := must(r.enc.Encrypt(coeffs, level, 0, seed))(t)
		if !slices.Equal(download(t, r, ct.Value), download(t, r, want)) {
			t.Errorf("n2=%d: the ciphertext is not (v*b + m + e0, v*a + e1)", n2)
		}
		if *seed != *seedOf("structure") {
			t.Error("encryption changed the caller's seed")
		}

		ct = must(r.seeded.Encrypt(coeffs, level, 0, seed))(t)
		pt := must(r.dec.Decrypt(ct))(t)
		check(t, ring.Sub(pt.Value, pt.Value, lifted(make([]int32, p.N()), true)))
		e := small(t, r, pt.Value)
		checkNoise(t, "seeded ciphertext", e, map[string][]int32{})
		if *(*henc.Seed)(ct.Seed) == *seed {
			t.Error("the public seed is the secret one")
		}
		for _, label := range []uint32{0, henc.LabelCipherA, keymat.LabelV, keymat.LabelE0, keymat.LabelE1,
			keymat.LabelKeyE} {
			if slices.Equal(e, draw(prng.CBD, ct.Seed, label)) {
				t.Errorf("the noise is stream %#x of the public seed", label)
			}
		}
	}
}
