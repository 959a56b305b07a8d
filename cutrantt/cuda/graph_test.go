package cuda

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda/cudatest"
	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
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

// recordable makes two batches and a key on r, and a function whose operations can be recorded: what it makes of
// their residues is in out.
func recordable(t *testing.T, r *ring, n2 int) (a, b *cutrantt.Batch, key cutrantt.Operand,
	f func(on cutrantt.Ring) error, out **cutrantt.Batch) {
	t.Helper()
	var x [3]*cutrantt.Batch
	for i, polys := range []int{1, 1, 2} {
		var err error
		if x[i], err = r.NewBatch(polys, upTo(3), cutrantt.NTT(n2)); err != nil {
			t.Fatal(err)
		}
	}
	a, b, out = x[0], x[1], new(*cutrantt.Batch)
	drawn(t, r, x[2], 99)
	key, err := r.Precompute(x[2])
	if err != nil {
		t.Fatal(err)
	}
	f = func(on cutrantt.Ring) (err error) {
		if *out != nil {
			on.Free(*out)
		}
		tmp, err := cutrantt.NewResult(on, 1, upTo(3), cutrantt.NTT(n2))
		if err != nil {
			return err
		}
		defer on.Free(tmp)
		if *out, err = cutrantt.NewResult(on, 2, upTo(3), cutrantt.NTT(n2)); err != nil {
			return err
		}
		return errors.Join(on.Mul(tmp, a, b), on.MulScalar(tmp, tmp, []uint32{3, 5, 7}), on.Add(tmp, tmp, a),
			on.MulOperand(*out, tmp, key), on.Add(*out, *out, b))
	}
	return a, b, key, f, out
}

// drawn fills a batch with residues that depend on seed.
func drawn(t *testing.T, r *ring, b *cutrantt.Batch, seed byte) {
	t.Helper()
	for i := range b.Polys() {
		v, err := b.Slice(i, i+1, 0, len(b.Limbs()))
		if err == nil {
			err = r.SampleUniform(v, &[32]byte{seed}, uint32(i))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// residues downloads a batch.
func residues(t *testing.T, r cutrantt.Ring, b *cutrantt.Batch) []uint32 {
	t.Helper()
	w := make([]uint32, b.Len())
	if err := r.Download(w, b); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestRecord: a recording computes what the operations do, with the residues of the moment, beside other operations,
// and while the collector runs.
func TestRecord(t *testing.T) {
	back := graphed(t)
	for _, use := range []graphUse{graphsOn, graphsAuto} {
		back.graphs = use
		for _, n2 := range []int{16, 4} {
			r, err := back.newRing(12, benchModuli(t, 12, 3), cutrantt.Options{})
			if err != nil {
				t.Fatal(err)
			}
			a, b, _, f, out := recordable(t, r, n2)
			if back.mapped {
				notRecorded(t, r, f)
				continue
			}
			c, err := r.Record(f)
			if err != nil {
				t.Fatal(err)
			}
			got := *out
			for i := range byte(4) {
				drawn(t, r, a, 2*i)
				drawn(t, r, b, 2*i+1)
				before := r.Launches()
				if err := c.Replay(); err != nil {
					t.Fatal(err)
				}
				if n := r.Launches() - before; n < 5 {
					t.Errorf("%d kernels counted of a replay", n)
				}
				*out = nil
				if err := f(r); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(residues(t, r, got), residues(t, r, *out)) {
					t.Fatalf("n2 = %d: round %d: other residues", n2, i)
				}
				r.Free(*out)
				runtime.GC()
			}
		}
	}
}

// TestRecordRefused: what is no kernel cannot be recorded, and nothing is replayed with what was freed.
func TestRecordRefused(t *testing.T) {
	back := graphed(t)
	r, err := back.newRing(12, benchModuli(t, 12, 3), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, b, key, f, _ := recordable(t, r, 4)
	if back.mapped {
		notRecorded(t, r, f)
		return
	}
	for what, g := range map[string]func(on cutrantt.Ring) error{
		"a download": func(on cutrantt.Ring) error { return on.Download(make([]uint32, a.Len()), a) },
		"zeros": func(on cutrantt.Ring) error {
			x, err := on.NewBatch(1, upTo(3), cutrantt.NTT(4))
			return errors.Join(err, on.Add(a, a, x))
		},
		"an operand": func(on cutrantt.Ring) error {
			_, err := on.Precompute(b)
			return err
		},
		"a recording": func(on cutrantt.Ring) error {
			_, err := on.(cutrantt.Recorder).Record(f)
			return err
		},
		"nothing": func(cutrantt.Ring) error { return nil },
	} {
		if _, err := r.Record(g); !errors.Is(err, cutrantt.ErrNotSupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := r.Record(func(cutrantt.Ring) error { return cutrantt.ErrRange }); !errors.Is(err, cutrantt.ErrRange) {
		t.Errorf("an error of the function: %v", err)
	}
	c, err := r.Record(f)
	if err != nil {
		t.Fatal(err)
	}
	key.Release()
	if err := c.Replay(); !errors.Is(err, cutrantt.ErrForeign) {
		t.Errorf("a key that was released: %v", err)
	}
	_, b, _, f, _ = recordable(t, r, 4)
	if c, err = r.Record(f); err != nil {
		t.Fatal(err)
	}
	r.Free(b)
	if err := c.Replay(); !errors.Is(err, cutrantt.ErrForeign) {
		t.Errorf("a batch that was freed: %v", err)
	}
	back.graphs = graphsOff
	if _, err := r.Record(f); !errors.Is(err, cutrantt.ErrNotSupported) {
		t.Errorf("without graphs: %v", err)
	}
}

// notRecorded checks that a GPU that works in the host's memory records nothing.
func notRecorded(t *testing.T, r *ring, f func(cutrantt.Ring) error) {
	t.Helper()
	if _, err := r.Record(f); !errors.Is(err, cutrantt.ErrNotSupported) {
		t.Errorf("batches in mapped memory: %v", err)
	}
}

// TestRecordFailures: whichever call of the driver fails, Record and Replay tell of it, and no graph, stream or memory
// is left when a recording is dropped.
func TestRecordFailures(t *testing.T) {
	t.Setenv(TuningVariable, "off")
	d := cudatest.WithGraphs(t)
	b := faulty(t, d)
	r, err := b.newRing(12, benchModuli(t, 12, 3), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, _, _, f, out := recordable(t, r, 4)
	left := []driver.Attribute{cudatest.Graphs, cudatest.ExecutableGraphs, cudatest.Streams, cudatest.DeviceBlocks}
	var before []int
	for _, what := range left {
		before = append(before, count(t, b, what))
	}
	failed := 0
	for skip := 0; ; skip++ {
		*out = nil
		d.Set(fmt.Sprintf("fail * 1 %d 1", skip)) // a refusal that the context survives
		c, err := r.Record(f)
		if err == nil {
			err = c.Replay()
		}
		d.Set()
		if err == nil {
			break
		}
		failed++
		if skip > 400 {
			t.Fatal("Record calls the driver without end")
		}
	}
	if failed < 30 {
		t.Errorf("only %d calls failed", failed)
	}
	*out = nil
	for i, what := range left {
		until(t, fmt.Sprintf("nothing of kind %d is left", what-cudatest.Contexts), func() bool {
			runtime.GC()
			return count(t, b, what) <= before[i]
		})
	}
	c, err := r.Record(f)
	if err != nil {
		t.Fatal(err)
	}
	d.Set("fail cuGraphLaunch 719")
	if err := c.Replay(); !errors.Is(err, cutrantt.ErrDevice) || !errors.Is(cutrantt.Broken(r), cutrantt.ErrDevice) {
		t.Errorf("a device that fails: %v", err)
	}
	if _, err := r.Record(f); !errors.Is(err, cutrantt.ErrDevice) {
		t.Errorf("after that: %v", err)
	}
}
