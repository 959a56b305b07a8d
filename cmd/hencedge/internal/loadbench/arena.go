package loadbench

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
)

// arena holds sealed windows outside the heap, in slots of equal size.
type arena struct {
	memory []byte
	slot   int // bytes
}

// room makes room for n slots. It may discard what the arena held.
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

// at returns slot i as an empty slice with the capacity of the slot.
func (a *arena) at(i int) []byte { return a.memory[i*a.slot : i*a.slot : (i+1)*a.slot] }

// prepared is a sealed window, cut into the messages that carry it.
type prepared struct {
	device int
	n      int64 // number of the device's window, from 0
	id     [32]byte
	chunks [][]byte  // in the arena
	due    time.Time // when to feed it; zero: at any time
}

func (p *prepared) bytes() (n int64) {
	for _, c := range p.chunks {
		n += int64(len(c))
	}
	return n
}
