package keyholder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker"
)

func dial(t *testing.T, b *broker.Broker, id string) transport.Client {
	t.Helper()
	cfg := config.Broker{URL: b.URL(), ClientID: id, TopicPrefix: transport.DefaultPrefix,
		ChunkSize: config.DefaultChunkSize, KeepAlive: time.Minute}
	c, err := Dial(context.Background(), cfg, testrig.Quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// watching runs Watch until stop is called, which fails the test if Watch failed.
func watching(t *testing.T, r *Reader, o WatchOptions) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	o.OnReady = func() { close(ready) }
	go func() { ended <- Watch(ctx, r, o) }()
	stop = sync.OnceFunc(func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("watch: %v", err)
	}
	return stop
}

// TestWatch sends good and bad objects over a broker: bad ones are reported by
// class and good ones keep coming.
func TestWatch(t *testing.T) {
	b := testrig.Broker(t, broker.Options{})
	s, key := newSet(t), signingKey(t)
	good := newCloud(t, s, s.manifest.Current(), key)
	stranger := newCloud(t, s, s.manifest.Current(), signingKey(t))
	r := reader(t, s, ReaderOptions{Signers: trust(key)})

	ctx := testrig.Context(t)
	outcomes := make(chan string, 16) // the program of a result, or the class of a refusal
	var tally Tally
	stop := watching(t, r, WatchOptions{
		Client: dial(t, b, "holder"), Topics: []string{"plant/mean"},
		OnResult: func(res *Result) error {
			tally.Result(res)
			if len(res.Values) != 1 {
				t.Errorf("read %+v", res)
			}
			outcomes <- res.Program
			return nil
		},
		OnRefused: func(_ string, err error) { outcomes <- tally.Refuse(err) },
	})
	defer stop()
	client := dial(t, b, "cloud")
	sender, err := transport.NewSender(client, 0)
	if err != nil {
		t.Fatal(err)
	}
	const topic = "hencedge/v1/res/mean"
	send := func(topic string, sealed []byte) {
		t.Helper()
		if err := sender.Send(ctx, topic, sealed); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want string) {
		t.Helper()
		if got := testrig.Receive(t, want, outcomes); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	send(topic, good.result([]float64{0.5}, nil))
	expect("mean")
	if err := client.Publish(ctx, topic, []byte("junk"), false); err != nil {
		t.Fatal(err)
	}
	expect("malformed")
	send(topic, stranger.result([]float64{0.5}, nil))
	expect("unknown_signer")
	bad := slices.Clone(good.result([]float64{0.5}, nil))
	bad[len(bad)/2] ^= 1
	send(topic, bad)
	expect("tampered")
	send("hencedge/v1/res/other", good.result([]float64{0.5}, nil))
	expect("tampered")
	send(topic, good.result([]float64{0.5}, nil))
	expect("mean")
	send("plant/mean", good.result([]float64{0.5}, nil))
	expect("mean")

	stop()
	n, counts := tally.Counts()
	if n["mean"] != 3 || counts["tampered"] != 2 || counts["unknown_signer"] != 1 || counts["malformed"] != 1 {
		t.Errorf("read %v, refused %v", n, counts)
	}
}

func TestWatchEndsWithItsHandlersError(t *testing.T) {
	b := testrig.Broker(t, broker.Options{})
	s, key := newSet(t), signingKey(t)
	c := newCloud(t, s, s.manifest.Current(), key)
	r := reader(t, s, ReaderOptions{Signers: trust(key)})
	sender, err := transport.NewSender(dial(t, b, "cloud"), 0)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	err = Watch(context.Background(), r, WatchOptions{
		Client: dial(t, b, "holder"), Programs: []string{"mean"},
		OnReady: func() {
			if err := sender.Send(context.Background(), "hencedge/v1/res/mean",
				c.result([]float64{0.5}, nil)); err != nil {
				t.Error(err)
			}
		},
		OnResult: func(*Result) error { return full },
	})
	if !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if err := Watch(context.Background(), r, WatchOptions{}); err == nil {
		t.Error("watched without a client")
	}
	if err := Watch(context.Background(), r, WatchOptions{Client: dial(t, b, "h2"),
		Programs: []string{"a/b"}}); err == nil {
		t.Error("followed a program with a separator in its name")
	}
}

// TestWatchReadsNoMore: once it was told to end it reads nothing of what waits, which
// would count as read without having been handed on.
func TestWatchReadsNoMore(t *testing.T) {
	b := testrig.Broker(t, broker.Options{})
	s, key := newSet(t), signingKey(t)
	c := newCloud(t, s, s.manifest.Current(), key)
	r := reader(t, s, ReaderOptions{Signers: trust(key)})
	sender, err := transport.NewSender(dial(t, b, "cloud"), 0)
	if err != nil {
		t.Fatal(err)
	}
	send := func() {
		if err := sender.Send(context.Background(), "hencedge/v1/res/mean", c.result([]float64{0.5}, nil)); err != nil {
			t.Error(err)
		}
	}
	for round := range 8 { // a choice between two things that are ready is random
		client := dial(t, b, "holder")
		ctx, stop := context.WithCancel(context.Background())
		read := 0
		err := Watch(ctx, r, WatchOptions{Client: client, OnReady: send, OnResult: func(*Result) error {
			if read++; read == 1 {
				send()
				send()
				time.Sleep(50 * time.Millisecond) // until they are here
				stop()
			}
			return nil
		}})
		stop()
		if err != nil || read != 1 {
			t.Fatalf("round %d: %d results were read, %v", round, read, err)
		}
		if err := client.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClaim: one client id at one broker belongs to one process. Where the file system has
// no locks, as some of networks, nothing is refused.
func TestClaim(t *testing.T) {
	s := newSet(t)
	r := reader(t, s, ReaderOptions{Signers: trust(signingKey(t))})
	release, err := r.Claim("mqtt://a", "holder")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Claim("mqtt://a", "holder"); !errors.Is(err, ErrClaimed) {
		t.Errorf("the same again: %v", err)
	}
	if other, err := r.Claim("mqtt://b", "holder"); err != nil {
		t.Errorf("at another broker: %v", err)
	} else {
		other()
	}
	release()
	if again, err := r.Claim("mqtt://a", "holder"); err != nil {
		t.Errorf("after its release: %v", err)
	} else {
		again()
	}
	tryLock = func(int) error { return unix.ENOLCK }
	defer func() { tryLock = durable.TryLock }()
	if none, err := r.Claim("mqtt://a", "holder"); err != nil {
		t.Errorf("without locks: %v", err)
	} else {
		none()
	}
}

func TestSignersAndLimits(t *testing.T) {
	key := signingKey(t)
	got, err := Signers([]config.Signer{{Name: "cloud", PublicKey: key.PublicText()},
		{Name: "cloud", PublicKey: signingKey(t).PublicText()}})
	if err != nil || len(got["cloud"]) != 2 || !got["cloud"][0].Equal(key.Public()) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := Signers([]config.Signer{{Name: "cloud", PublicKey: "ed25519:junk"}}); err == nil {
		t.Error("junk was accepted as a public key")
	}
	l := Limits(config.Limits{Object: 1, Pending: 2, Memory: 3, Reassembly: 4})
	if l.MaxObject != 1 || l.MaxObjects != 2 || l.MaxBytes != 3 || l.MaxAge != 4 {
		t.Errorf("got %+v", l)
	}
}

func TestMetrics(t *testing.T) {
	var tally Tally
	tally.Result(&Result{Program: "mean"})
	tally.Refuse(ErrTampered)
	lines := make(chan string, 64)
	log := slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
		lines <- string(b)
		return len(b),
			nil
	}), nil))
	stop, err := daemon.ServeMetrics("127.0.0.1:0", &tally, log)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	_, address, _ := strings.Cut(strings.TrimSpace(<-lines), "address=")
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`hencedge_keyholder_results_total{program="mean"} 1`,
		`hencedge_keyholder_refused_total{class="tampered"} 1`,
		`hencedge_keyholder_refused_total{class="replayed"} 0`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if _, err := daemon.ServeMetrics(address, &tally, log); err == nil {
		t.Error("one address was taken twice")
	}
	if stop, err := daemon.ServeMetrics("", &tally, log); err != nil {
		t.Error(err)
	} else {
		stop()
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestClass(t *testing.T) {
	for err, want := range map[error]string{
		ErrWrongKey: "wrong_key", ErrWrongEpoch: "wrong_epoch", ErrTampered: "tampered",
		ErrUnknownSigner: "unknown_signer",
		ErrNotApproved:   "not_approved", ErrWrongProgram: "wrong_program",
		fmt.Errorf("%w: %w", ErrUnread, ErrTampered): "unread", ErrWrongParams: "wrong_params",
		ErrNotResult:          "not_result",
		transport.ErrReplayed: "replayed", transport.ErrHash: "hash_mismatch",
		errors.New("x"): "other",
	} {
		if got := Class(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
