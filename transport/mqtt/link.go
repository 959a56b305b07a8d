package mqtt

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"
)

// birth publishes the birth message of the newest connection. It first waits until the
// broker has acknowledged the one before, which the library sends again by itself. On a
// bad link they would pile up otherwise.
func (c *client) birth() {
	c.mu.Lock()
	c.unborn = true
	busy := c.bearing
	c.bearing = true
	c.mu.Unlock()
	for !busy {
		c.mu.Lock()
		if !c.unborn {
			c.bearing = false
			c.mu.Unlock()
			return
		}
		c.unborn = false
		c.mu.Unlock()
		m, err := c.opts.Birth()
		if err == nil {
			err = c.Publish(c.ctx, m.Topic, m.Payload, m.Retain)
		}
		if err != nil && c.ctx.Err() == nil {
			c.log.Warn("birth message not published", "error", err)
		}
	}
}

// ErrShort: the broker ends each connection soon after it was made.
var ErrShort = errors.New("connections end soon after they are made: does another client use the same id, " +
	"is a message above the broker's limit, or does the broker refuse a topic?")

// lost notes the end of a connection. After several short ones the delays grow, as they do
// when no connection can be made. Two clients with the same id would otherwise take the
// session from each other several times a second.
func (c *client) lost(err error) {
	c.mu.Lock()
	if time.Since(c.since) < settled {
		c.short++
		c.attempts = max(c.attempts, min(c.short-1, 3))
	} else {
		c.short = 0
	}
	short := c.short
	c.mu.Unlock()
	if short >= c.opts.manyShort {
		err = fmt.Errorf("%w (%d times in a row, the last one: %w)", ErrShort, short, err)
	}
	c.log.Warn("connection lost", "error", err)
	if c.opts.OnLost != nil {
		c.opts.OnLost(err)
	}
}

func (c *client) notified(_ paho.Client, n paho.ConnectionNotification) {
	f, ok := n.(paho.ConnectionNotificationFailed)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	reason := c.end.explain(f.Reason)
	c.lastErr = reason
	if c.closing {
		return
	}
	c.log.Warn("connection attempt failed", "error", reason, "attempt", c.attempts)
	if !c.ever && permanent(reason) {
		select {
		case <-c.failed:
		default:
			close(c.failed)
		}
	}
}

// errPassword: the password cannot be read, so the client did not try to connect.
var errPassword = errors.New("cannot read the broker's password")

// permanent reports whether waiting will not cure err.
func permanent(err error) bool {
	var cert *tls.CertificateVerificationError
	var op *net.OpError
	return errors.Is(err, errPassword) || errors.As(err, &cert) ||
		(errors.As(err, &op) && op.Op == "remote error") || // a TLS alert from the broker
		errors.Is(err, packets.ErrorRefusedBadProtocolVersion) ||
		errors.Is(err, packets.ErrorRefusedIDRejected) ||
		errors.Is(err, packets.ErrorRefusedBadUsernameOrPassword) ||
		errors.Is(err, packets.ErrorRefusedNotAuthorised)
}
