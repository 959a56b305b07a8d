package secret

import (
	"fmt"
	"math"
	"math/big"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/internal/chain"
	"github.com/hencedge/hencedge/henc/internal/crt"
)

// IntegerDecryptor decrypts the exact integers of package bfv for the key holder. It is safe for concurrent use.
type IntegerDecryptor struct {
	ctx  *bfv.Context
	base *Decryptor
	key  *Key

	t        []uint32   // t modulo each prime of Q
	minusInv [][]uint32 // -1/Q modulo t at each level
}

// NewIntegerDecryptor makes a decryptor; k must belong to ctx.Base().
func NewIntegerDecryptor(ctx *bfv.Context, k *Key) *IntegerDecryptor {
	d := &IntegerDecryptor{ctx: ctx, base: NewDecryptor(ctx.Base(), k), key: k}
	p := ctx.Parameters()
	if p.N() == 0 {
		return d
	}
	q, t := p.Base().Q(), new(big.Int).SetUint64(uint64(p.T()))
	for _, v := range q {
		d.t = append(d.t, p.T()%v)
	}
	for level := range p.Base().MaxLevel() + 1 {
		inverse := new(big.Int).ModInverse(p.Base().QProduct(level), t)
		d.minusInv = append(d.minusInv, []uint32{uint32(new(big.Int).Sub(t, inverse).Uint64())})
	}
	return d
}

// Decrypt returns the plaintext: t/Q*(c0 + c1*s) rounded, modulo t. The caller wipes it (bfv.Context.Wipe). No branch
// and no address depends on the key or on the result. A ciphertext with too much noise decrypts to anything.
func (d *IntegerDecryptor) Decrypt(ct *bfv.Ciphertext) (*bfv.Plaintext, error) {
	c, x, err := d.phase(ct)
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	// (t*x - [t*x]_Q)/Q modulo t is -[t*x]_Q/Q.
	r := d.ctx.Base().Ring()
	m := c.Batch(1, []int{d.ctx.PlainLimb()}, x.Domain())
	c.Op2(r.Extend, m, x)
	c.Do(func() error { return r.MulScalar(m, m, d.minusInv[d.ctx.Scaled(ct).Level]) })
	kept, _ := c.Keep(m)
	if err := c.Close(); err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	return d.ctx.NewPlaintext(kept)
}

// Slots decrypts the N slots.
func (d *IntegerDecryptor) Slots(ct *bfv.Ciphertext) ([]uint64, error) {
	return d.decode(ct, (*bfv.Context).DecodeSlots)
}

// Coeffs decrypts the N coefficients.
func (d *IntegerDecryptor) Coeffs(ct *bfv.Ciphertext) ([]uint64, error) {
	return d.decode(ct, (*bfv.Context).DecodeCoeffs)
}

func (d *IntegerDecryptor) decode(
	ct *bfv.Ciphertext, f func(*bfv.Context, *bfv.Plaintext) ([]uint64, error),
) ([]uint64, error) {
	pt, err := d.Decrypt(ct)
	if err != nil {
		return nil, err
	}
	values, err := f(d.ctx, pt)
	if werr := d.ctx.Wipe(pt); err == nil {
		err = werr
	}
	if err != nil {
		clear(values)
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	return values, nil
}

// Noise measures the largest magnitude of a coefficient of the noise v of c0 + c1*s = (Q/t)*m + v, to float64
// accuracy; see bfv.NoiseModel.Largest. It is for tests and for choosing parameters: what it returns tells about the
// key and must not leave the key holder. A ciphertext that does not decrypt measures at most Q/(2t), where noise
// wraps around.
func (d *IntegerDecryptor) Noise(ct *bfv.Ciphertext) (float64, error) {
	c, x, err := d.phase(ct)
	if err != nil {
		return 0, fmt.Errorf("measure noise: %w", err)
	}
	r := d.ctx.Base().Ring()
	natural := c.Batch(1, x.Limbs(), cutrantt.Coeffs(1))
	c.Op2(r.Convert, natural, x)
	host, out := make([]uint32, natural.Len()), make([]float64, d.ctx.Parameters().N())
	defer clear(host)
	defer clear(out)
	c.Do(func() error { return r.Download(host, natural) })
	if err := c.Close(); err != nil {
		return 0, fmt.Errorf("measure noise: %w", err)
	}
	crt.New(d.ctx.Parameters().Base().Q()[:len(x.Limbs())]).Centred(out, host)
	largest := 0.0
	for _, v := range out {
		largest = max(largest, math.Abs(v))
	}
	return largest / float64(d.ctx.Parameters().T()), nil
}

// phase starts a sequence with t*(c0 + c1*s) over Q, in coefficients; the caller closes it. It ends as t*v modulo Q.
func (d *IntegerDecryptor) phase(ct *bfv.Ciphertext) (*chain.Chain, *cutrantt.Batch, error) {
	if d == nil || d.ctx.Base() == nil {
		return nil, nil, fmt.Errorf("%w: decryptor without a context", henc.ErrParams)
	}
	pt, err := d.base.Decrypt(d.ctx.Scaled(ct))
	if err != nil {
		return nil, nil, err
	}
	r := d.ctx.Base().Ring()
	c := chain.Secret(r)
	x := c.Batch(1, pt.Value.Limbs(), cutrantt.Coeffs(d.ctx.Base().N2()))
	c.Op2(r.Inverse, x, pt.Value)
	c.Do(func() error { return r.MulScalar(x, x, d.t[:len(x.Limbs())]) })
	werr := r.Wipe(pt.Value) // also after an error
	r.Free(pt.Value)
	c.Do(func() error { return werr })
	if c.Err() != nil {
		return nil, nil, c.Close()
	}
	return c, x, nil
}

// IntegerEncryptor encrypts the exact integers of package bfv under the secret key, with a seed instead of c1: half
// the bytes. It is safe for concurrent use.
type IntegerEncryptor struct {
	ctx  *bfv.Context
	base *SeededEncryptor
}

// NewIntegerEncryptor makes an encryptor; k must belong to ctx.Base().
func NewIntegerEncryptor(ctx *bfv.Context, k *Key) *IntegerEncryptor {
	return &IntegerEncryptor{ctx: ctx, base: NewSeededEncryptor(ctx.Base(), k)}
}

// Encrypt encrypts pt with the randomness of seed, which must not be used again; nil draws a fresh one.
func (e *IntegerEncryptor) Encrypt(pt *bfv.Plaintext, seed *henc.Seed) (*bfv.Ciphertext, error) {
	if e == nil || e.ctx.Base() == nil {
		return nil, fmt.Errorf("encrypt: %w: encryptor without a context", henc.ErrParams)
	}
	p := e.ctx.Parameters()
	ct, err := e.base.Encrypt(make([]float64, p.N()), p.Base().MaxLevel(), e.ctx.Scale(), seed)
	if err != nil {
		return nil, err
	}
	cts, err := e.ctx.Hide([]*henc.Ciphertext{ct}, []*bfv.Plaintext{pt}, p.Noise().FreshSeeded())
	if err != nil {
		return nil, err
	}
	return cts[0], nil
}
