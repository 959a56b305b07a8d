package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker"
	"github.com/hencedge/hencedge/transport/mqtt"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// site is a directory with everything that an agent reads, and a broker.
type site struct {
	dir    string
	ca     *tlsutil.DevCA
	broker *broker.Broker
	keys   *testKeys
}

const e2eConfig = `device: board1
broker: {url: "%s", ca: ca.pem, cert: client.pem, key: client.key, username: board1, password: "file:password", ` +
	`chunk_size: 8KiB}
keys: {public_key: public.key, holder: none}
signing_key: signing.key
state: agent.state
streams:
  - name: system
    interval: 30ms
    window: {samples: 8}
    params: edge12-d1
    channels:
      - {name: cpu, unit: "%%", range: [0, 100], source: {type: cpu}}
      - {name: memory, unit: "%%", range: [0, 100], source: {type: memory}}
      - {name: load, unit: "1", range: [0, 1024], source: {type: load}}
  - name: aligned
    interval: 20ms
    window: {every: 200ms}
    params: edge12-d1
    level: 0
    channels:
      - {name: used, unit: GiB, range: [0, 4096], source: {type: memory, field: used, scale: 9.313225746154785e-10}}
`

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{dir: t.TempDir(), keys: keysFor(t)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	s.ca, err = tlsutil.NewDevCA("test")
	must(err)
	server, err := s.ca.ServerConfig(true)
	must(err)
	s.broker = testrig.Broker(t,
		broker.Options{TLS: server, Users: map[string]string{"board1": "s3cret", "reader": "r"}})
	client, err := s.ca.Client("board1")
	must(err)
	cert, key, err := tlsutil.PEM(client)
	must(err)
	public, err := s.keys.ctx.MarshalPublicKey(s.keys.public)
	must(err)
	secretKey, err := s.keys.secret.Marshal()
	must(err)
	for name, data := range map[string][]byte{"ca.pem": s.ca.PEM(), "client.pem": cert, "client.key": key,
		"password":   []byte("s3cret\n"),
		"public.key": public, "secret.key": secretKey, "agent.yaml": fmt.Appendf(nil, e2eConfig, s.broker.URL())} {
		must(os.WriteFile(filepath.Join(s.dir, name), data, 0o600))
	}
	must(s.keys.signing.Save(filepath.Join(s.dir, "signing.key")))
	return s
}

func (s *site) load(t *testing.T) *config.Agent {
	t.Helper()
	cfg, err := config.LoadAgent(filepath.Join(s.dir, "agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// listen collects messages until stop is called.
func (s *site) listen(t *testing.T) (messages func() []transport.Message) {
	t.Helper()
	tls, err := s.ca.ClientConfig("reader")
	if err != nil {
		t.Fatal(err)
	}
	c, err := mqtt.Dial(t.Context(), mqtt.Options{URL: s.broker.URL(), ClientID: "reader", Username: "reader",
		Password: func() (string, error) { return "r", nil }, TLS: tls, Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	var mu sync.Mutex
	var got []transport.Message
	if err := c.Subscribe(t.Context(), config.DefaultTopicPrefix+"/#", func(d transport.Delivery) {
		mu.Lock()
		got = append(got, transport.Message{Topic: d.Topic, Payload: d.Payload, Retain: d.Retained})
		mu.Unlock()
		d.Ack()
	}); err != nil {
		t.Fatal(err)
	}
	return func() []transport.Message {
		mu.Lock()
		defer mu.Unlock()
		return append([]transport.Message(nil), got...)
	}
}

// This machine's own sensors, keys and certificates from files, MQTT over
// mutual TLS: what arrives decrypts to what was measured.
func TestEndToEnd(t *testing.T) {
	s := newSite(t)
	cfg := s.load(t)
	if err := plan.Check(cfg, Deps{Logger: testrig.Quiet()}.options()); err != nil {
		t.Fatal(err)
	}
	messages := s.listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	truth := map[[32]byte]Observation{}
	streams := map[string]int{}
	a, err := New(cfg, Deps{Logger: testrig.Quiet(), Observer: func(o Observation) {
		mu.Lock()
		defer mu.Unlock()
		truth[o.Object] = o
		if streams[o.Meta.Stream]++; streams["system"] >= 2 && streams["aligned"] >= 2 {
			cancel()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(ctx); err != nil {
		t.Fatal(err)
	}
	// The agent had every PUBACK; the reader may still be receiving.
	var readings, status []*transport.Object
	complete := testrig.Poll(func() bool {
		readings, status = opened(t, s.keys, "board1", messages())
		return len(readings) == len(truth) && len(status) == 2
	})
	if !complete || len(readings) < 4 {
		t.Fatalf("%d readings of %d, %d status messages", len(readings), len(truth), len(status))
	}
	for _, o := range readings {
		want, ok := truth[o.ID]
		if !ok {
			t.Fatalf("an object that was not sent arrived")
		}
		st := cfg.Streams[0]
		if o.Meta.Stream == "aligned" {
			st = cfg.Streams[1]
			if every := int64(200 * time.Millisecond); o.Meta.Start%every != 0 || o.Meta.End-o.Meta.Start != every ||
				o.Meta.Level != 0 {
				t.Errorf("a window by time is not aligned: %+v", o.Meta)
			}
		}
		sameValues(t, st, decrypted(t, s.keys, st, o), want.Values)
		if want.Chunks < 3 {
			t.Errorf("%d bytes in %d chunks of 8 KiB", want.Sealed, want.Chunks)
		}
	}
	if values := truth[readings[0].ID].Values; values[len(values)-1][0] == 0 && math.IsNaN(values[0][0]) {
		t.Error("no real values")
	}
}

// severed reads as if the other side had gone, where net.Conn would tell that
// it was closed here.
type severed struct{ net.Conn }

func (s severed) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if errors.Is(err, net.ErrClosed) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// When the connection breaks without a goodbye, the broker publishes the last
// will, and the agent reports itself again when it is back.
func TestLastWill(t *testing.T) {
	s := newSite(t)
	messages := s.listen(t)
	a, err := New(s.load(t), Deps{Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	o, err := a.options(false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testrig.Patience)
	defer cancel()
	var once sync.Once
	first := make(chan net.Conn, 1)
	o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		once.Do(func() { first <- c })
		return severed{c}, nil
	}
	c, err := mqtt.Dial(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	wait := func(n int) []transport.Message {
		testrig.Eventually(t, fmt.Sprintf("%d messages", n), func() bool { return len(distinct(messages())) >= n })
		return distinct(messages())
	}
	wait(1)
	(<-first).Close()
	_, status := opened(t, s.keys, "board1", wait(3))
	end, err := tlsutil.Files{Cert: filepath.Join(s.dir, "client.pem")}.CertificateEnd()
	if err != nil {
		t.Fatal(err)
	}
	var online []bool
	for _, o := range status {
		st, err := transport.UnmarshalStatus(o.Body)
		if err != nil {
			t.Fatal(err)
		}
		online = append(online, st.Online)
		if st.CertificateEnd != end.UnixNano() {
			t.Errorf("the certificate ends %d, the status says %d", end.UnixNano(), st.CertificateEnd)
		}
	}
	// The will can overtake neither birth of its own connection, but the second
	// birth may come before the broker has noticed the loss of the first.
	if len(online) < 3 || !online[0] || online[1] == online[2] {
		t.Errorf("online: %v", online)
	}
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestWrongPassword(t *testing.T) {
	s := newSite(t)
	if err := os.WriteFile(filepath.Join(s.dir, "password"), []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := New(s.load(t), Deps{Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testrig.Patience)
	defer cancel()
	if err := a.Once(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("got %v", err)
	}
}

// Plan's sizes are those of the window that is sent next.
func TestPlanIsExact(t *testing.T) {
	s := newSite(t)
	for _, mode := range []config.KeyMode{config.KeyModePublic, config.KeyModeSymmetric} {
		cfg := s.load(t)
		if mode == config.KeyModeSymmetric {
			cfg.Keys = config.AgentKeys{Mode: mode, SecretKey: filepath.Join(s.dir, "secret.key"),
				Holder: config.HolderNone}
		}
		p, err := plan.Predict(cfg, Deps{Logger: testrig.Quiet()}.options(), 1e9)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]Observation{}
		var mu sync.Mutex
		client := &fakeClient{}
		a, err := New(cfg, Deps{Client: client, Logger: testrig.Quiet(), Observer: func(o Observation) {
			mu.Lock()
			defer mu.Unlock()
			seen[o.Meta.Stream] = o
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, o := range p.Streams {
			got := seen[o.Name]
			if o.BodyBytes != got.Body || o.Chunks != got.Chunks || int64(got.Sealed) != int64(o.ObjectBytes) {
				t.Errorf("%s, %s: predicted %d in %d (%d chunks), got %d in %d (%d chunks)", mode, o.Name, o.BodyBytes,
					o.ObjectBytes, o.Chunks, got.Body, got.Sealed, got.Chunks)
			}
			if o.LogScale != math.Log2(got.Meta.Scale) || o.Level != got.Meta.Level {
				t.Errorf("%s: level %d scale 2^%v, got %+v", o.Name, o.Level, o.LogScale, got.Meta)
			}
			wire := 0
			for _, m := range client.messages {
				if strings.HasSuffix(m.Topic, "/"+o.Name) {
					wire += 2 + len(m.Topic) + 2 + len(m.Payload) + 1
					for v := 2 + len(m.Topic) + 2 + len(m.Payload); v > 0; v >>= 7 {
						wire++
					}
				}
			}
			if wire != o.WireBytes {
				t.Errorf("%s: predicted %d bytes on the wire, got %d", o.Name, o.WireBytes, wire)
			}
			if len(o.Channels) == 0 || o.Channels[0].Bound <= o.Channels[0].Error || o.PrecisionBits < 5 ||
				o.EncryptMs <= 0 || o.BytesPerDay <= 0 {
				t.Errorf("%+v", o)
			}
		}
		if want := p.BytesPerDay * 8 / 86400 / 1e9; math.Abs(p.Link-want) > 1e-12 || p.CPU <= 0 ||
			p.MessagesPerDay < p.Streams[0].WindowsPerDay {
			t.Errorf("link %v, want %v; %+v", p.Link, want, p)
		}
		if p.QueueSeconds <= 0 || p.StateWritesPerDay <= 0 || p.BytesPerDay <= p.Streams[0].BytesPerDay {
			t.Errorf("%+v", p)
		}
		if _, err := json.Marshal(p); err != nil {
			t.Error(err)
		}
	}
}

// A plan needs neither keys nor sensors.
func TestPlanWithoutKeys(t *testing.T) {
	cfg := testConfig(t)
	cfg.Streams[0].Channels[0].Source.Zone = "reactor"
	p, err := plan.Predict(cfg, Deps{Logger: testrig.Quiet(), Root: "testdata/board"}.options(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(p.Warnings, "\n"), "reactor") {
		t.Errorf("no warning about the sensor: %q", p.Warnings)
	}
	if p.Link <= 1 || len(p.Refusals) == 0 || !strings.Contains(p.Refusals[len(p.Refusals)-1], "uplink") {
		t.Errorf("a link of one bit per second is enough: %+v", p)
	}
	if _, err := os.Stat(cfg.State); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the plan made a state file: %v", err)
	}
	large := *cfg
	large.Streams = []config.Stream{cfg.Streams[0]}
	large.Streams[0].Params, large.Queue.Bytes = "std14-d5", config.MiB
	if p, err = plan.Predict(&large, Deps{Logger: testrig.Quiet(), Root: "testdata/board"}.options(), 0); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(p.Refusals, "\n"), "never fits into queue.bytes") || p.MemoryBytes < 20<<20 {
		t.Errorf("a window of %d bytes fits into 1 MiB: %+v", p.Streams[0].ObjectBytes, p)
	}
	large.Queue.Bytes, large.Delivery.Streams = config.GiB,
		[]config.StreamDelivery{{Stream: large.Streams[0].Name, Ack: config.AckBroker, Bytes: config.MiB}}
	if p, err = plan.Predict(&large, Deps{Logger: testrig.Quiet(), Root: "testdata/board"}.options(), 0); err != nil ||
		!strings.Contains(strings.Join(p.Refusals, "\n"), "never fits into delivery.streams[0].bytes") {
		t.Fatalf("its own bound of 1 MiB: %+v, %v", p, err)
	}
	cfg.Streams[0].Window.Samples = 2048
	if _, err := plan.Predict(cfg, Deps{Logger: testrig.Quiet()}.options(), 0); !errors.Is(err, config.ErrInvalid) {
		t.Errorf("too many slots: %v", err)
	}
}
