package loadbench

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/transport"
)

// arena is memory outside of the heap for sealed windows, in slots of equal size.
type arena struct {
	memory []byte
	slot   int // bytes
}

// room makes room for n slots; what was in them is lost.
func (a *arena) room(n, slot int) error {
	if a.slot = slot; len(a.memory) >= n*slot {
		return nil
	}
	if err := a.free(); err != nil {
		return err
	}
	m, err := unix.Mmap(-1, 0, n*slot, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("%s for sealed windows: %w", cli.Bytes(int64(n*slot)), err)
	}
	a.memory = m
	return nil
}

func (a *arena) free() error {
	if a.memory == nil {
		return nil
	}
	err := unix.Munmap(a.memory)
	a.memory = nil
	return err
}

// at returns the memory of slot i, empty.
func (a *arena) at(i int) []byte { return a.memory[i*a.slot : i*a.slot : (i+1)*a.slot] }

// prepared is a sealed window in the arena, as the messages that carry it.
type prepared struct {
	device int
	n      int64 // of the device, from 0
	id     [32]byte
	chunks [][]byte
	due    time.Time // when it is to be fed; zero: at any time
}

func (p *prepared) bytes() (n int64) {
	for _, c := range p.chunks {
		n += int64(len(c))
	}
	return n
}

// slotRoom is what may be added to a window and its chunks beside the ciphertext, in bytes:
// numbers in headers do not all have the same length.
const slotRoom = transport.SealRoom + transport.SealTail + 1024

// seal makes the windows of several rounds, one window of each device in each, and returns
// them round by round.
func (h *house) seal(rounds int) ([]prepared, error) {
	b := h.bed
	n := rounds * len(b.devices)
	if err := h.arena.room(n, h.slotBytes()); err != nil {
		return nil, err
	}
	out := make([]prepared, n)
	var next atomic.Int64
	var g errgroup.Group
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				p := &out[i]
				p.device, p.n = i%len(b.devices), h.fed+int64(i/len(b.devices))
				if err := b.sealOne(p, h.arena.at(i)); err != nil {
					return err
				}
			}
		})
	}
	return out, g.Wait()
}

// slotBytes is the memory of a sealed window.
func (b *bed) slotBytes() int { return int(b.ciphertextBytes()) + slotRoom }

// sealOne signs window p.n of a device and puts its chunks into room.
func (b *bed) sealOne(p *prepared, room []byte) error {
	d := b.devices[p.device]
	m := b.meta
	m.Device, m.Sequence = d.name, uint64(p.n)+1
	m.Start = (b.begin + p.n) * int64(every)
	m.End = m.Start + int64(every)
	sealed, err := transport.Seal(m, d.bodies[p.n%int64(len(d.bodies))].ciphertext, d.key)
	if err != nil {
		return err
	}
	pieces, err := transport.Split(sealed, int(b.cfg.Broker.ChunkSize))
	if err != nil {
		return err
	}
	p.id = pieces[0].Object
	for i := range pieces {
		payload, err := pieces[i].Marshal()
		if err != nil {
			return err
		}
		start := len(room)
		if start+len(payload) > cap(room) {
			return fmt.Errorf(
				"a window of %d bytes in %d chunks does not fit %d bytes",
				len(sealed),
				len(pieces),
				cap(room),
			)
		}
		room = append(room, payload...)
		p.chunks = append(p.chunks, room[start:len(room):len(room)])
	}
	return nil
}
