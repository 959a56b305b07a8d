package henc_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/backendtest"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// TestEncryptBatch: messages that are encrypted together give the ciphertexts that
// they give one by one, for every kind of encryption and of slots.
func TestEncryptBatch(t *testing.T) {
	for _, n2 := range []int{1, 16} {
		r := newRig(t, "toy", n2)
		const count = 9
		var seeds []*henc.Seed
		var reals, packed [][]float64
		var complexes [][]complex128
		for i := range count {
			z := uniform(r.p.Slots(), uint64(i))
			seeds = append(seeds, &henc.Seed{byte(i), 7})
			complexes = append(complexes, z)
			flat := make([]float64, 0, 2*len(z))
			for _, v := range z {
				flat = append(flat, real(v), imag(v))
			}
			reals, packed = append(reals, flat[:1+i]), append(packed, flat)
		}
		for name, enc := range map[string]henc.BatchEncryptor{"public": r.enc, "seeded": r.seeded} {
			for _, level := range []int{0, r.p.MaxLevel()} {
				for kind, c := range map[string]struct {
					all []*henc.Ciphertext
					one func(i int) (*henc.Ciphertext, error)
				}{
					"real": {must(enc.EncryptRealBatch(reals, level, 0, seeds))(t),
						func(i int) (*henc.Ciphertext, error) {
							return enc.EncryptReal(reals[i], level, 0, seeds[i])
						}},
					"complex": {must(enc.EncryptComplexBatch(complexes, level, 0, seeds))(t),
						func(i int) (*henc.Ciphertext, error) {
							return enc.EncryptComplex(complexes[i], level, 0, seeds[i])
						}},
					"packed": {must(enc.EncryptPackedBatch(packed, level, 0, seeds))(t),
						func(i int) (*henc.Ciphertext, error) {
							return enc.EncryptPacked(packed[i], level, 0, seeds[i])
						}},
				} {
					what := fmt.Sprintf("%s, %s, n2 = %d, level %d", name, kind, n2, level)
					if len(c.all) != count {
						t.Fatalf("%s: %d ciphertexts", what, len(c.all))
					}
					for i, ct := range c.all {
						want := must(c.one(i))(t)
						if !slices.Equal(download(t, r, ct.Value), download(t, r, want.Value)) ||
							ct.Level != want.Level || ct.Scale != want.Scale {
							t.Errorf("%s: ciphertext %d differs", what, i)
						}
						if name == "seeded" && *ct.Seed != *want.Seed {
							t.Errorf("%s: public seed %d differs", what, i)
						}
						check(t, r.ctx.CheckCiphertext(ct))
					}
				}
			}
			got := must(enc.EncryptRealBatch([][]float64{{1}, {1}}, 0, 0, nil))(t)
			if slices.Equal(download(t, r, got[0].Value), download(t, r, got[1].Value)) {
				t.Errorf("%s: two fresh encryptions are equal", name)
			}
			if none, err := enc.EncryptRealBatch(nil, 0, 0, nil); err != nil || len(none) != 0 {
				t.Errorf("%s, no messages: %v, %v", name, none, err)
			}
		}
	}
}

// TestGPUEncodesAsCPU: slots of every kind, also those that a GPU leaves to the processor, give the
// bytes that the CPU gives under the same seed, and its errors.
func TestGPUEncodesAsCPU(t *testing.T) {
	device := gpu(t)
	for _, set := range []string{"edge12-d1", "edge13-d2p"} {
		p := must(henc.Named(set))(t)
		var key *secret.Key
		var all [2][][]byte
		var errs [2][]error
		for i, b := range []cutrantt.Backend{device, cpu.New()} {
			ctx := must(henc.NewContext(p, henc.WithBackend(b), henc.WithN2(henc.DefaultN2)))(t)
			key = must(secret.Generate(ctx, seedOf("encodes")))(t)
			public := must(henc.NewEncryptor(ctx, must(key.PublicKey())(t)))(t)
			for _, enc := range []henc.BatchEncryptor{public, secret.NewSeededEncryptor(ctx, key)} {
				bodies, failed := encodedBy(ctx, enc)
				all[i], errs[i] = append(all[i], bodies...), append(errs[i], failed...)
			}
		}
		refused := 0
		for i := range all[0] {
			got, want := errs[0][i], errs[1][i]
			if (got == nil) != (want == nil) || want != nil && got.Error() != want.Error() {
				t.Errorf("%s, message %d: %v, want %v", set, i, got, want)
			}
			if !slices.Equal(all[0][i], all[1][i]) {
				t.Errorf("%s, message %d: other bytes", set, i)
			}
			if want != nil {
				refused++
			}
		}
		if len(all[0]) != len(all[1]) || refused != 8 {
			t.Errorf("%s: %d and %d messages, %d refused", set, len(all[0]), len(all[1]), refused)
		}
	}
}

// encodedBy encrypts messages of many kinds at the lowest level with given seeds.
func encodedBy(ctx *henc.Context, enc henc.BatchEncryptor) (bodies [][]byte, errs []error) {
	p := ctx.Parameters()
	n, largest := p.Slots(), math.Exp2(p.LogQ(0)-1)/p.ScaleAt(0)
	add := func(cts []*henc.Ciphertext, err error) {
		if err != nil {
			bodies, errs = append(bodies, nil), append(errs, err)
			return
		}
		more, failed := ctx.MarshalCiphertexts(cts)
		bodies, errs = append(bodies, more...), append(errs, failed...)
	}
	seeds := []*henc.Seed{{1}, {2}, {3}, {4}}
	z := uniform(n, 5)
	z[3] = complex(math.Copysign(0, -1), 0x1p-1070)
	flat := make([]float64, 0, 2*n)
	for _, v := range z {
		flat = append(flat, real(v), imag(v))
	}
	one := func(v float64) []float64 { return []float64{0, v} } // its coefficients are at most 2v/N
	all := func(v float64) []float64 { return slices.Repeat([]float64{v}, n) }
	add(enc.EncryptRealBatch([][]float64{flat[:n], flat[:1], nil, flat[:77]}, 0, 0, seeds))
	add(enc.EncryptComplexBatch([][]complex128{z, z[:1], nil, z[:77]}, 0, 0, seeds))
	add(enc.EncryptPackedBatch([][]float64{flat, flat[:1], nil, flat[:77]}, 0, 0, seeds))
	for _, values := range [][]float64{flat[:n], one(largest), all(0.9 * largest), all(1.1 * largest), one(math.NaN()),
		one(math.Inf(1)), make([]float64, n+1)} {
		add(enc.EncryptRealBatch([][]float64{flat[:9], values}, 0, 0, seeds[:2]))
	}
	return bodies, errs
}

// TestEncryptBatchRefusals: one bad message fails the whole call, and the error
// says which one.
func TestEncryptBatchRefusals(t *testing.T) {
	r := newRig(t, "toy", 16)
	for name, enc := range map[string]henc.BatchEncryptor{"public": r.enc, "seeded": r.seeded} {
		for what, values := range map[string][][]float64{
			"not a number": {{1}, {2}, {math.NaN()}}, "too large": {{1}, {2}, {1e12}},
			"too many": {{1}, {2}, make([]float64, r.p.N()+1)},
		} {
			cts, err := enc.EncryptRealBatch(values, 0, 0, nil)
			if cts != nil || !errors.Is(err, henc.ErrMessage) || !strings.Contains(err.Error(), "message 2") {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		if _, err := enc.EncryptRealBatch([][]float64{{1}, {2}}, 0, 0, make([]*henc.Seed, 3)); !errors.Is(err,
			henc.ErrParams) {
			t.Errorf("%s: three seeds for two messages: %v", name, err)
		}
	}
}

// TestCheckCoeffs: what is integral is found out right at the edges of float64.
func TestCheckCoeffs(t *testing.T) {
	r := newRig(t, "toy", 16)
	level := r.p.MaxLevel()
	for _, tt := range []struct {
		x  float64
		ok bool
	}{
		{0, true}, {math.Copysign(0, -1), true}, {1, true}, {-1, true}, {0.5, false}, {-0.5, false}, {5e-324, false},
		{1<<51 - 0.5, false}, {1 << 51, true}, {1<<51 + 0.5, false}, {1<<52 - 0.5, false}, {-(1<<52 - 0.5), false},
		{1<<52 - 1, true},
		{1 << 52, true}, {1<<52 + 1, true}, {1<<53 - 1, true}, {-(1<<53 + 2), true}, {0x1p60, true}, {0x1p900, false},
		{math.Inf(1), false}, {math.Inf(-1), false}, {math.NaN(), false},
	} {
		c := make([]float64, r.p.N())
		c[17] = tt.x
		if _, err := r.ctx.Encoder().CheckCoeffs(c, level); (err == nil) != tt.ok ||
			err != nil && !errors.Is(err, henc.ErrMessage) {
			t.Errorf("%g: %v", tt.x, err)
		}
	}
}

// BenchmarkValuesToBytes encrypts slots of edge13-d2p under the public key, alone and 64 together,
// from the values to the bytes of ciphertexts; several callers share a context
// (CUTRANTT_TEST_BACKEND=cuda).
func BenchmarkValuesToBytes(b *testing.B) {
	p := must(henc.Named("edge13-d2p"))(b)
	ctx := must(henc.NewContext(p, henc.WithBackend(backendtest.New(b))))(b)
	key := must(secret.Generate(ctx, seedOf("bytes")))(b)
	enc := must(henc.NewEncryptor(ctx, must(key.PublicKey())(b)))(b)
	for _, c := range []struct{ callers, together int }{{1, 1}, {1, 64}, {2, 64}, {4, 64}} {
		b.Run(fmt.Sprintf("%d/%d", c.callers, c.together), func(b *testing.B) {
			var left atomic.Int64
			var all sync.WaitGroup
			left.Store(int64(b.N))
			b.ResetTimer()
			for range c.callers {
				all.Go(func() {
					values, out := make([][]float64, c.together), make([][]byte, c.together)
					for i := range values {
						values[i] = reals(p.Slots(), uint64(i))
					}
					for left.Add(-1) >= 0 {
						cts, err := enc.EncryptRealBatch(values, p.MaxLevel(), 0, nil)
						if err != nil {
							b.Error(err)
							return
						}
						for i := range out {
							out[i] = out[i][:0]
						}
						var errs []error
						if out, errs = ctx.AppendCiphertexts(out, cts); errors.Join(errs...) != nil {
							b.Error(errs)
						}
						for _, ct := range cts {
							ctx.Ring().Free(ct.Value)
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*c.together), "us/ciphertext")
		})
	}
}
