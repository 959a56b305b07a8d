package loadbench

import (
	"context"
	"fmt"

	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/transport"
)

// Compact windows: a window's nonce follows from its number, so each is encrypted when it is
// sealed, before the clock of its segment starts.

// board is what a device encrypts compact windows with.
type board struct {
	key       *secret.Key
	encryptor *secret.CompactEncryptor
}

func (b *board) wipe() {
	if b != nil {
		b.key.Wipe()
	}
}

// checkCompact refuses windows that have no compact form.
func (b *bed) checkCompact() error {
	if err := compact.CheckPrecision(b.o.Params, compact.Precision(b.o.Compact)); err != nil {
		return fmt.Errorf("%w: --compact %d --params %s: %w", ErrOptions, b.o.Compact, b.o.Params.Name(), err)
	}
	ring, err := compact.Named(compact.SetFor(b.o.Params))
	if err != nil {
		return err
	}
	if n, most := b.stream.Slots(), ring.N(); n > most {
		return fmt.Errorf("%w: %d channels of %d samples take %d readings, a compact window has at most %d; use fewer "+
			"--samples or fewer --channels", ErrOptions, b.o.Channels, b.o.Samples, n, most)
	}
	return nil
}

// makeBoards makes the keys of every device, if windows are compact.
func (b *bed) makeBoards() error {
	if b.o.Compact == 0 {
		return nil
	}
	for _, d := range b.devices {
		if _, err := b.set.AddDevice(d.name, keyholder.DeviceOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// encryptCompact makes what the devices' windows hold, and their encryptors.
func (b *bed) encryptCompact(until context.Context) error {
	big, err := henc.NewContext(b.o.Params)
	if err != nil {
		return err
	}
	key, err := b.secretKey(big)
	if err != nil {
		return err
	}
	defer key.Wipe()
	epoch := b.set.Manifest().Epochs[0]
	ring, _, err := epoch.CompactParameters(b.o.Params)
	if err != nil {
		return err
	}
	small, err := henc.NewContext(ring, henc.WithFastestN2())
	if err != nil {
		return err
	}
	for i, d := range b.devices {
		if until.Err() != nil {
			return until.Err()
		}
		own, err := key.CompactBoard(small, d.name)
		if err != nil {
			return err
		}
		d.board = &board{key: own}
		if d.board.encryptor, err = secret.NewCompactEncryptor(own); err != nil {
			return err
		}
		for n := range b.o.Windows {
			d.bodies = append(d.bodies, body{values: b.samples(uint64(i), uint64(n))})
		}
	}
	public, err := key.PublicKey()
	if err != nil {
		return err
	}
	b.meta = transport.Meta{Kind: transport.KindReading, Stream: streamName, KeyID: public.KeyID,
		KeyEpoch: public.Epoch, BootEpoch: 1, Params: b.o.Params.Hash(), Layout: b.stream.LayoutHash(),
		Samples: uint32(b.o.Samples)}
	engine.CompactHeader(&b.meta)
	b.remark("%d devices with %s each, encrypted when they are signed: %s for a window", b.o.Devices,
		cli.Plural(b.o.Windows, "window"), cli.Bytes(b.ciphertextBytes()))
	return nil
}

// sealCompact encrypts and signs window p.n of a device, and writes its one message to room.
func (b *bed) sealCompact(p *prepared, m transport.Meta, room []byte) error {
	d := b.devices[p.device]
	slots := make([]float64, b.stream.Slots())
	source.FillSlots(slots, b.stream, d.bodies[p.n%int64(len(d.bodies))].values)
	window, err := d.board.encryptor.Encrypt(compact.Order(slots), compact.Precision(b.o.Compact), compact.Origin{
		Device: m.Device, Stream: m.Stream, KeyID: m.KeyID, KeyEpoch: m.KeyEpoch, BootEpoch: m.BootEpoch,
		Sequence: m.Sequence}, nil)
	if err != nil {
		return err
	}
	body, err := window.Marshal()
	if err != nil {
		return err
	}
	sealed, err := transport.SealShort(m, body, d.key)
	if err != nil {
		return err
	}
	if len(sealed) > cap(room) {
		return fmt.Errorf("a window of %d bytes does not fit %d bytes", len(sealed), cap(room))
	}
	p.id = transport.ObjectID(sealed)
	p.chunks = append(p.chunks, append(room[:0], sealed...))
	return nil
}
