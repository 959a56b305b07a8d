package evaluator

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bootstrap"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

func init() { namedParams = henc.NamedInsecure }

const compactParams = "boot10-insecure"

func must[T any](v T, err error) func(testing.TB) T { return testenv.Must(v, err) }

// boards are what makes compact windows, and what the evaluator's key set has of it.
type boards struct {
	ring *henc.Context
	keys *engine.CompactKeys
}

var madeBoards *boards

// makeBoards makes the key holder of compactParams, once. Devices whose name begins with "x" have no switching key.
func makeBoards(t testing.TB) *boards {
	t.Helper()
	if madeBoards != nil {
		return madeBoards
	}
	p := must(henc.NamedInsecure(compactParams))(t)
	ctx := must(henc.NewContext(p))(t)
	key := must(secret.Generate(ctx, &henc.Seed{1}))(t)
	key.SetEpoch(3)
	plan := must(bootstrap.NewPlan(p, must(bootstrap.LiteralOf(p))(t)))(t)
	rotations := plan.Rotations()
	for k := 1; k < p.Slots(); k <<= 1 {
		rotations = append(rotations, k)
	}
	ev := must(key.EvaluationKeys(rotations, true))(t)
	ev.Sparse = must(key.SparseKeys())(t)
	holders[compactParams] = &holder{ctx: ctx, key: key, dec: secret.NewDecryptor(ctx, key), keys: ev}
	set := must(compact.NamedInsecure("compact10-insecure"))(t)
	b := &boards{ring: must(henc.NewContext(set))(t)}
	small := must(henc.NewContext(must(compact.Switching(set, p))(t)))(t)
	common := must(key.CompactSecret(small))(t)
	b.keys = &engine.CompactKeys{Set: set, Small: small, Join: must(key.CompactKey(common))(t),
		Pack: must(common.GaloisKeys(compact.PackElements(small.Parameters())))(t),
		Device: func(name string) (*henc.SwitchingKey, error) {
			if name[0] == 'x' {
				return nil, fmt.Errorf("%w: %s", engine.ErrNoDeviceKey, name)
			}
			board, err := key.CompactBoard(b.ring, name)
			if err != nil {
				return nil, err
			}
			return common.CompactKey(board)
		}}
	madeBoards = b
	return b
}

// compactConfig has a class "pump" of b0 to b4, and more devices, whose stream of compact windows ends by time.
func compactConfig(t testing.TB, more []string, programs ...config.Program) *config.Evaluator {
	t.Helper()
	cfg := testConfig(t, programs...)
	st := stream("time", time.Second)
	st.Params, st.Mode, st.Packing, st.Precision = compactParams, config.ModeCompact, config.PackingCompact12, 12
	cfg.Classes, cfg.Streams, cfg.Devices = []config.Class{{Name: "pump", Streams: []config.Stream{st}}}, nil, nil
	for _, name := range append([]string{"b0", "b1", "b2", "b3", "b4"}, more...) {
		cfg.Devices = append(cfg.Devices, config.Device{Name: name, Class: "pump",
			PublicKey: signer(t, name).PublicText()})
	}
	cfg.Latency = 500 * time.Millisecond
	return cfg
}

// compactRig is a rig whose devices have boards.
type compactRig struct {
	*rig
	b     *boards
	seq   uint64
	spoil func(body []byte) []byte // spoils the next window after it was written; nil: nothing
}

func newCompactRig(t *testing.T, b *boards, cfg *config.Evaluator, state string) *compactRig {
	t.Helper()
	return &compactRig{rig: newRigAt(t, cfg, state, func(d *Deps) { d.Keys[0].Compact = b.keys }), b: b}
}

// compact is what a device sends: temp and load are physical. edit may spoil the header and the window.
func (r *compactRig) compact(device string, interval int, temp, load []float64,
	edit ...func(*transport.Meta, *compact.Window)) []byte {
	t := r.t
	t.Helper()
	r.seq++
	st := r.cfg.Classes[0].Streams[0]
	u := make([]float64, st.Slots())
	for ch, values := range [][]float64{temp, load} {
		mid, half := st.Channels[ch].Affine()
		for i, v := range values {
			u[ch*st.Stride()+i] = (v - mid) / half
		}
	}
	start := epoch.Add(time.Duration(interval) * time.Second)
	m := transport.Meta{Kind: transport.KindReading, Device: device, Stream: st.Name, KeyID: r.keys.KeyID, KeyEpoch: 3,
		BootEpoch: 7, Sequence: r.seq, Params: r.ctx.Parameters().Hash(), Layout: st.LayoutHash(),
		Start: start.UnixNano(), End: start.Add(time.Second).UnixNano(), Samples: uint32(len(temp))}
	engine.CompactHeader(&m)
	e := must(secret.NewCompactEncryptor(must(r.key.CompactBoard(r.b.ring, device))(t)))(t)
	origin := compact.Origin{Device: device, Stream: st.Name, KeyID: m.KeyID, KeyEpoch: m.KeyEpoch,
		BootEpoch: m.BootEpoch, Sequence: m.Sequence}
	w := must(e.Encrypt(compact.Order(u), compact.Precision(st.Compact()), origin, nil))(t)
	for _, f := range edit {
		f(&m, w)
	}
	body := must(w.Marshal())(t)
	if r.spoil != nil {
		body = r.spoil(body)
		r.spoil = nil
	}
	return must(transport.SealShort(m, body, signer(t, device)))(t)
}

// sendCompact publishes a window of a device and returns its id.
func (r *compactRig) sendCompact(device string, sealed []byte) [32]byte {
	r.t.Helper()
	r.publish(transport.ReadingTopic(r.cfg.Broker.TopicPrefix, device, "time"), sealed)
	return transport.ObjectID(sealed)
}

// sample returns windows of every kind: random, constant, extreme, a few samples, and one.
func sample(rng *rand.Rand, kind int, lo, hi float64) []float64 {
	x := make([]float64, []int{8, 8, 8, 5, 1}[kind])
	for i := range x {
		switch kind {
		case 1:
			x[i] = lo + 0.987*(hi-lo)
		case 2:
			x[i] = []float64{lo, hi}[i%2]
		default:
			x[i] = lo + (hi-lo)*rng.Float64()
		}
	}
	return x
}

func covariance(x, y []float64) float64 {
	s, mx, my := 0.0, average(x), average(y)
	for i := range x {
		s += (x[i] - mx) * (y[i] - my)
	}
	return s / float64(len(x))
}

// compactPrograms read all of a window, for each device and for all.
func compactPrograms() []config.Program {
	x, both := map[string]string{"x": "time/temp"}, map[string]string{"x": "time/temp", "y": "time/load"}
	return []config.Program{forPump("mean", "mean(x)", x), forPump("var", "var(x)", x),
		forPump("cov", "cov(x, y)", both), forPump("all", "fleet.mean(x)", x)}
}

// wanted are the values of results by program and the id of a window, or of nobody for all devices.
type wanted map[string]map[[32]byte]float64

// sendAll sends a window of every kind for an interval, each by another device, and returns what follows.
func (r *compactRig) sendAll(rng *rand.Rand, interval int) wanted {
	r.t.Helper()
	want := wanted{"mean": {}, "var": {}, "cov": {}, "all": {}}
	var all []float64
	for i := range 5 {
		x, y := sample(rng, (i+interval)%5, 0, 100), sample(rng, (i+interval)%5, -4, 4)
		device := fmt.Sprint("b", i)
		id := r.sendCompact(device, r.compact(device, interval, x, y))
		want["mean"][id], want["var"][id], want["cov"][id] = average(x), covariance(x, x), covariance(x, y)
		all = append(all, x...)
	}
	want["all"][[32]byte{byte(interval)}] = average(all)
	return want
}

// check takes a result and removes it from what is wanted.
func (r *compactRig) check(want wanted) {
	r.t.Helper()
	obj, got := r.result()
	m := obj.Meta
	id := [32]byte{byte((m.Start - epoch.UnixNano()) / int64(time.Second))}
	if m.Program != "all" {
		id = m.Inputs[0]
	}
	w, ok := want[m.Program][id]
	if !ok || len(got) != 1 {
		r.t.Fatalf("result %v of %s for %q is not wanted, or again", got, m.Program, m.Subject)
	}
	delete(want[m.Program], id)
	if d := math.Abs(got[0] - w); !(d <= m.Post.Bound) {
		r.t.Errorf("%s of %q is %g, want %g within %g", m.Program, m.Subject, got[0], w, m.Post.Bound)
	}
}

// TestCompactStreams: windows of every kind by several devices, with a store and without; each result is within its
// promise, and one fleet result covers all of them.
func TestCompactStreams(t *testing.T) {
	b := makeBoards(t)
	for _, withStore := range []bool{false, true} {
		t.Run(fmt.Sprintf("store %t", withStore), func(t *testing.T) {
			cfg := compactConfig(t, nil, compactPrograms()...)
			if withStore {
				cfg.Store = &config.Store{Dir: t.TempDir()}
				cfg.SetDefaults()
			}
			r, rng := newCompactRig(t, b, cfg, filepath.Join(t.TempDir(), "state")), rand.New(rand.NewPCG(1, 5))
			for interval := range 2 {
				want := r.sendAll(rng, interval)
				for range 3*5 + 1 {
					r.check(want)
				}
			}
			st := r.service.Stats()
			if st.Accepted != 10 || st.Results != 32 || st.Failed != 0 || len(st.Refused) != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestCompactAlone: a program that names its device, and one that joins two of them.
func TestCompactAlone(t *testing.T) {
	b := makeBoards(t)
	cfg := compactConfig(t, nil)
	st := cfg.Classes[0].Streams[0]
	cfg.Classes, cfg.Devices = nil, cfg.Devices[:2]
	for i := range cfg.Devices {
		cfg.Devices[i].Class = ""
		cfg.Streams = append(cfg.Streams, config.DeviceStream{Device: cfg.Devices[i].Name, Stream: st})
	}
	cfg.Programs = []config.Program{prog("difference", "mean(x) - mean(y)",
		map[string]string{"x": "b0/time/temp", "y": "b1/time/temp"})}
	r := &compactRig{rig: newRigAt(t, cfg, filepath.Join(t.TempDir(), "state"), func(d *Deps) {
		d.Keys[0].Compact = b.keys
	}), b: b}
	cfg.Classes = []config.Class{{Streams: []config.Stream{st}}} // for compact
	x, y := numbers(8, 20, 3), numbers(8, 60, -1)
	r.sendCompact("b0", r.compact("b0", 0, x, numbers(8, 0, 0)))
	r.sendCompact("b1", r.compact("b1", 0, y, numbers(8, 0, 0)))
	r.expect("difference", average(x)-average(y))
}

// TestCompactRefusals: each kind of bad window is refused by name, and the next good one is taken.
func TestCompactRefusals(t *testing.T) {
	b := makeBoards(t)
	cfg := compactConfig(t, []string{"x1"}, compactPrograms()[0])
	r := newCompactRig(t, b, cfg, filepath.Join(t.TempDir(), "state"))
	x, y := numbers(8, 20, 3), numbers(8, -1, 0.1)
	good := r.compact("b0", 0, x, y)
	r.sendCompact("b0", good)
	r.expect("mean", average(x))
	edited := func(edit func(*transport.Meta, *compact.Window)) func() []byte {
		return func() []byte { return r.compact("b0", 1, x, y, edit) }
	}
	spoilt := func(spoil func(body []byte) []byte) func() []byte {
		return func() []byte {
			r.spoil = spoil
			return r.compact("b0", 1, x, y)
		}
	}
	set := func(at int, v byte) func() []byte {
		return spoilt(func(b []byte) []byte { b[at] = v; return b })
	}
	for name, c := range map[string]struct {
		reason, device string
		sealed         func() []byte
	}{
		"body cut":       {"body_truncated", "b0", spoilt(func(b []byte) []byte { return b[:len(b)-1] })},
		"body cut short": {"body_truncated", "b0", spoilt(func(b []byte) []byte { return b[:9] })},
		"no body":        {"body_truncated", "b0", spoilt(func(b []byte) []byte { return b[:0] })},
		"body longer":    {"body_malformed", "b0", spoilt(func(b []byte) []byte { return append(b, 0) })},
		"another kind":   {"body_kind", "b0", set(0, 0x89)},
		"version":        {"body_version", "b0", set(1, 2)},
		"foreign ring":   {"body_params", "b0", set(2, 1)},
		"no such ring":   {"body_params", "b0", set(2, 9)},
		"no precision":   {"body_malformed", "b0", set(3, 14)},
		"no readings":    {"body_length", "b0", set(4, 0)},
		"the seed again": {"replayed", "b0", func() []byte { // the number and nonce of the first, other readings
			before := r.seq
			r.seq = 0
			defer func() { r.seq = before }()
			return r.compact("b0", 1, numbers(8, 21, 3), y, func(_ *transport.Meta, w *compact.Window) {
				obj := must(transport.PeekShort(good))(t)
				if obj.Sequence != 1 {
					t.Fatalf("the first window has number %d", obj.Sequence)
				}
				copy(w.Nonce[:], nonceOf(t, good))
			})
		}},
		"another stream": {"bad_signature", "b0", edited(func(m *transport.Meta, _ *compact.Window) {
			m.Stream = "other"
		})},
		"another key set": {"bad_signature", "b0", edited(func(m *transport.Meta, _ *compact.Window) {
			m.KeyID[0] ^= 1
		})},
		"parameters": {"bad_signature", "b0", edited(func(m *transport.Meta, _ *compact.Window) {
			m.Params[0] ^= 1
		})},
		"layout": {"bad_signature", "b0", edited(func(m *transport.Meta, _ *compact.Window) {
			m.Layout[0] ^= 1
		})},
		"again": {"replayed", "b0", func() []byte { return good }},
		"number": {"replayed", "b0", func() []byte {
			r.seq = 0
			defer func() { r.seq = 100 }()
			return r.compact("b0", 1, x, y)
		}},
		"cut":   {"truncated", "b0", func() []byte { return good[:len(good)-9] }},
		"noise": {"malformed", "b0", func() []byte { return bytes.Repeat([]byte{0x84}, 200) }},
		"bit": {"bad_signature", "b0", func() []byte {
			s := slices.Clone(good)
			s[60] ^= 1
			return s
		}},
		"foreign": {"unknown_signer", "b1", func() []byte { return r.compact("stranger", 1, x, y) }},
		"other":   {"bad_signature", "b1", func() []byte { return r.compact("b2", 1, x, y) }},
		"no key":  {"no_device_key", "x1", func() []byte { return r.compact("x1", 1, x, y) }},
		"epoch":   {"wrong_epoch", "b0", edited(func(m *transport.Meta, _ *compact.Window) { m.KeyEpoch = 4 })},
		"samples": {"samples", "b0", edited(func(m *transport.Meta, _ *compact.Window) { m.Samples = 9 })},
		"readings": {"body_length", "b0", edited(func(_ *transport.Meta, w *compact.Window) {
			w.Values = w.Values[:9]
		})},
		"precision": {"body_params", "b0", edited(func(_ *transport.Meta, w *compact.Window) { w.Precision = 16 })},
	} {
		sealed := c.sealed()
		t.Log(name)
		r.sendCompact(c.device, sealed)
		r.expectRefusal(c.reason)
	}
	r.send(transport.ReadingTopic(r.cfg.Broker.TopicPrefix, "b0", "time"), good[:len(good)-1]) // in a chunk
	r.expectRefusal("truncated")
	st := cfg.Classes[0].Streams[0]
	m := transport.Meta{Kind: transport.KindReading, Device: "b0", Stream: st.Name, KeyID: r.keys.KeyID, KeyEpoch: 3,
		BootEpoch: 7, Sequence: 1000, Params: r.ctx.Parameters().Hash(), Layout: st.LayoutHash(),
		Start: epoch.UnixNano(), End: epoch.Add(time.Second).UnixNano(), Samples: 8}
	engine.CompactHeader(&m)
	r.send(transport.ReadingTopic(r.cfg.Broker.TopicPrefix, "b0", "time"), must(transport.Seal(m,
		[]byte{0x89, 1, 2, 3}, signer(t, "b0")))(t)) // a ciphertext, which is not compact
	r.expectRefusal("body_kind")
	r.sendCompact("b1", r.compact("b1", 5, numbers(8, 60, 5), y))
	r.expect("mean", average(numbers(8, 60, 5)))
}

// nonceOf is that of the compact window in a short object, which its kind, version, set and precision precede.
func nonceOf(t *testing.T, sealed []byte) []byte {
	t.Helper()
	i := bytes.Index(sealed, []byte{0xc3, 1, 0xf0, 12})
	if i < 0 {
		t.Fatal("the object holds no compact window")
	}
	return sealed[i+6:][:compact.NonceBytes]
}

// TestCompactRestart: what was taken before a stop has its results after it, each once.
func TestCompactRestart(t *testing.T) {
	b := makeBoards(t)
	dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	start := func() *compactRig {
		cfg := compactConfig(t, nil, compactPrograms()...)
		cfg.Store, cfg.Latency = &config.Store{Dir: dir}, 5*time.Second
		cfg.SetDefaults()
		return newCompactRig(t, b, cfg, state)
	}
	r, rng := start(), rand.New(rand.NewPCG(2, 5))
	want := r.sendAll(rng, 0)
	testrig.Eventually(t, "the windows are taken", func() bool { return r.service.Stats().Accepted == 5 })
	r.stop()
	// What the broker has taken is on its way to the watcher, who may get it later.
	before := int(r.service.custody.(*stored).out.stats().Delivered)
	for range before {
		r.check(want)
	}
	again := start()
	for range 3*5 + 1 - before {
		again.check(want)
	}
	again.stop()
	if n := len(again.results); n != 0 {
		t.Errorf("%d results more", n)
	}
	for name, left := range want {
		if len(left) != 0 {
			t.Errorf("%d results of %s are missing", len(left), name)
		}
	}
}

// TestCompactPacked: the results of windows that were bootstrapped together go out in one pack.
func TestCompactPacked(t *testing.T) {
	cfg := compactConfig(t, nil, compactPrograms()[:2]...)
	cfg.Results = &config.Results{Pack: 10, Within: 10 * time.Minute}
	r := newCompactRig(t, makeBoards(t), cfg, filepath.Join(t.TempDir(), "state"))
	want, device := map[string]map[[32]byte]float64{"mean": {}, "var": {}}, map[[32]byte]string{}
	for i := range 5 {
		x, name := numbers(8, 10*float64(i), 1+float64(i)), fmt.Sprint("b", i)
		id := r.sendCompact(name, r.compact(name, 0, x, numbers(8, 0, 0.1)))
		device[id], want["mean"][id], want["var"][id] = name, average(x), covariance(x, x)
	}
	r.checkPlaces(want, device, 10, true)
}
