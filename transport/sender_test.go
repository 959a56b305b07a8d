package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/hencedge/hencedge/internal/testrig"
)

// TestWindow: no more chunks and bytes than the window are ever in flight, over
// concurrent Sends.
func TestWindow(t *testing.T) {
	c := &countingClient{gate: make(chan struct{})}
	s, err := NewSender(c, 4096, Window{Chunks: 3, Bytes: 9000})
	if err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	for i := range 4 {
		g.Go(func() error { return s.Send(testrig.Context(t), fmt.Sprintf("up/%d", i), testrig.Pattern(30_000)) })
	}
	// Chunks of 3750 bytes: two fit the bytes of the window.
	testrig.Eventually(t, "a full window", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.now == 2
	})
	go func() {
		for range 4 * 8 {
			c.gate <- struct{}{}
		}
	}()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if c.most != 2 || c.mostBytes > 9000 {
		t.Errorf("%d chunks, %d bytes in flight", c.most, c.mostBytes)
	}
	c.fail = errors.New("no")
	go func() { close(c.gate) }()
	if err := s.Send(testrig.Context(t), "up/0", testrig.Pattern(30_000)); !errors.Is(err, c.fail) {
		t.Error(err)
	}
	if _, err := NewSender(c, 10); err == nil {
		t.Error("tiny chunks were accepted")
	}
}

type countingClient struct {
	mu                          sync.Mutex
	now, most, bytes, mostBytes int
	gate                        chan struct{}
	fail                        error
}

func (c *countingClient) Publish(ctx context.Context, _ string, payload []byte, _ bool) error {
	c.mu.Lock()
	c.now++
	c.bytes += len(payload)
	c.most, c.mostBytes = max(c.most, c.now), max(c.mostBytes, c.bytes)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.now--
		c.bytes -= len(payload)
		c.mu.Unlock()
	}()
	select {
	case <-c.gate:
		return c.fail
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *countingClient) Subscribe(context.Context, string, func(Delivery)) error { return nil }
func (c *countingClient) Connected() bool                                         { return true }
func (c *countingClient) Close(context.Context) error                             { return nil }
