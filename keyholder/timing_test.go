package keyholder

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testenv/dudect"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// stopwatch is a connection to nowhere: results go in by its handler, and what is published
// comes out as the time of it.
type stopwatch struct {
	mute
	handle func(transport.Delivery)
	left   chan time.Time
}

func (w *stopwatch) Publish(context.Context, string, []byte, bool) error {
	w.left <- time.Now()
	return nil
}

func (w *stopwatch) Subscribe(_ context.Context, filter string, h func(transport.Delivery)) error {
	if filter == transport.ResultFilter(transport.DefaultPrefix) {
		w.handle = h
	}
	return nil
}

// TestTimingReceipts compares when receipts leave a running key holder, by what the results
// hold: honest small messages, or residues that decrypt to anything. The time to the
// receipt of a result counts, and that to the receipt of the next one, which comes while the
// first is decrypted. cross/timing.sh runs it.
func TestTimingReceipts(t *testing.T) {
	if os.Getenv("HENCEDGE_TIMING") == "" {
		testenv.Missing(t, "timing", "HENCEDGE_TIMING is not set: make timing")
	}
	s, signer := newSet(t), signingKey(t)
	s.params = tinyParams(t)
	ctx, err := henc.NewContext(s.params)
	if err != nil {
		t.Fatal(err)
	}
	key, err := secret.Generate(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := newCrafter(t, s, ctx, key, signer)
	conn := &stopwatch{left: make(chan time.Time, 16)}
	rc, err := NewReceipts(s, ReceiptOptions{Client: conn, Evaluators: trust(signer), Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rc.Close)
	read, ready, ended := make(chan struct{}, 16), make(chan struct{}), make(chan error, 1)
	run, stop := context.WithCancel(t.Context())
	go func() {
		ended <- Watch(run, craftedReader(t, s, key, c, rc), WatchOptions{Client: conn, Receipts: rc,
			OnReady: func() { close(ready) }, OnResult: func(*Result) error { read <- struct{}{}; return nil }})
	}()
	<-ready
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	number := uint64(0)
	send := func(rng *rand.Rand, kind int) float64 {
		number++
		payload, err := transport.Whole(c.approved(rng, number, kind), transport.MaxChunkSize)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		conn.handle(transport.Delivery{Topic: "hencedge/v1/res/mean", Payload: payload, Ack: func() {}})
		return float64((<-conn.left).Sub(began))
	}
	const count = 3000
	var own, next [2][]float64
	rng := rand.New(rand.NewPCG(3, 4))
	for range count {
		k := rng.IntN(2)
		own[k] = append(own[k], send(rng, k))
		next[k] = append(next[k], send(rng, 0))
		<-read
		<-read
	}
	for what, times := range map[string][2][]float64{"receipt of the result": own, "receipt of the next result": next} {
		got := dudect.Statistic(times[0], times[1])
		if t.Logf("%s: t = %.1f", what, got); got >= dudect.Leaking {
			t.Errorf("%s: t = %.1f: the time depends on what a result holds, or the machine is busy: run it again",
				what, got)
		}
	}
}

// approved is a result with the header of the approved program: an honest one (kind 0), or
// one of random residues (kind 1).
func (c *crafter) approved(rng *rand.Rand, number uint64, kind int) []byte {
	m := c.honest(number)
	sealed, err := transport.Seal(m, c.bodyOf(kind, 1, rng, m.Level, m.Scale), c.signer)
	if err != nil {
		c.t.Fatal(err)
	}
	return sealed
}
