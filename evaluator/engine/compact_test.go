package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/transport"
)

// compactHolder is a key holder with boards that send compact windows.
type compactHolder struct {
	key    *secret.Key
	keys   Keys
	boards map[string]*secret.CompactEncryptor
}

func must[T any](v T, err error) func(testing.TB) T { return testenv.Must(v, err) }

// newCompactHolder makes the keys of boot10-insecure, for some boards.
func newCompactHolder(t testing.TB, boards ...string) *compactHolder {
	t.Helper()
	return newCompactHolderOf(t, "boot10-insecure", "compact10-insecure", boards...)
}

func newCompactHolderOf(t testing.TB, params, ring string, boards ...string) *compactHolder {
	t.Helper()
	p := must(henc.NamedInsecure(params))(t)
	ctx := must(makeContext(p))(t)
	key := must(secret.Generate(ctx, &henc.Seed{9}))(t)
	rotations := must(bootstrapPlan(p))(t).Rotations()
	for k := 1; k < p.Slots(); k <<= 1 {
		rotations = append(rotations, k)
	}
	ev := must(key.EvaluationKeys(rotations, true))(t)
	ev.Sparse = must(key.SparseKeys())(t)
	set := must(compact.NamedInsecure(ring))(t)
	small := must(makeContext(must(compact.Switching(set, p))(t)))(t)
	common := must(key.CompactSecret(small))(t)
	h := &compactHolder{key: key, boards: map[string]*secret.CompactEncryptor{}}
	switching := map[string]*henc.SwitchingKey{}
	for i, name := range boards {
		board := must(secret.Generate(must(henc.NewContext(set))(t), &henc.Seed{10, byte(i)}))(t)
		h.boards[name] = must(secret.NewCompactEncryptor(board))(t)
		switching[name] = must(common.CompactKey(board))(t)
	}
	h.keys = Keys{Context: ctx, Evaluation: ev, Compact: &CompactKeys{Set: set, Small: small,
		Join: must(key.CompactKey(common))(t),
		Pack: must(common.GaloisKeys(compact.PackElements(small.Parameters())))(t),
		Device: func(name string) (*henc.SwitchingKey, error) {
			if switching[name] == nil {
				return nil, ErrNoDeviceKey
			}
			return switching[name], nil
		}}}
	return h
}

// compactStream has two channels.
func compactStream(samples int) config.Stream {
	st := config.Stream{Name: "s", Mode: config.ModeCompact, Params: "boot10-insecure",
		Window: config.Window{Samples: samples, Every: time.Second}, Channels: []config.Channel{
			{Name: "x", Unit: "u", Range: [2]float64{-1, 1}}, {Name: "y", Unit: "u", Range: [2]float64{0, 40}}}}
	st.SetDefaults()
	return st
}

// send encrypts a window as a board does and gives it to the engine. x is physical, by channel.
func (h *compactHolder) send(e *Engine, st config.Stream, device string, sequence uint64, x ...[]float64) (
	*Ciphertext, error) {
	slots := make([]float64, st.Slots())
	for c, samples := range x {
		mid, half := st.Channels[c].Affine()
		for i, v := range samples {
			slots[c*st.Stride()+i] = (v - mid) / half
		}
	}
	m := transport.Meta{Device: device, Stream: st.Name, KeyID: h.keys.Evaluation.KeyID,
		KeyEpoch: h.keys.Evaluation.Epoch, BootEpoch: 7, Sequence: sequence}
	origin := compact.Origin{Device: device, Stream: st.Name, KeyID: m.KeyID, KeyEpoch: m.KeyEpoch, BootEpoch: 7,
		Sequence: sequence}
	w, err := h.boards[device].Encrypt(compact.Order(slots), compact.Precision(st.Compact()), origin, nil)
	if err != nil {
		return nil, err
	}
	body, err := w.Marshal()
	if err != nil {
		return nil, err
	}
	return e.ReceiveCompact(h.keys.Context.Parameters().Hash(), st, &m, body)
}

// value decrypts a result that stands where out says.
func (h *compactHolder) value(r Result, out program.Output) (float64, error) {
	ct, err := h.keys.Context.UnmarshalCiphertext(r.Body)
	if err != nil {
		return 0, err
	}
	slots, err := secret.NewDecryptor(h.keys.Context, h.key).DecryptReal(ct)
	if err != nil {
		return 0, err
	}
	v := out.A*slots[out.Slot] + out.B
	if out.Sqrt {
		v = math.Sqrt(max(v, 0))
	}
	return v, nil
}

func (h *compactHolder) engine(t testing.TB, batches *int, latency time.Duration) *Engine {
	return engineOn(t, batches, latency, h)
}

// engineOn has a device for each of the holders, which have the same keys in contexts of their own.
func engineOn(t testing.TB, batches *int, latency time.Duration, on ...*compactHolder) *Engine {
	read := func(ctx *henc.Context) (all []Keys, err error) {
		for _, h := range on {
			if h.keys.Context == ctx {
				all = append(all, h.keys)
			}
		}
		return all, nil
	}
	more := func(henc.Parameters) (all []*henc.Context, err error) {
		for _, h := range on[1:] {
			all = append(all, h.keys.Context)
		}
		return all, nil
	}
	var mu sync.Mutex
	return must(New([]Keys{on[0].keys}, Options{ReadKeys: read, More: more,
		Workers: 1, Latency: latency, Places: 8, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler), OnFallback: func() {}, OnBatch: func() {
			mu.Lock()
			defer mu.Unlock()
			*batches++
		}}))(t)
}

// readings are windows as they come: random, constant, extreme.
func readings(rng *rand.Rand, i, n int, lo, hi float64) []float64 {
	x := make([]float64, n)
	for k := range x {
		switch i % 3 {
		case 0:
			x[k] = lo + (hi-lo)*rng.Float64()
		case 1:
			x[k] = lo + (hi-lo)*0.987
		default:
			x[k] = lo
			if k%2 == i%2 {
				x[k] = hi
			}
		}
	}
	return x
}

// TestCompact: windows of several devices are bootstrapped together, and each result keeps its promise.
func TestCompact(t *testing.T) {
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprint("board-", i))
	}
	h, batches := newCompactHolder(t, names...), 0
	e := h.engine(t, &batches, time.Minute) // which nobody waits for: there is a window for each place
	rng := rand.New(rand.NewPCG(15, 3))
	for _, precision := range []int{12, 16} {
		st := compactStream(30)
		st.Precision, st.Packing = precision, fmt.Sprintf("compact-%d", precision)
		vars := map[string]program.Var{"x": {Stream: st}, "y": {Stream: st, Channel: 1}}
		for _, expr := range []string{"mean(x)", "var(y)", "cov(x, y)", "mean(x*y + 2)", "sqrt(var(x) + 1)"} {
			c := must(program.Compile(program.Source{Name: "p", Expr: expr, Class: "k", Vars: vars},
				h.keys.Context.Parameters()))(t)
			if c.Compact() != 8 || c.Places() != 8 {
				t.Fatalf("%s: %d windows together, %d places", expr, c.Compact(), c.Places())
			}
			lo, hi := c.Range()
			if bound := c.Output().Bound; bound > (hi-lo)/20 {
				t.Errorf("%s: the promise %g says nothing of a range of %g", expr, bound, hi-lo)
			}
			before := batches
			errs := make([]error, 8)
			var all sync.WaitGroup
			for i, name := range names {
				x, y := readings(rng, i, 30, -1, 1), readings(rng, i+1, 30, 0, 40)
				all.Go(func() { errs[i] = h.promised(e, c, st, name, uint64(i), x, y) })
			}
			all.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Errorf("precision %d: %s: %v", precision, expr, err)
			}
			if batches != before+1 {
				t.Errorf("%s: %d batches for 8 windows", expr, batches-before)
			}
		}
	}
}

// TestCompactGroups: twice as many windows as there are places share a bootstrap, more take another one, and each
// result is that of its window.
func TestCompactGroups(t *testing.T) {
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("board-", i))
	}
	h, batches := newCompactHolder(t, names...), 0
	e := h.engine(t, &batches, time.Minute)
	d := e.lanes[h.keys.Context.Parameters().Hash()].devices[0]
	var shared [][]int // the jobs of each bootstrap, by group
	bootstrap := d.gather.bootstrap
	d.gather.bootstrap = func(jobs ...[]*ticket) ([]map[program.Input]*henc.Ciphertext, error) {
		sizes := []int{}
		for _, group := range jobs {
			sizes = append(sizes, len(group))
		}
		shared = append(shared, sizes)
		return bootstrap(jobs...)
	}
	st := compactStream(30)
	c := must(program.Compile(program.Source{Name: "p", Expr: "cov(x, y)", Class: "k", Vars: map[string]program.Var{
		"x": {Stream: st}, "y": {Stream: st, Channel: 1}}}, h.keys.Context.Parameters()))(t)
	rng, in := rand.New(rand.NewPCG(15, 7)), c.Inputs()[0]
	var line []*ticket
	var x, y [][]float64
	for i, name := range names {
		x, y = append(x, readings(rng, i, 30, -1, 1)), append(y, readings(rng, i+1, 30, 0, 40))
		ct := must(h.send(e, st, name, uint64(i), x[i], y[i]))(t)
		item := must(d.item(c, h.keys.Ref(), nil))(t)
		line = append(line, &ticket{item: item, key: h.keys.Ref(),
			compact: map[program.Input]*compactWindow{in: ct.compact}, ready: make(chan struct{})})
	}
	most := groups // on a processor
	if w := d.gather.width; w.memory > 0 {
		most = max(min(w.most, int(w.memory/c.Peak())), 1)
	}
	if batch, rest := d.gather.take(line); len(batch) != min(most*8, 20) || len(batch)+len(rest) != 20 {
		t.Errorf("%d windows are taken of 20, and %d left", len(batch), len(rest))
	}
	if !d.gather.answer(line, func() {}) || fmt.Sprint(shared) != "[[8 8] [4]]" {
		t.Fatalf("bootstraps of %v windows: %v", shared, line[0].err)
	}
	for i, job := range line {
		rooms := must(job.share.written(d.writer.ask))(t)
		out := c.OutputAt(job.share.spot)
		got := must(h.value(Result{Body: rooms[0][transport.SealRoom:]}, out))(t)
		want := must(c.Reference(map[string][]float64{"x": x[i], "y": y[i]}))(t)
		if !(math.Abs(got-want[0]) <= out.Bound) {
			t.Errorf("window %d: %g, want %g within %g", i, got, want[0], out.Bound)
		}
		job.share.done()
	}
}

// TestCompactOnDevices: several devices bootstrap, each the windows that it got.
func TestCompactOnDevices(t *testing.T) {
	var names []string
	for i := range 16 {
		names = append(names, fmt.Sprint("board-", i))
	}
	h, batches := newCompactHolder(t, names...), 0
	other := newCompactHolder(t, names...) // the same keys in another context
	e := engineOn(t, &batches, time.Minute, h, other)
	st := compactStream(30)
	vars := map[string]program.Var{"x": {Stream: st}, "y": {Stream: st, Channel: 1}}
	c := must(program.Compile(program.Source{Name: "p", Expr: "cov(x, y)", Class: "k", Vars: vars},
		h.keys.Context.Parameters()))(t)
	rng, errs := rand.New(rand.NewPCG(15, 6)), make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		x, y := readings(rng, i, 30, -1, 1), readings(rng, i+1, 30, 0, 40)
		all.Go(func() { errs[i] = h.promised(e, c, st, name, uint64(i), x, y) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	if batches != 2 { // they take turns, and a minute is longer than that takes
		t.Errorf("%d batches for 16 windows on two devices", batches)
	}
	devices := e.lanes[h.keys.Context.Parameters().Hash()].devices
	if len(devices) != 2 || len(devices[0].compacts.made) != 1 || len(devices[1].compacts.made) != 1 {
		t.Errorf("%d devices, of which not all took windows", len(devices))
	}
}

// promised runs a program on one window and compares.
func (h *compactHolder) promised(e *Engine, c *program.Circuit, st config.Stream, device string, n uint64,
	x, y []float64) error {
	ct, err := h.send(e, st, device, n, x, y)
	if err != nil {
		return err
	}
	results, err := e.Run(c, h.keys.Ref(), map[program.Input]*Ciphertext{c.Inputs()[0]: ct}, 0)
	if err != nil {
		return err
	}
	out := c.OutputAt(results[0].Place)
	got, err := h.value(results[0], out)
	if err != nil {
		return err
	}
	want, err := c.Reference(map[string][]float64{"x": x, "y": y})
	if err == nil && math.Abs(got-want[0]) > out.Bound {
		err = fmt.Errorf("%s: %g, want %g within %g", device, got, want[0], out.Bound)
	}
	return err
}

// TestCompactBoot15: the rings of boot15, where a ciphertext takes windows of several packs. It takes 8 GiB and
// minutes.
func TestCompactBoot15(t *testing.T) {
	if os.Getenv("HENCEDGE_TEST_DEEP") != "1" {
		testenv.Missing(t, "deep", "HENCEDGE_TEST_DEEP is not 1")
	}
	h, batches := newCompactHolderOf(t, "boot15", "compact12", "a", "b", "c"), 0
	e := h.engine(t, &batches, 10*time.Second)
	st := compactStream(32)
	st.Params = "boot15"
	c := must(program.Compile(program.Source{Name: "p", Expr: "cov(x, y)", Class: "k", Vars: map[string]program.Var{
		"x": {Stream: st}, "y": {Stream: st, Channel: 1}}}, h.keys.Context.Parameters()))(t)
	rng, errs := rand.New(rand.NewPCG(15, 5)), make([]error, c.Compact())
	var all sync.WaitGroup
	for i := range errs {
		x, y := readings(rng, i, 32, -1, 1), readings(rng, i, 32, 0, 40)
		all.Go(func() { errs[i] = h.promised(e, c, st, []string{"a", "b", "c"}[i%3], uint64(i), x, y) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	t.Logf("%d windows in %d batches, promised %g", len(errs), batches, c.Output().Bound)
}

// TestManyCompact: random, constant and extreme windows, full ones, partial ones and single samples, 8 at a time, keep
// their promises. HENCEDGE_TEST_ROUNDS says how many.
func TestManyCompact(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	h, batches, rounds := newCompactHolder(t, names...), 0, 48
	if n, err := strconv.Atoi(os.Getenv("HENCEDGE_TEST_ROUNDS")); err == nil {
		rounds = n
	}
	e := h.engine(t, &batches, time.Minute)
	rng := rand.New(rand.NewPCG(15, 4))
	st := compactStream(32)
	vars := map[string]program.Var{"x": {Stream: st}, "y": {Stream: st, Channel: 1}}
	var circuits []*program.Circuit
	samples := []int{32, 5, 1, 32, 5, 1}
	for i, n := range samples {
		src := program.Source{Name: "p", Expr: []string{"mean(x)", "var(y)"}[i/3], Class: "k", Vars: vars,
			Present: map[program.Input]int{{Stream: "s"}: n}}
		circuits = append(circuits, must(program.Compile(src, h.keys.Context.Parameters()))(t))
	}
	for done := 0; done < rounds; done += len(names) {
		i := done / len(names) % len(circuits)
		c, n := circuits[i], samples[i]
		var all sync.WaitGroup
		errs := make([]error, len(names))
		for i, name := range names {
			kind := rng.IntN(3)
			x, y := readings(rng, kind, n, -1, 1), readings(rng, kind, n, 0, 40)
			all.Go(func() { errs[i] = h.promised(e, c, st, name, uint64(done), x, y) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("%d samples: %v", n, err)
		}
	}
}

// BenchmarkCompact: windows of 64 readings, the mean and the variance of each, on one worker. With
// HENCEDGE_BENCH_PARAMS=boot15 under these parameters, which takes about 6 GiB and minutes.
func BenchmarkCompact(b *testing.B) {
	params, ring := "boot10-insecure", "compact10-insecure"
	if name := os.Getenv("HENCEDGE_BENCH_PARAMS"); name != "" {
		params, ring = name, "compact12"
	}
	var names []string
	for i := range 4 {
		names = append(names, fmt.Sprint("board-", i))
	}
	h := newCompactHolderOf(b, params, ring, names...)
	st := compactStream(64)
	st.Params, st.Channels = params, st.Channels[:1]
	vars := map[string]program.Var{"x": {Stream: st}}
	var circuits []*program.Circuit
	for _, expr := range []string{"mean(x)", "var(x)"} {
		circuits = append(circuits, must(program.Compile(program.Source{Name: expr, Expr: expr, Class: "k", Vars: vars},
			h.keys.Context.Parameters()))(b))
	}
	set := must(program.Fuse(nil, circuits...))(b)
	batches := 0
	e := h.engine(b, &batches, 500*time.Millisecond)
	for n := 1; n <= set.Compact(); n *= 4 {
		b.Run(fmt.Sprintf("%s/windows=%d", params, n), func(b *testing.B) {
			for round := range b.N {
				var all sync.WaitGroup
				errs := make([]error, n)
				for i := range n {
					all.Go(func() {
						ct, err := h.send(e, st, names[i%4], uint64(round*n+i), make([]float64, 64))
						if err == nil {
							_, err = e.Run(set, h.keys.Ref(), map[program.Input]*Ciphertext{set.Inputs()[0]: ct}, 0)
						}
						errs[i] = err
					})
				}
				all.Wait()
				if err := errors.Join(errs...); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "windows/s")
		})
	}
}
