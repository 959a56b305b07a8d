package cpu

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

// TestEncrypting compares encryptions as a whole with the steps of Ring on plain Go,
// for messages of every size and primes from the smallest to the largest.
func TestEncrypting(t *testing.T) {
	const logN = 11
	labels := cutrantt.EncryptionLabels{V: 1, E0: 2, E1: 3, Mask: 4}
	ms := append(testModuli(t, logN, 4), cutrantt.Modulus{Q: 12289, Psi: 0})
	b := newBarrett(12289)
	for g := uint32(3); ms[4].Check(logN) != nil; g++ {
		ms[4].Psi = b.pow(g, 12288>>(logN+1))
	}
	plain, err := backend{}.NewRing(logN, ms, cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for _, c := range variants() {
		ring, err := backend{vec: c}.NewRing(logN, ms, cutrantt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, bits := range []int{0, 1, 20, 31, 32, 33, 45, 59, 60} {
			bound := math.Ldexp(1, bits)
			message := make([]float64, 1<<logN)
			for i := range message {
				message[i] = math.Trunc([...]float64{bound, -bound, 0, (2*rng.Float64() - 1) * bound}[rng.IntN(4)])
			}
			j := cutrantt.Encryption{Message: message, Bound: bound, Seed: &[32]byte{byte(bits)},
				Mask: &[32]byte{1, byte(bits)}}
			limbs := []int{4, 0, 2}
			for kind, f := range map[string]func(r cutrantt.Ring) ([]uint32, error){
				"public":       func(r cutrantt.Ring) ([]uint32, error) { return public(r, limbs, labels, j, false) },
				"seeded":       func(r cutrantt.Ring) ([]uint32, error) { return seeded(r, limbs, labels, j, false) },
				"public steps": func(r cutrantt.Ring) ([]uint32, error) { return public(r, limbs, labels, j, true) },
				"seeded steps": func(r cutrantt.Ring) ([]uint32, error) { return seeded(r, limbs, labels, j, true) },
			} {
				steps := map[string]func() ([]uint32, error){
					"public": func() ([]uint32, error) { return public(plain, limbs, labels, j, true) },
					"seeded": func() ([]uint32, error) { return seeded(plain, limbs, labels, j, true) },
				}
				got, err := f(ring)
				if err != nil {
					t.Fatalf("%s, %s, 2^%d: %v", c.name, kind, bits, err)
				}
				want, err := steps[kind[:6]]()
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s: %s encryption of coefficients up to 2^%d differs", c.name, kind, bits)
				}
			}
		}
		large := cutrantt.Encryption{Message: make([]float64, 1<<logN), Bound: maxWide, Seed: &[32]byte{},
			Mask: &[32]byte{}}
		if _, err := public(ring, []int{0}, labels, large, false); !errors.Is(err, cutrantt.ErrNotSupported) {
			t.Errorf("%s: a message beyond the bound: %v", c.name, err)
		}
	}
	small := cutrantt.Encryption{Message: make([]float64, 1<<logN), Seed: &[32]byte{}, Mask: &[32]byte{}}
	if _, err := seeded(plain, []int{0}, labels, small, false); !errors.Is(err, cutrantt.ErrNotSupported) {
		t.Errorf("plain Go: %v", err)
	}
}

// key is polys uniform polynomials over all moduli of r.
func key(r cutrantt.Ring, polys int) (*cutrantt.Batch, error) {
	all := make([]int, len(r.Moduli()))
	for i := range all {
		all[i] = i
	}
	b, err := r.NewBatch(polys, all, cutrantt.NTT(1))
	for p := 0; p < polys && err == nil; p++ {
		var v *cutrantt.Batch
		if v, err = b.Slice(p, p+1, 0, len(all)); err == nil {
			err = r.SampleUniform(v, &[32]byte{9}, uint32(p))
		}
	}
	return b, err
}

// residues downloads the first of bs.
func residues(r cutrantt.Ring, bs []*cutrantt.Batch, err error) ([]uint32, error) {
	if err != nil {
		return nil, err
	}
	x := make([]uint32, bs[0].Len())
	return x, r.Download(x, bs[0])
}

// do runs steps until one fails.
func do(steps ...func() error) error {
	for i, f := range steps {
		if err := f(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

func public(r cutrantt.Ring, limbs []int, labels cutrantt.EncryptionLabels, j cutrantt.Encryption,
	bySteps bool) ([]uint32, error) {
	k, err := key(r, 2)
	if err != nil {
		return nil, err
	}
	op, err := r.Precompute(k)
	if err != nil {
		return nil, err
	}
	if !bySteps {
		bs, err := r.(cutrantt.Encrypting).EncryptPublic(op, limbs, labels, []cutrantt.Encryption{j})
		return residues(r, bs, err)
	}
	v, m, e := empty(r, limbs), empty(r, limbs), empty(r, limbs)
	out, err := r.NewBatch(2, limbs, cutrantt.NTT(1))
	if err != nil {
		return nil, err
	}
	c0, _ := out.Slice(0, 1, 0, len(limbs))
	c1, _ := out.Slice(1, 2, 0, len(limbs))
	return residues(r, []*cutrantt.Batch{out}, do(
		func() error { return r.SampleTernary(v, j.Seed, labels.V) },
		func() error { return r.Forward(v, v) },
		func() error { return r.MulOperand(out, v, op) },
		func() error { return r.SetFloats(m, j.Message) },
		func() error { return r.SampleCBD(e, j.Seed, labels.E0) },
		func() error { return r.Add(m, m, e) },
		func() error { return r.Forward(m, m) },
		func() error { return r.Add(c0, c0, m) },
		func() error { return r.SampleCBD(e, j.Seed, labels.E1) },
		func() error { return r.Forward(e, e) },
		func() error { return r.Add(c1, c1, e) },
	))
}

func seeded(r cutrantt.Ring, limbs []int, labels cutrantt.EncryptionLabels, j cutrantt.Encryption,
	bySteps bool) ([]uint32, error) {
	s, err := key(r, 1)
	if err != nil {
		return nil, err
	}
	if !bySteps {
		bs, err := r.(cutrantt.Encrypting).EncryptSeeded(s, limbs, labels, []cutrantt.Encryption{j})
		return residues(r, bs, err)
	}
	op, err := r.Precompute(s)
	if err != nil {
		return nil, err
	}
	m, e := empty(r, limbs), empty(r, limbs)
	out, err := r.NewBatch(2, limbs, cutrantt.NTT(1))
	if err != nil {
		return nil, err
	}
	c0, _ := out.Slice(0, 1, 0, len(limbs))
	c1, _ := out.Slice(1, 2, 0, len(limbs))
	return residues(r, []*cutrantt.Batch{out}, do(
		func() error { return r.SetFloats(m, j.Message) },
		func() error { return r.SampleCBD(e, j.Seed, labels.E0) },
		func() error { return r.Add(m, m, e) },
		func() error { return r.Forward(m, m) },
		func() error { return r.SampleUniform(c1, j.Mask, labels.Mask) },
		func() error { return r.MulOperand(c0, c1, op) },
		func() error { return r.Sub(c0, m, c0) },
	))
}

// empty is a polynomial over limbs in the coefficient domain.
func empty(r cutrantt.Ring, limbs []int) *cutrantt.Batch {
	b, err := r.NewBatch(1, limbs, cutrantt.Coeffs(1))
	if err != nil {
		panic(err) // constant shapes
	}
	return b
}
