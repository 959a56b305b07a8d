package henc_test

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/backendtest"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testenv"
)

// rig is a context with its keys; rigs are shared by the tests of the package.
type rig struct {
	ctx    *henc.Context
	p      henc.Parameters
	key    *secret.Key
	pk     *henc.PublicKey
	enc    *henc.Encryptor
	seeded *secret.SeededEncryptor
	dec    *secret.Decryptor

	rotations []int
	evOnce    sync.Once
	ev        *henc.Evaluator
	keys      *henc.EvaluationKeys
}

var rigs struct {
	sync.Mutex
	m map[string]*rig
}

// seedOf is a deterministic seed for tests.
func seedOf(label string) *henc.Seed {
	s, err := new(henc.Seed).Derive("hencedge test " + label)
	if err != nil {
		panic(err)
	}
	return s
}

func newRig(t testing.TB, set string, n2 int) *rig {
	return newRigMethod(t, set, n2, cutrantt.MethodAuto)
}

func newRigMethod(t testing.TB, set string, n2 int, method cutrantt.Method) *rig {
	t.Helper()
	rigs.Lock()
	defer rigs.Unlock()
	name := fmt.Sprintf("%s/%d/%s", set, n2, method)
	if r, ok := rigs.m[name]; ok {
		return r
	}
	p, err := parameters(set)
	check(t, err)
	ctx, err := henc.NewContext(p, henc.WithBackend(backendtest.New(t)), henc.WithN2(n2), henc.WithMethod(method))
	check(t, err)
	key, err := secret.Generate(ctx, seedOf("key "+set))
	check(t, err)
	pk, err := key.PublicKey()
	check(t, err)
	enc, err := henc.NewEncryptor(ctx, pk)
	check(t, err)
	r := &rig{ctx: ctx, p: p, key: key, pk: pk, enc: enc, rotations: []int{1, -1, 2, 4, 5},
		seeded: secret.NewSeededEncryptor(ctx, key), dec: secret.NewDecryptor(ctx, key)}
	if rigs.m == nil {
		rigs.m = map[string]*rig{}
	}
	rigs.m[name] = r
	return r
}

// parameters are a named set or one of the small test sets: "toy" (pair
// rescaling, depth 2, one special prime) and "toy-single" (depth 3, digits of two
// primes, the last one short), both with N = 2^10 and far from secure.
func parameters(set string) (henc.Parameters, error) {
	from := map[string]string{"toy": "edge13-d2p", "toy-single": "edge13-d3"}[set]
	if from == "" {
		return henc.Named(set)
	}
	p, err := henc.Named(from)
	if err != nil {
		return p, err
	}
	lit := p.Literal()
	lit.Name, lit.LogN, lit.Insecure, lit.PsiQ, lit.PsiP = set, 10, true, nil, nil
	return henc.NewParameters(lit)
}

// evaluator makes the evaluation keys on first use.
func (r *rig) evaluator(t testing.TB) *henc.Evaluator {
	t.Helper()
	r.evOnce.Do(func() {
		rotations, conjugate := r.rotations, true
		if r.p.Alpha() == 0 || r.p.LogN() >= 15 { // large rings: the relinearisation key only
			rotations, conjugate = nil, false
		}
		keys, err := r.key.EvaluationKeys(rotations, conjugate)
		check(t, err)
		r.keys, r.ev = keys, henc.NewEvaluator(r.ctx, keys)
	})
	return r.ev
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) func(testing.TB) T { return testenv.Must(v, err) }

// uniform are slots with both parts uniform in [-1, 1].
func uniform(n int, seed uint64) []complex128 {
	rng := rand.New(rand.NewPCG(seed, 1))
	z := make([]complex128, n)
	for i := range z {
		z[i] = complex(2*rng.Float64()-1, 2*rng.Float64()-1)
	}
	return z
}

func reals(n int, seed uint64) []float64 {
	z := uniform(n, seed)
	x := make([]float64, n)
	for i := range x {
		x[i] = real(z[i])
	}
	return x
}

// maxError is the largest |got - want| over the slots.
func maxError(got, want []complex128) float64 {
	worst := 0.0
	for i := range got {
		worst = math.Max(worst, cmplx.Abs(got[i]-want[i]))
	}
	return worst
}

// deviation is the standard deviation of the real and imaginary parts of got - want.
func deviation(got, want []complex128) float64 {
	sum := 0.0
	for i := range got {
		d := got[i] - want[i]
		sum += real(d)*real(d) + imag(d)*imag(d)
	}
	return math.Sqrt(sum / float64(2*len(got)))
}

func complexes(x []float64) []complex128 {
	z := make([]complex128, len(x))
	for i, v := range x {
		z[i] = complex(v, 0)
	}
	return z
}
