package keyholder

import (
	"errors"
	"fmt"

	"github.com/hencedge/hencedge/evaluator/model/answer"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/transport"
)

// Results of models and comparisons are ciphertexts of whole numbers, as package answer has them. Their headers have
// the plaintext modulus in place of the scale.

// peek returns the header of a result's first ciphertext, with the scale that the header of the object has to have.
func (r *Reader) peek(body []byte) (henc.Header, error) {
	if r.integers != nil {
		var err error
		if body, err = answer.First(body); err != nil {
			return henc.Header{}, err
		}
	}
	h, err := henc.PeekCiphertext(body)
	if err == nil && r.integers != nil {
		if want := r.integers.ScaleAt(h.Level); h.Scale != want {
			return h, fmt.Errorf("scale %g, that of whole numbers modulo %d at level %d is %g", h.Scale, henc.DefaultT,
				h.Level, want)
		}
		h.Scale = henc.DefaultT
	}
	return h, err
}

// decryptWhole returns the values of a result of whole numbers. If its body is ciphertexts it does not fail, whatever
// they decrypt to.
func (r *Reader) decryptWhole(obj *transport.Object, opener program.Opener) ([]float64, error) {
	key, release, err := r.use(obj.Meta.KeyID)
	if err != nil {
		return nil, err
	}
	defer release()
	d := secret.NewIntegerDecryptor(r.integers, key)
	var wipe [][]uint64
	defer func() {
		for _, s := range wipe {
			clear(s)
		}
	}()
	values, err := opener.Open(obj.Body, func(body []byte) ([]uint64, error) {
		// What the noise really is only the evaluator knows; it is not asked.
		ct, err := r.integers.Unmarshal(body, bfv.Noise{})
		if err != nil {
			return nil, fmt.Errorf("%w: body: %w", ErrTampered, err)
		}
		defer r.integers.Free(ct)
		out, err := d.Slots(ct)
		if err != nil {
			return nil, fmt.Errorf("decrypt result of %s: %w", obj.Meta.Program, err)
		}
		wipe = append(wipe, out)
		return out, nil
	})
	if errors.Is(err, answer.ErrModel) {
		err = fmt.Errorf("%w: body: %w", ErrTampered, err)
	}
	return values, err
}
