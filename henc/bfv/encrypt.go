package bfv

import (
	"fmt"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// Encryptor encrypts under a public key: henc's encryption of zero, and the scaled message on top. It is immutable
// and safe for concurrent use.
type Encryptor struct {
	ctx  *Context
	base *henc.Encryptor
	zero []float64
}

// NewEncryptor prepares pk, which must belong to ctx.Base(). It fails as henc.NewEncryptor.
func NewEncryptor(ctx *Context, pk *henc.PublicKey) (*Encryptor, error) {
	if err := ctx.ready(); err != nil {
		return nil, fmt.Errorf("new encryptor: %w", err)
	}
	base, err := henc.NewEncryptor(ctx.base, pk)
	if err != nil {
		return nil, err
	}
	return &Encryptor{ctx: ctx, base: base, zero: make([]float64, ctx.params.N())}, nil
}

// Encrypt encrypts pt with the randomness of seed, which must not be used again; nil draws a fresh one. No branch
// and no address depends on the seed or the message.
func (e *Encryptor) Encrypt(pt *Plaintext, seed *henc.Seed) (*Ciphertext, error) {
	cts, err := e.EncryptBatch([]*Plaintext{pt}, []*henc.Seed{seed})
	if err != nil {
		return nil, err
	}
	return cts[0], nil
}

// EncryptBatch encrypts several plaintexts together, which a GPU does faster. seeds is nil, or has an entry, which
// may be nil, for each. It fails as a whole.
func (e *Encryptor) EncryptBatch(pts []*Plaintext, seeds []*henc.Seed) ([]*Ciphertext, error) {
	if e == nil || e.ctx.ready() != nil {
		return nil, fmt.Errorf("encrypt: %w: encryptor not made by NewEncryptor", henc.ErrParams)
	}
	for i, pt := range pts {
		if err := e.ctx.checkPlain(pt); err != nil {
			return nil, fmt.Errorf("encrypt: plaintext %d: %w", i, err)
		}
	}
	zeros := make([][]float64, len(pts))
	for i := range zeros {
		zeros[i] = e.zero
	}
	cts, err := e.base.EncryptBatch(zeros, e.ctx.params.level(), e.ctx.Scale(), seeds)
	if err != nil {
		return nil, err
	}
	return e.ctx.Hide(cts, pts, e.ctx.params.Noise().FreshPK())
}

// Hide adds plaintexts to encryptions of zero at the top level with scale Q/t, in place, and returns these as
// ciphertexts with the given noise. A public seed of theirs stays valid. After an error it frees them.
func (c *Context) Hide(zeros []*henc.Ciphertext, pts []*Plaintext, noise Noise) ([]*Ciphertext, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	if len(zeros) != len(pts) {
		return nil, fmt.Errorf("%w: %d encryptions of zero for %d plaintexts", henc.ErrParams, len(zeros), len(pts))
	}
	r := c.ring()
	s := chain.Secret(r)
	out, group := make([]*Ciphertext, len(zeros)), c.together(len(zeros))
	whole := s.Batch(group, c.limbs.q, c.coeffs())
	for lo := 0; lo < len(zeros); lo += group {
		hi := min(lo+group, len(zeros))
		m := s.View(whole, 0, hi-lo, 0, len(c.limbs.q))
		s.Do(func() error { return c.Lift(m, pts[lo:hi]...) })
		for i := lo; i < hi; i++ {
			ct := zeros[i]
			s.Do(func() error { return c.base.CheckCiphertext(ct) })
			s.Do(func() error { c0 := s.Poly(ct.Value, 0); return r.Add(c0, c0, s.Poly(m, i-lo)) })
			if s.Err() == nil {
				out[i] = wrap(ct, noise)
			}
		}
	}
	if err := s.Close(); err != nil {
		for _, ct := range zeros {
			if ct != nil {
				r.Free(ct.Value)
			}
		}
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	return out, nil
}
