package bfv_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/cutrantt/cuda"
	"github.com/hencedge/hencedge/cutrantt/reference"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/internal/testenv"
)

// residues is a hash of all residues of ct.
func (r *rig) residues(t testing.TB, ct *bfv.Ciphertext) [32]byte {
	t.Helper()
	host := make([]uint32, ct.Value.Len())
	check(t, r.ctx.Base().Ring().Download(host, ct.Value))
	var b []byte
	for _, v := range host {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return sha256.Sum256(b)
}

// outcome is what one step computed.
type outcome struct {
	step string
	hash [32]byte
}

// life is every operation from fixed seeds on one backend.
func life(t testing.TB, b cutrantt.Backend, p bfv.Parameters, n2 int) (out []outcome) {
	t.Helper()
	r := newRig(t, p, henc.WithBackend(b), henc.WithN2(n2))
	note := func(step string) func(*bfv.Ciphertext, error) *bfv.Ciphertext {
		return func(ct *bfv.Ciphertext, err error) *bfv.Ciphertext {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", step, err)
			}
			out = append(out, outcome{step, r.residues(t, ct)})
			var values []byte
			for _, v := range must(r.dec.Slots(ct))(t) {
				values = binary.LittleEndian.AppendUint64(values, v)
			}
			out = append(out, outcome{step + ", decrypted", sha256.Sum256(values)})
			return ct
		}
	}
	plain := must(r.ctx.EncodeSlots(r.values(p.N(), 1)))(t)
	coeffs := must(r.ctx.EncodeCoeffs(r.values(p.N(), 2)))(t)
	x := note("encrypt")(r.enc.Encrypt(plain, seedOf("life")))
	y := note("encrypt seeded")(r.seeded.Encrypt(coeffs, seedOf("seeded life")))
	note("add")(r.ev.Add(x, y))
	note("subtract")(r.ev.Sub(x, y))
	note("negate")(r.ev.Neg(x))
	note("add plaintext")(r.ev.AddPlain(x, coeffs))
	note("subtract plaintext")(r.ev.SubPlain(x, coeffs))
	factor := must(r.ctx.Factor(coeffs))(t)
	note("multiply by plaintext")(r.ev.MulPlain(x, factor))
	note("sum of products")(r.ev.SumPlain([]*bfv.Ciphertext{x, y}, []*bfv.Factor{factor, factor}))
	note("multiply by constant")(r.ev.MulConst(x, -7))
	product := note("multiply")(r.ev.Mul(x, y))
	note("square")(r.ev.Mul(product, product))
	two := []*bfv.Plaintext{coeffs, plain}
	for i, ct := range must(r.enc.EncryptBatch(two, []*henc.Seed{seedOf("a"), seedOf("b")}))(t) {
		note(fmt.Sprintf("encryption %d of two", i))(ct, nil)
	}
	for i, ct := range must(r.ev.MulBatch([]*bfv.Ciphertext{x, y}, []*bfv.Ciphertext{y, y}))(t) {
		note(fmt.Sprintf("product %d of two", i))(ct, nil)
	}
	note("rotate")(r.ev.RotateRows(product, -3))
	note("swap rows")(r.ev.SwapRows(product))
	for i, ct := range []*bfv.Ciphertext{x, y} { // one with a seed
		note(fmt.Sprintf("read %d", i))(r.ctx.Unmarshal(must(r.ctx.Marshal(ct))(t), ct.Noise))
	}
	return out
}

// compare runs a life on a backend and on the CPU.
func compare(t *testing.T, device cutrantt.Backend, p bfv.Parameters, columns ...int) {
	for _, n2 := range columns {
		got, want := life(t, device, p, n2), life(t, cpu.New(), p, n2)
		if len(got) != len(want) {
			t.Fatalf("n2 = %d: %d steps, %d on the CPU", n2, len(got), len(want))
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("n2 = %d: %s differs", n2, want[i].step)
			}
		}
	}
}

// TestGPUEqualsCPU: on the GPU every step gives the residues and the decrypted numbers of the CPU, bit for bit.
func TestGPUEqualsCPU(t *testing.T) {
	device, err := cuda.New()
	if err != nil {
		testenv.Missing(t, "cuda", err)
	}
	compare(t, device, toy(t, 65537), 1, 4, 16)
	if !testing.Short() {
		for _, name := range bfv.Names() {
			compare(t, device, must(bfv.Named(name, 0))(t), 1, 16)
		}
	}
}

// TestReferenceEqualsCPU is the same for the slow backend, which computes with big integers.
func TestReferenceEqualsCPU(t *testing.T) {
	compare(t, reference.New(), toy(t, 65537), 4)
}

// TestLifeRepeats: a life is the same twice, and differs between layouts.
func TestLifeRepeats(t *testing.T) {
	p := toy(t, 65537)
	one, two, other := life(t, cpu.New(), p, 16), life(t, cpu.New(), p, 16), life(t, cpu.New(), p, 1)
	if !slices.Equal(one, two) {
		t.Error("two lives on one backend differ")
	}
	differ := 0
	for i := range one {
		if one[i] != other[i] {
			differ++
		}
	}
	if differ < len(one)/3 {
		t.Errorf("%d of %d steps differ between two layouts", differ, len(one))
	}
}
