package evaluator

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda"
	"github.com/hencedge/hencedge/cutrantt/cuda/cudatest"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/meter"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
)

// onGPU makes a service compute on the first devices of a driver, with keys that
// can be read again. Where the driver has fewer, several contexts share one.
func onGPU(t *testing.T, devices int) func(*Deps) {
	t.Helper()
	h := testHolder(t)
	raw, err := h.ctx.MarshalEvaluationKeys(h.keys)
	if err != nil {
		t.Fatal(err)
	}
	read := func(ctx *henc.Context) ([]engine.Keys, error) {
		ev, err := ctx.UnmarshalEvaluationKeys(raw)
		return []engine.Keys{{Context: ctx, Evaluation: ev}}, err
	}
	on := func(b cutrantt.Backend) (*henc.Context, error) {
		return henc.NewContext(h.ctx.Parameters(), henc.WithBackend(b), henc.WithFastestN2())
	}
	list, err := cuda.Devices()
	if err != nil || len(list) == 0 {
		t.Fatal("no GPU: ", err)
	}
	var all []*henc.Context
	for i := range devices {
		b, err := cuda.Open(i % len(list))
		if err != nil {
			t.Fatal(err)
		}
		ctx, err := on(b)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, ctx)
	}
	return func(d *Deps) {
		if d.Keys, err = read(all[0]); err != nil {
			t.Fatal(err)
		}
		d.ReadKeys = read
		d.More = func(henc.Parameters) ([]*henc.Context, error) { return all[1:], nil }
		d.Reopen = func(failed *henc.Context) (*henc.Context, error) {
			b, err := cuda.Open(failed.Ring().Backend().(interface{ Ordinal() int }).Ordinal())
			if err != nil {
				return nil, err
			}
			return on(b)
		}
	}
}

// fakeGPU is a driver in order, whose kernels compute nothing.
func fakeGPU(t *testing.T) *cudatest.Driver {
	t.Helper()
	t.Setenv(cuda.TuningVariable, "off")
	d := cudatest.New(t)
	d.Working()
	d.Use()
	return d
}

func meanConfig(t *testing.T, policy config.FallbackPolicy) *config.Evaluator {
	cfg := testConfig(t, prog("mean", "mean(x) + mean(prev(x))", map[string]string{"x": "d1/count/temp"}))
	cfg.BackendFallback = policy
	return cfg
}

// sendAndExpect sends windows from, from+1, ... to-1 and expects the results of a
// program that looks one window back.
func (r *rig) sendAndExpect(from, to uint64) {
	r.t.Helper()
	temp := func(seq uint64) []float64 { return numbers(8, 20+float64(seq), 1.5) }
	for seq := from; seq < to; seq++ {
		r.sendWindow(r.window("d1", "count", seq, epoch.Add(time.Duration(seq)*time.Minute), temp(seq),
			numbers(8, 0, 0.1)))
		if seq > 1 {
			r.expect("mean", average(temp(seq))+average(temp(seq-1)))
		}
	}
}

// TestFallback: a GPU that fails while a window is read, or runs out of memory,
// costs no window and no result.
func TestFallback(t *testing.T) {
	for _, c := range []struct {
		what      string
		fail      []string
		policy    config.FallbackPolicy
		fallbacks uint64 // 0: at least one
	}{
		{"an illegal address", []string{"fail * 700"}, config.FallbackCPU, 1},
		{"an uncorrectable memory error at a transfer", []string{"fail cuMemcpyHtoDAsync_v2 214"},
			config.FallbackCPU, 1},
		{"a launch that fails", []string{"fail cuLaunchKernel 719"}, config.FallbackCPU, 1},
		{"a GPU that stays away", []string{"fail * 46"}, config.FallbackRetry, 1},
		{"exhausted memory", []string{"fail cuMemAlloc_v2 2"}, config.FallbackCPU, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := fakeGPU(t)
			r := newRig(t, meanConfig(t, c.policy), onGPU(t, 1))
			d.Set(c.fail...)
			r.sendAndExpect(1, 4)
			s := r.service.Stats()
			if s.Accepted != 3 || s.Results != 2 || s.Failed != 0 || len(s.Refused) != 0 || s.Fallbacks == 0 ||
				c.fallbacks > 0 && s.Fallbacks != c.fallbacks {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestFallbackOfTwo: of two GPUs one fails, then the other: whatever lay on them
// is read again where work goes on.
func TestFallbackOfTwo(t *testing.T) {
	d := fakeGPU(t)
	d.Set("devices 2")
	r := newRig(t, meanConfig(t, config.FallbackCPU), onGPU(t, 2))
	if n := len(r.service.engine.Contexts()); n != 2 {
		t.Fatalf("%d devices", n)
	}
	// The driver's contexts fail together; each engine learns it at its next use.
	d.Set("devices 2", "fail * 719")
	r.sendAndExpect(1, 6)
	if s := r.service.Stats(); s.Accepted != 5 || s.Results != 4 || s.Failed != 0 || s.Fallbacks != 2 {
		t.Errorf("%+v", s)
	}
}

// TestFallbackStop: as configured, the service ends with an error.
func TestFallbackStop(t *testing.T) {
	d := fakeGPU(t)
	cfg := meanConfig(t, config.FallbackStop)
	r := newRig(t, cfg, onGPU(t, 1))
	d.Set("fail * 700")
	r.sendWindow(r.window("d1", "count", 1, epoch, numbers(8, 20, 1), numbers(8, 0, 0.1)))
	err := testrig.Receive(t, "the end of the service", r.ended)
	if !errors.Is(err, role.ErrBackend) || !errors.Is(err, cutrantt.ErrDevice) ||
		!strings.Contains(err.Error(), "cuda: ") {
		t.Errorf("the service ended with %v", err)
	}
	r.ended <- nil // for the end of the test
	if s := r.service.Stats(); s.Accepted != 0 || s.Fallbacks != 1 {
		t.Errorf("%+v", s)
	}
}

// TestFallbackOnGPU lets calls fail in the middle of work on this machine's GPU:
// what was computed before, meanwhile and after is right, with the processor and
// with a new context. All cases have one driver, as a process has: the context of a
// device that it resets is one and the same for every driver in front of the real one.
func TestFallbackOnGPU(t *testing.T) {
	if list, err := cuda.Devices(); err != nil || len(list) == 0 {
		testenv.Missing(t, "cuda", "no GPU: ", err)
	}
	t.Setenv(cuda.TuningVariable, "off")
	d := cudatest.New(t)
	d.Real()
	d.Use()
	for _, policy := range []config.FallbackPolicy{config.FallbackCPU, config.FallbackRetry} {
		for _, call := range []string{"cuLaunchKernelEx", "cuMemcpyHtoDAsync_v2", "cuEventSynchronize"} {
			t.Run(fmt.Sprintf("%s %s", policy, call), func(t *testing.T) {
				d.Set()
				r := newRig(t, meanConfig(t, policy), onGPU(t, 1))
				r.sendAndExpect(1, 4)
				d.Set("fail " + call + " 719 0 1")
				r.sendAndExpect(4, 6)
				d.Set()
				r.sendAndExpect(6, 8)
				if s := r.service.Stats(); s.Accepted != 7 || s.Results != 6 || s.Failed != 0 || s.Fallbacks == 0 {
					t.Errorf("%+v", s)
				}
				name := r.service.engine.Contexts()[0].Ring().Backend().Name()
				if want := map[config.FallbackPolicy]string{config.FallbackCPU: "cpu",
					config.FallbackRetry: "cuda"}[policy]; name != want {
					t.Errorf("afterwards on %s, want %s", name, want)
				}
			})
		}
	}
}

// TestSeveralGPUs spreads windows over two GPUs of this machine, or over two
// contexts on its only one: both compute, and a program whose inputs lie on
// different ones is right.
func TestSeveralGPUs(t *testing.T) {
	if list, err := cuda.Devices(); err != nil || len(list) == 0 {
		testenv.Missing(t, "cuda", "no GPU: ", err)
	}
	r := newRig(t, meanConfig(t, config.FallbackCPU), onGPU(t, 2))
	contexts := r.service.engine.Contexts()
	before := make([]uint64, len(contexts))
	for i, c := range contexts {
		before[i] = c.Ring().(meter.Meter).Launches()
	}
	r.sendAndExpect(1, 9)
	for i, c := range contexts {
		n := c.Ring().(meter.Meter).Launches() - before[i]
		t.Logf("%s: %d launches", c.Ring().Backend().Device(), n)
		if n == 0 {
			t.Errorf("%s did nothing", c.Ring().Backend().Device())
		}
	}
	if s := r.service.Stats(); s.Accepted != 8 || s.Results != 7 || s.Fallbacks != 0 {
		t.Errorf("%+v", s)
	}
}
