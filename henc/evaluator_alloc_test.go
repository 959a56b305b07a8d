package henc_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// TestEvaluatorMemory: where results are freed, products, rescalings and rotations
// allocate no polynomial. What they allocate are the descriptions of batches (lists of
// limbs, views), checks of scales and the functions that run on workers: a few
// KiB, whatever the degree, against 320 KiB for the smallest ciphertext of edge13-d3.
func TestEvaluatorMemory(t *testing.T) {
	const most = 12 << 10 // bytes
	for _, set := range []string{"toy-single", "edge13-d3"} {
		p, err := parameters(set)
		check(t, err)
		ctx, err := henc.NewContext(p, henc.WithBackend(cpu.New()), henc.WithN2(1), henc.WithWorkers(1))
		check(t, err)
		key, err := secret.Generate(ctx, seedOf("memory"))
		check(t, err)
		keys, err := key.EvaluationKeys([]int{1}, false)
		check(t, err)
		ev := henc.NewEvaluator(ctx, keys)
		a, err := secret.NewSeededEncryptor(ctx, key).EncryptComplex(uniform(p.Slots(), 1), p.MaxLevel(),
			p.DefaultScale(), nil)
		check(t, err)
		product, err := ev.Mul(a, a)
		check(t, err)
		for name, op := range map[string]func() (*henc.Ciphertext, error){
			"product":             func() (*henc.Ciphertext, error) { return ev.Mul(a, a) },
			"product and rescale": func() (*henc.Ciphertext, error) { return ev.MulRescale(a, a) },
			"rescale":             func() (*henc.Ciphertext, error) { return ev.Rescale(product) },
			"rotation":            func() (*henc.Ciphertext, error) { return ev.Rotate(a, 1) },
		} {
			run := func() {
				ct, err := op()
				check(t, err)
				ctx.Ring().Free(ct.Value)
			}
			run() // tables, constants, memory
			if bytes := allocated(20, run); bytes > most {
				t.Errorf("%s: a %s allocates %d bytes, more than %d", set, name, bytes, most)
			}
		}
	}
}

// allocated are the bytes that a call of f allocates, over n calls without garbage
// collection, which would take what the pools hold.
func allocated(n int, f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // pools are kept by processor
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		f()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / uint64(n)
}
