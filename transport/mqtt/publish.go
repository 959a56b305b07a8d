package mqtt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/hencedge/hencedge/transport"
)

// Publish hands the message to the library and waits for its PUBACK.
func (c *client) Publish(ctx context.Context, topic string, payload []byte, retain bool) error {
	if !transport.ValidTopic(topic) {
		return fmt.Errorf("%w: cannot publish to topic %q", transport.ErrMalformed, topic)
	}
	if len(payload) > transport.MaxChunkSize {
		return fmt.Errorf("%w: message of %d bytes, want at most %d", transport.ErrTooLarge, len(payload),
			transport.MaxChunkSize)
	}
	fail := func(err error) error { return fmt.Errorf("publish to %q: %w", topic, err) }
	if err := c.slots.Acquire(ctx, 1); err != nil {
		return fail(err)
	}
	// From here on the slot belongs to the message: it is free again on PUBACK.
	e := &outEntry{acked: make(chan struct{}), release: sync.OnceFunc(func() { c.slots.Release(1) })}
	if err := c.handOver(ctx, e, topic, payload, retain); err != nil {
		return fail(err)
	}
	select {
	case <-e.acked:
		return nil
	case <-ctx.Done():
		return fail(ctx.Err())
	case <-c.ctx.Done():
		return fail(transport.ErrClosed)
	}
}

// handOver gives the message to the library as soon as there is a connection and no other
// message is being handed over. It returns nil when the outbox has the message. After an
// error the outbox may still get it; if it does not, the message's slot is free again.
func (c *client) handOver(ctx context.Context, e *outEntry, topic string, payload []byte, retain bool) error {
	for {
		select {
		case c.turn <- struct{}{}:
		case <-ctx.Done():
			e.release()
			return ctx.Err()
		case <-c.ctx.Done():
			e.release()
			return transport.ErrClosed
		}
		if err := c.awaitConnection(ctx); err != nil {
			<-c.turn
			e.release()
			return err
		}
		// The library may block for as long as a write takes.
		done := make(chan error, 1)
		go func() {
			again, err := c.handOnce(e, topic, payload, retain)
			if err == nil && again {
				err = errAgain
			}
			done <- err
		}()
		var err error
		select {
		case err = <-done:
		case <-ctx.Done():
			go func() {
				if <-done != nil {
					e.release()
				}
			}()
			return ctx.Err()
		}
		if !errors.Is(err, errAgain) {
			if err != nil {
				e.release()
			}
			return err
		}
	}
}

// errAgain: the connection was lost before the library took the message.
var errAgain = errors.New("the connection was lost")

// handOnce is one attempt of handOver. It ends the caller's turn. again means that the library
// had no connection after all and did not take the message.
func (c *client) handOnce(e *outEntry, topic string, payload []byte, retain bool) (again bool, err error) {
	c.out.expect(e)
	token := c.paho.Publish(topic, 1, retain, payload)
	taken := c.out.claimed(e)
	<-c.turn
	select {
	case <-token.Done():
		err = token.Error()
	default:
	}
	switch {
	case err == nil:
		return false, nil
	case taken:
		// Stored, but not written: only a new connection sends it.
		if c.paho.IsConnectionOpen() {
			c.log.Warn("a message could not be written, reconnecting", "error", err)
			c.recycle()
		}
		return false, nil
	case errors.Is(err, paho.ErrNotConnected):
		time.Sleep(20 * time.Millisecond) // until the connection's state settles
		return true, nil
	}
	return false, err
}
