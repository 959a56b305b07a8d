package henc_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/cutrantt/cuda"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testenv"
)

// gpu is the GPU backend.
func gpu(t testing.TB) cutrantt.Backend {
	t.Helper()
	b, err := cuda.New()
	if err == nil {
		return b
	}
	testenv.Missing(t, "cuda", err)
	return nil
}

// outcome is what one step of a life computed.
type outcome struct {
	step string
	hash [sha256.Size]byte
}

// life is everything that henc does with arithmetic, from fixed seeds on one
// backend: keys, encryption in both forms, every operation at every level, the
// wire and decryption.
type life struct {
	t    testing.TB
	p    henc.Parameters
	ctx  *henc.Context
	dec  *secret.Decryptor
	done []outcome
}

func (l *life) note(step string, b []byte) {
	l.done = append(l.done, outcome{step, sha256.Sum256(b)})
}

// batch notes every residue of b.
func (l *life) batch(step string, b *cutrantt.Batch) {
	l.t.Helper()
	host := make([]uint32, b.Len())
	check(l.t, l.ctx.Ring().Download(host, b))
	bytes := make([]byte, 0, 4*len(host))
	for _, v := range host {
		bytes = binary.LittleEndian.AppendUint32(bytes, v)
	}
	l.note(step, bytes)
}

// ciphertext notes all residues of ct and what it decrypts to, bit for bit.
func (l *life) ciphertext(step string) func(*henc.Ciphertext, error) *henc.Ciphertext {
	return func(ct *henc.Ciphertext, err error) *henc.Ciphertext {
		l.t.Helper()
		if err != nil {
			l.t.Fatalf("%s: %v", step, err)
		}
		l.batch(step, ct.Value)
		slots := must(l.dec.DecryptComplex(ct))(l.t)
		bits := make([]byte, 0, 16*len(slots))
		for _, z := range slots {
			bits = binary.LittleEndian.AppendUint64(bits, math.Float64bits(real(z)))
			bits = binary.LittleEndian.AppendUint64(bits, math.Float64bits(imag(z)))
		}
		l.note(step+", decrypted", bits)
		return ct
	}
}

func liveOn(t testing.TB, b cutrantt.Backend, p henc.Parameters, n2 int) []outcome {
	t.Helper()
	ctx := must(henc.NewContext(p, henc.WithBackend(b), henc.WithN2(n2)))(t)
	key := must(secret.Generate(ctx, seedOf("life")))(t)
	l := &life{t: t, p: p, ctx: ctx, dec: secret.NewDecryptor(ctx, key)}
	pk := must(key.PublicKey())(t)
	l.batch("public key", pk.Value)
	var keys *henc.EvaluationKeys
	if p.Alpha() > 0 {
		keys = must(key.EvaluationKeys([]int{1, 2, -3, 5, 7, -8, -16}, true))(t)
		l.batch("relinearisation key", keys.Relin.Value)
		for _, g := range slices.Sorted(maps.Keys(keys.Galois)) {
			l.batch(fmt.Sprintf("key of element %d", g), keys.Galois[g].Value)
		}
		if !p.Insecure() { // keys of insecure parameters are never written
			l.note("evaluation keys on the wire", must(ctx.MarshalEvaluationKeys(keys))(t))
		}
	}
	ev := henc.NewEvaluator(ctx, keys)

	public, seeded := must(henc.NewEncryptor(ctx, pk))(t), secret.NewSeededEncryptor(ctx, key)
	z, top := uniform(p.Slots(), 3), p.MaxLevel()
	var x, y *henc.Ciphertext
	for level := top; level >= 0; level-- {
		at := fmt.Sprintf(" at level %d", level)
		x = l.ciphertext("encrypt" + at)(public.EncryptComplex(z, level, 0, seedOf("pk"+at)))
		y = l.ciphertext("encrypt seeded" + at)(seeded.EncryptReal(reals(p.Slots(), 4), level, 0, seedOf("seeded"+at)))
		l.plainly(ev, x, y, at)
		if p.Alpha() > 0 {
			l.rotated(ev, x, at)
			if level == top && top > 0 {
				l.transformed(ev, x)
			}
			l.ciphertext("multiply" + at)(ev.Mul(x.WithScale(math.Sqrt(x.Scale)), y.WithScale(math.Sqrt(x.Scale))))
		}
		if level > 0 {
			product := l.ciphertext("full product" + at)(ev.Mul(x, y))
			l.ciphertext("rescale" + at)(ev.Rescale(product))
			l.ciphertext("drop" + at)(ev.DropLevel(x, 1))
			l.ciphertext("multiply and rescale" + at)(ev.MulRescale(x, y))
		}
	}
	// Magnitudes up to one stay there, however often they are squared.
	x = must(public.EncryptReal(reals(p.Slots(), 7), top, 0, seedOf("power")))(t)
	for level := top; level > 0; level-- {
		x = l.ciphertext(fmt.Sprintf("power 2^%d", top-level+1))(ev.MulRescale(x, x))
	}
	return l.done
}

// plainly runs what needs no key.
func (l *life) plainly(ev *henc.Evaluator, x, y *henc.Ciphertext, at string) {
	l.t.Helper()
	l.ciphertext("add" + at)(ev.Add(x, y))
	l.ciphertext("subtract" + at)(ev.Sub(x, y))
	l.ciphertext("negate" + at)(ev.Neg(x))
	l.ciphertext("add a constant" + at)(ev.AddConst(x, 0.375))
	l.ciphertext("multiply by an integer" + at)(ev.MulInt(x, -3))
	pt := must(l.ctx.Encoder().EncodeComplex(uniform(l.p.Slots(), 5), x.Level, x.Scale))(l.t)
	l.ciphertext("add a plaintext" + at)(ev.AddPlain(x, pt))
	l.ciphertext("subtract a plaintext" + at)(ev.SubPlain(x, pt))
	small := x.WithScale(math.Sqrt(x.Scale))
	pt = must(l.ctx.Encoder().EncodeComplex(uniform(l.p.Slots(), 6), x.Level, small.Scale))(l.t)
	l.ciphertext("multiply by a plaintext" + at)(ev.MulPlain(small, pt))
	l.ciphertext("multiply by a constant" + at)(ev.MulConst(small, 0.7, small.Scale))

	// The wire brings ciphertexts of every layout into the context's own.
	for _, n2 := range []int{1, 2, 16} {
		other := must(henc.NewContext(l.p, henc.WithBackend(l.ctx.Ring().Backend()), henc.WithN2(n2)))(l.t)
		there := must(other.UnmarshalCiphertext(must(l.ctx.MarshalCiphertext(x))(l.t)))(l.t)
		l.ciphertext(fmt.Sprintf("through n2 = %d%s", n2,
			at))(l.ctx.UnmarshalCiphertext(must(other.MarshalCiphertext(there))(l.t)))
	}
}

// rotated runs what switches keys.
func (l *life) rotated(ev *henc.Evaluator, x *henc.Ciphertext, at string) {
	l.t.Helper()
	l.ciphertext("rotate" + at)(ev.Rotate(x, -3))
	many := must(ev.RotateMany(x, []int{2, 0, 1}))(l.t)
	for i, ct := range many {
		l.ciphertext(fmt.Sprintf("hoisted rotation %d%s", i, at))(ct, nil)
	}
	l.ciphertext("conjugate" + at)(ev.Conjugate(x))
	l.ciphertext("sum of slots" + at)(ev.SumSlots(x, 4, 1))
}

// transformed multiplies the slots by a matrix with two giant steps besides 0, side by side, and by one whose giant
// steps back by 3 and by 1 have the key of one step only, with a baby step that is made of two others.
func (l *life) transformed(ev *henc.Evaluator, x *henc.Ciphertext) {
	l.t.Helper()
	for what, ks := range [][]int{{-9, -3, 0, 1}, {-17, -5, 0, 1}} {
		diagonals := map[int][]complex128{}
		for _, k := range ks {
			diagonals[k] = uniform(l.p.Slots(), uint64(20+k))
		}
		lt := must(henc.NewLinearTransform(l.ctx, diagonals, x.Level, l.p.RescaleFactor(x.Level)))(l.t)
		l.ciphertext(fmt.Sprintf("linear transform %d", what))(ev.Transform(x, lt))
		lt.Free()
	}
}

// TestGPUEqualsCPU: on the GPU every step of every named set gives the residues,
// the bytes on the wire and the decrypted numbers of the CPU, bit for bit. Rings
// of degree 2^16 run with HENCEDGE_TEST_DEEP=1 only, large sets not with -short.
func TestGPUEqualsCPU(t *testing.T) {
	device := gpu(t)
	for _, set := range append(henc.Names(), henc.InsecureNames()...) {
		p := must(henc.NamedInsecure(set))(t)
		columns := []int{16, 1, 4}
		switch {
		case testing.Short() && set == "edge13-d2p":
			columns = columns[:1]
		case testing.Short() && p.LogN() > 12:
			columns = nil
		case p.LogN() >= 15:
			columns = columns[:2]
		}
		for _, n2 := range columns {
			t.Run(fmt.Sprintf("%s/%d", set, n2), func(t *testing.T) {
				if p.LogN() >= 16 && os.Getenv("HENCEDGE_TEST_DEEP") != "1" {
					testenv.Missing(t, "deep", "HENCEDGE_TEST_DEEP is not 1")
				}
				got, want := liveOn(t, device, p, n2), liveOn(t, cpu.New(), p, n2)
				if len(got) != len(want) {
					t.Fatalf("%d steps on the GPU, %d on the CPU", len(got), len(want))
				}
				wrong := 0
				for i := range want {
					if got[i] != want[i] {
						if wrong++; wrong <= 10 {
							t.Errorf("%s differs", want[i].step)
						}
					}
				}
				t.Logf("%d of %d steps agree on %s", len(want)-wrong, len(want), device.Device())
			})
		}
	}
}

// TestGPURounds encrypts random messages under the public key, multiplies and
// decrypts them on the GPU, HENCEDGE_TEST_ROUNDS times, and holds every slot to
// the bound of the noise model.
func TestGPURounds(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("HENCEDGE_TEST_ROUNDS"))
	if err != nil || rounds <= 0 {
		testenv.Missing(t, "rounds", "HENCEDGE_TEST_ROUNDS is not the number of rounds")
	}
	device := gpu(t)
	for _, n2 := range []int{16, 1} {
		t.Run(strconv.Itoa(n2), func(t *testing.T) {
			p := must(henc.Named("edge13-d2p"))(t)
			ctx := must(henc.NewContext(p, henc.WithBackend(device), henc.WithN2(n2)))(t)
			key := must(secret.Generate(ctx, nil))(t)
			enc := must(henc.NewEncryptor(ctx, must(key.PublicKey())(t)))(t)
			ev := henc.NewEvaluator(ctx, must(key.EvaluationKeys(nil, false))(t))
			dec := secret.NewDecryptor(ctx, key)
			model, scale := p.Noise(), p.ScaleAt(p.MaxLevel())
			// Slots are uniform in the square [-1, 1]^2: root mean square sqrt(2/3).
			rms := math.Sqrt(2.0 / 3)
			fresh := math.Sqrt2 * model.FreshPK(scale)
			below := p.ScaleAt(p.MaxLevel() - 1)
			deviation := math.Hypot(model.Product(rms, fresh, rms, fresh),
				math.Sqrt2*model.MulRescale(p.MaxLevel(), below))
			// The largest slot has magnitude sqrt(2), not its root mean square.
			bound := math.Sqrt(3) * model.Max(deviation, p.Slots())
			worst := 0.0
			for i := range rounds {
				a, b := uniform(p.Slots(), rand.Uint64()), uniform(p.Slots(), rand.Uint64())
				x := must(enc.EncryptComplex(a, p.MaxLevel(), 0, nil))(t)
				y := must(enc.EncryptComplex(b, p.MaxLevel(), 0, nil))(t)
				product := must(ev.MulRescale(x, y))(t)
				for j := range a {
					a[j] *= b[j]
				}
				e := maxError(must(dec.DecryptComplex(product))(t), a)
				if worst = math.Max(worst, e); e > bound || math.IsNaN(e) {
					t.Fatalf("round %d: error %g, bound %g", i, e, bound)
				}
				for _, v := range []*henc.Ciphertext{x, y, product} {
					ctx.Ring().Free(v.Value)
				}
			}
			t.Logf("%d rounds: largest error 2^%.1f, bound 2^%.1f", rounds, math.Log2(worst), math.Log2(bound))
			if worst < bound/1e4 {
				t.Errorf("largest error %g is implausibly small: is anything encrypted?", worst)
			}
		})
	}
}

// TestLifeRepeats: a life is the same twice on one backend, and sees a change of
// the layout; otherwise TestGPUEqualsCPU could compare nothing.
func TestLifeRepeats(t *testing.T) {
	p := must(parameters("toy"))(t)
	one, two, other := liveOn(t, cpu.New(), p, 16), liveOn(t, cpu.New(), p, 16), liveOn(t, cpu.New(), p, 4)
	if !slices.Equal(one, two) {
		t.Error("two lives on one backend differ")
	}
	steps := map[string]bool{}
	differ := 0
	for i := range one {
		if steps[one[i].step] {
			t.Errorf("step %q is there twice", one[i].step)
		}
		steps[one[i].step] = true
		if one[i].hash != other[i].hash {
			differ++
		}
	}
	if differ < len(one)/4 {
		t.Errorf("%d of %d steps differ between two layouts", differ, len(one))
	}
}
