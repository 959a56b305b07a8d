package bfv_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
)

// TestDepth multiplies until the bound of the noise refuses. Every product before that is right, the bound holds and
// is not far above the noise, and the model refuses the same circuit without a ciphertext.
func TestDepth(t *testing.T) {
	for name, want := range map[string]int{"bfv13": 5, "bfv14": 9} {
		if testing.Short() && name == "bfv14" {
			continue
		}
		p := must(bfv.Named(name, 0))(t)
		r := newRig(t, p)
		x := r.values(p.N(), 8)
		var fresh [4]*bfv.Ciphertext // their noise differs; the bound is compared with the largest
		for k := range fresh {
			fresh[k] = r.slots(t, x)
		}
		power := func(next func(i int) int) (depth int) {
			cts, noise, y := fresh, p.Noise().FreshPK(), slices.Clone(x)
			for {
				by, other, values := fresh, p.Noise().FreshPK(), x
				if next(depth) == 2 {
					by, other, values = cts, noise, slices.Clone(y)
				}
				noise = p.Noise().Mul(noise, other)
				for i, v := range values {
					y[i] = y[i] * v % uint64(p.T())
				}
				slack := math.Inf(1)
				for k := range cts {
					product, err := r.ev.Mul(cts[k], by[k])
					if (err == nil) != p.Noise().Fits(noise) {
						t.Fatalf("product %d: %v, but the model says %t", depth+1, err, p.Noise().Fits(noise))
					}
					if errors.Is(err, bfv.ErrNoise) {
						return depth
					}
					check(t, err)
					cts[k] = product
					place := fmt.Sprintf("%s, product %d", name, depth+1)
					r.expect(t, place, product, func(i int) uint64 { return y[i] })
					slack = min(slack, p.Noise().Largest(product.Noise)/must(r.dec.Noise(product))(t))
				}
				if depth++; slack > 0x1p14 {
					t.Errorf("%s, product %d: the bound is %g times the noise", name, depth, slack)
				}
			}
		}
		if depth := power(func(int) int { return 2 }); depth != want {
			t.Errorf("%s: %d squares fit one after the other, want %d", name, depth, want)
		}
		// What the model advises against still holds.
		if depth := power(func(int) int { return 1 }); depth < want {
			t.Errorf("%s: %d products with one factor fit, want %d", name, depth, want)
		}
	}
}

// TestCircuits runs random circuits beside integers modulo t. Whatever is not refused is right.
func TestCircuits(t *testing.T) {
	r := newRig(t, toy(t, 65537))
	m, n := uint64(r.p.T()), r.p.N()
	type pair struct {
		ct     *bfv.Ciphertext
		values []uint64
	}
	rapid.Check(t, func(rt *rapid.T) {
		pool := []pair{}
		for i := range 2 {
			v := r.values(n, rapid.Uint64().Draw(rt, "seed"))
			ct := r.slots(t, v)
			if i == 1 {
				ct = must(r.seeded.Encrypt(must(r.ctx.EncodeSlots(v))(t), nil))(t)
			}
			pool = append(pool, pair{ct, v})
		}
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			a := pool[rapid.IntRange(0, len(pool)-1).Draw(rt, "a")]
			b := pool[rapid.IntRange(0, len(pool)-1).Draw(rt, "b")]
			out, k := make([]uint64, n), rapid.Int64Range(-5, 5).Draw(rt, "k")
			each := func(f func(i int) uint64) {
				for i := range out {
					out[i] = f(i)
				}
			}
			var ct *bfv.Ciphertext
			var err error
			switch rapid.IntRange(0, 5).Draw(rt, "operation") {
			case 0:
				ct, err = r.ev.Add(a.ct, b.ct)
				each(func(i int) uint64 { return (a.values[i] + b.values[i]) % m })
			case 1:
				ct, err = r.ev.Sub(a.ct, b.ct)
				each(func(i int) uint64 { return (a.values[i] + m - b.values[i]) % m })
			case 2, 3:
				ct, err = r.ev.Mul(a.ct, b.ct)
				each(func(i int) uint64 { return a.values[i] * b.values[i] % m })
			case 4:
				ct, err = r.ev.MulConst(a.ct, k)
				each(func(i int) uint64 { return a.values[i] * (m + uint64(k)) % m })
			case 5:
				ct, err = r.ev.SwapRows(a.ct)
				each(func(i int) uint64 { return a.values[(i+n/2)%n] })
			}
			if errors.Is(err, bfv.ErrNoise) {
				continue
			}
			check(t, err)
			got := must(r.dec.Slots(ct))(t)
			for i, v := range out {
				if got[i] != v {
					rt.Fatalf("slot %d holds %d, want %d", i, got[i], v)
				}
			}
			if noise := must(r.dec.Noise(ct))(t); noise > r.p.Noise().Largest(ct.Noise) {
				rt.Fatalf("noise of %g above the bound of %+v", noise, ct.Noise)
			}
			pool = append(pool, pair{ct, out})
		}
	})
}

// TestTogether compares what is computed together with what is computed alone, bit for bit.
func TestTogether(t *testing.T) {
	r := newRig(t, toy(t, 65537))
	var pts []*bfv.Plaintext
	var seeds []*henc.Seed
	for i := range 3 {
		pts = append(pts, must(r.ctx.EncodeSlots(r.values(r.p.N(), uint64(i))))(t))
		seeds = append(seeds, seedOf(fmt.Sprintf("together %d", i)))
	}
	cts := must(r.enc.EncryptBatch(pts, seeds))(t)
	others := []*bfv.Ciphertext{cts[1], cts[1], cts[0]}
	products := must(r.ev.MulBatch(cts, others))(t)
	elements := []uint64{henc.GaloisElement(r.p.Base(), 1), 1, henc.ConjugationElement(r.p.Base())}
	turned := must(r.ev.Automorphisms(cts[0], elements))(t)
	for i, ct := range cts {
		r.identical(t, "encryption", ct, must(r.enc.Encrypt(pts[i], seeds[i]))(t))
		r.identical(t, "product", products[i], must(r.ev.Mul(ct, others[i]))(t))
		r.identical(t, "automorphism", turned[i], must(r.ev.Automorphism(cts[0], elements[i]))(t))
	}
}

// identical fails unless both have the same residues and the same noise bound.
func (r *rig) identical(t testing.TB, what string, a, b *bfv.Ciphertext) {
	t.Helper()
	if x, y := r.residues(t, a), r.residues(t, b); x != y || a.Noise != b.Noise {
		t.Errorf("%s: computed together and alone differs", what)
	}
}
