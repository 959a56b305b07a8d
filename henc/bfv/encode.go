package bfv

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/internal/chain"
	"github.com/hencedge/hencedge/internal/taint"
)

// Plaintext is a polynomial modulo t.
type Plaintext struct {
	Value *cutrantt.Batch // one polynomial over the limb of t, coefficients
	norm  float64         // bounds the Euclidean norm of the centred coefficients
}

// Factor is a plaintext prepared for Evaluator.MulPlain. It is immutable.
type Factor struct {
	value *cutrantt.Batch // the centred polynomial over Q, in the transform domain
	norm  float64         // bounds the Euclidean norm of its coefficients
}

// places is where slot i lies in the order of the complete transform, position b of which holds the value at
// zeta^(2*brv(b)+1): slot i < N/2 is the value at zeta^(5^i), slot N/2 + i that at zeta^(-5^i).
func places(logN int) []int {
	n := 1 << logN
	out := make([]int, n)
	position := func(e int) int { return int(bits.Reverse32(uint32((e-1)/2)) >> (32 - logN)) }
	for i, e := 0, 1; i < n/2; i, e = i+1, e*5%(2*n) {
		out[i], out[n/2+i] = position(e), position(2*n-e)
	}
	return out
}

// EncodeSlots encodes at most N integers below t, one to a slot; the other slots are 0. Slots 0 to N/2-1 are the
// first row, the others the second. It fails with henc.ErrMessage.
func (c *Context) EncodeSlots(values []uint64) (*Plaintext, error) {
	const op = "encode slots"
	if err := c.encodable(values); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	n := c.params.N()
	host := make([]uint32, n)
	defer clear(host)
	for i, v := range values {
		host[c.places[i]] = uint32(v)
	}
	return c.encode(op, host, cutrantt.NTT(1), c.params.Noise().MaxNorm())
}

// EncodeCoeffs encodes at most N integers below t as the coefficients of 1, X, X^2 and so on; the others are 0. It
// fails with henc.ErrMessage.
func (c *Context) EncodeCoeffs(values []uint64) (*Plaintext, error) {
	const op = "encode coefficients"
	if err := c.encodable(values); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	host := make([]uint32, c.params.N())
	defer clear(host)
	sum, t := 0.0, uint64(c.params.T())
	for i, v := range values {
		host[i] = uint32(v)
		x := float64(min(v, t-v))
		sum += x * x
	}
	return c.encode(op, host, cutrantt.Coeffs(1), math.Sqrt(sum))
}

// encodable refuses what is no message.
func (c *Context) encodable(values []uint64) error {
	if err := c.ready(); err != nil {
		return err
	}
	if len(values) > c.params.N() {
		return fmt.Errorf("%w: %d values, there is room for %d", henc.ErrMessage, len(values), c.params.N())
	}
	var above uint64
	for _, v := range values {
		above |= (uint64(c.params.T()) - 1 - min(v, 1<<63-1)) >> 63
	}
	if taint.Outcome(above != 0) {
		return fmt.Errorf("%w: a value is not below t = %d", henc.ErrMessage, c.params.T())
	}
	return nil
}

// encode makes a plaintext of residues modulo t in the given domain.
func (c *Context) encode(op string, host []uint32, d cutrantt.Domain, norm float64) (*Plaintext, error) {
	r := c.ring()
	s := chain.Secret(r)
	in := s.Batch(1, c.limbs.t, d)
	out := s.Batch(1, c.limbs.t, c.coeffs())
	s.Do(func() error { return r.Upload(in, host) })
	s.Op2(r.Convert, out, in)
	kept, _ := s.Keep(out)
	if err := s.Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return &Plaintext{Value: kept, norm: norm}, nil
}

// DecodeSlots returns the N slots.
func (c *Context) DecodeSlots(pt *Plaintext) ([]uint64, error) {
	host, err := c.decode(pt, cutrantt.NTT(1))
	if err != nil {
		return nil, fmt.Errorf("decode slots: %w", err)
	}
	defer clear(host)
	out := make([]uint64, len(host))
	for i, p := range c.places {
		out[i] = uint64(host[p])
	}
	return out, nil
}

// DecodeCoeffs returns the N coefficients, in [0, t).
func (c *Context) DecodeCoeffs(pt *Plaintext) ([]uint64, error) {
	host, err := c.decode(pt, cutrantt.Coeffs(1))
	if err != nil {
		return nil, fmt.Errorf("decode coefficients: %w", err)
	}
	defer clear(host)
	out := make([]uint64, len(host))
	for i, v := range host {
		out[i] = uint64(v)
	}
	return out, nil
}

func (c *Context) decode(pt *Plaintext, d cutrantt.Domain) ([]uint32, error) {
	if err := c.checkPlain(pt); err != nil {
		return nil, err
	}
	r := c.ring()
	s := chain.Secret(r)
	b := s.Batch(1, c.limbs.t, d)
	host := make([]uint32, c.params.N())
	s.Op2(r.Convert, b, pt.Value)
	s.Do(func() error { return r.Download(host, b) })
	return host, s.Close()
}

// NewPlaintext makes a plaintext of one polynomial over the limb of t, coefficients in the context's layout, which it
// takes over. It fails with henc.ErrMessage for any other batch.
func (c *Context) NewPlaintext(value *cutrantt.Batch) (*Plaintext, error) {
	pt := &Plaintext{Value: value, norm: c.Parameters().Noise().MaxNorm()}
	return pt, c.checkPlain(pt)
}

// PlainLimb is the index of t among the moduli of the ring.
func (c *Context) PlainLimb() int {
	if c.ready() != nil {
		return -1
	}
	return c.limbs.t[0]
}

// checkPlain refuses what is no plaintext of this context.
func (c *Context) checkPlain(pt *Plaintext) error {
	if err := c.ready(); err != nil {
		return err
	}
	if pt == nil || pt.Value == nil || pt.Value.Polys() != 1 || pt.Value.N() != c.params.N() ||
		len(pt.Value.Limbs()) != 1 || pt.Value.Limbs()[0] != c.limbs.t[0] || pt.Value.Domain() != c.coeffs() {
		return fmt.Errorf("%w: a plaintext is one polynomial modulo t, in %v", henc.ErrMessage, c.coeffs())
	}
	return nil
}

// Wipe overwrites a plaintext, which must not be used again, and gives its memory back.
func (c *Context) Wipe(pt *Plaintext) error {
	if err := c.checkPlain(pt); err != nil {
		return err
	}
	err := c.ring().Wipe(pt.Value)
	c.ring().Free(pt.Value)
	return err
}

// Factor prepares pt for products.
func (c *Context) Factor(pt *Plaintext) (*Factor, error) {
	if err := c.checkPlain(pt); err != nil {
		return nil, fmt.Errorf("factor: %w", err)
	}
	s := chain.New(c.ring())
	out := s.Result(1, c.limbs.q, c.coeffs())
	s.Op2(c.ring().Extend, out, pt.Value)
	s.Op2(c.ring().Forward, out, out)
	kept, _ := s.Keep(out)
	if err := s.Close(); err != nil {
		return nil, fmt.Errorf("factor: %w", err)
	}
	return &Factor{value: kept, norm: pt.norm}, nil
}

// Monomial is the factor X^k, for any k; X^N = -1. Products with it add no noise.
func (c *Context) Monomial(k int) (*Factor, error) {
	if err := c.ready(); err != nil {
		return nil, fmt.Errorf("monomial: %w", err)
	}
	n := c.params.N()
	k = (k%(2*n) + 2*n) % (2 * n)
	values := make([]uint64, k%n+1)
	values[k%n] = 1
	if k >= n {
		values[k%n] = uint64(c.params.T()) - 1
	}
	pt, err := c.EncodeCoeffs(values)
	if err != nil {
		return nil, fmt.Errorf("monomial: %w", err)
	}
	defer c.ring().Free(pt.Value)
	return c.Factor(pt)
}

// Lift sets the polynomials of dst, over Q in the transform domain, to (Q/t)*m rounded for each plaintext m, which is
// what encryption hides: with w = -Q*m modulo t, centred, it is w/t modulo Q, which differs from (Q/t)*m by w/t, less
// than 1/2.
func (c *Context) Lift(dst *cutrantt.Batch, pts ...*Plaintext) error {
	if err := c.ready(); err != nil {
		return err
	}
	if dst == nil || dst.Polys() != len(pts) {
		return fmt.Errorf("%w: a polynomial for each of %d plaintexts is needed", henc.ErrMessage, len(pts))
	}
	plain := make([]*cutrantt.Batch, len(pts))
	for i, pt := range pts {
		if err := c.checkPlain(pt); err != nil {
			return err
		}
		plain[i] = pt.Value
	}
	r := c.ring()
	s := chain.Secret(r)
	w := s.Batch(len(pts), c.limbs.t, c.coeffs())
	s.Do(func() error { return cutrantt.Collect(r, w, plain) })
	s.Do(func() error { return r.MulScalar(w, w, c.minusQ) })
	s.Do(func() error { dst.SetDomain(c.coeffs()); return r.Extend(dst, w) })
	s.Do(func() error { return r.MulScalar(dst, dst, c.invT) })
	s.Op2(r.Forward, dst, dst)
	return s.Close()
}
