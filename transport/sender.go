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

// SendSealed is SendNamed for an object that was just sealed. One that is a single chunk goes from where it lies, and
// must not be changed meanwhile.
func (s *Sender) SendSealed(ctx context.Context, topic string, o Sealed) error {
	if o.chunk == nil || len(o.chunk) > s.size || IsShort(o.Bytes) {
		return s.SendNamed(ctx, topic, o.ID, o.Bytes)
	}
	err := s.begin(ctx, len(o.chunk))
	if err == nil {
		err = s.publish(ctx, topic, o.chunk)
		s.end(len(o.chunk))
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("send 1 chunks to %q: %w", topic, err)
	}
	s.objects.Add(1)
	return nil
}

// begin waits until a chunk of at most n bytes may be on its way, and end says that it has come.
func (s *Sender) begin(ctx context.Context, n int) error {
	if err := s.slots.Acquire(ctx, 1); err != nil {
		return err
	}
	if err := s.room.Acquire(ctx, int64(n)); err != nil {
		s.slots.Release(1)
		return err
	}
	return nil
}

func (s *Sender) end(n int) {
	s.room.Release(int64(n))
	s.slots.Release(1)
}

// publish publishes one message.
func (s *Sender) publish(ctx context.Context, topic string, payload []byte) error {
	if s.pace != nil {
		if err := s.pace(ctx, len(payload)); err != nil {
			return err
		}
	}
	if err := s.client.Publish(ctx, topic, payload, false); err != nil {
		return err
	}
	s.chunks.Add(1)
	s.sent.Add(uint64(len(payload)))
	return nil
}

// SendChunks is Send for some of an object's chunks: those that a receiver still
// needs.
func (s *Sender) SendChunks(ctx context.Context, topic string, pieces []Chunk) error {
	g, gctx := errgroup.WithContext(ctx)
	for i := range pieces {
		weight := len(pieces[i].Data) + chunkOverhead
		if s.begin(gctx, weight) != nil {
			break // gctx ended: g.Wait or ctx tells why
		}
		g.Go(func() error {
			defer s.end(weight)
			payload, err := pieces[i].Payload()
			if err != nil {
				return err
			}
			return s.publish(gctx, topic, payload)
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
