package transport

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// Client is a connection to an MQTT broker, with QoS 1 throughout. It survives
// lost connections by itself. All methods are safe for concurrent use.
type Client interface {
	// Publish returns nil when the broker has acknowledged the message
	// (PUBACK), waiting through lost connections. When ctx ends first, the
	// message may still be delivered later. After Close it is ErrClosed.
	Publish(ctx context.Context, topic string, payload []byte, retain bool) error
	// Subscribe returns nil when the broker has granted the filter. The
	// subscription lasts until Close and is made again on every connection.
	// h gets the messages of one topic in order, one at a time, and those of several
	// topics concurrently. It must call Delivery.Ack once it has taken charge of the
	// message. It may block; then its topic waits, and in the end all topics of the
	// subscription.
	Subscribe(ctx context.Context, filter string, h func(Delivery)) error
	// Connected reports whether there is a working connection now.
	Connected() bool
	// Close waits until everything published is acknowledged or ctx ends, and
	// disconnects. The last will is not sent. It may be called twice.
	Close(ctx context.Context) error
}

// subscribing is how many filters SubscribeAll asks for at a time.
const subscribing = 64

// SubscribeAll subscribes to several filters with one handler, side by side. The broker's answer
// to one may lie behind what an earlier session kept for another, and a Client reads that only
// as far as it has room for what nobody subscribes to. When ctx ends, the error is ctx's.
func SubscribeAll(ctx context.Context, c Client, filters []string, h func(Delivery)) error {
	g, asking := errgroup.WithContext(ctx)
	g.SetLimit(subscribing)
	for _, f := range filters {
		g.Go(func() error {
			if err := c.Subscribe(asking, f, h); err != nil {
				return fmt.Errorf("subscribe %s: %w", f, err)
			}
			return nil
		})
	}
	err := g.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Delivery is one message. The handler owns Payload. An unacknowledged message
// comes again on the next connection.
type Delivery struct {
	Topic    string
	Payload  []byte
	Retained bool
	Ack      func()
}

// CheckFresh refuses a retained message with ErrWrongDelivery. It is for topics on which the
// protocol retains nothing.
func (d Delivery) CheckFresh() error {
	if d.Retained {
		return fmt.Errorf("%w: a retained message on %q", ErrWrongDelivery, d.Topic)
	}
	return nil
}

// Message is something to publish.
type Message struct {
	Topic   string
	Payload []byte
	Retain  bool
}

// Errors of a Client.
var (
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("client is closed")
	// ErrRefused: the broker or its certificate makes connecting pointless
	// until the configuration changes.
	ErrRefused = errors.New("refused")
	// ErrOptions: options that cannot work together.
	ErrOptions = errors.New("invalid client options")
)
