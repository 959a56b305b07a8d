package loadbench

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/hencedge/hencedge/transport"
)

// inProcess is a transport.Client without a network. It gives windows straight to the handlers
// of the service, and what the service publishes to the checker.
type inProcess struct {
	house    *house
	mu       sync.RWMutex
	handlers map[string]func(transport.Delivery) // by topic
}

var (
	_ transport.Client = (*inProcess)(nil)
	_ way              = (*inProcess)(nil)
)

// Publish gives chunks of results to the checker and drops retained messages, such as births.
func (c *inProcess) Publish(_ context.Context, topic string, payload []byte, retain bool) error {
	if !retain {
		c.house.checker.take(topic, payload)
	}
	return nil
}

// Subscribe keeps the handler of a topic or, with "+", of those of all devices that match.
func (c *inProcess) Subscribe(_ context.Context, filter string, h func(transport.Delivery)) error {
	if strings.Contains(filter, "#") {
		return fmt.Errorf("in process there are no topics of any depth: %s", filter)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handlers == nil {
		c.handlers = map[string]func(transport.Delivery){}
	}
	c.handlers[filter] = h
	if strings.Contains(filter, "+") {
		for _, d := range c.house.devices {
			if matches(filter, d.topic) {
				c.handlers[d.topic] = h
			}
		}
	}
	return nil
}

// matches reports whether a topic is the filter, in which "+" stands for one level.
func matches(filter, topic string) bool {
	levels, want := strings.Split(topic, "/"), strings.Split(filter, "/")
	for i, w := range want {
		if i >= len(levels) || w != "+" && w != levels[i] {
			return false
		}
	}
	return len(levels) == len(want)
}

// Connected is always true.
func (c *inProcess) Connected() bool { return true }

// Close does nothing.
func (c *inProcess) Close(context.Context) error { return nil }

func (c *inProcess) close() error { return nil }

// feed gives the service a copy of every chunk, as a network client would. The last one is what is due at a time: a
// network brings the others before it.
func (c *inProcess) feed(_ context.Context, p *prepared, due func() error) error {
	topic := c.house.devices[p.device].topic
	c.mu.RLock()
	handle := c.handlers[topic]
	c.mu.RUnlock()
	if handle == nil {
		return fmt.Errorf("the evaluator does not listen to %s", topic)
	}
	copies := make([][]byte, len(p.chunks))
	spend(&c.house.outside.feeding, func() {
		for i, chunk := range p.chunks {
			copies[i] = bytes.Clone(chunk)
		}
	})
	for i, own := range copies {
		if i == len(copies)-1 {
			if err := due(); err != nil {
				return err
			}
			c.house.checker.sent(p)
		}
		handle(transport.Delivery{Topic: topic, Payload: own, Ack: func() {}})
	}
	return nil
}
