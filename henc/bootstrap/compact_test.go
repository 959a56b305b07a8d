package bootstrap_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bootstrap"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testenv"
)

// slots decrypts what Coefficients returned into the N coefficients.
func (r *rig) slots(t *testing.T, out [2]*henc.Ciphertext) []complex128 {
	t.Helper()
	var halves [2][]complex128
	for i, ct := range out {
		if ct.Level != r.plan.CoefficientLevel() || ct.Scale != r.p.ScaleAt(ct.Level) {
			t.Fatalf("level %d, scale 2^%.6f", ct.Level, math.Log2(ct.Scale))
		}
		halves[i] = must(r.dec.DecryptComplex(ct))(t)
	}
	z := make([]complex128, r.p.N())
	for i := range z {
		half, slot := r.plan.CoefficientSlot(i)
		z[i] = halves[half][slot]
	}
	return z
}

// TestCoefficients compares slots with the sine and the cubic in float64, used coefficients with
// the message, and unused ones, which hold anything, with 0.
func TestCoefficients(t *testing.T) {
	r := newRig(t, "boot10-insecure", 16, 0)
	modulus := r.plan.Modulus()
	for _, logRatio := range []int{5, 6, 9} {
		ratio := math.Exp2(float64(logRatio))
		rng := rand.New(rand.NewPCG(3, uint64(logRatio)))
		coeffs, used, want := make([]float64, r.p.N()), make([]bool, r.p.N()), make([]float64, r.p.N())
		for i := range coeffs {
			if used[i] = i%3 != 0; used[i] {
				want[i] = 2*rng.Float64() - 1
				if i%5 == 0 {
					want[i] = float64(1 - i%2*2)
				}
				coeffs[i] = math.Round(want[i] * modulus / ratio)
			} else {
				coeffs[i] = math.Round((rng.Float64() - 0.5) * modulus)
			}
		}
		ct := must(r.enc.Encrypt(coeffs, 0, modulus/ratio, seedOf(t, "coefficients")))(t)
		second := make([]bool, len(used))
		for i, u := range used {
			second[i] = u && i%2 == 0
		}
		both := must(r.b.CoefficientsOf(ct, used, second))(t)
		got, off, wrong := r.slots(t, both[0]), 0.0, 0.0
		for i, v := range r.slots(t, both[1]) {
			want := got[i]
			if !second[i] {
				want = 0
			}
			if d := v - want; math.Hypot(real(d), imag(d)) > 0x1p-16 {
				t.Errorf("ratio 2^%d: coefficient %d is %v in the second set, want %v", logRatio, i, v, want)
			}
		}
		for i, v := range got {
			s := 0.0
			if used[i] {
				// compact_check.py: y = sin(2*pi*x), y + y^3/6, here with the largest part of y^5/13.3 too.
				y, top := math.Sin(2*math.Pi*coeffs[i]/modulus), math.Sin(2*math.Pi/ratio)
				s = ratio / (2 * math.Pi) * (y*(1-3*math.Pow(top, 4)/128) + y*y*y*(1.0/6+3*top*top/32))
			}
			off = max(off, math.Hypot(real(v)-s, imag(v)))
			wrong = max(wrong, math.Abs(real(v)-want[i]))
		}
		// The second is Coefficients' promise.
		limit := 0x1p-16 + math.Pow(2*math.Pi/ratio, 4)/200
		if off > 0x1p-16 || wrong > limit {
			t.Errorf("ratio 2^%d: off the cubic by 2^%.1f, off the message by 2^%.1f, stated are 2^-16 and 2^%.1f",
				logRatio, math.Log2(off), math.Log2(wrong), math.Log2(limit))
		}
	}
}

// TestCoefficientsBound: a used coefficient that is no reading stays within the stated bound.
func TestCoefficientsBound(t *testing.T) {
	r := newRig(t, "boot10-insecure", 16, 0)
	modulus, used := r.plan.Modulus(), make([]bool, r.p.N())
	coeffs, rng := make([]float64, r.p.N()), rand.New(rand.NewPCG(3, 3))
	for i := range coeffs {
		used[i], coeffs[i] = true, math.Round((rng.Float64()-0.5)*modulus)
	}
	coeffs[0], coeffs[1] = math.Round(modulus/4), -math.Round(modulus/4)
	ct := must(r.enc.Encrypt(coeffs, 0, modulus/64, seedOf(t, "bound")))(t)
	most := 0.0
	for _, v := range r.slots(t, must(r.b.Coefficients(ct, used))(t)) {
		most = max(most, math.Abs(real(v)))
	}
	if bound := 1.2 * 64 / (2 * math.Pi); most > bound || most < bound*0.95 {
		t.Errorf("a slot of %.3f, the bound is %.3f", most, bound)
	}
}

func TestCoefficientsRefuses(t *testing.T) {
	r := newRig(t, "boot10-insecure", 16, 0)
	scale, used := r.plan.Modulus()/64, make([]bool, r.p.N())
	ct := must(r.enc.Encrypt(make([]float64, r.p.N()), 0, scale, seedOf(t, "refuse")))(t)
	high := must(r.enc.Encrypt(make([]float64, r.p.N()), 1, scale, seedOf(t, "refuse")))(t)
	few := must(bootstrap.New(r.ctx, r.plan, &henc.EvaluationKeys{Sparse: r.keys.Sparse}))(t)
	for what, c := range map[string]struct {
		b    *bootstrap.Bootstrapper
		ct   *henc.Ciphertext
		used []bool
		want error
	}{
		"no bootstrapper": {nil, ct, used, henc.ErrParams},
		"repeated slots":  {newRig(t, "boot10-insecure", 1, 5).b, ct, used, henc.ErrParams},
		"no ciphertext":   {r.b, nil, used, henc.ErrDegree},
		"a level":         {r.b, high, used, henc.ErrLevel},
		"a large ratio":   {r.b, ct.WithScale(scale / 32), used, henc.ErrScale},
		"a small ratio":   {r.b, ct.WithScale(scale * 8), used, henc.ErrScale},
		"marks":           {r.b, ct, used[1:], henc.ErrMessage},
		"no keys":         {few, ct, used, henc.ErrNoKey},
	} {
		if _, err := c.b.Coefficients(c.ct, c.used); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	var none *bootstrap.Plan
	if half, slot := none.CoefficientSlot(3); half != 0 || slot != 0 || none.CoefficientLevel() != 0 {
		t.Error("no plan has slots")
	}
}

// TestCompactWindows: readings of several boards come from bytes to slots, and there they are within
// the stated precision and serve as operands.
func TestCompactWindows(t *testing.T) {
	for _, c := range []struct {
		set, boot string
		precision compact.Precision
		server    float64 // what the server adds to the error
		deep      bool
	}{
		{"compact10-insecure", "boot10-insecure", compact.Bits12, 0x1.9p-18, false},
		{"compact10-insecure", "boot10-insecure", compact.Bits16, 0x1.9p-18, false},
		{"compact10-insecure", "boot15@2^12", compact.Bits12, 0x1p-14, true},
		{"compact10-insecure", "boot16@2^11", compact.Bits16, 0x1p-20, true},
		{"compact12", "boot15", compact.Bits12, 0x1.ep-14, true},
		{"compact12", "boot16", compact.Bits16, 0x1p-20, true}, // on a GPU, or with about 32 GiB
	} {
		t.Run(fmt.Sprintf("%s/%d", c.boot, c.precision), func(t *testing.T) {
			deep := os.Getenv("HENCEDGE_TEST_DEEP")
			if c.deep && deep != c.boot && (deep != "1" || c.boot == "boot16") {
				testenv.Missing(t, "deep", "HENCEDGE_TEST_DEEP is neither 1 nor "+c.boot)
			}
			compactWindows(t, newRig(t, c.boot, 1, 0), c.set, c.precision, c.server)
		})
	}
}

func compactWindows(t *testing.T, r *rig, name string, precision compact.Precision, server float64) {
	set := must(compact.NamedInsecure(name))(t)
	small := must(henc.NewContext(must(compact.Switching(set, r.p))(t), henc.WithN2(1)))(t)
	common := must(r.key.CompactSecret(small))(t)
	receiver := must(compact.NewReceiver(set, small, r.ctx, must(r.key.CompactKey(common))(t)))(t)
	ctx := must(henc.NewContext(set, henc.WithN2(1)))(t)
	cts := make([]*henc.Ciphertext, receiver.Windows())
	want, used, rng := make([]float64, r.p.N()), make([]bool, r.p.N()), rand.New(rand.NewPCG(1, 1))
	for i := range cts {
		board := must(secret.Generate(ctx, seedOf(t, fmt.Sprint("board ", i))))(t)
		key := must(receiver.Prepare(must(common.CompactKey(board))(t)))(t)
		x, origin := make([]float64, []int{64, 1, 100}[i%3]), compact.Origin{Device: fmt.Sprint("board ", i)}
		for j := range x {
			if x[j] = 0.97; j%2 == 1 {
				x[j] = 2*rng.Float64() - 1
			}
			at := receiver.Position(i, j, len(x))
			want[at], used[at] = x[j], true
		}
		e := must(secret.NewCompactEncryptor(board))(t)
		w := must(e.Encrypt(x, precision, origin, seedOf(t, fmt.Sprint("window ", i))))(t)
		w = must(compact.Unmarshal(set, must(w.Marshal())(t)))(t)
		cts[i] = must(receiver.Receive(w, origin, key))(t)
	}
	out := must(r.b.Coefficients(must(receiver.Join(cts))(t), used))(t)
	most, rest := 0.0, 0.0
	for i, v := range r.slots(t, out) {
		if used[i] {
			most = max(most, math.Abs(real(v)-want[i]))
		} else {
			rest = max(rest, math.Abs(real(v)))
		}
	}
	bound := precision.Bound() + server
	t.Logf("readings are off by 2^%.2f, other slots by 2^%.2f", math.Log2(most), math.Log2(rest))
	if bound > math.Exp2(-float64(precision)) {
		t.Errorf("the bound 2^%.2f is not within the precision", math.Log2(bound))
	}
	if most > bound || rest > server {
		t.Errorf("readings are off by 2^%.2f, bound 2^%.2f, other slots by 2^%.2f", math.Log2(most), math.Log2(bound),
			math.Log2(rest))
	}
	ev := henc.NewEvaluator(r.ctx, r.keys)
	squares := must(r.dec.DecryptComplex(must(ev.MulRescale(out[0], out[0]))(t)))(t)
	for i, v := range want {
		if half, slot := r.plan.CoefficientSlot(i); half == 0 && math.Abs(real(squares[slot])-v*v) > 3*bound+0x1p-13 {
			t.Fatalf("the square of reading %d is %v, want %g", i, squares[slot], v*v)
		}
	}
}

// TestPackedWindows: packed windows fill every slot with a reading.
func TestPackedWindows(t *testing.T) {
	r := newRig(t, "boot10-insecure", 1, 0)
	set := must(compact.NamedInsecure("compact10-insecure"))(t)
	small := must(henc.NewContext(must(compact.Switching(set, r.p))(t), henc.WithN2(1)))(t)
	common := must(r.key.CompactSecret(small))(t)
	receiver := must(compact.NewReceiver(set, small, r.ctx, must(r.key.CompactKey(common))(t)))(t)
	galois := must(common.GaloisKeys(compact.PackElements(small.Parameters())))(t)
	packer := must(receiver.NewPacker(galois))(t)
	ctx := must(henc.NewContext(set, henc.WithN2(1)))(t)
	board := must(secret.Generate(ctx, seedOf(t, "board")))(t)
	e, key := must(secret.NewCompactEncryptor(board))(t), must(receiver.Prepare(must(common.CompactKey(board))(t)))(t)
	want, used := make([]float64, r.p.N()), make([]bool, r.p.N())
	windows, rng := make([]*henc.Ciphertext, packer.Windows(64)), rand.New(rand.NewPCG(2, 2))
	for k := range windows {
		x, origin := make([]float64, 64), compact.Origin{Device: "board", Sequence: uint64(k)}
		for j := range x {
			x[j] = 2*rng.Float64() - 1
			at := packer.Position(0, k, j, len(x))
			want[at], used[at] = x[j], true
		}
		w := must(e.Encrypt(x, compact.Bits12, origin, seedOf(t, fmt.Sprint("window ", k))))(t)
		windows[k] = must(receiver.Receive(w, origin, key))(t)
	}
	joined := must(receiver.Join([]*henc.Ciphertext{must(packer.Pack(windows, 64))(t)}))(t)
	for i, v := range r.slots(t, must(r.b.Coefficients(joined, used))(t)) {
		if d := math.Abs(real(v) - want[i]); !used[i] || d > 0x1p-12 {
			t.Fatalf("coefficient %d of %d, used %v, is off by 2^%.2f", i, len(want), used[i], math.Log2(d))
		}
	}
}
