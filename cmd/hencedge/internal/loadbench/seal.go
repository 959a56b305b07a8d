package loadbench

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/hencedge/hencedge/transport"
)

// seal makes the windows of several rounds, with one window per device in each. It returns
// them round by round.
func (h *house) seal(ctx context.Context, rounds int) ([]prepared, error) {
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
				if i >= n || ctx.Err() != nil {
					return ctx.Err()
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

// sealOne signs window p.n of device p.device and writes its chunks to room.
func (b *bed) sealOne(p *prepared, room []byte) error {
	d := b.devices[p.device]
	m := b.meta
	m.Device, m.Sequence = d.name, uint64(p.n)+1
	m.Place = uint32(d.place)
	m.Start = (b.begin + p.n) * int64(every)
	m.End = m.Start + int64(every)
	if b.o.Compact > 0 {
		return b.sealCompact(p, m, room)
	}
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
