package henc

import (
	"fmt"
	"slices"
	"sync"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/crt"
	"github.com/hencedge/hencedge/henc/internal/embed"
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
	more    []cutrantt.Modulus
}

// Option changes a default of NewContext.
type Option func(*options)

// WithBackend selects the backend; the default is the CPU.
func WithBackend(b cutrantt.Backend) Option { return func(o *options) { o.backend = b } }

// WithN2 selects the columns of the transform domain, one of 1, 2, 4, 8, 16; 0 is
// WithFastestN2.
func WithN2(n2 int) Option { return func(o *options) { o.n2 = n2 } }

// WithFastestN2 selects the columns that the backend multiplies and switches keys
// fastest with, by its own measurement (FastestN2). An evaluator wants it:
// ciphertexts that arrive in another domain are converted when they are read. The
// default, DefaultN2, is the layout of the single-kernel transform, which suits
// encryption.
func WithFastestN2() Option { return WithN2(0) }

// FastestN2 is what WithFastestN2 selects for b: cutrantt.SumColumns for parameters with levels for bootstrapping, 1
// for integers, whose products transform more than they multiply, else cutrantt.Columns.
func FastestN2(p Parameters, b cutrantt.Backend) int {
	if p.Integers() {
		return 1
	}
	if p.UpperLevels() > 0 {
		return cutrantt.SumColumns(b, p.LogN())
	}
	return cutrantt.Columns(b, p.LogN())
}

// WithWorkers bounds the CPU workers per operation; 0 means GOMAXPROCS.
func WithWorkers(n int) Option { return func(o *options) { o.ring.Workers = n } }

// WithMethod selects the algorithm of the Hadamard product.
func WithMethod(m cutrantt.Method) Option { return func(o *options) { o.ring.Method = m } }

// WithAuxiliary gives the ring further moduli, which follow those of the parameters. Package bfv computes modulo
// them; no key and no ciphertext has limbs of them. Without it those of Parameters.Integers are IntegerModuli for
// DefaultT, others get none.
func WithAuxiliary(m []cutrantt.Modulus) Option {
	return func(o *options) { o.more = m }
}

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
	if p.Integers() && o.more == nil {
		var err error
		if o.more, err = IntegerModuli(p, DefaultT); err != nil {
			return nil, err
		}
	}
	if o.n2 == 0 {
		o.n2 = FastestN2(p, o.backend)
	}
	if !slices.Contains([]int{1, 2, 4, 8, 16}, o.n2) {
		return nil, fmt.Errorf("%w: n2 = %d is not one of 1, 2, 4, 8, 16", ErrDomain, o.n2)
	}
	ring, err := o.backend.NewRing(p.LogN(), append(p.Moduli(), o.more...), o.ring)
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

// Ring is the arithmetic, over Parameters().Moduli() and what WithAuxiliary adds.
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
	return c.checkIn(what, b, polys, level, scale, c.Domain())
}

func (c *Context) checkIn(what string, b *cutrantt.Batch, polys, level int, scale float64, d cutrantt.Domain) error {
	if err := c.ready(); err != nil {
		return err
	}
	if b == nil || b.Polys() != polys {
		return fmt.Errorf("%w: %s needs %d polynomials", ErrDegree, what, polys)
	}
	if b.N() != c.params.N() {
		return fmt.Errorf("%w: %s of ring degree %d in a context of %d", ErrParams, what, b.N(), c.params.N())
	}
	if b.Domain() != d {
		return fmt.Errorf("%w: %s is in %s, the context works in %s", ErrDomain, what, b.Domain(), d)
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

// Encoder maps vectors of numbers to plaintext polynomials and back by the
// canonical embedding. It is safe for concurrent use.
//
// Errors. Encoding rounds each of the N coefficients to an integer, which adds to
// the real and to the imaginary part of every slot an error of standard deviation
// sqrt(N/24)/scale. On top of it comes float64 arithmetic: over the slots, the root
// mean square of its error is at most EncodingError times the root mean square of
// the values, for encoding and as much again for decoding (about 2^-46 for
// N = 2^16; measured 2^-51). Coefficients of any magnitude are carried exactly
// between their float64 values and the residues, so scales above 2^52 lose nothing
// but float64's own precision.
type Encoder struct {
	ctx *Context
	fft *embed.Embedding
	crt []*crt.Table // by number of limbs, less one
	// free holds *slots that are zero, decoding *decoding that are.
	free, decoding *sync.Pool
}

func newEncoder(c *Context) *Encoder {
	n := c.params.Slots()
	e := &Encoder{
		ctx: c, fft: embed.New(n), crt: make([]*crt.Table, c.params.LimbsAt(c.params.MaxLevel())),
		free:     &sync.Pool{New: func() any { return &slots{make([]float64, n), make([]float64, n)} }},
		decoding: &sync.Pool{New: func() any { return &decoding{coeffs: make([]float64, 2*n)} }},
	}
	for i := range e.crt {
		e.crt[i] = crt.New(c.params.data().lit.Q[:i+1])
	}
	return e
}

// ready refuses a nil encoder and one that no context made.
func (e *Encoder) ready() error {
	if e == nil {
		return (*Context)(nil).ready()
	}
	return e.ctx.ready()
}

// decoding is working memory of one call.
type decoding struct {
	coeffs   []float64 // N
	residues []uint32  // N for each limb of the largest plaintext so far
}

// slots is working memory for the values of N/2 slots.
type slots struct{ re, im []float64 }

// notFinite is the first slot whose value is not finite, or -1.
func (z *slots) notFinite() int {
	if embed.Finite(z.re) && embed.Finite(z.im) {
		return -1
	}
	for i, v := range z.re {
		if !finite(v) || !finite(z.im[i]) {
			return i
		}
	}
	return -1
}

func finite(x float64) bool { return x-x == 0 }
