package agent

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker/mosquitto"
	"github.com/hencedge/hencedge/transport/delivery"
	"github.com/hencedge/hencedge/transport/mqtt"
)

// compactSite is what a key holder makes for the compact windows of board1.
type compactSite struct {
	set    *keyholder.Set
	dir    string // the export for the agent
	board  *secret.Key
	secret []int32 // of the board
	params henc.Parameters
	id     [16]byte
}

func newCompactSite(t *testing.T) *compactSite {
	t.Helper()
	p := must(henc.Named("boot15"))(t)
	set := must(keyholder.Create(filepath.Join(t.TempDir(), "keys"), keyholder.CreateOptions{Params: p,
		Needs: keyholder.Needs{Rotations: []int{}, NoRelinearise: true}}))(t)
	must(set.AddDevice("board1", keyholder.DeviceOptions{}))(t)
	s := &compactSite{set: set, dir: filepath.Join(t.TempDir(), "for-board1"), params: p}
	must(set.Export(keyholder.RoleAgent, s.dir, keyholder.ExportOptions{Device: "board1"}))(t)
	ctx := must(henc.NewContext(must(compact.Named("compact12"))(t)))(t)
	s.board = must(secret.Unmarshal(ctx, must(os.ReadFile(filepath.Join(s.dir, "board.key")))(t)))(t)
	s.secret = must(s.board.Coefficients())(t)
	m := set.Manifest()
	s.id = must(m.Current().ID())(t)
	return s
}

// use gives a configuration the board's key, and makes its streams compact.
func (s *compactSite) use(t *testing.T, cfg *config.Agent, precision int) *config.Agent {
	t.Helper()
	m := s.set.Manifest()
	cfg.Keys = config.AgentKeys{BoardKey: filepath.Join(s.dir, "board.key"), Holder: m.Fingerprint()}
	for i := range cfg.Streams {
		cfg.Streams[i] = compacted(cfg.Streams[i], precision)
	}
	cfg.SetDefaults()
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// compacted is a stream in mode compact.
func compacted(s config.Stream, precision int) config.Stream {
	s.Mode, s.Precision, s.Packing, s.Params, s.Level = config.ModeCompact, precision, "", "boot15", nil
	s.SetDefaults()
	return s
}

// compactDeps are testDeps without keys.
func compactDeps(t *testing.T, client transport.Client) Deps {
	t.Helper()
	deps, _ := testDeps(t, client)
	deps.Context, deps.PublicKey = nil, nil
	return deps
}

// known is the part of a window's header that does not travel.
func (s *compactSite) known(stream config.Stream) transport.Meta {
	return transport.Meta{Device: "board1", Stream: stream.Name, KeyID: s.id, Params: s.params.Hash(),
		Layout: stream.LayoutHash(), Scale: compact.Scale()}
}

// read decrypts a window in plain integers, into physical units by channel.
func (s *compactSite) read(t *testing.T, stream config.Stream, o *transport.Object) [][]float64 {
	t.Helper()
	w := must(compact.Unmarshal(s.board.Context().Parameters(), o.Body))(t)
	m := o.Meta
	c1 := must(w.Uniform(compact.Origin{Device: m.Device, Stream: m.Stream, KeyID: m.KeyID, KeyEpoch: m.KeyEpoch,
		BootEpoch: m.BootEpoch, Sequence: m.Sequence}))(t)
	q, n := int64(w.Params.Q()[0]), len(c1)
	readings := make([]float64, len(w.Values))
	for j, v := range w.Values {
		sum, k := int64(0), j*compact.Stride(n, len(w.Values))
		for i, a := range c1 {
			if x := int64(a) * int64(s.secret[((k-i)%n+n)%n]); i <= k {
				sum += x
			} else {
				sum -= x
			}
		}
		phase := math.Mod(float64(int64(v)*q)/math.Exp2(float64(w.Precision.Bits()))+float64(sum%q), float64(q))
		readings[j] = (phase - float64(q)*math.Round(phase/float64(q))) / compact.Scale()
	}
	slots, out := compact.Order(readings), make([][]float64, len(stream.Channels)) // Order is its own inverse
	for c, ch := range stream.Channels {
		mid, half := ch.Affine()
		for i := range int(m.Samples) {
			out[c] = append(out[c], mid+half*slots[c*stream.Stride()+i])
		}
	}
	return out
}

// TestCompactStreams: compact windows of sensors and of a file, partial ones among them, are one message each, within
// the sizes that are promised, and decrypt to what was measured.
func TestCompactStreams(t *testing.T) {
	site := newCompactSite(t)
	const precision = 12
	cfg := testConfig(t)
	var text strings.Builder
	text.WriteString("t,a,b.c\n")
	for i := range 150 {
		fmt.Fprintf(&text, "%d,%d,%g\n", 1_790_000_000+i, i%20-10, float64(i%7)-5)
	}
	replay := inputtest.ReplayStream(t, "x.csv", text.String(),
		func(r *config.Replay) { r.TimeFormat, r.Speed = "unix", "fast" })
	replay.Window.Samples, replay.Channels = 64, replay.Channels[:1]
	single := replay
	single.Name, single.Window.Samples = "single", 1
	cfg.Streams = append(cfg.Streams, replay, single)
	site.use(t, cfg, precision)
	client := &fakeClient{}
	deps := compactDeps(t, client)
	var mu sync.Mutex
	truth := map[[32]byte]Observation{}
	deps.Observer = func(o Observation) {
		mu.Lock()
		defer mu.Unlock()
		truth[o.Object] = o
	}
	a, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := site.compare(t, cfg, precision, client.messages, truth)
	for stream, want := range map[string]int{"system": 1, "r": 1, "single": 1} {
		if seen[stream] < want {
			t.Errorf("%d windows of stream %s", seen[stream], stream)
		}
	}
	if r := a.Report(); r.Keys.Mode != "compact" || r.Keys.Params != "boot15" || r.Keys.Epoch != 1 {
		t.Errorf("report %+v", r.Keys)
	}
}

// compare holds windows to what was measured, and counts them by stream.
func (s *compactSite) compare(t *testing.T, cfg *config.Agent, precision int, messages []transport.Message,
	truth map[[32]byte]Observation) map[string]int {
	t.Helper()
	v := newVerifier(t)
	seen := map[string]int{}
	for _, m := range messages {
		if !strings.Contains(m.Topic, "/up/") {
			continue
		}
		if !transport.IsShort(m.Payload) || len(m.Payload) > 350 {
			t.Fatalf("a message of %d bytes on %s", len(m.Payload), m.Topic)
		}
		for _, stream := range cfg.Streams {
			if m.Topic != transport.ReadingTopic(cfg.Broker.TopicPrefix, "board1", stream.Name) {
				continue
			}
			o := must(v.OpenShort(s.known(stream), m.Payload))(t)
			want, ok := truth[o.ID]
			if !ok || want.Sealed != len(m.Payload) || want.Body != len(o.Body) || want.Chunks != 1 {
				t.Fatalf("%+v of a message of %d bytes", want, len(m.Payload))
			}
			s.sameValues(t, stream, precision, o, want.Values)
			seen[stream.Name]++
		}
	}
	return seen
}

// sameValues compares a window with what was measured.
func (s *compactSite) sameValues(t *testing.T, stream config.Stream, precision int, o *transport.Object,
	want [][]float64) {
	t.Helper()
	got := s.read(t, stream, o)
	for c, ch := range stream.Channels {
		if len(got[c]) != len(want[c]) {
			t.Fatalf("%s: %d samples of %s, want %d", stream.Name, len(got[c]), ch.Name, len(want[c]))
		}
		_, half := ch.Affine()
		for i, x := range got[c] {
			if d := math.Abs(x - want[c][i]); d > half*compact.Precision(precision).Bound()*1.000001 {
				t.Errorf("%s: sample %d of %s is %g, want %g", stream.Name, i, ch.Name, x, want[c][i])
			}
		}
	}
}

func newVerifier(t *testing.T) *transport.Verifier {
	t.Helper()
	trust := must(transport.TrustKeys(map[string]ed25519.PublicKey{"board1": keysFor(t).signing.Public()}))(t)
	return must(transport.NewVerifier(transport.VerifierOptions{Trust: trust, AnyParams: true, AnyKey: true}))(t)
}

// TestCompactKeyRefusals: each mistake about the board's key is named where it is.
func TestCompactKeyRefusals(t *testing.T) {
	site := newCompactSite(t)
	other := newCompactSite(t)
	copied := func(t *testing.T, from *compactSite, names ...string) string {
		t.Helper()
		dir := t.TempDir()
		for _, name := range names {
			b := must(os.ReadFile(filepath.Join(from.dir, name)))(t)
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	all := []string{"board.key", "keyset.json", "keyset.cose"}
	for name, c := range map[string]struct {
		edit func(t *testing.T, cfg *config.Agent)
		want string
	}{
		"good":            {func(*testing.T, *config.Agent) {}, ""},
		"without the set": {func(t *testing.T, cfg *config.Agent) { cfg.Keys.BoardKey += "x" }, "no such file"},
		"another device": {func(t *testing.T, cfg *config.Agent) { cfg.Device = "board2" },
			`keys.board_key: key file .*: it is not the key of the device "board2"; it is for board1`},
		"another holder": {func(t *testing.T, cfg *config.Agent) {
			m := other.set.Manifest()
			cfg.Keys.Holder = m.Fingerprint()
		}, "keys.holder: keys of another key holder"},
		"another board's secret": {func(t *testing.T, cfg *config.Agent) {
			dir := copied(t, site, all...)
			b := must(os.ReadFile(filepath.Join(other.dir, "board.key")))(t)
			if err := os.WriteFile(filepath.Join(dir, "board.key"), b, 0o600); err != nil {
				t.Fatal(err)
			}
			cfg.Keys.BoardKey = filepath.Join(dir, "board.key")
		}, "the signed manifest names"},
		"no manifest": {func(t *testing.T, cfg *config.Agent) {
			cfg.Keys.BoardKey = filepath.Join(copied(t, site, "board.key"), "board.key")
			cfg.Keys.Holder = config.HolderNone
		}, "its export"},
		"a public key": {func(t *testing.T, cfg *config.Agent) {
			dir := copied(t, site, append(all, "public.key")...)
			cfg.Keys.BoardKey = filepath.Join(dir, "public.key")
		}, "wrong kind"},
		"readable by all": {func(t *testing.T, cfg *config.Agent) {
			cfg.Keys.BoardKey = filepath.Join(copied(t, site, all...), "board.key")
			if err := os.Chmod(cfg.Keys.BoardKey, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "users other than its owner can read it"},
		"other parameters": {func(t *testing.T, cfg *config.Agent) { cfg.Streams[0].Params = "boot16" },
			"its key set is for boot15, the streams are for boot16"},
		"too precise": {func(t *testing.T, cfg *config.Agent) { cfg.Streams[0] = compacted(cfg.Streams[0], 16) },
			`streams\[0\].precision: .*the noise of boot15 is too large for a precision of 16 bits`},
		"an insecure set": {func(t *testing.T, cfg *config.Agent) { cfg.Streams[0].Params = "boot10-insecure" },
			"streams\\[0\\].params"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := site.use(t, testConfig(t), 12)
			c.edit(t, cfg)
			err := plan.Check(cfg, compactDeps(t, &fakeClient{}).options())
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !matches(c.want, err.Error())):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestCompactRenumber: a compact window whose number is in use elsewhere keeps it, and the next ones get others.
func TestCompactRenumber(t *testing.T) {
	site := newCompactSite(t)
	client := &fakeClient{}
	a := must(New(site.use(t, testConfig(t), 12), compactDeps(t, client)))(t)
	defer a.Close()
	boot := a.state.Boot()
	m := site.known(a.cfg.Streams[0])
	m.Kind, m.BootEpoch, m.Sequence, m.Samples, m.End = transport.KindReading, boot, 3, 4, 9
	sealed := must(transport.SealShort(m, []byte("window"), keysFor(t).signing))(t)
	if _, err := a.renumber(sealed); !errors.Is(err, delivery.ErrNumbered) {
		t.Errorf("renumbered: %v", err)
	}
	renewed := a.state.Boot()
	if renewed <= boot {
		t.Errorf("the boot epoch is %d after %d", renewed, boot)
	}
	if _, err := a.renumber(sealed); !errors.Is(err, delivery.ErrNumbered) || a.state.Boot() != renewed {
		t.Errorf("renumbered again: %v, boot epoch %d after %d", err, a.state.Boot(), renewed)
	}
	if _, err := a.renumber([]byte{0x84}); !errors.Is(err, delivery.ErrNumbered) {
		t.Errorf("damaged: %v", err)
	}
}

// TestCompactExactlyOnce: compact windows of a replay arrive exactly once and in order through a real broker, over a
// restart with a full spool and receipts that are lost.
func TestCompactExactlyOnce(t *testing.T) {
	b := mosquitto.Start(t, nil, "allow_anonymous true\nlog_type none\n")
	site := newCompactSite(t)
	const samples = 1000
	cfg := testConfig(t)
	cfg.Streams[0] = numbered(t, samples)
	cfg.Streams[0].Channels = cfg.Streams[0].Channels[:1]
	cfg.Streams[0].Channels[0].Range = [2]float64{0, 64}
	cfg.Streams[0].Window.Samples = 64
	cfg.Streams[0].Replay.Speed = "fast"
	cfg.Broker.URL, cfg.Broker.Insecure = b.URL, true
	cloud := must(transport.NewSigningKey())(t)
	cfg.Delivery = config.Delivery{Ack: config.AckEvaluator, ReceiptTimeout: time.Second,
		RetryMin: 100 * time.Millisecond, Evaluators: []config.Signer{{Name: "cloud", PublicKey: cloud.PublicText()}}}
	site.use(t, withSpool(t, cfg, filepath.Join(t.TempDir(), "spool")), 12)
	cfg.StopTimeout = testrig.Patience
	away := &fakeClient{fail: func(topic string) error {
		if strings.Contains(topic, "/up/") {
			return errors.New("the broker is away")
		}
		return nil
	}}
	runUntil(t, cfg, compactDeps(t, away), 5, 300*time.Millisecond)

	far := newCompactEnd(t, b.URL, site, cfg.Streams[0], cloud)
	deps := compactDeps(t, nil)
	deps.Client = nil
	a := runUntil(t, cfg, deps, -1, cfg.StopTimeout)
	if st := a.Stats(); st.Spool.Objects != 0 || st.Spool.Recovered < 5 || st.Delivery.Dropped != 0 {
		t.Errorf("%+v, %+v", st.Spool, st.Delivery)
	}
	far.mu.Lock()
	defer far.mu.Unlock()
	if len(far.values) != samples || far.lost == 0 {
		t.Fatalf("%d of %d samples, %d receipts were lost", len(far.values), samples, far.lost)
	}
	for i, x := range far.values {
		if d := math.Abs(x - float64(i%50)); d > 32*compact.Bits12.Bound()*1.000001 {
			t.Fatalf("sample %d is %g", i, x)
		}
	}
}

// runUntil runs an agent until its replay ends, or until it has sealed so many windows.
func runUntil(t *testing.T, cfg *config.Agent, deps Deps, windows int, stop time.Duration) *Agent {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*testrig.Patience)
	defer cancel()
	deps.Clock = role.SystemClock()
	n := 0
	deps.Observer = func(Observation) {
		if n++; n == windows {
			cancel()
		}
	}
	a := must(New(cfg, deps))(t)
	limited := *cfg
	limited.StopTimeout = stop
	a.cfg = &limited
	if err := a.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return a
}

// compactEnd is a receiver of compact windows that signs receipts; every third is lost.
type compactEnd struct {
	t      *testing.T
	site   *compactSite
	stream config.Stream
	client transport.Client
	key    *transport.SigningKey
	rx     *transport.Receiver
	opener *transport.Verifier
	work   sync.WaitGroup // receipts that are on their way

	mu     sync.Mutex
	taken  map[[32]byte]bool
	values []float64
	lost   int
	seq    uint64
}

func newCompactEnd(t *testing.T, url string, site *compactSite, stream config.Stream,
	key *transport.SigningKey) *compactEnd {
	t.Helper()
	e := &compactEnd{t: t, site: site, stream: stream, key: key, taken: map[[32]byte]bool{}, opener: newVerifier(t)}
	e.rx = transport.NewReceiver(transport.Limits{}, func(s transport.Staged) error {
		defer s.Done()
		e.take(s)
		return nil
	})
	e.client = must(mqtt.Dial(t.Context(), mqtt.Options{URL: url, ClientID: "cloud", Logger: testrig.Quiet()}))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = e.client.Close(ctx)
		e.work.Wait()
	})
	subscribe := func(topic string, h func(transport.Delivery)) {
		if err := e.client.Subscribe(t.Context(), topic, h); err != nil {
			t.Fatal(err)
		}
	}
	subscribe(transport.DefaultPrefix+"/up/+/+", func(d transport.Delivery) {
		defer d.Ack()
		if err := e.rx.Feed(d.Topic, d.Payload); err != nil && !errors.Is(err, transport.ErrReplayed) {
			t.Error(err)
		}
	})
	asks := must(transport.NewVerifier(transport.VerifierOptions{Trust: trustBoard(t),
		Kinds: []transport.Kind{transport.KindAsk}, AnyKey: true, AnyParams: true}))(t)
	subscribe(transport.AskTopic(transport.DefaultPrefix, "board1"), func(d transport.Delivery) {
		defer d.Ack()
		e.answer(asks, d)
	})
	return e
}

func trustBoard(t *testing.T) *transport.TrustStore {
	t.Helper()
	return must(transport.TrustKeys(map[string]ed25519.PublicKey{"board1": keysFor(t).signing.Public()}))(t)
}

// take takes a window that is new.
func (e *compactEnd) take(s transport.Staged) {
	o, err := e.opener.OpenShort(e.site.known(e.stream), s.Sealed)
	if errors.Is(err, transport.ErrReplayed) {
		return
	}
	if err != nil {
		e.t.Error(err)
		return
	}
	values := e.site.read(e.t, e.stream, o)
	e.mu.Lock()
	e.values, e.taken[o.ID] = append(e.values, values[0]...), true
	lose := len(e.taken)%3 == 0
	if lose {
		e.lost++
	}
	e.mu.Unlock()
	if !lose {
		e.work.Go(func() { e.send(transport.ReceiptItem{Object: o.ID, Outcome: transport.Taken}) })
	}
}

// answer answers an ask.
func (e *compactEnd) answer(v *transport.Verifier, d transport.Delivery) {
	sealed, err := transport.ReadWhole(d.Payload, 0)
	var o *transport.Object
	if err == nil {
		o, err = v.OpenFrom(d.Topic, sealed)
	}
	var a *transport.Ask
	if err == nil {
		a, err = transport.UnmarshalAsk(o.Body)
	}
	if err != nil {
		e.t.Error(err)
		return
	}
	for _, it := range a.Items {
		out := transport.ReceiptItem{Object: it.Object, Outcome: transport.Unknown}
		e.mu.Lock()
		if e.taken[it.Object] {
			out.Outcome = transport.Taken
		}
		e.mu.Unlock()
		if it.Total != 1 || it.Size > 350 {
			e.t.Errorf("asked for %+v", it)
		}
		e.work.Go(func() { e.send(out) })
	}
}

func (e *compactEnd) send(it transport.ReceiptItem) {
	payload, err := transport.SealReceipt(transport.Receipt{To: "board1", Items: []transport.ReceiptItem{it}}, "cloud",
		e.key, time.Now(), func() (uint64, uint64) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.seq++
			return 1, e.seq
		})
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), testrig.Patience)
		defer cancel()
		err = e.client.Publish(ctx, transport.ReceiptTopic(transport.DefaultPrefix, "board1"), payload, false)
	}
	if err != nil && e.t.Context().Err() == nil {
		e.t.Error(err)
	}
}

func must[T any](v T, err error) func(testing.TB) T { return testenv.Must(v, err) }

func matches(pattern, text string) bool {
	return regexp.MustCompile("(?s)" + pattern).MatchString(text)
}
