package bfv

import (
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// Context joins parameters with a backend's ring and holds the constants of encoding and products. It is immutable
// and safe for concurrent use.
type Context struct {
	params Parameters
	base   *henc.Context
	limbs  limbs
	scales []float64 // Q/t at each level; 0 where it is none
	places []int     // where slot i lies among the values modulo t

	minusQ   []uint32 // -Q modulo t
	invT     []uint32 // 1/t modulo each prime of Q
	tQ       []uint32 // t modulo each prime of Q, then of B
	auxQ     []uint32 // B modulo each prime of Q
	minusInv []uint32 // -1/Q modulo each prime of B
}

// NewContext makes a context. Options are those of henc.NewContext, except henc.WithAuxiliary. It fails with
// henc.ErrParams for zero parameters, or as henc.NewContext.
func NewContext(p Parameters, opts ...henc.Option) (*Context, error) {
	if p.N() == 0 {
		return nil, fmt.Errorf("%w: the zero Parameters make no context; use Named or NewParameters", henc.ErrParams)
	}
	opts = append(append([]henc.Option(nil), opts...), henc.WithAuxiliary(append(p.aux[:len(p.aux):len(p.aux)], p.t)))
	base, err := henc.NewContext(p.base, opts...)
	if err != nil {
		return nil, err
	}
	return newContext(p, base)
}

// ContextOf is the context for integers modulo DefaultT in the ring of base, which henc.NewContext made for parameters
// that are for integers (henc.Parameters.Integers). It fails with henc.ErrParams for others.
func ContextOf(base *henc.Context) (*Context, error) {
	if !base.Parameters().Integers() {
		return nil, fmt.Errorf("%w: %q is not for integers; use one of %v", henc.ErrParams, base.Parameters().Name(),
			Names())
	}
	p, err := NewParameters(base.Parameters(), DefaultT)
	if err != nil {
		return nil, err
	}
	want := append(p.base.Moduli(), append(p.aux[:len(p.aux):len(p.aux)], p.t)...)
	if !slices.Equal(base.Ring().Moduli(), want) {
		return nil, fmt.Errorf("%w: the context has not the moduli of integers modulo %d", henc.ErrParams, p.T())
	}
	return newContext(p, base)
}

func newContext(p Parameters, base *henc.Context) (*Context, error) {
	c := &Context{params: p, base: base, limbs: p.limbs(), places: places(p.base.LogN())}
	for level := range p.level() + 1 {
		scale, err := p.scale(level)
		if err != nil {
			scale = 0 // t is too large there
		}
		c.scales = append(c.scales, scale)
	}
	own, t := p.base.Moduli()[:len(c.limbs.q)], []cutrantt.Modulus{p.t}
	bigT, q := product(t), p.base.QProduct(p.level())
	c.minusQ = negated(residues(q, t), t)
	c.invT = inverses(bigT, own)
	c.tQ = residues(bigT, append(own[:len(own):len(own)], p.aux...))
	c.auxQ = residues(product(p.aux), own)
	c.minusInv = negated(inverses(q, p.aux), p.aux)
	return c, nil
}

// Parameters are the context's parameters.
func (c *Context) Parameters() Parameters {
	if c == nil {
		return Parameters{}
	}
	return c.params
}

// Base is the context of package henc, which keys belong to.
func (c *Context) Base() *henc.Context {
	if c == nil {
		return nil
	}
	return c.base
}

// ready refuses a nil context and one that NewContext did not make.
func (c *Context) ready() error {
	if c == nil || c.base == nil {
		return fmt.Errorf("%w: no context; make one with NewContext", henc.ErrParams)
	}
	return nil
}

func (c *Context) ring() cutrantt.Ring { return c.base.Ring() }

// coeffs is the coefficient domain of the context.
func (c *Context) coeffs() cutrantt.Domain { return cutrantt.Coeffs(c.base.N2()) }

// Ciphertext is an encrypted plaintext of degree 1: c0 + c1*s = (Q/t)*m + v modulo Q.
type Ciphertext struct {
	Value *cutrantt.Batch // c0, c1 over the primes of Q, in the context's transform domain
	Seed  *[32]byte       // as in henc.Ciphertext
	Noise Noise           // a bound of v; see NoiseModel
	// Down is how many levels below the top Q is that of, after Evaluator.ModSwitch. Only what is at the top level can
	// be computed with.
	Down int
}

// Check fails unless ct is a ciphertext of this context, as henc.Context.CheckCiphertext, or with ErrNoise if it
// might not decrypt.
func (c *Context) Check(ct *Ciphertext) error {
	if err := c.ready(); err != nil {
		return err
	}
	if ct == nil {
		return fmt.Errorf("%w: no ciphertext", henc.ErrDegree)
	}
	if err := c.base.CheckCiphertext(c.Scaled(ct)); err != nil {
		return err
	}
	return c.params.Noise().checkAt(ct.Noise, ct.Down)
}

// Scaled is ct as package henc sees it: at the level of its Q with scale Q/t. It shares the residues. A nil ciphertext
// stays nil.
func (c *Context) Scaled(ct *Ciphertext) *henc.Ciphertext {
	if c == nil || ct == nil {
		return nil
	}
	level := c.params.level() - ct.Down
	return &henc.Ciphertext{Value: ct.Value, Level: level, Scale: c.ScaleAt(level), Seed: ct.Seed}
}

// Scale is Q/t, the scale of ciphertexts in package henc.
func (c *Context) Scale() float64 {
	if c == nil {
		return 0
	}
	return c.ScaleAt(c.params.level())
}

// ScaleAt is Scale of ciphertexts that were switched down to a level; 0 where there is none.
func (c *Context) ScaleAt(level int) float64 {
	if c == nil || level < 0 || level >= len(c.scales) {
		return 0
	}
	return c.scales[level]
}

// wrap is the inverse of Scaled.
func wrap(ct *henc.Ciphertext, noise Noise) *Ciphertext {
	return &Ciphertext{Value: ct.Value, Seed: ct.Seed, Noise: noise}
}

// Received is the inverse of Scaled, for a ciphertext that package henc read, at any level. noise is what the receiver
// knows of its noise. It fails as Unmarshal.
func (c *Context) Received(ct *henc.Ciphertext, noise Noise) (*Ciphertext, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	if err := c.base.CheckCiphertext(ct); err != nil {
		return nil, err
	}
	if ct.Scale != c.ScaleAt(ct.Level) {
		return nil, fmt.Errorf("%w: level %d and scale %g, that of t = %d is %g", henc.ErrScale, ct.Level, ct.Scale,
			c.params.T(), c.ScaleAt(ct.Level))
	}
	out := wrap(ct, noise)
	out.Down = c.params.level() - ct.Level
	if err := c.params.Noise().checkAt(noise, out.Down); err != nil {
		return nil, err
	}
	return out, nil
}

// Free gives the memory of ciphertexts back, which must not be used again. It is optional.
func (c *Context) Free(cts ...*Ciphertext) {
	if c.ready() != nil {
		return
	}
	for _, ct := range cts {
		if ct != nil && ct.Value != nil {
			c.ring().Free(ct.Value)
		}
	}
}

// Marshal encodes ct in the form of docs/wire-ciphertext.md, at its level with scale Q/t. It fails as
// henc.Context.MarshalCiphertext.
func (c *Context) Marshal(ct *Ciphertext) ([]byte, error) {
	if err := c.Check(ct); err != nil {
		return nil, fmt.Errorf("marshal ciphertext: %w", err)
	}
	return c.base.MarshalCiphertext(c.Scaled(ct))
}

// Unmarshal decodes what Marshal wrote for the same parameters and t. noise is what the receiver knows of its noise,
// for example NoiseModel.FreshPK: the sender's word would not do. It fails as henc.Context.UnmarshalCiphertext,
// with henc.ErrScale for another t, and with ErrNoise.
func (c *Context) Unmarshal(b []byte, noise Noise) (*Ciphertext, error) {
	if err := c.ready(); err != nil {
		return nil, fmt.Errorf("unmarshal ciphertext: %w", err)
	}
	ct, err := c.base.UnmarshalCiphertext(b)
	if err != nil {
		return nil, err
	}
	out, err := c.Received(ct, noise)
	if err != nil {
		c.ring().Free(ct.Value)
		return nil, fmt.Errorf("unmarshal ciphertext: %w", err)
	}
	return out, nil
}
