package cuda

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda/cudatest"
	"github.com/hencedge/hencedge/internal/testenv"
)

// graphed opens the GPU with graphs on, for this test.
func graphed(t *testing.T) *backend {
	t.Helper()
	b := gpu(t).(*backend)
	if err := b.drv.Graphs(); err != nil {
		testenv.Missing(t, "cuda-graphs", err)
	}
	old := b.graphs
	t.Cleanup(func() { b.graphs = old })
	b.graphs = graphsOn
	return b
}

// TestGraphs: operations give the processor's residues when their kernels are queued
// as graphs, with other operands and scratch memory in the same graph too.
func TestGraphs(t *testing.T) {
	graphed(t)
	for _, n2 := range []int{16, 4} {
		w := newTwin(t, 12, 6)
		r := w.ring[0].(*ring)
		for range 2 { // tables and constants, whose copies part the kernels, are there the second time
			w.switches(4, 2, n2)
		}
		kept := r.launcher.Kept()
		if kept == 0 {
			t.Fatal("no graph was made")
		}
		other := w.batch(1, upTo(3), cutrantt.NTT(n2)) // now scratch memory lies elsewhere
		w.switches(4, 2, n2)
		if n := r.launcher.Kept(); n != kept {
			t.Errorf("n2 = %d: %d graphs after the same operations again, %d before", n2, n, kept)
		}
		w.ring[0].Free(other[0])
	}
}

// TestGraphsEncrypt: encryptions are the same with and without graphs, messages and
// seeds differ from one replay to the next.
func TestGraphsEncrypt(t *testing.T) {
	b := graphed(t)
	const n2, logN = 16, 12
	r, err := b.newRing(logN, benchModuli(t, logN, 3), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := r.NewBatch(2, upTo(3), cutrantt.NTT(n2))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		part, err := key.Slice(i, i+1, 0, 3)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.SampleUniform(part, &[32]byte{1}, uint32(i)); err != nil {
			t.Fatal(err)
		}
	}
	op, err := r.Precompute(key)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	kept := 0
	for round := range 12 {
		jobs := make([]cutrantt.Encryption, round%3+1)
		for i := range jobs {
			jobs[i] = cutrantt.Encryption{Message: make([]float64, r.n), Bound: 1 << 40,
				Seed: &[32]byte{byte(i), byte(round)}}
			for k := range jobs[i].Message {
				jobs[i].Message[k] = float64(rng.IntN(1 << 40))
			}
		}
		var out [3][]uint32
		for i, use := range []graphUse{graphsOn, graphsOff, graphsAuto} {
			b.graphs = use
			got, err := r.EncryptPublic(op, upTo(3), cutrantt.EncryptionLabels{V: 1, E0: 2, E1: 3}, jobs)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range got {
				w := make([]uint32, x.Len())
				if err := r.Download(w, x); err != nil {
					t.Fatal(err)
				}
				out[i] = append(out[i], w...)
				if round%2 == 0 {
					r.Free(x)
				}
			}
		}
		b.graphs = graphsOn
		if round == 5 { // in the first three tables are made
			kept = r.launcher.Kept()
		}
		if !slices.Equal(out[0], out[1]) || !slices.Equal(out[0], out[2]) {
			t.Fatalf("round %d: another ciphertext with graphs", round)
		}
	}
	if n := r.launcher.Kept(); kept < 3 || n != kept {
		t.Errorf("%d graphs after three shapes, %d after the same again", kept, n)
	}
}

// TestGraphsRefused: graphs that are asked for are an error where the driver has none,
// and so is a mode that there is not.
func TestGraphsRefused(t *testing.T) {
	for mode, want := range map[string]string{"on": "the CUDA driver has no cuGraphCreate",
		"maybe": "use on, off or auto", "off": "", "auto": ""} {
		t.Run(mode, func(t *testing.T) { // a driver of its own: what could be opened is kept
			d := cudatest.New(t)
			d.Working()
			d.Use()
			t.Setenv(GraphsVariable, mode)
			_, err := Open(0)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), "capability: ")) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}
