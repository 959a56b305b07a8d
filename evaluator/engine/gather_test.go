package engine

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/cutrantt/cuda"
	"github.com/hencedge/hencedge/cutrantt/cuda/cudatest"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// flaky is the processor as a device that can fail. Its rings count batches of products.
type flaky struct {
	cutrantt.Backend
	broken   atomic.Bool
	products atomic.Int64 // calls
	most     atomic.Int64 // products of one call
	// before is called before each call with products; an error fails it.
	before atomic.Pointer[func(n int) error]
}

func (f *flaky) NewRing(logN int, moduli []cutrantt.Modulus, o cutrantt.Options) (cutrantt.Ring, error) {
	r, err := f.Backend.NewRing(logN, moduli, o)
	return &flakyRing{Ring: r, f: f}, err
}

type flakyRing struct {
	cutrantt.Ring
	f *flaky
}

func (r *flakyRing) Backend() cutrantt.Backend { return r.f }

func (r *flakyRing) Err() error {
	if r.f.broken.Load() {
		return cutrantt.ErrDevice
	}
	return nil
}

func (r *flakyRing) NewResult(polys int, limbs []int, d cutrantt.Domain) (*cutrantt.Batch, error) {
	if err := r.Err(); err != nil {
		return nil, err
	}
	return cutrantt.NewResult(r.Ring, polys, limbs, d)
}

func (r *flakyRing) MulTensor(dst, a, b []*cutrantt.Batch) error {
	r.f.products.Add(1)
	for n := int64(len(dst)); ; {
		most := r.f.most.Load()
		if n <= most || r.f.most.CompareAndSwap(most, n) {
			break
		}
	}
	if f := r.f.before.Load(); f != nil {
		if err := (*f)(len(dst)); err != nil {
			return err
		}
	}
	return cutrantt.MulTensor(r.Ring, dst, a, b)
}

func (r *flakyRing) SwitchKeys(g cutrantt.Gadget, items []cutrantt.KeySwitch) error {
	return cutrantt.SwitchKeys(r.Ring, g, items)
}

func (r *flakyRing) DivRounds(dst, src []*cutrantt.Batch) error {
	return cutrantt.DivRounds(r.Ring, dst, src)
}

func (r *flakyRing) Collect(dst *cutrantt.Batch, src []*cutrantt.Batch) error {
	return cutrantt.Collect(r.Ring, dst, src)
}

func (r *flakyRing) SumProducts(dst, a []*cutrantt.Batch, b [][]*cutrantt.Batch, flat bool) error {
	return cutrantt.SumProducts(r.Ring, dst, a, b, flat)
}

var _ cutrantt.Fused = (*flakyRing)(nil)

// rig is an engine on flaky devices, with windows under keys of two holders.
type rig struct {
	t         *testing.T
	e         *Engine
	devices   []*flaky
	fallbacks atomic.Int64
	circuits  []*program.Circuit // of one form
	set       *program.Set       // of another
	vars      []map[string]program.Var
	mixed     bool // jobs of the set run besides
	refs      []transport.KeyRef
	bodies    [][]byte   // by holder and kind
	want      [][][]byte // by holder and kind: those of a circuit, then those of the set
}

// kinds is how many windows each holder has: under the public key, and with a seed.
const kinds = 2

func newRig(t *testing.T, devices int, w width, latency time.Duration) *rig {
	t.Helper()
	var all []*flaky
	var contexts []*henc.Context
	for range devices {
		f := &flaky{Backend: cpu.New()}
		ctx, err := henc.NewContext(parameters(t), henc.WithBackend(f), henc.WithN2(1))
		if err != nil {
			t.Fatal(err)
		}
		all, contexts = append(all, f), append(contexts, ctx)
	}
	r := newRigOn(t, contexts, Options{Latency: latency, Workers: 2, width: func(*henc.Context) width { return w }})
	r.devices = all
	return r
}

// newRigOn makes a rig on contexts, with options that it completes.
func newRigOn(t *testing.T, contexts []*henc.Context, o Options) *rig {
	t.Helper()
	r, p := &rig{t: t}, parameters(t)
	r.compile(p)
	raw := r.keys(p)
	o.ReadKeys = func(ctx *henc.Context) (all []Keys, err error) {
		for _, b := range raw {
			ev, err := ctx.UnmarshalEvaluationKeys(b)
			if err != nil {
				return nil, err
			}
			all = append(all, Keys{Context: ctx, Evaluation: ev})
		}
		return all, nil
	}
	keys, err := o.ReadKeys(contexts[0])
	if err != nil {
		t.Fatal(err)
	}
	o.More = func(henc.Parameters) ([]*henc.Context, error) { return contexts[1:], nil }
	o.OnFallback = func() { r.fallbacks.Add(1) }
	o.Policy, o.Now, o.Logger = config.FallbackCPU, time.Now, slog.New(slog.DiscardHandler)
	if r.e, err = New(keys, o); err != nil {
		t.Fatal(err)
	}
	return r
}

// compile compiles one expression for the streams of three devices.
func (r *rig) compile(p henc.Parameters) {
	for i := range 3 {
		st := config.Stream{Name: "s", Params: p.Name(), Window: config.Window{Samples: 8}, Packing: config.PackingReal,
			Channels: []config.Channel{{Name: "c", Unit: "u", Range: [2]float64{-1, 1}}}}
		vars := map[string]program.Var{"x": {Device: fmt.Sprint("d", i), Stream: st}}
		r.vars = append(r.vars, vars)
		c, err := program.Compile(program.Source{Name: fmt.Sprint("p", i), Expr: "x*x", Vars: vars}, p)
		if err != nil {
			r.t.Fatal(err)
		}
		r.circuits = append(r.circuits, c)
	}
	some := []*program.Circuit{r.circuits[0]}
	for _, expr := range []string{"mean(x)", "2*x + 1"} {
		c, err := program.Compile(program.Source{Name: expr, Expr: expr, Vars: r.vars[0]}, p)
		if err != nil {
			r.t.Fatal(err)
		}
		some = append(some, c)
	}
	set, err := program.Fuse(nil, some...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.set = set
}

// keys makes the keys of two holders, windows under each, and what each gives alone, on the
// processor.
func (r *rig) keys(p henc.Parameters) (raw [][]byte) {
	t := r.t
	ctx, err := henc.NewContext(p, henc.WithN2(1))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		key, err := secret.Generate(ctx, &henc.Seed{byte(i + 1)})
		if err != nil {
			t.Fatal(err)
		}
		ev, err := key.EvaluationKeys(r.set.Rotations(), false)
		if err != nil {
			t.Fatal(err)
		}
		b, err := ctx.MarshalEvaluationKeys(ev)
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, b)
		pk, err := key.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		enc, err := henc.NewEncryptor(ctx, pk)
		if err != nil {
			t.Fatal(err)
		}
		fresh := []func() (*henc.Ciphertext, error){
			func() (*henc.Ciphertext, error) { return enc.EncryptReal(values, p.MaxLevel(), p.DefaultScale(), nil) },
			func() (*henc.Ciphertext, error) {
				return secret.NewSeededEncryptor(ctx, key).EncryptReal(values, p.MaxLevel(), p.DefaultScale(), nil)
			},
		}
		for _, encrypt := range fresh {
			ct, err := encrypt()
			if err != nil {
				t.Fatal(err)
			}
			body, err := ctx.MarshalCiphertext(ct)
			if err != nil {
				t.Fatal(err)
			}
			r.bodies = append(r.bodies, body)
			r.want = append(r.want, r.alone(henc.NewEvaluator(ctx, ev), ct))
		}
		r.refs = append(r.refs, Keys{Evaluation: ev}.Ref())
	}
	return raw
}

// reads is a program or a set.
type reads interface {
	program.Routine
	Inputs() []program.Input
}

var values = []float64{0.5, -0.25, 1}

// alone returns what a circuit, and then the set, give for one window.
func (r *rig) alone(ev *henc.Evaluator, ct *henc.Ciphertext) (out [][]byte) {
	r.t.Helper()
	inputs := map[program.Input]*henc.Ciphertext{r.circuits[0].Inputs()[0]: ct}
	one, _, err := r.circuits[0].Run(ev, inputs)
	if err != nil {
		r.t.Fatal(err)
	}
	list, err := r.set.Run(ev, inputs)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, x := range append([]*henc.Ciphertext{one}, list...) {
		b, err := ev.Context().MarshalCiphertext(x)
		if err != nil {
			r.t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// all runs n jobs at a time, of all circuits and holders in turn, and returns how many
// failed. Results that are there must be right. A window of spoilt is missing.
func (r *rig) all(n int, spoilt map[int]bool) (failed int) {
	r.t.Helper()
	var jobs sync.WaitGroup
	var bad atomic.Int64
	for i := range n {
		window := rand.IntN(len(r.bodies))
		var c reads = r.circuits[rand.IntN(len(r.circuits))]
		want := r.want[window][:1]
		if r.mixed && rand.IntN(2) == 0 {
			c, want = r.set, r.want[window][1:]
		}
		ct, err := r.e.Receive(parameters(r.t).Hash(), r.bodies[window], Turn{})
		if err != nil {
			r.t.Fatal(err)
		}
		inputs := map[program.Input]*Ciphertext{c.Inputs()[0]: ct}
		if spoilt[i] {
			clear(inputs)
		}
		jobs.Go(func() {
			got, err := r.e.Run(c, r.refs[window/kinds], inputs, 0)
			if err != nil {
				bad.Add(1)
				if !spoilt[i] || !errors.Is(err, program.ErrInput) {
					r.t.Errorf("job %d: %v", i, err)
				}
				return
			}
			same := func(x Result, b []byte) bool { return bytes.Equal(x.Body, b) }
			if spoilt[i] || !slices.EqualFunc(got, want, same) {
				r.t.Errorf("job %d: a wrong result", i)
			}
		})
	}
	jobs.Wait()
	return int(bad.Load())
}

// hold makes the first device wait in its computations until so many jobs have gathered.
func (r *rig) hold(jobs int) {
	g := r.e.lanes[r.circuits[0].Parameters().Hash()].devices[0].gather
	var gathered atomic.Bool
	wait := func(int) error {
		if !gathered.Load() && !testrig.Poll(func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			n := 0
			for _, line := range g.lines {
				n += len(line)
			}
			return n >= jobs || gathered.Load()
		}) {
			r.t.Errorf("%d jobs never gathered", jobs)
		}
		gathered.Store(true)
		return nil
	}
	r.devices[0].before.Store(&wait)
}

// TestGather: jobs of several devices and keys that come while the device computes go
// together, and each gets its own result. A batch has no more than it may.
func TestGather(t *testing.T) {
	r := newRig(t, 1, width{batches: 2, most: 5}, time.Second)
	f := r.devices[0]
	r.hold(38) // all but those of two batches of one
	r.all(40, nil)
	if n := f.products.Load(); n != 2+(38+4)/5 {
		t.Errorf("%d batches for 40 jobs", n)
	}
	if most := f.most.Load(); most != 5 {
		t.Errorf("a batch of %d jobs", most)
	}
	if n := r.e.Parallel(); n != 10 {
		t.Errorf("%d jobs at a time", n)
	}
	if r.e.lanes[r.circuits[0].Parameters().Hash()].devices[0].gather.running != 0 {
		t.Error("a batch never ended")
	}
}

// TestGatherSets: programs and sets that run at a time, over windows under public keys and
// with seeds, give what each gives alone.
func TestGatherSets(t *testing.T) {
	r := newRig(t, 1, width{batches: 2, most: 5}, time.Second)
	r.mixed = true
	r.hold(36)
	if n := r.all(40, nil); n != 0 || r.devices[0].most.Load() < 2 {
		t.Errorf("%d jobs failed, the largest batch had %d", n, r.devices[0].most.Load())
	}
}

// TestGatherMemory: the values of a batch fit into its memory, and a job that is larger
// runs alone.
func TestGatherMemory(t *testing.T) {
	for _, c := range []struct{ jobs, most int64 }{{3, 3}, {0, 1}} {
		r := newRig(t, 1, width{batches: 1, most: 100}, time.Second)
		g := r.e.lanes[r.circuits[0].Parameters().Hash()].devices[0].gather
		g.width.memory = c.jobs*r.circuits[0].Peak() + 1
		r.hold(19)
		r.all(20, nil)
		if most := r.devices[0].most.Load(); most != c.most {
			t.Errorf("a batch of %d jobs in memory for %d", most, c.jobs)
		}
	}
}

// TestGatherFaults: of a batch with jobs that cannot run only these fail.
func TestGatherFaults(t *testing.T) {
	r := newRig(t, 1, width{batches: 1, most: 16}, time.Second)
	r.hold(21) // the first, and perhaps one that cannot run before it, are not there any more
	if n := r.all(24, map[int]bool{3: true, 17: true}); n != 2 {
		t.Errorf("%d jobs failed", n)
	}
	if r.fallbacks.Load() != 0 {
		t.Error("the device was given up")
	}
}

// TestGatherFailedDevice: a device that fails in the middle of a batch, and another one
// later, cost no job: what takes over computes the same.
func TestGatherFailedDevice(t *testing.T) {
	for devices := 1; devices <= 2; devices++ {
		r := newRig(t, devices, width{batches: 2, most: 8}, 10*time.Millisecond)
		for i, f := range r.devices {
			var calls atomic.Int64
			fails := func(int) error {
				time.Sleep(2 * time.Millisecond)
				if calls.Add(1) == int64(2+i) {
					f.broken.Store(true)
				}
				if f.broken.Load() {
					return cutrantt.ErrDevice
				}
				return nil
			}
			f.before.Store(&fails)
		}
		if n := r.all(60, nil); n != 0 {
			t.Errorf("%d devices: %d jobs failed", devices, n)
		}
		if n := r.fallbacks.Load(); n != int64(devices) {
			t.Errorf("%d devices: %d fallbacks", devices, n)
		}
	}
}

// TestGatherExhaustedMemory: a batch that does not fit runs in parts.
func TestGatherExhaustedMemory(t *testing.T) {
	r := newRig(t, 1, width{batches: 1, most: 16}, time.Second)
	full := func(n int) error {
		time.Sleep(2 * time.Millisecond)
		if n > 3 {
			return cutrantt.ErrMemory
		}
		return nil
	}
	r.devices[0].before.Store(&full)
	if n := r.all(40, nil); n != 0 || r.fallbacks.Load() != 0 {
		t.Errorf("%d jobs failed, %d fallbacks", n, r.fallbacks.Load())
	}
}

// TestGatherWaitsForMemory: a job that finds no memory because of another one's results waits
// until these are freed.
func TestGatherWaitsForMemory(t *testing.T) {
	r := newRig(t, 1, width{batches: 2, most: 1}, time.Second)
	g := r.e.lanes[r.circuits[0].Parameters().Hash()].devices[0].gather
	second := make(chan struct{})
	var calls atomic.Int64
	full := func(int) error {
		switch calls.Add(1) {
		case 1:
			<-second
		case 2:
			close(second)
			return cutrantt.ErrMemory
		default:
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.held != 1 {
				t.Errorf("%d batches hold memory", g.held)
			}
		}
		return nil
	}
	r.devices[0].before.Store(&full)
	if n := r.all(2, nil); n != 0 || r.fallbacks.Load() != 0 || calls.Load() != 3 {
		t.Errorf("%d jobs failed, %d fallbacks, %d runs", n, r.fallbacks.Load(), calls.Load())
	}
	if g.held != 0 {
		t.Errorf("%d batches hold memory at the end", g.held)
	}
	// Where nothing else holds memory, the job goes to the processor.
	never := func(int) error { return cutrantt.ErrMemory }
	r.devices[0].before.Store(&never)
	if n := r.all(1, nil); n != 0 || r.fallbacks.Load() != 1 {
		t.Errorf("%d jobs failed, %d fallbacks", n, r.fallbacks.Load())
	}
}

// TestGatherLatency: a job that finds a large batch under way waits for no more than the
// latency, and for nothing where the device is idle.
func TestGatherLatency(t *testing.T) {
	r := newRig(t, 1, width{batches: 2, most: 16}, time.Millisecond)
	release := make(chan struct{})
	var calls atomic.Int64
	stuck := func(int) error {
		if calls.Add(1) == 2 {
			<-release
		}
		return nil
	}
	r.devices[0].before.Store(&stuck)
	r.all(1, nil)
	g := r.e.lanes[r.circuits[0].Parameters().Hash()].devices[0].gather
	first := make(chan struct{})
	go func() {
		defer close(first)
		r.all(1, nil)
	}()
	for calls.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	g.mu.Lock()
	g.newest = 16 // as if it were large
	g.mu.Unlock()
	r.all(1, nil) // the first is still under way
	close(release)
	<-first
}

// TestGatherOnGPU: what a GPU gives for batches of several devices and keys is what the
// processor gives for each window alone, bit for bit, also after calls that fail in the
// middle of them.
func TestGatherOnGPU(t *testing.T) {
	if list, err := cuda.Devices(); err != nil || len(list) == 0 {
		testenv.Missing(t, "cuda", "no GPU: ", err)
	}
	t.Setenv(cuda.TuningVariable, "off")
	d := cudatest.New(t)
	d.Real()
	d.Use()
	b, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := henc.NewContext(parameters(t), henc.WithBackend(b), henc.WithN2(1))
	if err != nil {
		t.Fatal(err)
	}
	r := newRigOn(t, []*henc.Context{ctx}, Options{Batch: 6, Latency: time.Second, Workers: 2})
	g := r.e.lanes[ctx.Parameters().Hash()].devices[0].gather
	if g.width.batches != 2 || g.width.most != 6 || g.width.memory <= 0 {
		t.Errorf("the width of a GPU is %+v", g.width)
	}
	r.mixed = true
	r.all(16, nil)
	if r.fallbacks.Load() != 0 {
		t.Error("the GPU was given up")
	}
	d.Set("fail cuLaunchKernelEx 719 9 1")
	r.all(16, nil)
	if r.fallbacks.Load() == 0 {
		t.Error("no call failed")
	}
}
