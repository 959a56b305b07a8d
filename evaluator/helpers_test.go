package evaluator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker"
	"github.com/hencedge/hencedge/transport/mqtt"
)

// holder is a key holder for one parameter set, made once: keys take a while.
type holder struct {
	ctx  *henc.Context
	key  *secret.Key
	enc  *henc.Encryptor
	dec  *secret.Decryptor
	keys *henc.EvaluationKeys
}

var holders = map[string]*holder{}

func makeHolder(params string) (*holder, error) {
	p, err := henc.Named(params)
	if err != nil {
		return nil, err
	}
	ctx, err := henc.NewContext(p)
	if err != nil {
		return nil, err
	}
	seed, err := henc.NewSeed()
	if err != nil {
		return nil, err
	}
	key, err := secret.Generate(ctx, seed)
	if err != nil {
		return nil, err
	}
	key.SetEpoch(3)
	pk, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	enc, err := henc.NewEncryptor(ctx, pk)
	if err != nil {
		return nil, err
	}
	keys, err := key.EvaluationKeys([]int{1, 2, 4, 8}, false)
	if err != nil {
		return nil, err
	}
	return &holder{ctx, key, enc, secret.NewDecryptor(ctx, key), keys}, nil
}

func testHolder(t testing.TB) *holder {
	t.Helper()
	return holderFor(t, "edge12-d1")
}

func holderFor(t testing.TB, params string) *holder {
	t.Helper()
	if holders[params] == nil {
		h, err := makeHolder(params)
		if err != nil {
			t.Fatal(err)
		}
		holders[params] = h
	}
	return holders[params]
}

// stream has two channels with 8 samples.
func stream(name string, every time.Duration) config.Stream {
	return config.Stream{Name: name, Params: "edge12-d1", Packing: config.PackingReal,
		Window: config.Window{Samples: 8, Every: every},
		Channels: []config.Channel{
			{Name: "temp", Unit: "degC", Range: [2]float64{0, 100}},
			{Name: "load", Unit: "1", Range: [2]float64{-4, 4}},
		}}
}

// signers are the devices' signing keys.
var signers = map[string]*transport.SigningKey{}

func signer(t testing.TB, name string) *transport.SigningKey {
	t.Helper()
	if signers[name] == nil {
		k, err := transport.NewSigningKey()
		if err != nil {
			t.Fatal(err)
		}
		signers[name] = k
	}
	return signers[name]
}

// testConfig knows devices d1 and d2, each with the streams count (windows by
// count) and time (windows by second).
func testConfig(t testing.TB, programs ...config.Program) *config.Evaluator {
	t.Helper()
	cfg := &config.Evaluator{Name: "cloud", Broker: config.Broker{URL: "tcp://127.0.0.1:1"}, Programs: programs,
		Workers: 2}
	for _, d := range []string{"d1", "d2"} {
		cfg.Devices = append(cfg.Devices, config.Device{Name: d, PublicKey: signer(t, d).PublicText()})
		cfg.Streams = append(cfg.Streams, config.DeviceStream{Device: d, Stream: stream("count", 0)},
			config.DeviceStream{Device: d, Stream: stream("time", time.Second)})
	}
	cfg.SetDefaults()
	cfg.Limits.Object = config.Size(256 << 10)
	return cfg
}

// rig is a service on an embedded broker with a device and a key holder's end.
type rig struct {
	*holder
	t       *testing.T
	cfg     *config.Evaluator
	service *Service
	device  transport.Client
	results chan *transport.Object
	refused chan string
	events  chan Event
	event   Event   // of the latest result
	early   []Event // of packs that the test has not looked at
	stop    func()
	ended   chan error
}

func dialTest(t *testing.T, url, id string) transport.Client {
	t.Helper()
	c, err := mqtt.Dial(testrig.Context(t), mqtt.Options{URL: url, ClientID: id, Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

func newRig(t *testing.T, cfg *config.Evaluator, change ...func(*Deps)) *rig {
	t.Helper()
	return newRigAt(t, cfg, filepath.Join(t.TempDir(), "state.json"), change...)
}

// newRigAt is newRig with a state file.
func newRigAt(t *testing.T, cfg *config.Evaluator, state string, change ...func(*Deps)) *rig {
	t.Helper()
	return newRigOn(t, cfg, testrig.Broker(t, broker.Options{}).URL(), state, change...)
}

// rigs counts rigs, whose clients have ids of their own.
var rigs atomic.Int32

// newRigOn is newRigAt with a broker.
func newRigOn(t *testing.T, cfg *config.Evaluator, url, state string, change ...func(*Deps)) *rig {
	t.Helper()
	h := holderFor(t, paramsOf(cfg))
	cfg.Broker.URL, cfg.State = url, state
	number := rigs.Add(1)
	r := &rig{holder: h, t: t, cfg: cfg, results: make(chan *transport.Object, 64), refused: make(chan string, 64),
		events: make(chan Event, 64)}
	ready := make(chan struct{})
	deps := Deps{OnReady: func() { close(ready) }, SigningKey: signer(t, "cloud"),
		Keys: []engine.Keys{{Context: h.ctx, Evaluation: h.keys}}, Logger: testrig.Quiet(),
		OnResult: func(e Event) { r.events <- e }, OnRefused: func(reason string, _ error) { r.refused <- reason }}
	for _, f := range change {
		f(&deps)
	}
	var err error
	if r.service, err = New(cfg, deps); err != nil {
		t.Fatal(err)
	}
	r.device = dialTest(t, url, fmt.Sprint("device-", number))
	r.watch(dialTest(t, url, fmt.Sprint("watcher-", number)))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	r.ended = ended
	go func() { ended <- r.service.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("run: %v", err)
			}
		case <-time.After(testrig.Patience):
			t.Error("the service did not stop")
		}
	})
	t.Cleanup(r.stop)
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("run: %v", err)
	case <-time.After(testrig.Patience):
		t.Fatal("the service does not get ready")
	}
	return r
}

// paramsOf returns the parameters of a test's streams, which are all the same.
func paramsOf(cfg *config.Evaluator) string {
	switch {
	case len(cfg.Streams) > 0:
	case len(cfg.Classes) > 0:
		return cfg.Classes[0].Streams[0].Params
	default:
		return "edge12-d1"
	}
	return cfg.Streams[0].Params
}

func (r *rig) publish(topic string, payload []byte) {
	r.t.Helper()
	if err := r.device.Publish(testrig.Context(r.t), topic, payload, false); err != nil {
		r.t.Fatal(err)
	}
}

// send publishes a sealed object in chunks.
func (r *rig) send(topic string, sealed []byte) {
	r.t.Helper()
	pieces, err := transport.Split(sealed, int(r.cfg.Broker.ChunkSize))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range pieces {
		b, err := pieces[i].Marshal()
		if err != nil {
			r.t.Fatal(err)
		}
		r.publish(topic, b)
	}
}

// watch verifies results like the key holder.
func (r *rig) watch(c transport.Client) {
	r.t.Helper()
	trust := transport.NewTrustStore()
	if err := trust.AddEvaluator(signer(r.t, "cloud").Public()); err != nil {
		r.t.Fatal(err)
	}
	v, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust,
		Kinds:  []transport.Kind{transport.KindResult},
		Params: [][32]byte{r.ctx.Parameters().Hash()}, Keys: []transport.KeyRef{{
			ID: r.keys.KeyID, Epoch: r.keys.Epoch}}})
	if err != nil {
		r.t.Fatal(err)
	}
	recv := transport.NewReceiver(transport.Limits{}, func(s transport.Staged) error {
		defer s.Done()
		topic, sealed := s.Topic, s.Sealed
		obj, err := transport.Open(sealed, v)
		if err != nil {
			r.t.Errorf("result on %s: %v", topic, err)
			return nil
		}
		r.results <- obj
		return nil
	})
	ctx := testrig.Context(r.t)
	for _, filter := range []string{transport.ResultFilter(r.cfg.Broker.TopicPrefix), "other/#"} {
		if err := c.Subscribe(ctx, filter, func(d transport.Delivery) {
			_ = recv.Feed(d.Topic,
				d.Payload)
			d.Ack()
		}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// reading is a window that a test may spoil before it is sealed.
type reading struct {
	meta   transport.Meta
	body   []byte
	signer *transport.SigningKey
	topic  string
}

// window makes an honest reading: channel 0 holds temp, channel 1 load.
func (r *rig) window(device, name string, seq uint64, start time.Time, temp, load []float64) *reading {
	r.t.Helper()
	st := findStream(r.cfg, device, name).Stream
	p, at := r.ctx.Parameters(), config.PlaceOf(device, st.Places)
	first := st.Place(at, p.Slots())
	u := make([]float64, first+st.Slots())
	for ch, values := range [][]float64{temp, load} {
		mid, half := st.Channels[ch].Affine()
		for i, v := range values {
			u[first+ch*st.Stride()+i] = (v - mid) / half
		}
	}
	ct, err := r.enc.EncryptReal(u, p.MaxLevel(), 0, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	body, err := r.ctx.MarshalCiphertext(ct)
	if err != nil {
		r.t.Fatal(err)
	}
	m := transport.Meta{Kind: transport.KindReading, Device: device, Stream: name, KeyID: r.keys.KeyID,
		KeyEpoch:  r.keys.Epoch,
		BootEpoch: 7, Sequence: seq, Params: p.Hash(), Layout: st.LayoutHash(), Level: ct.Level, Scale: ct.Scale,
		Start: start.UnixNano(), End: start.Add(time.Second).UnixNano(), Samples: uint32(len(temp)),
		Place: uint32(at)}
	return &reading{m, body, signer(r.t, device), transport.ReadingTopic(r.cfg.Broker.TopicPrefix, device, name)}
}

func (r *rig) seal(w *reading) []byte {
	r.t.Helper()
	sealed, err := transport.Seal(w.meta, w.body, w.signer)
	if err != nil {
		r.t.Fatal(err)
	}
	return sealed
}

func (r *rig) sendWindow(w *reading) [32]byte {
	r.t.Helper()
	sealed := r.seal(w)
	r.send(w.topic, sealed)
	return transport.ObjectID(sealed)
}

// result waits for the next result, until it is counted, and reads it.
func (r *rig) result() (*transport.Object, []float64) {
	r.t.Helper()
	select {
	case obj := <-r.results:
		// The broker delivers before the service knows that it took it.
		r.event = testrig.Receive(r.t, "the event of the result", r.events)
		ct, err := r.ctx.UnmarshalCiphertext(obj.Body)
		if err != nil {
			r.t.Fatal(err)
		}
		if err := obj.Meta.CheckBody(r.ctx.Parameters().Hash(), ct.Level, ct.Scale); err != nil {
			r.t.Fatal(err)
		}
		slots, err := r.dec.DecryptReal(ct)
		if err != nil {
			r.t.Fatal(err)
		}
		p := obj.Meta.Post
		out := make([]float64, p.Count)
		for i := range out {
			out[i] = p.A*slots[p.Slot+i] + p.B
			if p.Sqrt {
				out[i] = math.Sqrt(max(out[i], 0))
			}
		}
		return obj, out
	case reason := <-r.refused:
		r.t.Fatalf("refused (%s) instead of a result", reason)
	case <-time.After(testrig.Patience):
		r.t.Fatal("no result")
	}
	return nil, nil
}

// expect waits for a result within its promised error of want.
func (r *rig) expect(name string, want ...float64) *transport.Object {
	r.t.Helper()
	obj, got := r.result()
	if obj.Meta.Program != name || len(got) != len(want) {
		r.t.Fatalf("result of %s with %d values, want %s with %d", obj.Meta.Program, len(got), name, len(want))
	}
	for i := range got {
		if d := math.Abs(got[i] - want[i]); !(d <= obj.Meta.Post.Bound) {
			r.t.Errorf("%s[%d] = %g, want %g within %g", name, i, got[i], want[i], obj.Meta.Post.Bound)
		}
	}
	return obj
}

// expectRefusal waits for one refusal.
func (r *rig) expectRefusal(reason string) {
	r.t.Helper()
	select {
	case got := <-r.refused:
		if got != reason {
			r.t.Fatalf("refused as %q, want %q", got, reason)
		}
	case obj := <-r.results:
		r.t.Fatalf("result of %s instead of a refusal", obj.Meta.Program)
	case <-time.After(testrig.Patience):
		r.t.Fatalf("no refusal, want %q", reason)
	}
}

func average(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s / float64(len(v))
}

// numbers are n samples that differ from window to window.
func numbers(n int, from, step float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = from + step*float64(i)
	}
	return v
}

func wantError(t *testing.T, err, want error, parts ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func findStream(cfg *config.Evaluator, device, stream string) *config.DeviceStream {
	for i := range cfg.Streams {
		if s := &cfg.Streams[i]; s.Device == device && s.Name == stream {
			return s
		}
	}
	for i := range cfg.Classes {
		if s := cfg.Classes[i].Stream(stream); s != nil {
			return &config.DeviceStream{Device: device, Stream: *s}
		}
	}
	return nil
}
