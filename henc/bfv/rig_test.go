package bfv_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hencedge/hencedge/cutrantt/backendtest"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testenv"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) func(testing.TB) T { return testenv.Must(v, err) }

// toy is an insecure set with N = 2^10 and three digits of two primes.
func toy(t testing.TB, plain uint32) bfv.Parameters {
	t.Helper()
	base := must(henc.NewParameters(henc.ParametersLiteral{
		Name: "bfv-toy", LogN: 10, LogScale: 10, Mode: henc.ModeSingle, Depth: 4, Alpha: 2, Insecure: true,
		Integers: true, P: []uint32{1073692673, 1073668097},
		Q: []uint32{1073651713, 1073643521, 1073479681, 1073430529, 1073184769},
	}))(t)
	return must(bfv.NewParameters(base, plain))(t)
}

func seedOf(s string) *henc.Seed {
	out := new(henc.Seed)
	copy(out[:], s)
	return out
}

// rig is one key with everything that uses it.
type rig struct {
	p      bfv.Parameters
	ctx    *bfv.Context
	key    *secret.Key
	enc    *bfv.Encryptor
	seeded *secret.IntegerEncryptor
	dec    *secret.IntegerDecryptor
	ev     *bfv.Evaluator
}

// rotations are the rotations that the keys of a rig allow.
var rotations = []int{1, -3}

func newRig(t testing.TB, p bfv.Parameters, opts ...henc.Option) *rig {
	t.Helper()
	r := &rig{p: p}
	r.ctx = must(bfv.NewContext(p, append([]henc.Option{henc.WithBackend(backendtest.New(t))}, opts...)...))(t)
	r.key = must(secret.Generate(r.ctx.Base(), seedOf("bfv key")))(t)
	r.enc = must(bfv.NewEncryptor(r.ctx, must(r.key.PublicKey())(t)))(t)
	r.seeded = secret.NewIntegerEncryptor(r.ctx, r.key)
	r.dec = secret.NewIntegerDecryptor(r.ctx, r.key)
	r.ev = bfv.NewEvaluator(r.ctx, must(r.key.EvaluationKeys(rotations, true))(t))
	return r
}

// values are n random integers below the plaintext modulus.
func (r *rig) values(n int, seed uint64) []uint64 {
	rng := rand.New(rand.NewPCG(seed, 7))
	out := make([]uint64, n)
	for i := range out {
		out[i] = rng.Uint64N(uint64(r.p.T()))
	}
	return out
}

// slots encrypts slots under the public key.
func (r *rig) slots(t testing.TB, values []uint64) *bfv.Ciphertext {
	t.Helper()
	return must(r.enc.Encrypt(must(r.ctx.EncodeSlots(values))(t), nil))(t)
}

// expect decrypts slots and compares them with f of each index. The noise must be within its bound.
func (r *rig) expect(t testing.TB, what string, ct *bfv.Ciphertext, f func(i int) uint64) {
	t.Helper()
	got := must(r.dec.Slots(ct))(t)
	for i, v := range got {
		if v != f(i) {
			t.Fatalf("%s: slot %d holds %d, want %d", what, i, v, f(i))
		}
	}
	r.bounded(t, what, ct)
}

// bounded compares the noise of ct with its bound.
func (r *rig) bounded(t testing.TB, what string, ct *bfv.Ciphertext) {
	t.Helper()
	noise := must(r.dec.Noise(ct))(t)
	limit := r.p.Noise().Largest(ct.Noise)
	if noise > limit {
		t.Errorf("%s: noise of %g, above the bound %g", what, noise, limit)
	}
	t.Logf("%s: noise %.3g, bound %.1f bits above", what, noise, math.Log2(limit/noise))
}
