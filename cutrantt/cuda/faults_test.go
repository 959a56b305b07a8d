package cuda

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/cutrantt/cuda/cudatest"
	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
)

// faulty is a backend on a driver for tests.
func faulty(t *testing.T, d *cudatest.Driver) *backend {
	t.Helper()
	t.Setenv(TuningVariable, "off")
	d.Working()
	d.Use()
	b, err := open(0)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// count is how many of something there are in a driver for tests.
func count(t *testing.T, b *backend, what driver.Attribute) int {
	t.Helper()
	n, err := b.drv.Attribute(b.dev, what)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// until waits for what happens soon.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: ", what)
		}
	}
}

// TestGivenUp: a context in which a GPU turns out to be of no use is given up, as it
// holds much memory; what was made in it calls the driver no more.
func TestGivenUp(t *testing.T) {
	d := cudatest.New(t)
	b := faulty(t, d)
	failure := fmt.Errorf("%w: in a test", cutrantt.ErrDevice)
	b.lost.Store(&failure)
	if err := b.abandon(); err != nil {
		t.Fatal(err)
	}
	for _, fail := range []string{"cuCtxSetCurrent 201", "cuModuleLoadData 209", "cuModuleGetFunction 500 7",
		"cuStreamCreate 2", "cuMemcpyDtoHAsync_v2 1", "cuStreamSynchronize 700"} {
		d.Set("fail " + fail)
		if err := opens(0); !errors.Is(err, cutrantt.ErrNotSupported) {
			t.Errorf("%s: %v", fail, err)
		}
		for _, what := range []driver.Attribute{cudatest.Contexts, cudatest.DeviceBlocks, cudatest.HostBlocks,
			cudatest.Streams, cudatest.Events} {
			until(t, fmt.Sprintf("%s: nothing of kind %d is left", fail, what-cudatest.Contexts), func() bool {
				runtime.GC() // what the self-test made
				return count(t, b, what) == 0
			})
		}
	}
	d.Set()
	if err := opens(0); err != nil || count(t, b, cudatest.Contexts) != 1 {
		t.Errorf("in order again: %v", err)
	}
}

// TestGivenUpLater: a context that failed stays while a call uses memory of it, also
// between its calls of the driver; one that hangs is not waited for without end.
func TestGivenUpLater(t *testing.T) {
	d := cudatest.New(t)
	b := faulty(t, d)
	r, err := b.newRing(12, benchModuli(t, 12, 2), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := r.NewBatch(1, upTo(2), cutrantt.Coeffs(16))
	if err != nil {
		t.Fatal(err)
	}
	gate := filepath.Join(t.TempDir(), "gate")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.Set("hold cuEventSynchronize "+gate, "fail cuEventSynchronize 700")
	loaded, gone := make(chan error, 1), make(chan error, 1)
	go func() { loaded <- r.Download(make([]uint32, x.Len()), x) }()
	until(t, "the download waits for its copy", func() bool { _, err := os.Stat(gate + ".reached"); return err == nil })
	has, release := make(chan struct{}), make(chan struct{})
	go func() {
		_ = r.turns.do(func() error { // the download will wait for it with its staging buffer in hand
			close(has)
			<-release
			return nil
		})
	}()
	<-has
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	until(t, "the failure is known", func() bool { return b.err() != nil })
	go func() { gone <- b.abandon() }()
	select {
	case err := <-gone:
		t.Error("the context was given up under a download")
		gone <- err
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if err := <-loaded; !errors.Is(err, cutrantt.ErrDevice) {
		t.Errorf("the download: %v", err)
	}
	if err := <-gone; err != nil {
		t.Error(err)
	}

	defer func(old time.Duration) { abandonTime = old }(abandonTime)
	abandonTime = 5 * time.Millisecond
	d.Set()
	one, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	hangs := one.(*backend)
	failure := fmt.Errorf("%w: in a test", cutrantt.ErrDevice)
	hangs.lost.Store(&failure)
	hangs.calls.Add(1)
	if _, err := Open(0); !errors.Is(err, cutrantt.ErrNotSupported) ||
		!strings.Contains(err.Error(), "init: a call in the context that failed") {
		t.Errorf("while a call hangs: %v", err)
	}
	if n := count(t, b, cudatest.Contexts); n != 1 {
		t.Errorf("%d contexts: it was reset under the call", n)
	}
	hangs.calls.Add(-1)
	if again, err := Open(0); err != nil || again == one {
		t.Errorf("when it has returned: %v", err)
	}
}

// TestKeyStays: the memory of a key is not handed out while a call encrypts with it,
// even if nobody uses the key any more.
func TestKeyStays(t *testing.T) {
	b := faulty(t, cudatest.New(t))
	const logN, limbs, n2 = 12, 2, 16
	for _, seededToo := range []bool{false, true} {
		r, err := b.newRing(logN, benchModuli(t, logN, limbs), cutrantt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		// Both have the size of a ciphertext.
		key := func(polys, views int) (*cutrantt.Batch, pointer) {
			x, err := r.NewBatch(polys, upTo(limbs), cutrantt.NTT(n2))
			if err != nil {
				t.Fatal(err)
			}
			at := x.Mem().(*memory).at
			if x, err = x.Slice(0, views, 0, limbs); err != nil {
				t.Fatal(err)
			}
			return x, at
		}
		r.pool.mu.Lock()
		r.pool.limit, r.pool.least = 0, 0 // every allocation collects first
		r.pool.mu.Unlock()
		jobs := []cutrantt.Encryption{{Message: make([]float64, r.n), Bound: 1, Seed: &[32]byte{1}, Mask: &[32]byte{2}}}
		var out []*cutrantt.Batch
		var at pointer
		if seededToo {
			var s *cutrantt.Batch
			s, at = key(2, 1)
			out, err = r.EncryptSeeded(s, upTo(limbs), cutrantt.EncryptionLabels{}, jobs)
		} else {
			pk, _ := key(2, 2)
			var op cutrantt.Operand
			if op, err = r.Precompute(pk); err != nil {
				t.Fatal(err)
			}
			at = op.(*operand).mem.at
			runtime.KeepAlive(pk) // so that only the operand's memory can come back
			out, err = r.EncryptPublic(op, upTo(limbs), cutrantt.EncryptionLabels{}, jobs)
			runtime.KeepAlive(pk)
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[0].Mem().(*memory).at == at {
			t.Errorf("seeded %t: the ciphertext was written over its key", seededToo)
		}
	}
}

// operations is work with most kinds of calls; what it makes it gives back.
func operations(r *ring, n2 int) error {
	const q, p = 4, 2
	n := r.n
	d, coeffs, low, all := cutrantt.NTT(n2), cutrantt.Coeffs(n2), upTo(q), upTo(q+p)
	var made []*cutrantt.Batch
	var ops []cutrantt.Operand
	defer func() {
		for _, b := range made {
			r.Free(b)
		}
		for _, o := range ops {
			o.Release()
		}
	}()
	batch := func(polys int, limbs []int, d cutrantt.Domain) (*cutrantt.Batch, error) {
		b, err := r.NewBatch(polys, limbs, d)
		if err == nil {
			made = append(made, b)
		}
		return b, err
	}
	var x, y, wide, key *cutrantt.Batch
	var o, pk cutrantt.Operand
	host := make([]uint32, 2*q*n)
	return firstError(
		func() (err error) { x, err = batch(2, low, coeffs); return err },
		func() (err error) { y, err = batch(2, low[:q-1], d); return err },
		func() (err error) { wide, err = batch(1, all, coeffs); return err },
		func() (err error) { key, err = batch(2*((q+p-1)/p), all, d); return err },
		func() error { return r.Upload(x, host) },
		func() error { return r.Forward(x, x) },
		func() error { return r.MulScalar(x, x, []uint32{1, 2, 3, 4}) },
		func() error { return r.DivRound(y, x) },
		func() (err error) { pk, err = r.Precompute(x); ops = appendOperand(ops, pk, err); return err },
		func() (err error) { o, err = r.Precompute(key); ops = appendOperand(ops, o, err); return err },
		func() error {
			one, err := x.Slice(0, 1, 0, q)
			if err != nil {
				return err
			}
			return r.SwitchKeys(cutrantt.Gadget{Alpha: p, Special: all[q:]},
				[]cutrantt.KeySwitch{{Dst: y, X: one, Key: o, Galois: 5}})
		},
		func() error {
			part, err := x.Slice(0, 1, 0, q)
			if err != nil {
				return err
			}
			if err := r.Inverse(part, part); err != nil {
				return err
			}
			return r.Extend(wide, part)
		},
		func() error {
			for k := range 2 {
				out, err := r.EncryptPublic(pk, low, cutrantt.EncryptionLabels{V: 1, E0: 2, E1: 3},
					[]cutrantt.Encryption{{Message: make([]float64, n), Bound: 1, Seed: &[32]byte{byte(k)}}})
				made = append(made, out...)
				if err != nil {
					return err
				}
			}
			return nil
		},
		func() error { return r.Download(host[:y.Len()], y) },
	)
}

func appendOperand(ops []cutrantt.Operand, o cutrantt.Operand, err error) []cutrantt.Operand {
	if err != nil {
		return ops
	}
	return append(ops, o)
}

// TestNothingLeaks: whichever call of the driver fails, with kernels one by one and as
// graphs, the pool has back what it had when nothing failed, and with a ring all that
// it made goes.
func TestNothingLeaks(t *testing.T) {
	d := cudatest.WithGraphs(t)
	b := faulty(t, d)
	settled := func() bool {
		runtime.GC()
		return count(t, b, cudatest.Streams) == 0 && count(t, b, cudatest.DeviceBlocks) == 0
	}
	until(t, "the self-test's ring goes", settled)
	for _, use := range []graphUse{graphsOff, graphsAuto, graphsOn} {
		b.graphs = use
		out := func(r *ring) int {
			r.pool.mu.Lock()
			defer r.pool.mu.Unlock()
			return r.pool.out
		}
		ring := func() *ring {
			r, err := b.newRing(12, benchModuli(t, 12, 6), cutrantt.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		r := ring()
		if err := operations(r, 2); err != nil {
			t.Fatal(err)
		}
		clean, failures := out(r), 0
		for skip := 0; ; skip++ {
			until(t, "the ring before this one goes", settled) // else it meets the failure
			r := ring()
			d.Set(fmt.Sprintf("fail * 2 %d 1 # %d %d", skip, use, skip))
			err := operations(r, 2)
			d.Set()
			if err != nil && !errors.Is(err, cutrantt.ErrMemory) {
				t.Fatalf("graphs %d, after %d calls: %v", use, skip, err)
			}
			if err != nil {
				failures++
			}
			if err := operations(r, 2); err != nil {
				t.Fatalf("graphs %d, after a failure after %d calls: %v", use, skip, err)
			}
			for range 30000 { // finalisers of what a failed call made
				if out(r) == clean {
					break
				}
				runtime.GC()
				time.Sleep(time.Millisecond)
			}
			if n, g, e := out(r), count(t, b, cudatest.Graphs), count(t, b, cudatest.ExecutableGraphs); n != clean ||
				g != e {
				t.Fatalf("graphs %d, failure after %d calls (%v): %d bytes are out, %d in a ring that met none; %d "+
					"graphs, %d executable ones", use, skip, err, n, clean, g, e)
			}
			if err == nil && skip > failures+40 {
				break
			}
			if skip > 1000 {
				t.Fatal("there is no end of calls")
			}
		}
		t.Logf("graphs %d: %d calls failed", use, failures)
		if failures < 40 {
			t.Errorf("graphs %d: %d calls failed", use, failures)
		}
	}
	until(t, "the rings go", settled)
	for _, what := range []driver.Attribute{cudatest.DeviceBlocks, cudatest.Streams, cudatest.Events, cudatest.Graphs,
		cudatest.ExecutableGraphs} {
		want := 0
		if what == cudatest.Events {
			want = len(b.staging.free)
		}
		if n := count(t, b, what); n != want {
			t.Errorf("%d of kind %d are left, want %d", n, what-cudatest.Contexts, want)
		}
	}
}

// TestRightAfterFailures: after a call of the driver failed, whichever, the ring that
// met it computes the processor's residues: nothing that was not made is taken for
// made. On this machine's GPU, or an emulated one.
func TestRightAfterFailures(t *testing.T) {
	gpu(t)
	const logN, q, p = 10, 4, 2
	t.Setenv(TuningVariable, "off")
	d := cudatest.WithGraphs(t)
	d.Real()
	d.Use()
	b, err := open(0)
	if err != nil {
		t.Fatal(err)
	}
	ms := benchModuli(t, logN, q+p)
	plain, err := cpu.New().NewRing(logN, ms, cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(11, 12))
	in := make([]uint32, 0, 2*q*plain.N())
	for range 2 {
		for l := range q {
			for range plain.N() {
				in = append(in, rng.Uint32N(ms[l].Q))
			}
		}
	}
	message := make([]float64, plain.N())
	for i := range message {
		message[i] = float64(rng.IntN(1<<40) - 1<<39)
	}
	// work is the results of a few operations.
	work := func(r cutrantt.Ring) (all []uint32, err error) {
		d := cutrantt.NTT(1)
		x, err := r.NewBatch(2, upTo(q), cutrantt.Coeffs(1))
		if err != nil {
			return nil, err
		}
		defer r.Free(x)
		y, err := r.NewBatch(2, upTo(q-1), d)
		if err != nil {
			return nil, err
		}
		defer r.Free(y)
		take := func(b *cutrantt.Batch) error {
			to := make([]uint32, b.Len())
			err := r.Download(to, b)
			all = append(all, to...)
			return err
		}
		err = firstError(
			func() error { return r.Upload(x, in) },
			func() error { return r.Forward(x, x) },
			func() error { return r.Mul(x, x, x) },
			func() error { return r.DivRound(y, x) },
			func() error { return take(y) },
			func() error {
				key, err := r.Precompute(x)
				if err != nil {
					return err
				}
				defer key.Release()
				out, err := r.(cutrantt.Encrypting).EncryptPublic(key, upTo(q),
					cutrantt.EncryptionLabels{V: 1, E0: 2, E1: 3},
					[]cutrantt.Encryption{{Message: message, Bound: 1 << 40, Seed: &[32]byte{7}}})
				if err != nil {
					return err
				}
				defer r.Free(out[0])
				return take(out[0])
			},
			func() error { return r.Inverse(x, x) },
			func() error { return take(x) },
		)
		return all, err
	}
	want, err := work(plain)
	if err != nil {
		t.Fatal(err)
	}
	for _, use := range []graphUse{graphsOff, graphsOn} {
		if use == graphsOn && b.drv.Graphs() != nil {
			continue
		}
		b.graphs = use
		failures := 0
		for skip := 0; ; skip++ {
			r, err := b.newRing(logN, ms, cutrantt.Options{})
			if err != nil {
				t.Fatal(err)
			}
			d.Set(fmt.Sprintf("fail * 2 %d 1 # %d %d", skip, use, skip))
			got, err := work(r)
			d.Set()
			if err != nil && !errors.Is(err, cutrantt.ErrMemory) {
				t.Fatalf("after %d calls: %v", skip, err)
			}
			if err == nil && !slices.Equal(got, want) {
				t.Fatalf("graphs %d: a failure after %d calls that is no error gives other residues", use, skip)
			}
			if err != nil {
				failures++
			}
			first := err
			if got, err = work(r); err != nil || !slices.Equal(got, want) {
				t.Log(first)
				t.Fatalf("graphs %d: after a failure after %d calls: %v, or other residues", use, skip, err)
			}
			if err == nil && skip > failures+20 {
				break
			}
		}
		t.Logf("graphs %d: %d calls failed", use, failures)
		if failures < 20 {
			t.Errorf("graphs %d: %d calls failed", use, failures)
		}
	}
}

// TestGraphFails: a graph that cannot be made, changed or launched is an error, of a
// kind that says whether the ring works on, and leaves no secret behind.
func TestGraphFails(t *testing.T) {
	d := cudatest.WithGraphs(t)
	b := faulty(t, d)
	const logN, limbs = 12, 2
	for _, c := range []struct {
		code int
		use  graphUse
	}{{2, graphsAuto}, {719, graphsAuto}, {2, graphsOn}} {
		for _, call := range []string{"cuGraphCreate 0", "cuGraphAddKernelNode_v2 0", "cuGraphAddKernelNode_v2 2",
			"cuGraphAddDependencies_v2 1",
			"cuGraphInstantiateWithFlags 0", "cuGraphExecKernelNodeSetParams_v2 0",
			"cuGraphExecKernelNodeSetParams_v2 1", "cuGraphLaunch 0"} {
			name, skip, _ := strings.Cut(call, " ")
			code := c.code
			b.graphs = c.use
			again := name == "cuGraphExecKernelNodeSetParams_v2"
			r, err := b.newRing(logN, benchModuli(t, logN, limbs), cutrantt.Options{})
			if err != nil {
				t.Fatal(err)
			}
			key, err := r.NewBatch(2, upTo(limbs), cutrantt.NTT(16))
			if err != nil {
				t.Fatal(err)
			}
			op, err := r.Precompute(key)
			if err != nil {
				t.Fatal(err)
			}
			encrypt := func() error {
				j := cutrantt.Encryption{Message: make([]float64, r.n), Bound: 1 << 40, Seed: &[32]byte{9, 30: 1}}
				for i := range j.Message {
					j.Message[i] = float64(i + 1)
				}
				_, err := r.EncryptPublic(op, upTo(limbs), cutrantt.EncryptionLabels{V: 1, E0: 2, E1: 3},
					[]cutrantt.Encryption{j})
				return err
			}
			words := 96/4 + 2*r.n // of the messages on the device
			if again {
				if err := errors.Join(encrypt(), encrypt()); err != nil {
					t.Fatal(err)
				}
				if r.launcher.Kept() == 0 {
					t.Fatal("no graph was made")
				}
				// Scratch memory that lies elsewhere: the nodes have to change.
				err = r.exec(func() error {
					for _, n := range []int{words, 10 * r.n / 4, 3 * limbs * r.n} {
						if _, err := r.pool.get(n); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			d.Set(fmt.Sprintf("fail %s %d %s 1 # %s", name, code, skip, call))
			err = encrypt()
			d.Set()
			want := map[int]error{2: cutrantt.ErrMemory, 719: cutrantt.ErrDevice}[code]
			if !errors.Is(err, want) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s, code %d: %v", call, code, err)
			}
			if (cutrantt.Broken(r) != nil) != (code == 719) {
				t.Errorf("%s, code %d: the ring says %v", call, code, cutrantt.Broken(r))
			}
			for _, buf := range b.staging.free {
				if i := slices.IndexFunc(buf.bytes, func(x byte) bool { return x != 0 }); i >= 0 {
					t.Errorf("%s, code %d: byte %d of a staging buffer is not 0", call, code, i)
				}
			}
			if code == 2 {
				zeroBlocks(t, r, words, call)
				if err := encrypt(); err != nil {
					t.Errorf("%s: the ring does not work any more: %v", call, err)
				}
				continue
			}
			if err := b.abandon(); err != nil {
				t.Fatal(err)
			}
			if b, err = open(0); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestForeign: batches and operands of others are refused, wherever they are given.
func TestForeign(t *testing.T) {
	b := faulty(t, cudatest.New(t))
	const logN = 12
	ms := benchModuli(t, logN, 4)
	r, err := b.newRing(logN, ms, cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := cpu.New().NewRing(logN, ms, cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := cutrantt.NTT(4)
	batch := func(r cutrantt.Ring, polys, limbs int) *cutrantt.Batch {
		x, err := r.NewBatch(polys, upTo(limbs), d)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	operand := func(r cutrantt.Ring) cutrantt.Operand {
		o, err := r.Precompute(batch(r, 6, 4))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	g := cutrantt.Gadget{Alpha: 1, Special: []int{3}}
	item := func() cutrantt.KeySwitch {
		return cutrantt.KeySwitch{Dst: batch(r, 2, 3), X: batch(r, 1, 3), Low: batch(r, 2, 3), Key: operand(r)}
	}
	for what, spoil := range map[string]func(k *cutrantt.KeySwitch){
		"nothing": func(*cutrantt.KeySwitch) {},
		"result":  func(k *cutrantt.KeySwitch) { k.Dst = batch(other, 2, 3) },
		"source":  func(k *cutrantt.KeySwitch) { k.X = batch(other, 1, 3) },
		"sum":     func(k *cutrantt.KeySwitch) { k.Low = batch(other, 2, 3) },
		"key":     func(k *cutrantt.KeySwitch) { k.Key = operand(other) },
	} {
		for at := range 2 {
			items := []cutrantt.KeySwitch{item(), item()}
			spoil(&items[at])
			if err := cutrantt.SwitchKeys(r, g, items); (what == "nothing") != (err == nil) ||
				err != nil && !errors.Is(err, cutrantt.ErrForeign) {
				t.Errorf("another's %s in item %d: %v", what, at, err)
			}
		}
	}
}

// TestScratch: what lies between the kernels of one call takes no more than an eighth
// of a small GPU's memory, and of a large one no more than on the GPU that was measured.
func TestScratch(t *testing.T) {
	d := cudatest.New(t)
	b := faulty(t, d)
	if want := 1 << 30; b.scratch != want { // of 8 GiB
		t.Errorf("%d bytes, want %d", b.scratch, want)
	}
	const logN, items = 12, 8
	r, err := b.newRing(logN, benchModuli(t, logN, 2), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var src, dst []*cutrantt.Batch
	for range items {
		x, err := r.NewBatch(2, upTo(2), cutrantt.NTT(4))
		if err != nil {
			t.Fatal(err)
		}
		y, err := r.NewBatch(2, upTo(1), cutrantt.NTT(4))
		if err != nil {
			t.Fatal(err)
		}
		src, dst = append(src, x), append(dst, y)
	}
	launches := func() uint64 {
		t.Helper()
		before := r.Launches()
		if err := r.DivRounds(dst, src); err != nil {
			t.Fatal(err)
		}
		return r.Launches() - before
	}
	launches() // tables
	together := launches()
	b.scratch = 2 * 4 * r.n * 4 // two items at a time
	if parts := launches(); parts < 3*together {
		t.Errorf("%d launches with room for two of %d items, %d with room for all", parts, items, together)
	}
}
