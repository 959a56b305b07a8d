package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda"
	"github.com/hencedge/hencedge/cutrantt/cuda/cudatest"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/internal/testrig"
)

// onDevice moves the keys to the device of ctx. Its kernels compute nothing, so
// that a public key would not match its name there; zeros are as good.
func onDevice(t *testing.T, k *seal.Keys, ctx *henc.Context) {
	t.Helper()
	p := ctx.Parameters()
	value, err := ctx.Ring().NewBatch(2, p.QPLimbs(p.MaxLevel()), ctx.Domain())
	if err != nil {
		t.Fatal(err)
	}
	k.Context = ctx
	if err := k.UsePublic(&henc.PublicKey{Value: value, KeyID: k.ID, Epoch: k.Epoch}); err != nil {
		t.Fatal(err)
	}
}

// TestDeviceFails: a GPU that fails while it encrypts costs no window, unless the
// configuration says to stop then.
func TestDeviceFails(t *testing.T) {
	for _, c := range []struct {
		what   string
		fail   string
		policy config.FallbackPolicy
	}{
		{"an illegal address", "fail * 700", config.FallbackCPU},
		{"a copy that fails", "fail cuMemcpyHtoDAsync_v2 719", config.FallbackCPU},
		{"a graph that fails", "fail cuGraphLaunch 719", config.FallbackCPU},
		{"a graph that there is no memory for", "fail cuGraphInstantiateWithFlags 2", config.FallbackCPU},
		{"a GPU that stays away", "fail * 46", config.FallbackRetry},
		{"exhausted memory", "fail cuMemAlloc_v2 2", config.FallbackCPU},
		{"stop", "fail * 214", config.FallbackStop},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Setenv(cuda.TuningVariable, "off")
			d := cudatest.WithGraphs(t)
			d.Working()
			d.Use()
			s := newSite(t)
			cfg := s.load(t)
			cfg.BackendFallback = c.policy
			// One stream: which window meets the failure is then known.
			cfg.Streams = cfg.Streams[:1]
			client := &fakeClient{}
			var log strings.Builder
			on := func(p henc.Parameters) (*henc.Context, error) {
				b, err := cuda.New()
				if err != nil {
					return nil, err
				}
				return henc.NewContext(p, henc.WithBackend(b))
			}
			a, err := New(cfg, Deps{Client: client, Clock: testrig.NewClock(), Logger: textLogger(&log),
				Reopen: func(failed *henc.Context) (*henc.Context, error) { return on(failed.Parameters()) }})
			if err != nil {
				t.Fatal(err)
			}
			ctx, err := on(a.keys.Context.Parameters())
			if err != nil {
				t.Fatal(err)
			}
			onDevice(t, &a.keys, ctx)
			var seen Observation
			a.deps.Observer = func(o Observation) { seen = o }
			d.Set(c.fail)
			err = a.Once(t.Context())
			readings, _ := opened(t, s.keys, "board1", client.messages)
			if c.policy == config.FallbackStop {
				if !errors.Is(err, role.ErrBackend) || !errors.Is(err, cutrantt.ErrDevice) || len(readings) != 0 {
					t.Errorf("%v, %d readings", err, len(readings))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(readings) != 1 {
				t.Fatalf("%d readings; log:\n%s", len(readings), log.String())
			}
			sameValues(t, cfg.Streams[0], decrypted(t, s.keys, cfg.Streams[0], readings[0]), seen.Values)
			st := a.Stats()
			if st.Fallbacks != 1 || st.Streams["system"].Errors != 0 ||
				!strings.Contains(log.String(), "the processor takes over") {
				t.Errorf("%+v; log:\n%s", st, log.String())
			}
		})
	}
}
