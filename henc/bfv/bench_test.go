package bfv_test

import (
	"fmt"
	"testing"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/secret"
)

// benchSets are rings and moduli of Ozerk et al., Table 7, in our primes, with a key switch in four digits or so.
var benchSets = []struct{ logN, q, p int }{{12, 3, 1}, {13, 5, 2}, {14, 8, 2}, {15, 16, 4}, {15, 29, 8}}

// BenchmarkTable7 times key generation, encryption and decryption, which the paper has, and products, alone and 32
// together (time of all). The backend is that of the tests; every operation ends with Ring.Sync.
func BenchmarkTable7(b *testing.B) {
	for _, s := range benchSets {
		all := must(bfv.Named("bfv14", 0))(b).Base().Literal()
		primes := must(primesBelow(s.logN, s.q+s.p))(b)
		all.Name, all.LogN, all.Insecure = "bfv-bench", s.logN, true
		all.P, all.Q, all.PsiP, all.PsiQ, all.Alpha = primes[:s.p], primes[s.p:], nil, nil, s.p
		all.Depth = 0
		p := must(bfv.NewParameters(must(henc.NewParameters(all))(b), 0))(b)
		b.Run(fmt.Sprintf("N=2^%d/logQ=%.0f", s.logN, p.Base().LogQ(0)), func(b *testing.B) {
			r := newRig(b, p, henc.WithN2(0))
			ring := r.ctx.Base().Ring()
			run := func(name string, f func()) {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						f()
						check(b, ring.Sync())
					}
				})
			}
			pt := must(r.ctx.EncodeSlots(r.values(p.N(), 1)))(b)
			ct := must(r.enc.Encrypt(pt, nil))(b)
			pts, cts := make([]*bfv.Plaintext, 32), make([]*bfv.Ciphertext, 32)
			for i := range pts {
				pts[i], cts[i] = pt, ct
			}
			run("key", func() {
				key := must(secret.Generate(r.ctx.Base(), nil))(b)
				ring.Free(must(key.PublicKey())(b).Value)
				check(b, key.Wipe())
			})
			run("encrypt", func() { r.ctx.Free(must(r.enc.Encrypt(pt, nil))(b)) })
			run("encrypt 32", func() { r.ctx.Free(must(r.enc.EncryptBatch(pts, nil))(b)...) })
			run("decrypt", func() { check(b, r.ctx.Wipe(must(r.dec.Decrypt(ct))(b))) })
			run("multiply", func() { r.ctx.Free(must(r.ev.Mul(ct, ct))(b)) })
			run("multiply 32", func() { r.ctx.Free(must(r.ev.MulBatch(cts, cts))(b)...) })
		})
	}
}

// primesBelow are the largest primes below 2^30 that are 1 modulo 2^(logN+1).
func primesBelow(logN, count int) (out []uint32, err error) {
	step := uint32(2) << logN
	for q := uint32(1<<30) - step + 1; len(out) < count; q -= step {
		if q < step {
			return nil, fmt.Errorf("no %d primes", count)
		}
		if m, err := henc.NewModulus(q, logN); err == nil {
			out = append(out, m.Q)
		}
	}
	return out, nil
}
