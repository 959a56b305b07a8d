package transport

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// Defaults of the replay guard.
const (
	DefaultReplayWindow = 1024    // sequence numbers behind the highest that may still arrive
	replayEpochs        = 4       // boot epochs of a stream that are open at once
	maxReplayStreams    = 1 << 16 // streams in all
	maxDeviceStreams    = 4096    // streams of one signer
)

// ReplayGuard accepts each (boot epoch, sequence) of a signer's stream once.
//
// Objects may arrive out of order: for each of the four newest boot epochs of
// a stream it remembers the highest sequence and which of the window numbers
// at and below it were seen. What is older than that cannot be told from a
// replay and is refused. The zero value is not usable; see NewReplayGuard. All
// methods are safe for concurrent use.
//
// The state is small and serialisable (MarshalBinary, SaveReplay): a service
// that persists it refuses replays across its own restarts too.
type ReplayGuard struct {
	mu      sync.Mutex
	window  uint64
	streams map[replayKey]*replayStream
	signers map[[32]byte]int // streams per signer
}

type replayStream struct {
	floor  uint64 // boot epochs below this are closed
	epochs []replayEpoch
}

// replayEpoch covers sequences (high-window, high]; bit s%window of seen says
// whether s was accepted.
type replayEpoch struct {
	boot uint64
	high uint64
	seen []uint64
}

// replayKey names one numbered series of objects.
type replayKey struct {
	signer  [32]byte
	device  string
	stream  string
	program string
	kind    Kind
}

func replayKeyOf(signer [32]byte, m *Meta) replayKey {
	return replayKey{signer, m.Device, m.Stream, m.Program, m.Kind}
}

// NewReplayGuard returns an empty guard; window is rounded up to a multiple of
// 64, and 0 means DefaultReplayWindow.
func NewReplayGuard(window int) *ReplayGuard {
	if window <= 0 {
		window = DefaultReplayWindow
	}
	window = min((window+63)/64*64, 1<<16)
	return &ReplayGuard{window: uint64(window), streams: make(map[replayKey]*replayStream),
		signers: make(map[[32]byte]int)}
}

// accept marks (boot, seq) as seen, or fails with ErrReplayed, or with ErrLimit
// when the signer opens too many streams.
func (g *ReplayGuard) accept(k replayKey, boot, seq uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.streams[k]
	if s == nil {
		if len(g.streams) >= maxReplayStreams || g.signers[k.signer] >= maxDeviceStreams {
			return fmt.Errorf("%w: %q has %d numbered streams, %d in all", ErrLimit, k.device, g.signers[k.signer],
				len(g.streams))
		}
		s = &replayStream{}
		g.streams[k] = s
		g.signers[k.signer]++
	}
	if boot < s.floor {
		return fmt.Errorf("%w: boot epoch %d of %q is closed, the oldest open one is %d", ErrReplayed, boot, k.device,
			s.floor)
	}
	e := s.epoch(boot, g.window)
	if !e.accept(seq, g.window) {
		return fmt.Errorf("%w: %v of %q, stream %q, boot epoch %d, sequence %d (highest so far %d)",
			ErrReplayed, k.kind, k.device, k.stream+k.program, boot, seq, e.high)
	}
	return nil
}

// forget unmarks (boot, seq), so that the object may be delivered again.
func (g *ReplayGuard) forget(k replayKey, boot, seq uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.streams[k]
	if s == nil {
		return
	}
	for i := range s.epochs {
		if e := &s.epochs[i]; e.boot == boot && seq <= e.high && e.high-seq < g.window {
			bit := seq % g.window
			e.seen[bit/64] &^= 1 << (bit % 64)
		}
	}
}

// epoch finds or opens the boot epoch, newest first, closing the oldest when
// there are too many. boot is at least s.floor.
func (s *replayStream) epoch(boot, window uint64) *replayEpoch {
	find := func() (int, bool) {
		return slices.BinarySearchFunc(s.epochs, boot, func(e replayEpoch,
			b uint64) int {
			return cmp.Compare(b, e.boot)
		})
	}
	i, ok := find()
	if ok {
		return &s.epochs[i]
	}
	s.epochs = slices.Insert(s.epochs, i, replayEpoch{boot: boot, seen: make([]uint64, window/64)})
	if len(s.epochs) > replayEpochs {
		s.floor = s.epochs[replayEpochs].boot + 1
		s.epochs = s.epochs[:replayEpochs]
	}
	if i, ok = find(); !ok { // boot itself was the oldest: closed by its own arrival
		closed := replayEpoch{boot: boot, high: ^uint64(0), seen: make([]uint64, window/64)}
		for j := range closed.seen {
			closed.seen[j] = ^uint64(0)
		}
		return &closed
	}
	return &s.epochs[i]
}

func (e *replayEpoch) accept(seq, window uint64) bool {
	if seq > e.high {
		if gap := seq - e.high; gap >= window {
			clear(e.seen)
		} else {
			for s := e.high + 1; s <= seq && s != 0; s++ {
				bit := s % window
				e.seen[bit/64] &^= 1 << (bit % 64)
			}
		}
		e.high = seq
	} else if e.high-seq >= window {
		return false
	}
	bit := seq % window
	word, mask := bit/64, uint64(1)<<(bit%64)
	if e.seen[word]&mask != 0 {
		return false
	}
	e.seen[word] |= mask
	return true
}
