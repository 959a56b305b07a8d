package henc

import (
	"fmt"
	"slices"
	"sync"

	"github.com/hencedge/hencedge/cutrantt"
)

// DefaultN2 is the number of columns of a context unless WithN2 says otherwise.
const DefaultN2 = 16

// Context joins parameters with a backend's ring and holds the tables that
// encoding, encryption and evaluation share. It is immutable and safe for
// concurrent use.
type Context struct {
	params  Parameters
	ring    cutrantt.Ring
	n2      int
	encoder *Encoder
	free    sync.Pool // *limbReader
	words   sync.Pool // *[]uint32 of public residues
}

type options struct {
	backend cutrantt.Backend
	n2      int
	ring    cutrantt.Options
}

// Option changes a default of NewContext.
type Option func(*options)

// WithBackend selects the backend; the default is the CPU.
func WithBackend(b cutrantt.Backend) Option { return func(o *options) { o.backend = b } }

// WithN2 selects the columns of the transform domain, one of 1, 2, 4, 8, 16; 0 is
// WithFastestN2.
func WithN2(n2 int) Option { return func(o *options) { o.n2 = n2 } }

// WithFastestN2 selects the columns that the backend multiplies and switches keys
// fastest with, by its own measurement (cutrantt.Columns). An evaluator wants it:
// ciphertexts that arrive in another domain are converted when they are read. The
// default, DefaultN2, is the layout of the single-kernel transform, which suits
// encryption.
func WithFastestN2() Option { return WithN2(0) }

// WithWorkers bounds the CPU workers per operation; 0 means GOMAXPROCS.
func WithWorkers(n int) Option { return func(o *options) { o.ring.Workers = n } }

// WithMethod selects the algorithm of the Hadamard product.
func WithMethod(m cutrantt.Method) Option { return func(o *options) { o.ring.Method = m } }

// NewContext makes a context. It fails with ErrParams for zero parameters,
// ErrDomain for an n2 that is not offered, or with the backend's error.
func NewContext(p Parameters, opts ...Option) (*Context, error) {
	if p.d == nil {
		return nil, fmt.Errorf("%w: the zero Parameters make no context; use Named or NewParameters", ErrParams)
	}
	o := options{n2: DefaultN2}
	for _, f := range opts {
		if f != nil {
			f(&o)
		}
	}
	if o.backend == nil {
		o.backend = defaultBackend()
	}
	if o.n2 == 0 {
		o.n2 = cutrantt.Columns(o.backend, p.LogN())
	}
	if !slices.Contains([]int{1, 2, 4, 8, 16}, o.n2) {
		return nil, fmt.Errorf("%w: n2 = %d is not one of 1, 2, 4, 8, 16", ErrDomain, o.n2)
	}
	ring, err := o.backend.NewRing(p.LogN(), p.Moduli(), o.ring)
	if err != nil {
		return nil, fmt.Errorf("make the ring of %q on backend %s: %w", p.Name(), o.backend.Name(), err)
	}
	c := &Context{params: p, ring: ring, n2: o.n2}
	c.encoder = newEncoder(c)
	return c, nil
}

// ready refuses a nil context and one that NewContext did not make.
func (c *Context) ready() error {
	if c == nil || c.ring == nil {
		return fmt.Errorf("%w: no context; make one with NewContext", ErrParams)
	}
	return nil
}

// Parameters are the context's parameters.
func (c *Context) Parameters() Parameters {
	if c == nil {
		return Parameters{}
	}
	return c.params
}

// Ring is the arithmetic, over Parameters().Moduli().
func (c *Context) Ring() cutrantt.Ring {
	if c == nil {
		return nil
	}
	return c.ring
}

// N2 is the number of columns of the transform domain.
func (c *Context) N2() int {
	if c == nil {
		return 0
	}
	return c.n2
}

// Domain is the domain of plaintexts, ciphertexts and keys: NTT(N2).
func (c *Context) Domain() cutrantt.Domain { return cutrantt.NTT(c.N2()) }

// Encoder is the context's encoder.
func (c *Context) Encoder() *Encoder {
	if c == nil {
		return nil
	}
	return c.encoder
}

// NewPlaintext allocates a plaintext of zeros. It fails with ErrLevel or ErrScale.
func (c *Context) NewPlaintext(level int, scale float64) (*Plaintext, error) {
	b, err := c.newValue(1, level, scale)
	if err != nil {
		return nil, err
	}
	return &Plaintext{Value: b, Level: level, Scale: scale}, nil
}

// NewCiphertext allocates a ciphertext of zeros. It fails with ErrLevel or ErrScale.
func (c *Context) NewCiphertext(level int, scale float64) (*Ciphertext, error) {
	b, err := c.newValue(2, level, scale)
	if err != nil {
		return nil, err
	}
	return &Ciphertext{Value: b, Level: level, Scale: scale}, nil
}

func (c *Context) newValue(polys, level int, scale float64) (*cutrantt.Batch, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	if err := c.params.CheckScale(level, scale); err != nil {
		return nil, err
	}
	return c.ring.NewBatch(polys, c.params.QLimbs(level), c.Domain())
}

// Clone copies ct, seed included, in the context ctx that it belongs to.
func (ct *Ciphertext) Clone(ctx *Context) (*Ciphertext, error) {
	if err := ctx.CheckCiphertext(ct); err != nil {
		return nil, err
	}
	r, err := ctx.NewCiphertext(ct.Level, ct.Scale)
	if err != nil {
		return nil, err
	}
	if err := ctx.ring.Copy(r.Value, ct.Value); err != nil {
		return nil, err
	}
	if ct.Seed != nil {
		seed := *ct.Seed
		r.Seed = &seed
	}
	return r, nil
}

// CheckCiphertext fails unless ct is a ciphertext of this context: two
// polynomials (ErrDegree) in the context's domain (ErrDomain), the limbs of its
// level (ErrLevel) and a possible scale (ErrScale).
func (c *Context) CheckCiphertext(ct *Ciphertext) error {
	if ct == nil {
		return fmt.Errorf("%w: no ciphertext", ErrDegree)
	}
	return c.check("ciphertext", ct.Value, 2, ct.Level, ct.Scale)
}

// CheckPlaintext is CheckCiphertext for a plaintext, one polynomial.
func (c *Context) CheckPlaintext(pt *Plaintext) error {
	if pt == nil {
		return fmt.Errorf("%w: no plaintext", ErrDegree)
	}
	return c.check("plaintext", pt.Value, 1, pt.Level, pt.Scale)
}

func (c *Context) check(what string, b *cutrantt.Batch, polys, level int, scale float64) error {
	if err := c.ready(); err != nil {
		return err
	}
	if b == nil || b.Polys() != polys {
		return fmt.Errorf("%w: %s needs %d polynomials", ErrDegree, what, polys)
	}
	if b.N() != c.params.N() {
		return fmt.Errorf("%w: %s of ring degree %d in a context of %d", ErrParams, what, b.N(), c.params.N())
	}
	if b.Domain() != c.Domain() {
		return fmt.Errorf("%w: %s is in %s, the context works in %s", ErrDomain, what, b.Domain(), c.Domain())
	}
	if err := c.params.CheckScale(level, scale); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if !slices.Equal(b.Limbs(), c.params.data().limbs[:c.params.LimbsAt(level)]) {
		return fmt.Errorf(
			"%w: %s at level %d needs the first %d limbs, it has %d", ErrLevel, what, level, c.params.LimbsAt(level),
			len(b.Limbs()),
		)
	}
	return nil
}
