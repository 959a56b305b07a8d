package keyholder

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hencedge/hencedge/transport"
)

// WatchOptions say what Watch follows and whom it tells. Client is required.
type WatchOptions struct {
	Client      transport.Client
	TopicPrefix string           // empty: transport.DefaultPrefix
	Programs    []string         // programs to follow; empty: all
	Topics      []string         // further topics, for programs with a topic of their own
	Limits      transport.Limits // bounds of reassembly
	Receipts    *Receipts        // tells evaluators what was read; may be nil
	// OnReady is called once the broker has granted the subscriptions.
	OnReady func()
	// OnResult gets every result that was read, in order; an error ends Watch.
	// OnRefused gets every object that was refused. All may be nil. They are
	// called from one goroutine.
	OnResult  func(*Result) error
	OnRefused func(topic string, err error)
}

// backlog bounds the complete objects that wait for decryption.
const backlog = 64

type staged struct {
	topic  string
	sealed []byte
}

// Watch reads results as they arrive until ctx ends, which is no error. Objects
// that cannot be read are reported and do not disturb later ones. It begins with
// Reader.Load.
func Watch(ctx context.Context, r *Reader, o WatchOptions) error {
	if o.Client == nil {
		return errors.New("watch results: no client")
	}
	if err := r.Load(); err != nil {
		return fmt.Errorf("watch results: %w", err)
	}
	if o.TopicPrefix == "" {
		o.TopicPrefix = transport.DefaultPrefix
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	queue := make(chan staged, backlog)
	receiver := transport.NewReceiver(o.Limits, func(topic string, sealed []byte) error {
		select {
		case queue <- staged{topic, sealed}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	refused := make(chan refusal, backlog)
	own := map[string]bool{}
	for _, t := range o.Topics {
		own[t] = true
	}
	filters := o.Topics
	for _, p := range o.Programs {
		if err := transport.CheckName(p); err != nil {
			return fmt.Errorf("watch results: program: %w", err)
		}
		filters = append(filters[:len(filters):len(filters)], transport.ResultTopic(o.TopicPrefix, p))
	}
	if len(o.Programs) == 0 {
		filters = append(filters[:len(filters):len(filters)], transport.ResultFilter(o.TopicPrefix))
	}
	handle := func(d transport.Delivery) {
		if err := receiver.Feed(d.Topic, d.Payload); err != nil {
			select {
			case refused <- refusal{d.Topic, err}:
			default: // a flood of bad chunks is counted by the receiver, not reported one by one
			}
		}
		d.Ack()
	}
	for _, f := range filters {
		if err := o.Client.Subscribe(ctx, f, handle); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watch results: subscribe %s: %w", f, err)
		}
	}
	if o.Receipts != nil {
		if err := o.Receipts.listen(ctx, receiver); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watch results: %w", err)
		}
		var sending sync.WaitGroup
		defer sending.Wait()
		defer stop()
		sending.Go(func() { o.Receipts.send(ctx) })
	}
	if o.OnReady != nil {
		o.OnReady()
	}
	for ctx.Err() == nil { // what waits then was not read, and gets no receipt
		select {
		case <-ctx.Done():
		case f := <-refused:
			o.refuse(f.topic, f.err)
		case s := <-queue:
			topic := s.topic
			if own[topic] {
				topic = "" // a topic of its own is not bound to the program's name
			}
			res, err := r.Read(topic, s.sealed)
			if err == nil && o.Receipts != nil {
				err = o.Receipts.fresh(res)
			}
			if err != nil {
				if o.Receipts != nil {
					o.Receipts.refuse(s.topic, s.sealed, err, receiver)
				}
				o.refuse(s.topic, err)
				continue
			}
			if o.OnResult != nil {
				if err := o.OnResult(res); err != nil {
					return err
				}
			}
			if o.Receipts != nil {
				if err := o.Receipts.keep(ctx, res); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

type refusal struct {
	topic string
	err   error
}

func (o *WatchOptions) refuse(topic string, err error) {
	if o.OnRefused != nil {
		o.OnRefused(topic, err)
	}
}
