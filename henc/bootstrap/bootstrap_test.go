package bootstrap_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/bits"
	"math/cmplx"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/backendtest"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bootstrap"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testenv"
)

// rig is a context with a bootstrapper.
type rig struct {
	p    henc.Parameters
	ctx  *henc.Context
	key  *secret.Key
	plan *bootstrap.Plan
	keys *henc.EvaluationKeys
	b    *bootstrap.Bootstrapper
	enc  *secret.SeededEncryptor
	dec  *secret.Decryptor
}

var rigs struct {
	sync.Mutex
	m map[string]*rig
}

func must[T any](v T, err error) func(testing.TB) T { return testenv.Must(v, err) }

func seedOf(t testing.TB, label string) *henc.Seed {
	t.Helper()
	return must(new(henc.Seed).Derive("hencedge bootstrap test " + label))(t)
}

// newRig makes or reuses a rig; logSlots 0 means all slots, n2 0 what is fastest.
func newRig(t testing.TB, set string, n2, logSlots int) *rig {
	t.Helper()
	rigs.Lock()
	defer rigs.Unlock()
	name := fmt.Sprintf("%s/%d/%d", set, n2, logSlots)
	if r := rigs.m[name]; r != nil {
		return r
	}
	from, degree, _ := strings.Cut(set, "@2^")
	r := &rig{p: must(henc.NamedInsecure(from))(t)}
	lit := must(bootstrap.LiteralOf(r.p))(t)
	if degree != "" { // the chain of a set in a smaller ring
		small := r.p.Literal()
		small.LogN, small.Insecure, small.PsiQ, small.PsiP = must(strconv.Atoi(degree))(t), true, nil, nil
		r.p = must(henc.NewParameters(small))(t)
	}
	columns := henc.WithN2(n2)
	if n2 == 0 {
		columns = henc.WithFastestN2()
	}
	r.ctx = must(henc.NewContext(r.p, columns, henc.WithBackend(backendtest.New(t))))(t)
	r.key = must(secret.Generate(r.ctx, seedOf(t, "key")))(t)
	lit.LogSlots = logSlots
	r.plan = must(bootstrap.NewPlan(r.p, lit))(t)
	r.keys = must(r.key.BootstrapKeys(r.plan))(t)
	r.b = must(bootstrap.New(r.ctx, r.plan, r.keys))(t)
	r.enc, r.dec = secret.NewSeededEncryptor(r.ctx, r.key), secret.NewDecryptor(r.ctx, r.key)
	if rigs.m == nil {
		rigs.m = map[string]*rig{}
	}
	rigs.m[name] = r
	return r
}

// messages are slots of every kind, repeating after slots.
func messages(n, slots int) map[string][]complex128 {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	fill := func(f func(i int) complex128) []complex128 {
		z := make([]complex128, n)
		for i := range z {
			if i < slots {
				z[i] = f(i)
			} else {
				z[i] = z[i-slots]
			}
		}
		return z
	}
	sign := func() float64 { return float64(2*rng.IntN(2) - 1) }
	return map[string][]complex128{
		"random":     fill(func(int) complex128 { return complex(2*rng.Float64()-1, 2*rng.Float64()-1) }),
		"extreme":    fill(func(int) complex128 { return complex(sign(), sign()) }),
		"one spike":  fill(func(i int) complex128 { return complex(float64(max(0, 1-i)), 0) }),
		"zero":       fill(func(int) complex128 { return 0 }),
		"constant":   fill(func(int) complex128 { return 1 }),
		"1+i":        fill(func(int) complex128 { return 1 + 1i }),
		"halves":     fill(func(i int) complex128 { return complex(float64(1-2*(i*2/slots)), 0) }),
		"by turns":   fill(func(i int) complex128 { return complex(float64(1-i%2*2), 0) }),
		"ramp":       fill(func(i int) complex128 { return complex(2*float64(i)/float64(slots)-1, 0) }),
		"-constant":  fill(func(int) complex128 { return complex(0, -1) }),
		"near const": fill(func(int) complex128 { return complex(0.9+0.01*rng.Float64(), 0) }),
	}
}

// errorsOf are the root mean square and the largest error of the real and imaginary parts, in bits.
func errorsOf(got, want []complex128) (rms, most float64) {
	for i := range want {
		d := got[i] - want[i]
		rms += real(d)*real(d) + imag(d)*imag(d)
		most = max(most, math.Abs(real(d)), math.Abs(imag(d)))
	}
	return math.Log2(rms/float64(2*len(want))) / 2, math.Log2(most)
}

// precision is what Bootstrap's description states, in bits: root mean square and largest error, and what more constant
// slots, which all lose the same of the sine, may lose.
var precision = []struct {
	set                 string
	n2, logSlots        int
	random, most, fixed float64
	deep                bool
}{
	{"boot10-insecure", 1, 0, -18.5, -17, -17, false},
	{"boot10-insecure", 4, 0, -18.5, -17, -17, false}, // as GPUs do it
	{"boot10-insecure", 16, 0, -18.5, -17, -17, false},
	{"boot10-insecure", 1, 3, -18.5, -17, -17, false},
	{"boot10-insecure", 1, 5, -18.5, -17, -17, false},
	{"boot10-insecure", 1, 8, -18.5, -17, -17, false},
	{"boot15", 1, 0, -15.5, -12.5, -17, true},
	{"boot16@2^11", 1, 0, -22, -20.5, -21.2, true},
	{"boot16@2^13", 1, 0, -22, -20.5, -21.2, true},
	{"boot16", 0, 0, -22, -20, -21.2, true}, // takes about 40 GiB
}

// TestPrecision asserts the errors of the whole bootstrapping.
func TestPrecision(t *testing.T) {
	for _, row := range precision {
		t.Run(fmt.Sprintf("%s/%d/%d", row.set, row.n2, row.logSlots), func(t *testing.T) {
			deep := os.Getenv("HENCEDGE_TEST_DEEP")
			if row.deep && deep != row.set && (deep != "1" || row.set == "boot16") {
				testenv.Missing(t, "deep", "HENCEDGE_TEST_DEEP is neither 1 nor "+row.set)
			}
			r := newRig(t, row.set, row.n2, row.logSlots)
			for kind, z := range messages(r.p.Slots(), r.plan.Slots()) {
				level := r.plan.Level()
				if kind == "random" {
					level = r.plan.LowestLevel()
				}
				ct := must(r.enc.EncryptComplex(z, level, 0, seedOf(t, kind)))(t)
				out := must(r.b.Bootstrap(ct))(t)
				nominal := must(r.plan.ScaleOf(r.plan.MaxScale()))(t)
				if out.Level != r.plan.Level() || math.Abs(out.Scale/nominal-1) > 0x1p-8 {
					t.Errorf("%s: level %d, scale 2^%.6f", kind, out.Level, math.Log2(out.Scale))
				}
				rms, most := errorsOf(must(r.dec.DecryptComplex(out))(t), z)
				t.Logf("%-10s error 2^%.1f, at most 2^%.1f", kind, rms, most)
				limit, top := row.random, row.most
				if kind != "random" {
					limit, top = max(limit, row.fixed), max(top, row.fixed+1)
				}
				if rms > limit || most > top {
					t.Errorf("%s: error 2^%.2f, at most 2^%.2f; stated are 2^%.1f and 2^%.1f", kind, rms, most, limit,
						top)
				}
				if sd, fixed := r.plan.Error(ct.Scale); math.Exp2(most) > fixed+12*sd {
					t.Errorf("%s: error 2^%.2f, Error states deviations of 2^%.2f and %g", kind, most,
						math.Log2(sd), fixed)
				}
				if rms < limit-9 {
					t.Errorf("%s: an error of 2^%.2f is implausibly small", kind, rms)
				}
			}
			if row.deep { // one at a time
				r.b.Free()
				rigs.Lock()
				clear(rigs.m)
				rigs.Unlock()
			}
		})
	}
}

// TestScales: a message may have any scale that leaves room for the sine.
func TestScales(t *testing.T) {
	r := newRig(t, "boot10-insecure", 1, 0)
	z := messages(r.p.Slots(), r.plan.Slots())["random"]
	for _, bits := range []float64{20, 24.3, 29, 33.7, 36.9} {
		ct := must(r.enc.EncryptComplex(z, r.plan.LowestLevel(), math.Exp2(bits), seedOf(t, "scales")))(t)
		out := must(r.b.Bootstrap(ct))(t)
		if want := must(r.plan.ScaleOf(ct.Scale))(t); out.Scale != want || want > 1.1*r.p.ScaleAt(out.Level) ||
			want < 0.47*r.p.ScaleAt(out.Level) {
			t.Errorf("2^%.1f: scale 2^%.3f, want 2^%.3f", bits, math.Log2(out.Scale), math.Log2(want))
		}
		rms, most := errorsOf(must(r.dec.DecryptComplex(out))(t), z)
		t.Logf("2^%.1f: error 2^%.1f, at most 2^%.1f", bits, rms, most)
		if limit := max(-17.5, 8-bits); rms > limit { // fresh noise is 2^7 of the scale
			t.Errorf("2^%.1f: error 2^%.1f, more than 2^%.1f", bits, rms, limit)
		}
	}
}

// TestLeastKeys: bootstrapping with the fewest keys is as exact.
func TestLeastKeys(t *testing.T) {
	r := newRig(t, "boot10-insecure", 1, 0)
	least := r.plan.LeastRotations()
	if all := r.plan.Rotations(); len(least) > len(all)-3 {
		t.Errorf("%d rotations %v of %d", len(least), least, len(all))
	}
	keys := must(r.key.EvaluationKeys(least, true))(t)
	keys.Sparse = r.keys.Sparse
	b := must(bootstrap.New(r.ctx, r.plan, keys))(t)
	defer b.Free()
	z := messages(r.p.Slots(), r.plan.Slots())["random"]
	rms, most := errorsOf(must(r.dec.DecryptComplex(must(b.Bootstrap(
		must(r.enc.EncryptComplex(z, r.plan.LowestLevel(), 0, seedOf(t, "least")))(t)))(t)))(t), z)
	t.Logf("%d rotations: error 2^%.1f, at most 2^%.1f", len(least), rms, most)
	if rms > -18.5 || most > -17 {
		t.Errorf("error 2^%.1f, at most 2^%.1f", rms, most)
	}
	for _, k := range least {
		few := *keys
		few.Galois = maps.Clone(keys.Galois)
		delete(few.Galois, henc.GaloisElement(r.p, k))
		without := must(bootstrap.New(r.ctx, r.plan, &few))(t)
		ct := must(r.enc.EncryptComplex(z, r.plan.Level(), 0, nil))(t)
		if _, err := without.Bootstrap(ct); !errors.Is(err, henc.ErrNoKey) {
			t.Errorf("without the key of %d: %v", k, err)
		}
		without.Free()
	}
}

// coefficients are the exact coefficients of a decrypted ciphertext.
func (r *rig) coefficients(t *testing.T, ct *henc.Ciphertext) []float64 {
	t.Helper()
	return must(r.ctx.Encoder().Coeffs(must(r.dec.Decrypt(ct))(t)))(t)
}

// TestSteps compares every step with slow arithmetic on what went into it.
func TestSteps(t *testing.T) {
	for _, logSlots := range []int{0, 6} {
		r := newRig(t, "boot10-insecure", 16, logSlots)
		n, slots := r.p.Slots(), r.plan.Slots()
		z := messages(n, slots)["random"]
		ct := must(r.enc.EncryptComplex(z, r.plan.LowestLevel(), 0, seedOf(t, "steps")))(t)
		low := must(r.b.ToCoefficients(ct))(t)
		gap := n / slots
		// place is the coefficient that stands in slot i.
		place := func(i int) int { return int(bits.Reverse64(uint64(i%slots))>>(64-bits.Len(uint(slots-1)))) * gap }
		factor := float64(r.plan.Times(ct.Scale)) * ct.Scale / r.plan.Largest() * r.plan.Message()
		coeffs := r.coefficients(t, low.At(0))
		in := must(r.dec.DecryptComplex(ct))(t)
		for i, v := range in[:slots] {
			if d := cmplx.Abs(complex(coeffs[place(i)], coeffs[place(i)+n])/complex(factor, 0) - v); d > 0x1p-20 {
				t.Fatalf("coefficient %d of the message is off by 2^%.1f", i, math.Log2(d))
			}
		}
		raised := must(r.b.Raise(low))(t)
		r.checkRaised(t, low.At(0), raised.At(0))

		// Coefficients in units of the modulus, projected to the repeated slots.
		coeffs = r.coefficients(t, raised.At(0))
		x := make([]complex128, n)
		for i := range x {
			x[i] = complex(coeffs[place(i)], coeffs[place(i)+n]) / complex(r.plan.Modulus(), 0)
		}
		halves := must(r.b.ToSlots(raised))(t)
		re, im := must(r.dec.DecryptComplex(halves.At(0)))(t), must(r.dec.DecryptComplex(halves.At(1)))(t)
		for i := range x {
			dr := cmplx.Abs(re[i] - complex(real(x[i])/bootstrap.HalfWidth, 0))
			di := cmplx.Abs(im[i] - complex(imag(x[i])/bootstrap.HalfWidth, 0))
			if max(dr, di) > 0x1p-35 {
				t.Fatalf("coefficient %d over K: %v and %v for %v, off by 2^%.1f", i, re[i], im[i], x[i],
					math.Log2(max(dr, di)))
			}
		}

		sines := must(r.b.Sine(halves))(t)
		if sines.Level() != halves.Level()-bootstrap.SineLevels {
			t.Errorf("the sine took %d levels", halves.Level()-sines.Level())
		}
		for half, from := range [][]complex128{re, im} {
			got := must(r.dec.DecryptComplex(sines.At(half)))(t)
			for i := range got {
				want := math.Sin(2 * math.Pi * bootstrap.HalfWidth * real(from[i]))
				if d := cmplx.Abs(got[i] - complex(want, 0)); d > 0x1p-25 {
					t.Fatalf("half %d, sine %d: %v, want %g, off by 2^%.1f", half, i, got[i], want, math.Log2(d))
				}
			}
		}
		sr, si := must(r.dec.DecryptComplex(sines.At(0)))(t), must(r.dec.DecryptComplex(sines.At(1)))(t)
		out := must(r.dec.DecryptComplex(must(r.b.Joined(sines))(t)))(t)
		for i := range out {
			if want := complex(real(sr[i])-imag(si[i]), imag(sr[i])+real(si[i])); cmplx.Abs(out[i]-want) > 0x1p-25 {
				t.Fatalf("slot %d is %v, want %v", i, out[i], want)
			}
		}
	}
}

// checkRaised: the raised ciphertext is the message modulo the old modulus, up to small noise, and within 16.5 of it.
func (r *rig) checkRaised(t *testing.T, low, raised *henc.Ciphertext) {
	t.Helper()
	q := r.p.QProduct(0)
	before, after := r.coefficients(t, low), r.coefficients(t, raised)
	largest := 0.0
	for k := range before {
		a, _ := big.NewFloat(after[k]).Int(nil)
		b, _ := big.NewFloat(before[k]).Int(nil)
		d := a.Sub(a, b)
		d.Mod(d, q)
		if twice := new(big.Int).Lsh(d, 1); twice.Cmp(q) > 0 {
			d.Sub(d, q)
		}
		if d.CmpAbs(big.NewInt(1<<9)) > 0 {
			t.Fatalf("coefficient %d is off by %v modulo the modulus", k, d)
		}
		largest = max(largest, math.Abs(after[k])/r.plan.Modulus())
	}
	if largest > 16.5 || largest < 3 {
		t.Errorf("the largest coefficient is %.2f times the modulus", largest)
	}
	if raised.Level != r.p.MaxLevel() {
		t.Errorf("level %d", raised.Level)
	}
}

// TestDepthAfterwards uses up all levels of a bootstrapped ciphertext, bootstraps it again and
// goes on.
func TestDepthAfterwards(t *testing.T) {
	r := newRig(t, "boot10-insecure", 1, 0)
	ev := henc.NewEvaluator(r.ctx, r.keys)
	z := messages(r.p.Slots(), r.p.Slots())["random"]
	for i := range z {
		z[i] = complex(0.8+0.2*real(z[i]), 0)
	}
	ct := must(r.enc.EncryptComplex(z, r.plan.LowestLevel(), 0, seedOf(t, "depth")))(t)
	for range 2 {
		ct = must(r.b.Bootstrap(ct))(t)
		for ct.Level > r.plan.LowestLevel() {
			ct = must(ev.MulRescale(ct, ct))(t)
			for i := range z {
				z[i] *= z[i]
			}
		}
	}
	if rms, _ := errorsOf(must(r.dec.DecryptComplex(ct))(t), z); rms > -11 {
		t.Errorf("error 2^%.1f after 6 products", rms)
	}
}

// TestKeysFollowFromTheKey: equal secrets and plans give equal keys, of the shapes that security
// rests on.
func TestKeysFollowFromTheKey(t *testing.T) {
	r := newRig(t, "boot10-insecure", 1, 0)
	again := must(must(secret.Generate(r.ctx, seedOf(t, "key")))(t).BootstrapKeys(r.plan))(t)
	words := func(b *cutrantt.Batch) []uint32 {
		w := make([]uint32, b.Len())
		if err := r.ctx.Ring().Download(w, b); err != nil {
			t.Fatal(err)
		}
		return w
	}
	if !slices.Equal(words(again.Sparse.To.Value), words(r.keys.Sparse.To.Value)) ||
		!slices.Equal(words(again.Sparse.From.Value), words(r.keys.Sparse.From.Value)) {
		t.Error("the keys of the sparse secret differ")
	}
	limbs := r.keys.Sparse.To.Value.Limbs()
	if want := append(r.p.QLimbs(0), r.p.PLimbs()[0]); !slices.Equal(limbs, want) {
		t.Errorf("the key under the sparse secret has limbs %v, want %v only", limbs, want)
	}
	for _, set := range henc.BootstrapNames() {
		p := must(henc.NamedBootstrap(set))(t)
		plan := must(bootstrap.NewPlan(p, must(bootstrap.LiteralOf(p))(t)))(t)
		want := map[string]int{"boot15": 44, "boot16": 46}[set] // docs/cryptography.md
		if ks := plan.Rotations(); len(ks) != want {
			t.Errorf("%s needs %d rotations, want %d", set, len(ks), want)
		}
		left, above := map[string]int{"boot15": 3, "boot16": 13}[set], map[string]int{"boot16": 1}[set]
		if plan.Level()-plan.LowestLevel() != left || plan.Level() != p.Depth()+above {
			t.Errorf("%s: levels %d to %d, want %d", set, plan.Level(), plan.LowestLevel(), left)
		}
		scale := must(plan.ScaleOf(plan.MaxScale()))(t)
		squared := scale * scale / p.RescaleFactor(plan.Level())
		if math.Abs(squared/p.ScaleAt(plan.Level()-1)-1) > 1e-12 {
			t.Errorf("%s: results have scale 2^%.3f, their squares 2^%.3f, the level below 2^%.3f", set,
				math.Log2(scale), math.Log2(squared), math.Log2(p.ScaleAt(plan.Level()-1)))
		}
	}
}

func TestRefuses(t *testing.T) {
	r := newRig(t, "boot10-insecure", 1, 0)
	lit := must(bootstrap.LiteralOf(r.p))(t)
	for name, mod := range map[string]func(*bootstrap.Literal){
		"stages":    func(l *bootstrap.Literal) { l.Stages = 0 },
		"slots":     func(l *bootstrap.Literal) { l.LogSlots = 10 },
		"negative":  func(l *bootstrap.Literal) { l.LogSlots = -1 },
		"levels":    func(l *bootstrap.Literal) { l.ToCoefficients = 9 },
		"no levels": func(l *bootstrap.Literal) { l.ToSlots = 0 },
		"large":     func(l *bootstrap.Literal) { l.LogLargest = 17 },
		"small":     func(l *bootstrap.Literal) { l.LogLargest = -1 },
	} {
		l := lit
		mod(&l)
		if _, err := bootstrap.NewPlan(r.p, l); !errors.Is(err, henc.ErrParams) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := must(henc.Named("edge12-add"))(t)
	if _, err := bootstrap.LiteralOf(other); !errors.Is(err, henc.ErrUnknownSet) {
		t.Errorf("a set without levels: %v", err)
	}
	if _, err := bootstrap.NewPlan(other, lit); !errors.Is(err, henc.ErrParams) {
		t.Errorf("a set without special primes: %v", err)
	}
	if _, err := bootstrap.NewPlan(must(henc.Named("std15-d11"))(t), lit); !errors.Is(err, henc.ErrParams) {
		t.Errorf("a set with too few levels: %v", err)
	}
	// A base modulus of 4 primes is above the bound for the sparse secret.
	long := must(henc.NamedBootstrap("boot15"))(t).Literal()
	long.Name, long.Depth = "long", 4
	if _, err := bootstrap.NewPlan(must(henc.NewParameters(long))(t), lit); !errors.Is(err, henc.ErrSecurity) {
		t.Errorf("a long key under the sparse secret: %v", err)
	}
	if _, err := r.key.BootstrapKeys(nil); !errors.Is(err, henc.ErrParams) {
		t.Errorf("keys without a plan: %v", err)
	}
	for name, keys := range map[string]*henc.EvaluationKeys{
		"none":      nil,
		"no sparse": {Relin: r.keys.Relin, Galois: r.keys.Galois},
		"no to":     {Sparse: &henc.SparseKeys{From: r.keys.Sparse.From}},
		"no from":   {Sparse: &henc.SparseKeys{To: r.keys.Sparse.To}},
	} {
		if _, err := bootstrap.New(r.ctx, r.plan, keys); !errors.Is(err, henc.ErrNoKey) {
			t.Errorf("keys, %s: %v", name, err)
		}
	}
	swapped := &henc.EvaluationKeys{Sparse: &henc.SparseKeys{To: r.keys.Sparse.From, From: r.keys.Sparse.From}}
	if _, err := bootstrap.New(r.ctx, r.plan, swapped); !errors.Is(err, henc.ErrParams) {
		t.Errorf("a key of another shape: %v", err)
	}
	if _, err := bootstrap.New(r.ctx, nil, r.keys); !errors.Is(err, henc.ErrParams) {
		t.Errorf("no plan: %v", err)
	}
	ct := must(r.enc.EncryptComplex(nil, r.plan.LowestLevel(), 0, nil))(t)
	low := must(r.enc.EncryptComplex(nil, r.plan.LowestLevel()-1, 0, nil))(t)
	if _, err := r.b.Bootstrap(low); !errors.Is(err, henc.ErrLevel) {
		t.Errorf("a low level: %v", err)
	}
	for _, scale := range []float64{r.plan.MaxScale() * 1.01, 0.99, math.NaN()} {
		if _, err := r.b.Bootstrap(ct.WithScale(scale)); !errors.Is(err, henc.ErrScale) {
			t.Errorf("scale %g: %v", scale, err)
		}
	}
	if _, err := r.b.Bootstrap(nil); !errors.Is(err, henc.ErrDegree) {
		t.Errorf("no ciphertext: %v", err)
	}
	if _, err := (*bootstrap.Bootstrapper)(nil).Bootstrap(ct); !errors.Is(err, henc.ErrParams) {
		t.Errorf("no bootstrapper: %v", err)
	}
	few := &henc.EvaluationKeys{Sparse: r.keys.Sparse}
	if _, err := must(bootstrap.New(r.ctx, r.plan, few))(t).Bootstrap(ct); !errors.Is(err, henc.ErrNoKey) {
		t.Errorf("no Galois keys: %v", err)
	}
}

// TestBootstrapAll: ciphertexts that go together give the residues that each gives alone, in more than one group,
// at other scales and levels, under all keys and the fewest.
func TestBootstrapAll(t *testing.T) {
	for _, c := range []struct{ n2, logSlots int }{{1, 0}, {4, 0}, {16, 5}, {4, 3}} {
		r := newRig(t, "boot10-insecure", c.n2, c.logSlots)
		scales := []float64{0, 0x1p29, 0, 0x1.fp36, 0, 0, 0x1p24}
		cts := make([]*henc.Ciphertext, len(scales))
		kinds := messages(r.p.Slots(), r.plan.Slots())
		for i, kind := range slices.Sorted(maps.Keys(kinds))[:len(cts)] {
			cts[i] = must(r.enc.EncryptComplex(kinds[kind], r.plan.LowestLevel()+i%2, scales[i],
				seedOf(t, "all "+kind)))(t)
		}
		few := must(r.key.EvaluationKeys(r.plan.LeastRotations(), true))(t)
		few.Sparse = r.keys.Sparse
		least := must(r.b.With(few))(t)
		defer least.Free()
		for name, b := range map[string]*bootstrap.Bootstrapper{"all keys": r.b, "fewest keys": least} {
			all := must(b.BootstrapAll(cts))(t)
			for i, ct := range cts {
				alone := must(b.Bootstrap(ct))(t)
				if all[i].Scale != alone.Scale || all[i].Level != alone.Level {
					t.Errorf("%v, %s: %d has level %d and scale %g, alone %d and %g", c, name, i, all[i].Level,
						all[i].Scale, alone.Level, alone.Scale)
				}
				if !slices.Equal(r.residues(t, all[i]), r.residues(t, alone)) {
					t.Errorf("%v, %s: ciphertext %d differs from its bootstrapping alone", c, name, i)
				}
			}
			r.ctx.Ring().Free(all[0].Value) // each has memory of its own
			r.residues(t, all[1])
		}
	}
}

// narrow has memory for batches of at most so many polynomials; 0: it notes the largest.
type narrow struct {
	cutrantt.Backend
	most, largest int
}

type narrowRing struct {
	cutrantt.Ring
	of *narrow
}

func (n *narrow) NewRing(logN int, moduli []cutrantt.Modulus, o cutrantt.Options) (cutrantt.Ring, error) {
	r, err := n.Backend.NewRing(logN, moduli, o)
	return narrowRing{r, n}, err
}

func (r narrowRing) NewBatch(polys int, limbs []int, d cutrantt.Domain) (*cutrantt.Batch, error) {
	r.of.largest = max(r.of.largest, polys)
	if r.of.most > 0 && polys > r.of.most {
		return nil, fmt.Errorf("%w: %d polynomials", cutrantt.ErrMemory, polys)
	}
	return r.Ring.NewBatch(polys, limbs, d)
}

// TestBootstrapAllNarrow: where there is memory for one ciphertext only, they go one after another; where there is not
// even that, the error says so and nothing is left.
func TestBootstrapAllNarrow(t *testing.T) {
	n := &narrow{Backend: cpu.New()}
	p := must(henc.NamedInsecure("boot10-insecure"))(t)
	ctx := must(henc.NewContext(p, henc.WithN2(4), henc.WithBackend(n)))(t)
	key := must(secret.Generate(ctx, seedOf(t, "narrow")))(t)
	plan := must(bootstrap.NewPlan(p, must(bootstrap.LiteralOf(p))(t)))(t)
	b := must(bootstrap.New(ctx, plan, must(key.BootstrapKeys(plan))(t)))(t)
	defer b.Free()
	r := &rig{ctx: ctx}
	var cts []*henc.Ciphertext
	for i := range 3 {
		z := []complex128{complex(float64(i)/4, 0.5)}
		enc := secret.NewSeededEncryptor(ctx, key)
		cts = append(cts, must(enc.EncryptComplex(z, plan.LowestLevel(), 0, seedOf(t, fmt.Sprint(i))))(t))
	}
	n.largest = 0
	alone := must(b.Bootstrap(cts[0]))(t)
	n.most, n.largest = n.largest, 0
	all := must(b.BootstrapAll(cts))(t)
	if n.largest <= n.most {
		t.Fatalf("a batch takes %d polynomials at a time, one ciphertext %d", n.largest, n.most)
	}
	if len(all) != len(cts) || !slices.Equal(r.residues(t, all[0]), r.residues(t, alone)) {
		t.Error("another result than alone")
	}
	n.most--
	if out, err := b.BootstrapAll(cts); out != nil || !errors.Is(err, cutrantt.ErrMemory) {
		t.Errorf("without memory for one: %v, %v", out, err)
	}
}

// residues are those of a ciphertext.
func (r *rig) residues(t *testing.T, ct *henc.Ciphertext) []uint32 {
	t.Helper()
	w := make([]uint32, ct.Value.Len())
	if err := r.ctx.Ring().Download(w, ct.Value); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestBootstrapAllRefuses(t *testing.T) {
	r := newRig(t, "boot10-insecure", 1, 0)
	ct := must(r.enc.EncryptComplex(nil, r.plan.LowestLevel(), 0, nil))(t)
	if out, err := r.b.BootstrapAll(nil); len(out) != 0 || err != nil {
		t.Errorf("no ciphertexts: %v, %v", out, err)
	}
	for want, cts := range map[error][]*henc.Ciphertext{
		henc.ErrScale:  {ct, ct.WithScale(0.99)},
		henc.ErrDegree: {ct, nil},
	} {
		if out, err := r.b.BootstrapAll(cts); out != nil || !errors.Is(err, want) ||
			!strings.Contains(err.Error(), "ciphertext 1") {
			t.Errorf("%v: %v, %v", want, out, err)
		}
	}
	if _, err := (*bootstrap.Bootstrapper)(nil).BootstrapAll(nil); !errors.Is(err, henc.ErrParams) {
		t.Errorf("no bootstrapper: %v", err)
	}
	few := must(r.b.With(&henc.EvaluationKeys{Sparse: r.keys.Sparse}))(t)
	defer few.Free()
	if out, err := few.BootstrapAll([]*henc.Ciphertext{ct, ct}); out != nil || !errors.Is(err, henc.ErrNoKey) {
		t.Errorf("no Galois keys: %v, %v", out, err)
	}
}
