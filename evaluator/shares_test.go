package evaluator

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
)

// holderEnd signs receipts for the results of some programs, as a key holder does.
type holderEnd struct {
	read  func(program string) bool
	boot  uint64
	seq   atomic.Uint64
	items chan transport.ReceiptItem
}

// receipt serves receipts for every result that read names.
func (r *rig) receipt(key *transport.SigningKey, read func(program string) bool) {
	r.t.Helper()
	h := &holderEnd{read: read, boot: 1, items: make(chan transport.ReceiptItem, 256)}
	c := dialTest(r.t, r.cfg.Broker.URL, "holder")
	recv := transport.NewReceiver(transport.Limits{}, func(s transport.Staged) error {
		defer s.Done()
		sealed := s.Sealed
		m, err := transport.PeekMeta(sealed)
		if err != nil {
			return err
		}
		if h.read(m.Program) {
			h.items <- transport.ReceiptItem{Object: transport.ObjectID(sealed), Outcome: transport.Taken}
		}
		return nil
	})
	ctx, stop := context.WithCancel(context.Background())
	r.t.Cleanup(stop)
	for _, filter := range []string{transport.ResultFilter(r.cfg.Broker.TopicPrefix), "other/#"} {
		if err := c.Subscribe(ctx, filter, func(d transport.Delivery) {
			_ = recv.Feed(d.Topic,
				d.Payload)
			d.Ack()
		}); err != nil {
			r.t.Fatal(err)
		}
	}
	go func() {
		for {
			select {
			case it := <-h.items:
				payload, err := transport.SealReceipt(transport.Receipt{To: "cloud",
					Items: []transport.ReceiptItem{it}},
					keyset.HolderName, key, time.Now(),
					func() (uint64, uint64) { return h.boot, h.seq.Add(1) })
				if err == nil {
					err = c.Publish(ctx, transport.ReceiptTopic(r.cfg.Broker.TopicPrefix, "cloud"), payload, false)
				}
				if err != nil && ctx.Err() == nil {
					r.t.Error(err)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
}

// A program whose results nobody reads fills its share of the store, and no more: the
// results of the others come all and once, and health, log and status name the program,
// its topic and the key holder long before.
func TestUnreadProgramStarvesNobody(t *testing.T) {
	cfg := storeConfig(t, filepath.Join(t.TempDir(), "store"), prog("mean", "mean(x)", inputs("d1/count/temp")),
		prog("load", "mean(x)", inputs("d1/count/load")))
	cfg.Programs[1].Topic = "other/load"
	cfg.Store.Results, cfg.Store.Bytes = config.AckKeyHolder, config.Size(400<<10)
	cfg.Store.ReceiptTimeout, cfg.Store.RetryMax = time.Second, time.Second
	key := signer(t, "holder")
	clock := testrig.NewClock(time.Now())
	r := newRig(t, cfg, func(d *Deps) {
		d.Keys[0].Holder = ed25519.PublicKey(key.Public())
		d.Now = clock.Now
		d.OnRefused, d.OnResult = nil, nil
	})
	r.receipt(key, func(program string) bool { return program == "mean" })
	rc := r.receipts("d1")
	var warned int // windows after which health spoke
	const n = 40
	for i := range uint64(n) {
		w := r.window("d1", "count", i+1, time.Unix(int64(1000*i), 0), numbers(8, float64(i), 0), numbers(8, 0, 0))
		sealed := r.seal(w)
		for taken := false; !taken; {
			r.send(w.topic, sealed)
			it := testrig.Receive(t, fmt.Sprintf("an answer to window %d", i+1), rc.items)
			if taken = it.Outcome == transport.Taken; !taken {
				clock.Advance(time.Second)
			}
		}
		for mean := false; !mean; {
			mean = testrig.Receive(t, fmt.Sprintf("a result of window %d", i+1), r.results).Meta.Program == "mean"
		}
		testrig.Eventually(t, "a result that was read to leave", func() bool { return r.waits("mean") == 0 })
		clock.Advance(10 * time.Second)
		if h := r.service.Health(); warned == 0 && len(h) > 0 {
			warned = int(i) + 1
			for _, part := range []string{"program load", "other/load",
				"receipts of the key holder " + key.PublicText()} {
				if !strings.Contains(h[0], part) {
					t.Errorf("health %q does not say %q", h[0], part)
				}
			}
		}
	}
	waiting := *r.service.State().Programs["load"].Waiting
	if waiting.Results > 8 || // of which the share takes three; the others were probes
		waiting.Share != 200<<10 || !waiting.Unread || waiting.Results+int(waiting.Skipped) != n {
		t.Errorf("%+v", waiting)
	}
	if warned == 0 || warned >= waiting.Results {
		t.Errorf("health told after %d windows, the share was full after %d", warned, waiting.Results)
	}
	if h := r.service.Health(); len(h) != 1 || !strings.Contains(h[0], "were not made. Let the key holder read "+
		"the program (programs in keyholder.yaml)") {
		t.Errorf("%q", h)
	}
}

// waits is how many results of a program wait.
func (r *rig) waits(program string) int {
	return r.service.custody.(*stored).store.Results.Outbox().Streams()[program].Objects
}
