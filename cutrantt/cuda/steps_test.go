package cuda

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda/cudatest"
	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
)

// opens opens a driver as New does, past the backends that are kept.
func opens(ordinal int) error {
	b, err := open(ordinal)
	if err != nil {
		return fmt.Errorf("cuda: %w: %w", cutrantt.ErrNotSupported, err)
	}
	_ = b
	return nil
}

// TestSteps: whatever step of opening a GPU fails, the error names it and what
// failed, and nothing panics.
func TestSteps(t *testing.T) {
	t.Setenv(driver.LibraryVariable, filepath.Join(t.TempDir(), "libcuda.so.1"))
	if err := opens(0); err == nil || !strings.Contains(err.Error(), ": open: ") {
		t.Errorf("no library: %v", err)
	}
	t.Setenv(TuningVariable, "off")
	for _, name := range []string{"cuInit", "cuMemsetD32Async", "cuGetErrorString"} {
		cudatest.New(t, name).Use()
		if err := opens(0); err == nil || !strings.Contains(err.Error(), ": symbol: the CUDA driver has no "+name) {
			t.Errorf("no %s: %v", name, err)
		}
	}
	d := cudatest.New(t)
	d.Use()
	for _, c := range []struct {
		set  []string
		want []string
	}{
		{[]string{"fail cuInit 100"}, []string{": init: cuInit: ", "an error of a test"}},
		{[]string{"fail cuDevicePrimaryCtxRetain 2"}, []string{": init: cuDevicePrimaryCtxRetain: "}},
		{[]string{"fail cuCtxSetCurrent 201"}, []string{": init: cuCtxSetCurrent: "}},
		{[]string{"devices 0"}, []string{": capability: no device 0, this machine has 0"}},
		{[]string{"fail cuDeviceGetName 1"}, []string{": capability: cuDeviceGetName: "}},
		{[]string{"attribute 75 7", "attribute 76 5"}, []string{": capability: Fake GPU 0 has compute capability 7.5",
			"at least 8.0"}},
		{[]string{"attribute 75 6", "attribute 76 2"}, []string{": capability: ", "6.2"}},
		{[]string{"fail cuModuleLoadData 209"}, []string{": module: ", "cuModuleLoadData"}},
		{[]string{"fail cuModuleGetFunction 500 7"}, []string{": module: ", "cuModuleGetFunction"}},
		{[]string{"fail cuStreamCreate 999"}, []string{": self-test: cuStreamCreate: "}},
		{[]string{"fail cuMemAlloc_v2 2 1"}, []string{": self-test: ", "cuMemAlloc_v2"}},
		{[]string{"fail cuMemcpyDtoHAsync_v2 700"}, []string{": self-test: ", "cuMemcpyDtoHAsync_v2"}},
		{nil, []string{": self-test: the GPU computes wrong residues"}},
	} {
		d.Set(c.set...)
		err := opens(0)
		if !errors.Is(err, cutrantt.ErrNotSupported) {
			t.Errorf("%q: %v", c.set, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: %v does not say %q", c.set, err, w)
			}
		}
		d.Set() // a context that failed is forgotten
		if b, _ := start(); b != nil {
			_ = b.ResetContext(0)
		}
	}
	d.Working()
	if err := opens(0); err != nil {
		t.Errorf("a driver in order: %v", err)
	}
}

// working is a backend on a driver that passes the self-test.
func working(t *testing.T) (*cudatest.Driver, *backend) {
	t.Helper()
	t.Setenv(TuningVariable, "off")
	d := cudatest.New(t)
	d.Working()
	d.Use()
	b, err := open(0)
	if err != nil {
		t.Fatal(err)
	}
	return d, b
}

// TestDevices lists every GPU with what tells it apart.
func TestDevices(t *testing.T) {
	d := cudatest.New(t)
	d.Use()
	d.Set("devices 2", "attribute 18 1")
	list, err := Devices()
	if err != nil || len(list) != 2 || list[0].UUID == list[1].UUID || list[1].Ordinal != 1 ||
		list[1].Name != "Fake GPU 1" || !list[0].Integrated ||
		list[0].Capability != 87 || list[0].Driver != 12060 || list[0].L2 != 4<<20 ||
		list[0].UUID != "GPU-f0f0f0f0-f0f0-f0f0-f0f0-f0f0f0f0f0f0" {
		t.Errorf("%+v, %v", list, err)
	}
	d.Set("fail cuDeviceTotalMem_v2 46")
	if _, err := Devices(); err == nil || !strings.Contains(err.Error(), "capability: device 0: cuDeviceTotalMem_v2") {
		t.Errorf("%v", err)
	}
}

// loadNothing loads packed residues into a batch. The driver of these tests runs no kernels,
// so nothing is found to be as it should be.
func loadNothing(r *ring) error {
	var p []byte
	for _, m := range r.Moduli() {
		p = append(p, make([]byte, cutrantt.PackedBytes(r.n, m.Q))...)
	}
	d := cutrantt.NTT(16)
	l := &cutrantt.PackedLoad{Polys: 1, Limbs: upTo(len(r.Moduli())), From: d, To: d, Residues: [][][]byte{{p}}}
	out, err := r.LoadPacked(l)
	if err == nil && (len(out) != 1 || out[0] != nil) {
		err = errors.New("residues loaded that no kernel has seen")
	}
	return err
}

// TestEveryCallFails lets each of the first calls of a sequence of operations
// fail, one after another, in two ways: exhausted memory leaves a ring that
// works, a failed context one that is broken for good, also for other rings.
func TestEveryCallFails(t *testing.T) {
	d, _ := working(t)
	work := func(b *backend) (r *ring, err error) {
		if r, err = b.newRing(12, benchModuli(t, 12, 3), cutrantt.Options{}); err != nil {
			return r, err
		}
		var x, y *cutrantt.Batch
		var o cutrantt.Operand
		host := make([]uint32, 3<<12)
		err = firstError(
			func() (err error) { x, err = r.NewBatch(1, upTo(3), cutrantt.Coeffs(16)); return err },
			func() (err error) { y, err = r.NewBatch(1, upTo(2), cutrantt.NTT(16)); return err },
			func() error { return r.Upload(x, host) },
			func() error { return r.SetFloats(x, make([]float64, 1<<12)) },
			func() error { return loadNothing(r) },
			func() error { return r.SampleCBD(x, &[32]byte{1}, 1) },
			func() error { return r.Forward(x, x) },
			func() error { return r.MulScalar(x, x, []uint32{1, 2, 3}) },
			func() (err error) { o, err = r.Precompute(x); return err },
			func() error { return r.MulOperand(y, y, o) },
			func() error { return r.DivRound(y, x) },
			func() error { return r.Download(host, x) },
			r.Sync,
		)
		if x != nil {
			r.Free(x)
		}
		return r, err
	}
	b, err := open(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := work(b); err != nil {
		t.Fatalf("nothing fails: %v", err)
	}
	for _, code := range []int{2, 226, 719} {
		failures := 0
		for skip := 0; skip < 400; skip++ {
			d.Set(fmt.Sprintf("fail * %d %d # %d", code, skip, skip))
			r, err := work(b)
			if err == nil {
				break // all calls were made
			}
			failures++
			want, broken := cutrantt.ErrMemory, false
			if code != 2 {
				want, broken = cutrantt.ErrDevice, true
			}
			if !errors.Is(err, want) {
				t.Fatalf("code %d after %d calls: %v, want %v", code, skip, err, want)
			}
			d.Set()
			if r == nil {
				r = &ring{backend: b}
			}
			if got := cutrantt.Broken(r); (got != nil) != broken || broken && !errors.Is(got, cutrantt.ErrDevice) {
				t.Fatalf("code %d after %d calls: the ring says %v", code, skip, got)
			}
			if broken {
				if _, err := b.newRing(12, benchModuli(t, 12, 1), cutrantt.Options{}); !errors.Is(err,
					cutrantt.ErrDevice) {
					t.Fatalf("code %d after %d calls: another ring: %v", code, skip, err)
				}
				if err := b.abandon(); err != nil {
					t.Fatal(err)
				}
				if b, err = open(0); err != nil {
					t.Fatalf("code %d after %d calls: a new context: %v", code, skip, err)
				}
			} else if _, err := work(b); err != nil {
				t.Fatalf("code %d after %d calls: the ring does not work any more: %v", code, skip, err)
			}
		}
		if failures < 30 {
			t.Errorf("code %d: %d calls failed", code, failures)
		}
	}
}

// TestOpenAnew: a GPU that failed gets a new context at the next Open, and what
// is kept for the process is the new one.
func TestOpenAnew(t *testing.T) {
	t.Setenv(TuningVariable, "off")
	d := cudatest.New(t)
	d.Working()
	d.Use()
	one, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := New(); err != nil || again != one {
		t.Fatalf("a second time: %v, %v", again, err)
	}
	r, err := one.NewRing(12, benchModuli(t, 12, 1), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d.Set("fail cuStreamSynchronize 214")
	if err := r.Sync(); !errors.Is(err, cutrantt.ErrDevice) {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "calls")
	d.Set("log "+log, "fail cuDevicePrimaryCtxRetain 46")
	if _, err := New(); !errors.Is(err, cutrantt.ErrNotSupported) || !strings.Contains(err.Error(), "init: ") {
		t.Fatalf("a GPU that stays away: %v", err)
	}
	d.Set()
	two, err := New()
	if err != nil || two == one {
		t.Fatalf("anew: %v", err)
	}
	if err := r.Sync(); !errors.Is(err, cutrantt.ErrDevice) {
		t.Errorf("a ring of the old context: %v", err)
	}
	if calls, err := os.ReadFile(log); err != nil || !strings.HasPrefix(string(calls), "cuDevicePrimaryCtxRetain 46") {
		t.Errorf("failed calls %q, %v", calls, err)
	}
	if r2, err := two.NewRing(12, benchModuli(t, 12, 1), cutrantt.Options{}); err != nil || r2.Sync() != nil {
		t.Errorf("a ring of the new one: %v", err)
	}
}

// TestMemoryMode: batches lie in mapped memory on integrated GPUs and where that
// is asked for, and transfers then make no copy through the driver.
func TestMemoryMode(t *testing.T) {
	t.Setenv(TuningVariable, "off")
	d := cudatest.New(t)
	d.Working()
	d.Use()
	for _, c := range []struct {
		mode string
		set  []string
		want string // "device", "mapped", or a part of the error
	}{
		{"", nil, "device"},
		{"", []string{"attribute 18 1"}, "mapped"},
		{"auto", []string{"attribute 18 1"}, "mapped"},
		{"device", []string{"attribute 18 1"}, "device"},
		{"mapped", nil, "mapped"},
		{"auto", []string{"attribute 18 1", "attribute 19 0"}, "device"},
		{"mapped", []string{"attribute 41 0"}, "capability: CUTRANTT_CUDA_MEMORY is mapped"},
		{"managed", nil, "capability: CUTRANTT_CUDA_MEMORY is \"managed\""},
	} {
		t.Setenv(MemoryVariable, c.mode)
		d.Set(c.set...)
		b, err := open(0)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if got := map[bool]string{false: "device", true: "mapped"}[b.mapped]; got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
		r, err := b.newRing(12, benchModuli(t, 12, 2), cutrantt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		x, err := r.NewBatch(2, upTo(2), cutrantt.Coeffs(16))
		if err != nil {
			t.Fatal(err)
		}
		one, err := x.Slice(0, 1, 0, 2)
		if err != nil {
			t.Fatal(err)
		}
		message := make([]float64, r.n)
		if err := r.SetFloats(one, message); err != nil { // puts its list of limbs on the device
			t.Fatal(err)
		}
		if c.want == "mapped" { // then none of these is called
			d.Set(append(c.set, "fail cuMemcpyHtoDAsync_v2 1", "fail cuMemcpyDtoHAsync_v2 1")...)
		}
		in, out := make([]uint32, x.Len()), make([]uint32, x.Len())
		for i := range in {
			in[i] = uint32(i) * 7
		}
		if err := errors.Join(r.SetFloats(one, message), r.Upload(x, in), r.Download(out, x)); err != nil ||
			!slices.Equal(in, out) {
			t.Errorf("%+v: %v", c, err)
		}
		view, err := x.Slice(1, 2, 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		part := make([]uint32, view.Len())
		if err := r.Download(part, view); err != nil || !slices.Equal(part, in[3<<12:]) {
			t.Errorf("%+v: a view: %v", c, err)
		}
		public, err := r.NewBatch(2, upTo(2), cutrantt.NTT(16))
		if err != nil {
			t.Fatal(err)
		}
		key, err := r.Precompute(public)
		if err != nil {
			t.Fatal(err)
		}
		encrypt := func() error {
			_, err := r.EncryptPublic(key, upTo(2), cutrantt.EncryptionLabels{V: 1, E0: 2, E1: 3},
				[]cutrantt.Encryption{{Message: message, Bound: 1, Seed: &[32]byte{1}}})
			return err
		}
		if err := encrypt(); err != nil { // tables and lists
			t.Fatal(err)
		}
		d.Set(c.set...)
		before := count(t, b, cudatest.CopiedBytes)
		if err := encrypt(); err != nil {
			t.Fatal(err)
		}
		if n := count(t, b, cudatest.CopiedBytes) - before; (n < 8*r.n) != (c.want == "mapped") {
			t.Errorf("%+v: %d bytes were copied for a message of %d", c, n, 8*r.n)
		}
		in[5] = r.Moduli()[0].Q
		if err := r.Upload(x, in); !errors.Is(err, cutrantt.ErrRange) {
			t.Errorf("%+v: a residue that is not below its modulus: %v", c, err)
		}
		r.Free(x)
	}
}

// TestTuningOff: switched off, or where the device cannot be measured, a method
// is the table's, and it is the same for the life of a ring.
func TestTuningOff(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, b := working(t)
	ask := func(b *backend, n2 int) cutrantt.Method {
		t.Helper()
		r, err := b.newRing(12, benchModuli(t, 12, 2), cutrantt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		x, err := r.NewBatch(1, upTo(2), cutrantt.NTT(n2))
		if err != nil {
			t.Fatal(err)
		}
		r.Free(x)
		return r.resolved(n2)
	}
	for _, n2 := range []int{1, 4, 16} {
		if m := ask(b, n2); m != autoMethod(n2) {
			t.Errorf("n2 = %d: %v", n2, m)
		}
	}
	for _, c := range b.Choices() {
		if c.Source != cutrantt.ChoiceDefault || c.LogN != 12 {
			t.Errorf("%+v", c)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "*", "*")); len(files) > 0 {
		t.Errorf("files were written: %q", files)
	}
	// Switched on, a choice is measured once, kept, and taken over by the next process.
	t.Setenv(TuningVariable, "")
	first, err := open(0)
	if err != nil {
		t.Fatal(err)
	}
	m := ask(first, 8)
	if c := first.Choices(); len(c) != 1 ||
		c[0] != (cutrantt.Choice{LogN: 12, N2: 8, Method: m, Source: cutrantt.ChoiceMeasured}) {
		t.Errorf("%+v", c)
	}
	second, err := open(0)
	if err != nil {
		t.Fatal(err)
	}
	if c := second.Choices(); len(c) != 1 || c[0].Method != m || c[0].Source != cutrantt.ChoiceCached {
		t.Errorf("before it is asked: %+v", c)
	}
	if got := ask(second, 8); got != m {
		t.Errorf("%v, an earlier process measured %v", got, m)
	}
}
