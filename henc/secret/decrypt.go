package secret

import (
	"fmt"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// Decryptor decrypts for the key holder. What it returns must not be shared with
// anybody who may see the ciphertext; see Share. It is safe for concurrent use.
type Decryptor struct {
	ctx *henc.Context
	key *Key
}

// NewDecryptor makes a decryptor; k must belong to ctx.
func NewDecryptor(ctx *henc.Context, k *Key) *Decryptor { return &Decryptor{ctx: ctx, key: k} }

// Decrypt is c0 + c1*s: the plaintext with the ciphertext's noise. No branch and no
// address depends on s or on the result; decoding adds to this that everybody learns
// whether it failed, or needed more than four primes, as after a wrong key.
func (d *Decryptor) Decrypt(ct *henc.Ciphertext) (*henc.Plaintext, error) {
	if d == nil || d.ctx == nil {
		return nil, fmt.Errorf("decrypt: %w: decryptor without a context", henc.ErrParams)
	}
	if err := d.ctx.CheckCiphertext(ct); err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	s, release, err := d.key.in(d.ctx)
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	defer release()
	r, limbs := d.ctx.Ring(), d.ctx.Parameters().QLimbs(ct.Level)
	c := chain.Secret(r)
	m := c.Batch(1, limbs, d.ctx.Domain())
	c.Op3(r.Mul, m, c.Poly(ct.Value, 1), c.View(s, 0, 1, 0, len(limbs)))
	c.Op3(r.Add, m, m, c.Poly(ct.Value, 0))
	kept, _ := c.Keep(m)
	if err := c.Close(); err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	return &henc.Plaintext{Value: kept, Level: ct.Level, Scale: ct.Scale}, nil
}

// DecryptComplex decrypts the N/2 complex slots.
func (d *Decryptor) DecryptComplex(ct *henc.Ciphertext) ([]complex128, error) {
	return decode(d, ct, (*henc.Encoder).DecodeComplex)
}

// DecryptReal decrypts the real parts of the N/2 slots.
func (d *Decryptor) DecryptReal(ct *henc.Ciphertext) ([]float64, error) {
	return decode(d, ct, (*henc.Encoder).DecodeReal)
}

// DecryptPacked decrypts the N reals of packed slots; see henc.SlotEncryptor.
func (d *Decryptor) DecryptPacked(ct *henc.Ciphertext) ([]float64, error) {
	return decode(d, ct, (*henc.Encoder).DecodePacked)
}

func decode[T any](
	d *Decryptor, ct *henc.Ciphertext, f func(*henc.Encoder, *henc.Plaintext) ([]T, error),
) ([]T, error) {
	pt, err := d.Decrypt(ct)
	if err != nil {
		return nil, err
	}
	values, err := f(d.ctx.Encoder(), pt)
	werr := d.ctx.Ring().Wipe(pt.Value)
	d.ctx.Ring().Free(pt.Value)
	if err == nil {
		err = werr
	}
	if err != nil {
		clear(values)
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	return values, nil
}
