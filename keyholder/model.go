package keyholder

import (
	"fmt"

	"github.com/hencedge/hencedge/evaluator/model/answer"
	"github.com/hencedge/hencedge/evaluator/model/rangecover"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/transport"
)

// Results of models are several ciphertexts of whole numbers, as package answer has them. Their headers have the
// plaintext modulus in place of the scale.

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
		if h.Scale != r.integers.Scale() {
			return h, fmt.Errorf("scale %g, that of whole numbers modulo %d is %g", h.Scale, henc.DefaultT,
				r.integers.Scale())
		}
		h.Scale = henc.DefaultT
	}
	return h, err
}

// decryptModel returns the values of a model's result. If its body is ciphertexts it does not fail, whatever they
// decrypt to.
func (r *Reader) decryptModel(obj *transport.Object, m *answer.Model) ([]float64, error) {
	blocks, err := m.Cut(obj.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: body: %w", ErrTampered, err)
	}
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
	slots := func(body []byte) ([]uint64, error) {
		// What the noise really is only the evaluator knows; it is not asked.
		ct, err := r.integers.Unmarshal(body, r.integers.Parameters().Noise().FreshPK())
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
	}
	opened := make([]rangecover.Result[[]uint64], len(blocks))
	for i, b := range blocks {
		if opened[i].Test, err = slots(b.Test); err != nil {
			return nil, err
		}
		for _, v := range b.Values {
			one, err := slots(v)
			if err != nil {
				return nil, err
			}
			opened[i].Values = append(opened[i].Values, one)
		}
	}
	return m.Values(opened), nil
}
