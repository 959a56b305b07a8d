package transport

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// Defaults of the Sender's window.
const (
	DefaultWindowChunks = 8
	DefaultWindowBytes  = 1 << 20
)

// Sender cuts objects into chunks and publishes them with a bounded number in
// flight, over all concurrent calls of Send. It is safe for concurrent use.
type Sender struct {
	client Client
	size   int
	bytes  int64
	slots  *semaphore.Weighted
	room   *semaphore.Weighted
	pace   func(ctx context.Context, n int) error

	objects, chunks, sent atomic.Uint64
}

// NewSender returns a Sender over c with chunks of at most chunkSize bytes of MQTT
// payload (0: DefaultChunkSize). At most one window is given.
func NewSender(c Client, chunkSize int, window ...Window) (*Sender, error) {
	var w Window
	if len(window) > 0 {
		w = window[0]
	}
	if chunkSize == 0 {
		chunkSize = DefaultChunkSize
	}
	if chunkSize < MinChunkSize || chunkSize > MaxChunkSize {
		return nil, fmt.Errorf("chunk size %d, want %d to %d bytes", chunkSize, MinChunkSize, MaxChunkSize)
	}
	if w.Chunks <= 0 {
		w.Chunks = DefaultWindowChunks
	}
	if w.Bytes <= 0 {
		w.Bytes = DefaultWindowBytes
	}
	bytes := int64(max(w.Bytes, chunkSize)) // one chunk always fits
	return &Sender{
		client: c, size: chunkSize, bytes: bytes,
		slots: semaphore.NewWeighted(int64(w.Chunks)), room: semaphore.NewWeighted(bytes), pace: w.Pace,
	}, nil
}

// Window bounds what a Sender has in flight. A zero field means its default.
type Window struct {
	Chunks int // chunks published and not yet acknowledged
	Bytes  int // their bytes
	// Pace is asked before each message and waits until n bytes may go; nil:
	// at once. An error gives the object up.
	Pace func(ctx context.Context, n int) error
}

// Send publishes a sealed object under topic and returns when the broker
// has acknowledged every chunk of it. It waits through lost connections; it
// gives up when ctx ends or the client is closed, and then some chunks may have
// arrived. Sending the object again is harmless to receivers.
func (s *Sender) Send(ctx context.Context, topic string, sealed []byte) error {
	return s.SendNamed(ctx, topic, ObjectID(sealed), sealed)
}

// SendNamed is Send for an object whose ObjectID is known to be id: it hashes nothing.
func (s *Sender) SendNamed(ctx context.Context, topic string, id [32]byte, sealed []byte) error {
	pieces, err := SplitNamed(id, sealed, s.size)
	if err != nil {
		return fmt.Errorf("send to %q: %w", topic, err)
	}
	return s.SendChunks(ctx, topic, pieces)
}

// SendChunks is Send for some of an object's chunks: those that a receiver still
// needs.
func (s *Sender) SendChunks(ctx context.Context, topic string, pieces []Chunk) error {
	g, gctx := errgroup.WithContext(ctx)
	for i := range pieces {
		weight := int64(len(pieces[i].Data) + chunkOverhead)
		if s.slots.Acquire(gctx, 1) != nil {
			break // gctx ended: g.Wait or ctx tells why
		}
		if s.room.Acquire(gctx, weight) != nil {
			s.slots.Release(1)
			break
		}
		g.Go(func() error {
			defer s.slots.Release(1)
			defer s.room.Release(weight)
			payload, err := pieces[i].Payload()
			if err != nil {
				return err
			}
			if s.pace != nil {
				if err := s.pace(gctx, len(payload)); err != nil {
					return err
				}
			}
			if err := s.client.Publish(gctx, topic, payload, false); err != nil {
				return err
			}
			s.chunks.Add(1)
			s.sent.Add(uint64(len(payload)))
			return nil
		})
	}
	err := g.Wait()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("send %d chunks to %q: %w", len(pieces), topic, err)
	}
	s.objects.Add(1)
	return nil
}

// SenderStats counts what was acknowledged by the broker.
type SenderStats struct {
	Objects, Chunks, Bytes uint64
}

// Stats returns the counts so far.
func (s *Sender) Stats() SenderStats {
	return SenderStats{Objects: s.objects.Load(), Chunks: s.chunks.Load(), Bytes: s.sent.Load()}
}
