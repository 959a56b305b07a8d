package bfv_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
)

// constantRig is a rig with the keys of ConstantElements, in four columns, with which a GPU switches keys fastest.
func constantRig(t testing.TB, p bfv.Parameters) *rig {
	t.Helper()
	r := newRig(t, p, henc.WithN2(4))
	keys := must(r.key.EvaluationKeys(nil, false))(t)
	keys.Galois = must(r.key.GaloisKeys(bfv.ConstantElements(p)))(t)
	r.ev = bfv.NewEvaluator(r.ctx, keys)
	return r
}

// polynomial encrypts random coefficients, of which the first is c.
func (r *rig) polynomial(t testing.TB, c, seed uint64) *bfv.Ciphertext {
	t.Helper()
	coeffs := r.values(r.p.N(), seed)
	coeffs[0] = c
	return must(r.enc.Encrypt(must(r.ctx.EncodeCoeffs(coeffs))(t), nil))(t)
}

// constant fails unless ct holds the polynomial want, without others, within its bound of noise.
func (r *rig) constant(t testing.TB, ct *bfv.Ciphertext, want uint64) {
	t.Helper()
	coeffs := must(r.dec.Coeffs(ct))(t)
	if i := slices.IndexFunc(coeffs[1:], func(c uint64) bool { return c != 0 }); coeffs[0] != want || i >= 0 {
		t.Fatalf("constant coefficient %d, want %d; first other one at %d", coeffs[0], want, i+1)
	}
	if noise, limit := must(r.dec.Noise(ct))(t), r.p.Noise().Largest(ct.Noise); noise > limit {
		t.Errorf("noise of %g, above the bound %g", noise, limit)
	}
}

// TestConstantTerms extracts constant terms, alone and together, by factors that are small, large and 0.
func TestConstantTerms(t *testing.T) {
	r := constantRig(t, toy(t, 0))
	mod := uint64(r.p.T())
	for _, k := range []uint64{1, 2, mod - 1, (mod + 1) / 2, 0, mod + 3} {
		var cts []*bfv.Ciphertext
		terms := []uint64{0, 1, mod - 1, mod / 3}
		for i, c := range terms {
			cts = append(cts, r.polynomial(t, c, uint64(i)))
		}
		together := must(r.ev.ConstantTerms(cts, k))(t)
		for i, c := range terms {
			r.constant(t, together[i], c*(k%mod)%mod)
			alone := must(r.ev.ConstantTerms(cts[i:i+1], k))(t)[0]
			r.constant(t, alone, c*(k%mod)%mod)
			if k == 0 { // which hides nothing, and is not written
				continue
			}
			one, other := must(r.ctx.Marshal(alone))(t), must(r.ctx.Marshal(together[i]))(t)
			if !slices.Equal(one, other) {
				t.Errorf("term %d, factor %d: alone it is another ciphertext than with others", i, k)
			}
			r.ctx.Free(alone, together[i])
		}
	}
	if out, err := r.ev.ConstantTerms(nil, 1); len(out) > 0 || err != nil {
		t.Errorf("of nothing: %v, %v", out, err)
	}
}

// TestRecordedTerms repeats a recording. Devices that record nothing say so.
func TestRecordedTerms(t *testing.T) {
	r := constantRig(t, toy(t, 0))
	recorded, err := r.ev.RecordConstantTerms(2, 3)
	if errors.Is(err, cutrantt.ErrNotSupported) {
		if _, ok := r.ctx.Base().Ring().(cutrantt.Recorder); ok {
			t.Fatal(err)
		}
		return
	}
	check(t, err)
	for round := range uint64(3) {
		cts := []*bfv.Ciphertext{r.polynomial(t, 5+round, round), r.polynomial(t, 9, 10+round)}
		out := must(recorded.Run(cts))(t)
		plain := must(r.ev.ConstantTerms(cts, 3))(t)
		for i, want := range []uint64{15 + 3*round, 27} {
			r.constant(t, out[i], want)
			one, other := must(r.ctx.Marshal(out[i]))(t), must(r.ctx.Marshal(plain[i]))(t)
			if !slices.Equal(one, other) {
				t.Errorf("round %d: the recording makes another ciphertext", round)
			}
		}
	}
	if _, err := recorded.Run(nil); !errors.Is(err, henc.ErrParams) {
		t.Errorf("another number of ciphertexts: %v", err)
	}
}

// TestConstantTermsRefused covers missing keys, missing ciphertexts and too much noise.
func TestConstantTermsRefused(t *testing.T) {
	r := constantRig(t, toy(t, 0))
	ct := r.polynomial(t, 1, 1)
	noisy := *ct
	noisy.Noise.Deviation *= 1e60
	none := bfv.NewEvaluator(r.ctx, nil)
	var recorded *bfv.RecordedTerms
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"no keys", second(none.ConstantTerms([]*bfv.Ciphertext{ct}, 1)), henc.ErrNoKey},
		{"no ciphertext", second(r.ev.ConstantTerms([]*bfv.Ciphertext{nil}, 1)), henc.ErrDegree},
		{"noise", second(r.ev.ConstantTerms([]*bfv.Ciphertext{ct, &noisy}, 1)), bfv.ErrNoise},
		{"no evaluator", second((*bfv.Evaluator)(nil).ConstantTerms([]*bfv.Ciphertext{ct}, 1)), henc.ErrParams},
		{"none recorded", second(r.ev.RecordConstantTerms(0, 1)), henc.ErrParams},
		{"too many recorded", second(r.ev.RecordConstantTerms(33, 1)), henc.ErrParams},
		{"recorded by nobody", second((*bfv.Evaluator)(nil).RecordConstantTerms(1, 1)), henc.ErrParams},
		{"no recording", second(recorded.Run([]*bfv.Ciphertext{ct})), henc.ErrParams},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.err, c.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// BenchmarkConstantTerms times the extraction of constant terms (CTX) under bfv13, 128 bits: alone, alone and
// recorded, and 32 together (time of all). Each ends with Ring.Sync, and the results are checked.
func BenchmarkConstantTerms(b *testing.B) {
	r := constantRig(b, must(bfv.Named("bfv13", 0))(b))
	var cts []*bfv.Ciphertext
	for i := range uint64(32) {
		cts = append(cts, r.polynomial(b, 100+i, i))
	}
	run := func(name string, count int, f func([]*bfv.Ciphertext) ([]*bfv.Ciphertext, error)) {
		b.Run(fmt.Sprintf("%d%s", count, name), func(b *testing.B) {
			for b.Loop() {
				out := must(f(cts[:count]))(b)
				check(b, r.ctx.Base().Ring().Sync())
				b.StopTimer()
				for i, ct := range out {
					if i == b.N%count { // decryption takes longer than the extraction
						r.constant(b, ct, 100+uint64(i))
					}
				}
				r.ctx.Free(out...)
				b.StartTimer()
			}
		})
	}
	plain := func(cts []*bfv.Ciphertext) ([]*bfv.Ciphertext, error) { return r.ev.ConstantTerms(cts, 1) }
	run("", 1, plain)
	run("", 32, plain)
	for _, count := range []int{1, 32} {
		recorded, err := r.ev.RecordConstantTerms(count, 1)
		if errors.Is(err, cutrantt.ErrNotSupported) {
			continue
		}
		check(b, err)
		run(" recorded", count, recorded.Run)
	}
}
