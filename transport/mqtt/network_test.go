package mqtt

import (
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// A peer that vanished without a word is noticed by the missing answer to a ping, and
// what was written meanwhile, which the kernel had taken, is sent again.
func TestHalfOpen(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b testBroker) {
		in := newInbox()
		sub := dial(t, Options{URL: b.url(), ClientID: "receiver"})
		if err := sub.Subscribe(testrig.Context(t), "q", in.take); err != nil {
			t.Fatal(err)
		}
		bad := testrig.NewProxy(t, b.addr(), nil)
		lost := make(chan error, 10)
		pub := dial(t, Options{URL: "tcp://" + bad.Addr(), ClientID: "sender", KeepAlive: time.Second,
			pingTimeout: time.Second, OnLost: func(err error) { lost <- err }})
		bad.Set(testrig.Faults{Vanish: true})
		published := make(chan error, 1)
		go func() { published <- pub.Publish(testrig.Context(t), "q", []byte("small"), false) }()
		select {
		case err := <-lost:
			if err == nil || errors.Is(err, ErrShort) {
				t.Errorf("lost: %v", err)
			}
		case err := <-published:
			t.Fatalf("published into nothing: %v", err)
		case <-testrig.Context(t).Done():
			t.Fatal("the connection is not given up")
		}
		bad.Set(testrig.Faults{})
		if err := <-published; err != nil {
			t.Fatal(err)
		}
		in.await(t, "small")
	})
}

// A certificate that has expired, or that is not valid yet for a board whose clock
// stands in 1970, keeps a client from connecting for as long as that lasts, and no
// longer. What is published waits.
func TestCertificateTimes(t *testing.T) {
	t.Parallel()
	ca, err := tlsutil.NewDevCA("test CA")
	if err != nil {
		t.Fatal(err)
	}
	conf, err := ca.ServerConfig(false)
	if err != nil {
		t.Fatal(err)
	}
	b := newEmbedded(t, conf)
	in := newInbox()
	config, err := ca.ClientConfig("")
	if err != nil {
		t.Fatal(err)
	}
	sub := dial(t, Options{URL: b.url(), ClientID: "receiver", TLS: config})
	if err := sub.Subscribe(testrig.Context(t), "q", in.take); err != nil {
		t.Fatal(err)
	}
	bad := testrig.NewProxy(t, b.addr(), nil)
	var clock atomic.Pointer[time.Time]
	set := func(to time.Time) { clock.Store(&to) }
	var out testrig.Log
	set(time.Unix(100, 0))
	c, err := Dial(testrig.Context(t), Options{URL: "tls://" + bad.Addr(), ClientID: "sender", Background: true,
		MaxReconnect: time.Second, Logger: out.Logger(),
		TLSSource: func() *tls.Config {
			conf := config.Clone()
			conf.Time = func() time.Time { return *clock.Load() }
			return conf
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(testrig.Context(t))
	publish := func(text string) chan error {
		done := make(chan error, 1)
		go func() { done <- c.Publish(testrig.Context(t), "q", []byte(text), false) }()
		return done
	}
	first := publish("from 1970")
	testrig.Eventually(t, "a refusal", func() bool { return strings.Contains(out.String(), "not yet valid") })
	set(time.Now())
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	in.await(t, "from 1970")
	set(time.Now().AddDate(200, 0, 0)) // the certificate expires; the connection stays
	if err := <-publish("before the cut"); err != nil {
		t.Fatal(err)
	}
	in.await(t, "before the cut")
	bad.Cut()
	testrig.Eventually(t, "the loss", func() bool { return !c.Connected() })
	second := publish("after the cut")
	testrig.Eventually(t, "another refusal", func() bool { return strings.Contains(out.String(), "has expired") })
	select {
	case err := <-second:
		t.Fatalf("published through an expired certificate: %v", err)
	default:
	}
	set(time.Now()) // it was renewed
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	in.await(t, "after the cut")
}

// Two clients with one id take the connection from each other. They say what it may be;
// when one of them goes the other is as before.
func TestOneIDTwice(t *testing.T) {
	forEachBroker(t, func(t *testing.T, b testBroker) {
		told := make(chan error, 1000)
		dialTwin := func() transport.Client {
			return dial(t, Options{URL: b.url(), ClientID: "twin", MaxReconnect: time.Second, manyShort: 2,
				OnLost: func(err error) {
					if errors.Is(err, ErrShort) {
						told <- err
					}
				}})
		}
		one := dialTwin()
		two := dialTwin()
		select {
		case err := <-told:
			if !strings.Contains(err.Error(), "another client") || !strings.Contains(err.Error(), "2 times") {
				t.Errorf("told: %v", err)
			}
		case <-testrig.Context(t).Done():
			t.Fatal("nobody is told")
		}
		if err := two.Close(testrig.Context(t)); err != nil {
			t.Error(err)
		}
		if err := one.Publish(testrig.Context(t), "q", []byte("x"), false); err != nil {
			t.Error(err)
		}
	})
}

// Delays grow over connections that soon end, and are as at first after one that did
// not.
func TestShortConnections(t *testing.T) {
	var told []error
	c := &client{opts: Options{manyShort: manyShort, OnLost: func(err error) { told = append(told, err) }},
		log: testrig.Quiet(), change: make(chan struct{}), router: newRouter(nil)}
	end := func(lived time.Duration) int {
		c.attempts, c.since = 0, time.Now().Add(-lived) // as a connection does
		c.lost(errors.New("gone"))
		return c.attempts
	}
	var got []int
	for range 6 {
		got = append(got, end(settled/2))
	}
	got = append(got, end(2*settled), end(settled/2))
	if want := []int{0, 1, 2, 3, 3, 3, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("delays of %v, want %v", got, want)
	}
	for i, err := range told {
		if errors.Is(err, ErrShort) != (i == 4 || i == 5) {
			t.Errorf("connection %d: %v", i, err)
		}
	}
}
