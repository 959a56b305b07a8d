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

// listClient keeps what is published.
type listClient struct {
	mu       sync.Mutex
	payloads [][]byte
	fail     error
}

func (c *listClient) Publish(_ context.Context, _ string, payload []byte, _ bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.payloads = append(c.payloads, payload)
	return c.fail
}

func (c *listClient) Subscribe(context.Context, string, func(Delivery)) error { return nil }
func (c *listClient) Connected() bool                                         { return true }
func (c *listClient) Close(context.Context) error                             { return nil }

// TestSendSealed: what was sealed with room travels as it does otherwise, and without a copy if it is one chunk.
func TestSendSealed(t *testing.T) {
	key := testKey(t, "board-7")
	for _, tc := range []struct {
		body, room, chunks int
		copied             bool
	}{
		{1000, SealRoom, 1, false}, {30_000, SealRoom, 1, false}, {1000, 0, 1, true}, {100_000, SealRoom, 3, true},
	} {
		b := append(make([]byte, tc.room, tc.room+tc.body+SealTail), testrig.Pattern(tc.body)...)
		o, err := SealToSend(testReading(7), b, tc.room, key)
		if err != nil || o.ID != ObjectID(o.Bytes) {
			t.Fatalf("%d bytes: %v", tc.body, err)
		}
		c := &listClient{}
		s, err := NewSender(c, 40_000)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SendSealed(testrig.Context(t), "t", o); err != nil {
			t.Fatal(err)
		}
		var got []byte
		parts := map[int][]byte{}
		for _, p := range c.payloads {
			piece, err := UnmarshalChunk(p, 0)
			if err != nil || piece.Object != o.ID || piece.Total != tc.chunks {
				t.Fatalf("%d bytes: %v, %+v", tc.body, err, piece)
			}
			parts[piece.Index] = piece.Data
		}
		for i := range tc.chunks {
			got = append(got, parts[i]...)
		}
		equalBytes(t, "the object", got, o.Bytes)
		if copied := &parts[0][0] != &o.Bytes[0]; copied != tc.copied {
			t.Errorf("%d bytes with room of %d: copied %t", tc.body, tc.room, copied)
		}
		if st := s.Stats(); st.Objects != 1 || st.Chunks != uint64(tc.chunks) {
			t.Errorf("%d bytes: %+v", tc.body, st)
		}
		c.fail = errors.New("no")
		if err := s.SendSealed(testrig.Context(t), "t", o); !errors.Is(err, c.fail) {
			t.Errorf("%d bytes, refused by the client: %v", tc.body, err)
		}
		c.fail = nil
		ended, end := context.WithCancel(t.Context())
		end()
		if err := s.SendSealed(ended, "t", o); !errors.Is(err, context.Canceled) {
			t.Errorf("%d bytes, after the end: %v", tc.body, err)
		}
	}
}
