package conformance

import (
	"fmt"
	"sync"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

// TestElementwise covers Add, Sub, Neg, MulScalar, AddScalar and Copy in every
// domain, with broadcast, views and aliasing.
func TestElementwise(t *testing.T) {
	eachBackend(t, func(t *testing.T, b cutrantt.Backend) {
		for _, n2 := range columns {
			for _, d := range []cutrantt.Domain{cutrantt.Coeffs(n2), cutrantt.NTT(n2)} {
				t.Run(d.String(), func(t *testing.T) { elementwise(t, b, d) })
			}
		}
	})
}

func elementwise(t *testing.T, b cutrantt.Backend, d cutrantt.Domain) {
	g := newRig(t, b, 10, moduli(t, 10, 3), cutrantt.MethodAuto)
	limbs := []int{2, 0, 1}
	x := g.batch(limbs, d, random, largest, zeros, extremes, zeros)
	y := g.batch(limbs, d, random, largest, zeros, extremes, largest)
	one := g.slice(y, 1, 2, 0, 3)
	dst := g.blank(5, limbs, cutrantt.Coeffs(1))
	type ring = cutrantt.Ring
	type of = func(pair) *cutrantt.Batch
	for name, f := range map[string]func(r ring, dst, a, b *cutrantt.Batch) error{
		"add": ring.Add, "sub": ring.Sub,
	} {
		g.run(name, dst, func(r ring, of of) error { return f(r, of(dst), of(x), of(y)) })
		g.run(name+" broadcast right", dst, func(r ring, of of) error { return f(r, of(dst), of(x), of(one)) })
		g.run(name+" broadcast left", dst, func(r ring, of of) error { return f(r, of(dst), of(one), of(x)) })
		v, w := g.slice(dst, 1, 3, 1, 3), g.slice(x, 3, 5, 1, 3)
		g.run(name+" of views", v, func(r ring, of of) error { return f(r, of(v), of(w), of(w)) })
		g.same(name+" around the view", dst)
	}
	c := []uint32{0, 0, 0}
	for i, l := range limbs {
		c[i] = g.ring.Moduli()[l].Q - 1 - uint32(i)
	}
	g.run("neg", dst, func(r ring, of of) error { return r.Neg(of(dst), of(x)) })
	g.run("mulscalar", dst, func(r ring, of of) error { return r.MulScalar(of(dst), of(x), c) })
	g.run("mulscalar 0", dst, func(r ring, of of) error { return r.MulScalar(of(dst), of(x), []uint32{0, 1, 0}) })
	g.run("addscalar", dst, func(r ring, of of) error { return r.AddScalar(of(dst), of(x), c) })
	g.run("copy", dst, func(r ring, of of) error { return r.Copy(of(dst), of(y)) })
	g.run("add in place", x, func(r ring, of of) error { return r.Add(of(x), of(x), of(y)) })
	g.run("sub in place", y, func(r ring, of of) error { return r.Sub(of(y), of(x), of(y)) })
	g.run("double in place", x, func(r ring, of of) error { return r.Add(of(x), of(x), of(x)) })
	g.run("neg in place", x, func(r ring, of of) error { return r.Neg(of(x), of(x)) })
	g.run("mulscalar in place", x, func(r ring, of of) error { return r.MulScalar(of(x), of(x), c) })
	g.run("addscalar in place", x, func(r ring, of of) error { return r.AddScalar(of(x), of(x), c) })
	part := g.slice(x, 0, 2, 1, 2)
	g.run("wipe", part, func(r ring, of of) error { return r.Wipe(of(part)) })
	g.same("around the wiped view", x)
	for i, v := range download(t, g.ring, part.got) {
		if v != 0 {
			t.Fatalf("residue %d of a wiped view is %d", i, v)
		}
	}
}

// TestMemory covers NewBatch, Upload, Download and views.
func TestMemory(t *testing.T) {
	eachBackend(t, func(t *testing.T, b cutrantt.Backend) {
		g := newRig(t, b, 10, moduli(t, 10, 3), cutrantt.MethodAuto)
		r, n := g.ring, g.ring.N()
		x, err := r.NewBatch(2, []int{0, 1, 2}, cutrantt.Coeffs(4))
		g.ok(err)
		for i, v := range download(t, r, x) {
			if v != 0 {
				t.Fatalf("residue %d of a new batch is %d", i, v)
			}
		}
		words := make([]uint32, 6*n)
		for i := range words {
			words[i] = uint32(i) % 12289 // the smallest modulus of degree 2^10
		}
		g.ok(r.Upload(x, words))
		v, err := x.Slice(1, 2, 1, 3)
		g.ok(err)
		g.equal("view", download(t, r, v), words[4*n:])
		w, err := v.Slice(0, 1, 1, 2)
		g.ok(err)
		g.equal("view of a view", download(t, r, w), words[5*n:])
		g.ok(r.Upload(w, words[:n]))
		copy(words[5*n:], words[:n])
		g.equal("after an upload to a view", download(t, r, x), words)
		g.ok(r.Sync())
		r.Free(x)
		r.Free(x)
		r.Free(nil)
		wantErr(t, "a view of freed memory", r.Wipe(v), cutrantt.ErrForeign)
		wantErr(t, "freed memory", r.Wipe(x), cutrantt.ErrForeign)
	})
}

// TestConcurrent uses one ring from many goroutines, with several workers each.
func TestConcurrent(t *testing.T) {
	eachBackend(t, func(t *testing.T, b cutrantt.Backend) {
		const logN = 12
		ms := moduli(t, logN, 5)
		single, err := b.NewRing(logN, ms, cutrantt.Options{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		many, err := b.NewRing(logN, ms, cutrantt.Options{Workers: 5})
		if err != nil {
			t.Fatal(err)
		}
		chain := func(r cutrantt.Ring, label uint32) ([]uint32, error) {
			limbs := upTo(len(ms))
			x, err := r.NewBatch(1, limbs, cutrantt.Coeffs(16))
			if err != nil {
				return nil, err
			}
			y, err := r.NewBatch(1, limbs, cutrantt.NTT(16))
			if err != nil {
				return nil, err
			}
			z, err := r.NewBatch(1, limbs[:3], cutrantt.NTT(16))
			if err != nil {
				return nil, err
			}
			seed := [32]byte{1}
			op, err := r.Precompute(y)
			if err != nil {
				return nil, err
			}
			out := make([]uint32, z.Len())
			for _, f := range []func() error{
				func() error { return r.SampleCBD(x, &seed, label) },
				func() error { return r.SampleUniform(y, &seed, label) },
				func() error { return r.Forward(x, x) },
				func() error { return r.MulAdd(x, x, y) },
				func() error { return r.MulOperand(y, y, op) },
				func() error { return r.Automorphism(y, x, 5) },
				func() error { return r.DivRound(z, y) },
				func() error { z.SetDomain(cutrantt.NTT(16)); return r.Inverse(z, z) },
				func() error { return r.Download(out, z) },
			} {
				if err := f(); err != nil {
					return nil, err
				}
			}
			return out, nil
		}
		var wg sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			wg.Go(func() {
				got, err := chain(many, uint32(i))
				if err != nil {
					errs[i] = err
					return
				}
				want, err := chain(single, uint32(i))
				if err != nil {
					errs[i] = err
					return
				}
				for j := range want {
					if got[j] != want[j] {
						errs[i] = fmt.Errorf("chain %d, position %d: %d, want %d", i, j, got[j], want[j])
						return
					}
				}
			})
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
	})
}
