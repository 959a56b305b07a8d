package evaluator

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/store"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/delivery"
	"github.com/hencedge/hencedge/transport/spool"
)

// outgoing sends what leaves a store: receipts to devices, and results to the broker or
// to the key holder.
type outgoing struct {
	p        *pipeline
	receipts *store.Receipts
	results  *store.Results
	holders  []ed25519.PublicKey // of the key holder, one for each key epoch
	courier  atomic.Pointer[delivery.Courier]
}

// lastDelivery is how long a stop waits for results to be delivered.
const lastDelivery = 2 * time.Second

// start begins to send. It calls end when results cannot be delivered any more. The
// function that it returns waits until done is closed and the last results are delivered,
// for lastDelivery at most. What remains is delivered after the next start.
func (o *outgoing) start(ctx context.Context, client transport.Client, end func(),
	done <-chan struct{}) (hangUp func() error) {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	var failure error
	wg.Go(func() { o.receipts.Run(sending, client) })
	wg.Go(func() {
		if failure = o.deliver(sending, client); failure != nil {
			end()
		}
	})
	return func() error {
		<-done
		outbox := o.results.Outbox()
		outbox.Close()
		t := time.AfterFunc(min(o.p.cfg.StopTimeout, lastDelivery), stop)
		defer t.Stop()
		go func() { // without a connection there is nothing to wait for
			for client.Connected() && sending.Err() == nil {
				if waits, _ := outbox.Waiting(); !waits {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			stop()
		}()
		wg.Wait()
		return failure
	}
}

// deliver takes results from the outbox to the broker, or to the key holder.
func (o *outgoing) deliver(ctx context.Context, client transport.Client) error {
	p, c := o.p, o.p.cfg.Store
	level := delivery.Broker
	if c.Results == config.AckKeyHolder {
		level = delivery.Receiver
	}
	courier, err := delivery.New(delivery.Options{
		Spool: o.results.Outbox(), Client: client, Level: level, Objects: 8,
		ChunkSize: int(p.cfg.Broker.ChunkSize), Prefix: p.cfg.Broker.TopicPrefix, Name: p.cfg.Name, Key: p.signer,
		Number:    func() (uint64, uint64, error) { boot, n := p.state.Sequence("ask"); return boot, n, nil },
		Receivers: map[string][]ed25519.PublicKey{keyset.HolderName: o.holders}, Shared: several(o.holders),
		Receipt: c.ReceiptTimeout, First: c.RetryMin, Last: c.RetryMax,
		Before: func(l *spool.Lease) error { return o.results.Delivered(l, p.now()) },
		Clock:  role.ClockShowing(p.now), Logger: p.log,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	o.courier.Store(courier)
	return courier.Run(ctx)
}

// several reports whether keys, of which each epoch of a key set has one, belong to more
// than one key holder.
func several(keys []ed25519.PublicKey) bool {
	return slices.ContainsFunc(keys, func(k ed25519.PublicKey) bool { return !k.Equal(keys[0]) })
}

// reader names who has to take results.
func (o *outgoing) reader() string {
	if o.p.cfg.Store.Results != config.AckKeyHolder {
		return "the broker"
	}
	keys := make([]string, 0, len(o.holders))
	for _, k := range o.holders {
		keys = append(keys, "ed25519:"+base64.StdEncoding.EncodeToString(k))
	}
	slices.Sort(keys)
	return "receipts of the key holder " + strings.Join(slices.Compact(keys), " or ")
}

// now returns how results leave at the moment.
func (o *outgoing) now() store.Delivery {
	client, since := o.p.link.get()
	if client == nil || !client.Connected() {
		return store.Delivery{}
	}
	if last := o.stats().LastDelivered; last != 0 && time.Unix(0, last).After(since) {
		since = time.Unix(0, last)
	}
	return store.Delivery{Since: since}
}

// stats counts what was delivered; nothing before the start.
func (o *outgoing) stats() (st delivery.Stats) {
	if c := o.courier.Load(); c != nil {
		st = c.Stats()
	}
	return st
}

// health returns why the key holder does not take results.
func (o *outgoing) health() (out []string) {
	st := o.stats()
	if st.Unreadable != "" {
		out = append(out, "the key holder's receipts cannot be read: "+st.Unreadable+"; it runs another version of "+
			"this program: bring both to the same one. Results wait meanwhile")
	}
	for _, program := range slices.Sorted(maps.Keys(st.Refusing)) {
		out = append(out, fmt.Sprintf("the key holder takes no result of program %s: %s", program,
			st.Refusing[program]))
	}
	return out
}
