package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/transport"
)

// Pack adds results of packed circuits, which are under one key, into one ciphertext. spots
// are those of their circuits, at the slots of the values in the pack. See program.Pack.
func (e *Engine) Pack(params [32]byte, key transport.KeyRef, bodies [][]byte, spots []program.Spots) (body []byte,
	at []int, err error) {
	l := e.lanes[params]
	err = l.attempt(l.next(packing), func(d *device) error {
		results := make([]*henc.Ciphertext, 0, len(bodies))
		defer func() {
			for _, ct := range results {
				d.ctx.Ring().Free(ct.Value)
			}
		}()
		for some := range slices.Chunk(bodies, mostTogether) {
			cts, errs := d.ctx.UnmarshalCiphertexts(some)
			for _, ct := range cts {
				if ct != nil {
					results = append(results, ct)
				}
			}
			if err := errors.Join(errs...); err != nil {
				return fmt.Errorf("pack: %w", err)
			}
		}
		ct, places, err := program.Pack(d.keys[key], results, spots)
		if err != nil {
			return err
		}
		results, at = append(results, ct), places
		body, err = d.ctx.MarshalCiphertext(ct)
		return err
	})
	return body, at, err
}
