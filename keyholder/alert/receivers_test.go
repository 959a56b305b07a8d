package alert

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyholder/outlet"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker"
	"github.com/hencedge/hencedge/transport/mqtt"
)

// event returns an event as rules make it.
func event(t testing.TB) *Event {
	t.Helper()
	b := newBench(t, ruled(t, "name: hot, program: mean, when: value > 80, severity: critical"))
	b.take(t, window("board1", 0, 0.25, 81.5))
	b.deliver(t)
	return &b.ops.events()[0]
}

func TestCommand(t *testing.T) {
	e := event(t)
	file := filepath.Join(t.TempDir(), "got")
	sh := func(script string) *command { return &command{[]string{"/bin/sh", "-c", script}} }
	t.Setenv("HENCEDGE_SECRET", "x")
	if err := sh("cat > "+file+"; pwd >> "+file+"; env >> "+file).send(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	line, rest, _ := strings.Cut(string(raw), "\n")
	var got Event
	if err := errors.Join(err, json.Unmarshal([]byte(line), &got)); err != nil || got.ID != e.ID ||
		*got.Value != 81.5 ||
		!strings.Contains(line, `"rule":"value > 80"`) {
		t.Errorf("got %q, %v", line, err)
	}
	if !strings.HasPrefix(rest, "/\n") || strings.Contains(rest, "SECRET") {
		t.Errorf("the command sees %q", rest)
	}
	for script, want := range map[string]string{
		"exit 3":                                "exit status 3",
		"echo 'no pager'; echo why >&2; exit 1": `exit status 1: "why"`,
		"head -c 100000 /dev/zero >&2; exit 1":  "exit status 1",
		"exec 0<&-; kill -9 $$":                 "signal: killed",
		"yes >&2 & echo why >&2; exit 1":        "exit status 1", // yes is killed
	} {
		if err := sh(script).send(t.Context(), e); !errors.Is(err, outlet.ErrRefused) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", script, err)
		}
	}
	if err := (&command{[]string{"/no/such/program"}}).send(t.Context(), e); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	// One that does not end is killed, with what it started.
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		testrig.Poll(func() bool {
			b, _ := os.ReadFile(file)
			return string(b) == "here\n"
		})
		stop()
	}()
	if err := sh("sleep 1000 & echo here > "+file+"; wait").send(ctx, e); !errors.Is(err, outlet.ErrRefused) ||
		!strings.Contains(err.Error(), "was killed") {
		t.Errorf("got %v", err)
	}
}

// secret returns a reference to a file with a text.
func secret(t testing.TB, text string) config.Secret {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Secret("file:" + path)
}

// The signature is that of the Standard Webhooks specification; the example is the one of
// its test suites.
func TestWebhookSignature(t *testing.T) {
	e := event(t)
	const text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	key, err := signingKey(secret(t, text))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	io.WriteString(mac, `msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}`)
	if got := base64.StdEncoding.EncodeToString(mac.Sum(nil)); got != "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("got %s", got)
	}
	var checked bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), body)
		want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		var got Event
		err := json.Unmarshal(body, &got)
		checked = err == nil && r.Header.Get("webhook-signature") == want && r.Header.Get("webhook-id") == e.ID &&
			r.Method == http.MethodPost && r.Header.Get("Content-Type") == "application/json" &&
			r.Header.Get("webhook-timestamp") == "1700000000" && got.ID == e.ID && r.Header.Get("X-Key") == "k"
	}))
	defer server.Close()
	w, err := newWebhook(&config.Webhook{HTTP: config.HTTP{URL: server.URL, Header: "X-Key", Token: secret(t, "k")},
		Secret: secret(t, text)})
	if err != nil {
		t.Fatal(err)
	}
	w.now = func() time.Time { return time.Unix(1700000000, 0) }
	if err := w.send(t.Context(), e); err != nil || !checked {
		t.Errorf("got %v, %v", err, checked)
	}
	for _, bad := range []string{"whsec_!", "short", "whsec_c2hvcnQ="} {
		if _, err := signingKey(secret(t, bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if err := (&webhook{Web: w.Web, secret: "env:HENCEDGE_NOT_SET", now: time.Now}).send(t.Context(),
		e); !errors.Is(err,
		config.ErrSecret) {
		t.Errorf("got %v", err)
	}
}

// What a page answers decides whether it has the event, refuses it or is away.
func TestAnswers(t *testing.T) {
	e := event(t)
	for status, want := range map[int]string{200: "", 202: "", 204: "", 302: "refused", 400: "refused", 401: "refused",
		404: "refused", 408: "away", 425: "away", 429: "away", 500: "away", 502: "away", 503: "away"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			if r.URL.Path == "/elsewhere" {
				t.Error("a redirect was followed")
			}
			w.WriteHeader(status)
		}))
		a, err := newAlertmanager(&config.HTTP{URL: server.URL + "/"})
		if err != nil {
			t.Fatal(err)
		}
		err = a.send(t.Context(), e)
		got := ""
		if errors.Is(err, outlet.ErrRefused) {
			got = "refused"
		} else if err != nil {
			got = "away"
		}
		if got != want {
			t.Errorf("%d: %v", status, err)
		}
		a.close()
		server.Close()
		if err := a.send(t.Context(), e); err == nil || errors.Is(err, outlet.ErrRefused) {
			t.Errorf("after its end: %v", err)
		}
	}
}

// A slow page is given up, and asked again.
func TestSlowPage(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	defer server.Close()
	defer close(release)
	a, err := newAlertmanager(&config.HTTP{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if err := a.send(ctx, event(t)); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, outlet.ErrRefused) {
		t.Errorf("got %v", err)
	}
}

// An alarm that is refused holds up its own events and no others; one that is away holds up
// all, and in the end everything comes in order.
func TestRefusedAndAway(t *testing.T) {
	b := newBench(t, ruled(t, "name: hot, program: mean, when: value > 80"))
	tries := map[string]int{}
	b.ops.fail = func(e *Event) error {
		tries[e.Device]++
		switch {
		case e.Device == "bad" && tries["bad"] < 5:
			return fmt.Errorf("%w: 400", outlet.ErrRefused)
		case e.Device == "away" && tries["away"] < 4:
			return errors.New("away")
		}
		return nil
	}
	for _, device := range []string{"bad", "away", "good"} {
		b.take(t, window(device, 0, 0, 81), window(device, 1, 0, 1))
	}
	b.deliver(t)
	got := b.ops.told()
	last := map[string]string{}
	for _, text := range got {
		device := strings.Fields(strings.SplitN(text, "/", 2)[1])[0]
		state := strings.Fields(text)[0]
		if state == "resolved" != (last[device] == "firing") {
			t.Errorf("%s in %q", text, got)
		}
		last[device] = state
	}
	if len(got) != 6 || slices.Index(got, "firing hot/good 81 x1") > slices.Index(got, "firing hot/bad 81 x1") {
		t.Errorf("got %q", got)
	}
	if b.counts.sent["ops"] != 6 || b.counts.failed["ops"] != 7 {
		t.Errorf("%d sent, %d failed", b.counts.sent["ops"], b.counts.failed["ops"])
	}
	if n := strings.Count(b.log.String(), "was not delivered"); n < 1 || n > 7 {
		t.Errorf("%d lines: %s", n, b.log)
	}
}

// Events wait for a broker that is away, and go to a plain topic with QoS 1.
func TestPublish(t *testing.T) {
	address := testrig.FreeAddress(t)
	cfg := configured(t,
		"  rules: [{name: hot, program: mean, when: value > 80}]\n  receivers: [{name: bus, mqtt: {url: "+
			"\"tcp://"+address+"\", topic: plant/alarms}}]\n")
	b := newBench(t, cfg)
	b.Close()
	var err error
	if b.Alarms, err = Open(Options{Config: cfg, Holder: "home", State: b.file, Logger: b.log.Logger(),
		RetryMin: time.Millisecond, RetryMax: 10 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	b.take(t, window("", 0, 0, 81), window("", 1, 0, 1))
	var run sync.WaitGroup
	ctx, stop := context.WithCancel(testrig.Context(t))
	defer run.Wait()
	defer stop()
	run.Go(func() {
		if err := b.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	testrig.Eventually(t, "a failure", func() bool {
		b.counts.Lock()
		defer b.counts.Unlock()
		return b.counts.failed["bus"] > 0
	})
	hub := testrig.Broker(t, broker.Options{Address: address})
	c, err := mqtt.Dial(ctx, mqtt.Options{URL: hub.URL(), ClientID: "reader", Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	got := make(chan Event, 8)
	if err := c.Subscribe(ctx, "plant/alarms", func(d transport.Delivery) {
		var e Event
		if err := json.Unmarshal(d.Payload, &e); err != nil || d.Retained {
			t.Errorf("got %q, %v", d.Payload, err)
		}
		got <- e
		d.Ack()
	}); err != nil {
		t.Fatal(err)
	}
	b.take(t, window("", 2, 0, 99))
	if n := b.Drain(ctx); n != 0 {
		t.Fatalf("%d events wait", n)
	}
	// The first may have gone out before the subscription.
	for e := testrig.Receive(t, "an event", got); e.Number != 3; e = testrig.Receive(t, "an event", got) {
	}
}

func TestCheckAndWarnings(t *testing.T) {
	cfg := configured(t, `
  rules: [{name: hot, program: mean, when: value > 80}]
  receivers:
    - {name: a, command: [/no/such/program]}
    - {name: b, webhook: {url: "https://h/x", secret: "env:HENCEDGE_NOT_SET", ca: none.pem}}
    - {name: c, mqtt: {url: "tls://Broker.example", topic: t, username: u, password: "env:HENCEDGE_NOT_SET"}}
    - {name: d, alertmanager: {url: "https://h", token: "env:HENCEDGE_NOT_SET", header: X-Key}}
    - {name: e, mqtt: {url: "tcp://localhost:1884", topic: t}}
    - {name: f, command: [/bin/sh]}
    - {name: g, webhook: {url: "https://h/x", secret: "`+string(secret(t, "short"))+`"}}
`)
	var paths []string
	Check(cfg, func(path, remedy string, err error) {
		if remedy == "" || err == nil {
			t.Errorf("%s: %q, %v", path, remedy, err)
		}
		paths = append(paths, strings.TrimPrefix(path, "alerts.receivers"))
	})
	want := []string{"[0].command", "[1].webhook.ca", "[1].webhook.secret", "[2].mqtt.password",
		"[3].alertmanager.token",
		"[6].webhook.secret"}
	if !slices.Equal(paths, want) {
		t.Errorf("got %q, want %q", paths, want)
	}
	warns := Warnings(cfg, config.Broker{URL: "wss://broker.example:443/mqtt"})
	if len(warns) != 1 || !strings.Contains(warns[0], "receiver c publishes alarms in clear at") {
		t.Errorf("got %q", warns)
	}
	if warns = Warnings(cfg, config.Broker{URL: "tcp://127.0.0.1:1883"}); len(warns) != 1 ||
		!strings.Contains(warns[0], "receiver e") {
		t.Errorf("got %q", warns)
	}
	if _, err := Open(Options{Config: cfg, Holder: "h", State: filepath.Join(t.TempDir(), "s")}); err == nil ||
		!strings.Contains(err.Error(), "receiver b: ") {
		t.Errorf("got %v", err)
	}
}

// A port that nobody listens on is away.
func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	a, err := newAlertmanager(&config.HTTP{URL: "http://" + l.Addr().String() + "/x?token=hidden"})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.send(t.Context(), event(t)); err == nil || errors.Is(err, outlet.ErrRefused) ||
		strings.Contains(err.Error(), "hidden") {
		t.Errorf("got %v", err)
	}
}
