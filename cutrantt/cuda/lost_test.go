package cuda

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/internal/meter"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda/internal/selftest"
)

// wildWrite is a kernel that writes to an address that nothing is at.
const wildWrite = `.version 7.0
.target sm_70
.address_size 64
.visible .entry wild()
{
	.reg .u64 %a;
	.reg .u32 %v;
	mov.u64 %a, 4096;
	mov.u32 %v, 7;
	st.global.u32 [%a], %v;
	ret;
}
` + "\x00"

// TestDeviceLost provokes an illegal address, which no context survives: the
// calls that meet it and all later ones report cutrantt.ErrDevice, and the GPU
// can be opened anew, or says which step failed. It happens in a process of its
// own, which is all that the error harms.
func TestDeviceLost(t *testing.T) {
	const variable = "CUTRANTT_TEST_LOSE"
	if os.Getenv(variable) == "" {
		gpu(t)
		cmd := exec.Command(os.Args[0], "-test.run=^TestDeviceLost$", "-test.v")
		cmd.Env = append(os.Environ(), variable+"=1")
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil || !strings.Contains(string(out), "--- PASS: TestDeviceLost") {
			t.Errorf("the process that lost its GPU: %v", err)
		}
		return
	}
	b := gpu(t).(*backend)
	r, err := b.newRing(12, benchModuli(t, 12, 2), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := r.NewBatch(1, []int{0, 1}, cutrantt.Coeffs(16))
	if err != nil {
		t.Fatal(err)
	}
	if err := cutrantt.Broken(r); err != nil {
		t.Fatal(err)
	}
	err = r.exec(func() error {
		m, err := b.drv.LoadModule([]byte(wildWrite))
		if err != nil {
			return err
		}
		f, err := b.drv.Function(m, "wild")
		if err != nil {
			return err
		}
		return r.launcher.Launch(f, 1, 1, 1, 0, nil, 0)
	})
	if err != nil {
		t.Fatal(err)
	}
	out := make([]uint32, x.Len())
	for what, f := range map[string]func() error{
		"download": func() error { return r.Download(out, x) },
		"sync":     r.Sync,
		"forward":  func() error { return r.Forward(x, x) },
		"batch":    func() error { _, err := r.NewBatch(1, []int{0}, cutrantt.Coeffs(16)); return err },
		"broken":   func() error { return cutrantt.Broken(r) },
	} {
		// The first of them may still be queued behind the bad kernel.
		_ = r.Sync()
		if err := f(); !errors.Is(err, cutrantt.ErrDevice) {
			t.Errorf("%s: %v, want %v", what, err, cutrantt.ErrDevice)
		}
	}
	r.Free(x)
	again, err := Open(0)
	if err != nil {
		t.Logf("opening the GPU anew: %v", err)
		if !errors.Is(err, cutrantt.ErrNotSupported) {
			t.Error("the error does not say that the GPU cannot be used")
		}
		return
	}
	t.Log("the GPU works again with a new context")
	got, err := selftest.Product(again)
	if err != nil {
		t.Fatal(err)
	}
	if again.(*backend) == b || cutrantt.Broken(r) == nil {
		t.Error("the old ring is not broken any more")
	}
	want, err := selftest.Product(again)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("two products differ, %v", err)
	}
}

// TestReports: launches, times, kernels and choices are reported.
func TestReports(t *testing.T) {
	b := gpu(t)
	r, err := b.NewRing(14, benchModuli(t, 14, 16), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := r.NewBatch(1, upTo(16), cutrantt.Coeffs(16))
	if err != nil {
		t.Fatal(err)
	}
	m := r.(meter.Meter)
	before := m.Launches()
	d, err := m.Time(func() error { return errors.Join(r.Forward(x, x), r.Mul(x, x, x)) })
	if err != nil || d <= 0 {
		t.Errorf("%v, %v", d, err)
	}
	if n := m.Launches() - before; n < 2 {
		t.Errorf("%d launches of two operations", n)
	}
	ks, err := b.(meter.Profiler).Kernels()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range ks {
		t.Logf("%+v", k)
		if k.LocalBytes != 0 || k.Registers == 0 || k.Blocks == 0 || !(k.Occupancy > 0 && k.Occupancy <= 1) ||
			k.Architecture == 0 {
			t.Errorf("%+v", k)
		}
	}
	if len(ks) < 2 || b.(meter.Profiler).CacheBytes() <= 0 {
		t.Errorf("%d kernels, %d bytes of cache", len(ks), b.(meter.Profiler).CacheBytes())
	}
	t.Log(b.Device(), b.(cutrantt.Tuner).Choices())
	list, err := Devices()
	if err != nil || len(list) == 0 || list[0].UUID == "" || list[0].usable() != nil {
		t.Errorf("%+v, %v", list, err)
	}
	t.Logf("%+v", list)
}
