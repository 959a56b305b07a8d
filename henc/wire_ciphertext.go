package henc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/chain"
	"github.com/hencedge/hencedge/henc/internal/wire"
)

// A ciphertext is [version, kind, parameter hash, level, scale, n2, transform,
// seed or null, [c0] or [c0, c1]]; see docs/wire-ciphertext.md.
const (
	ciphertextElements = 9
	headerBytes        = 96 // at most everything but packed residues

	transformCoeffs = 0 // coefficients, columns of n2
	transformNTT    = 1 // blocks modulo X^n2 - w_b in the order of cutrantt.Modulus
)

// Header is what a ciphertext says of itself on the wire. Nothing of it is
// authenticated; transport signs the bytes.
type Header struct {
	Params [32]byte // Parameters.Hash
	Level  int
	Scale  float64
	Domain cutrantt.Domain // of the residues on the wire
	Seeded bool            // c1 travels as a seed
}

// PackedBytes is the length of one packed polynomial at level, 0 where level does
// not exist: N*bitlen(q^2-1)/16 bytes for each of its primes q.
func (p Parameters) PackedBytes(level int) int {
	return wire.ResiduesLen(p.N(), p.data().lit.Q[:p.LimbsAt(level)])
}

// CiphertextBytes bounds the length of a marshalled ciphertext at level from above,
// by less than 60 bytes; 0 where level does not exist.
func (p Parameters) CiphertextBytes(level int, seeded bool) int {
	switch n := p.PackedBytes(level); {
	case n == 0:
		return 0
	case seeded:
		return n + headerBytes
	default:
		return 2*n + headerBytes
	}
}

// MaxCiphertextBytes is the cap above which UnmarshalCiphertext reads nothing.
func (p Parameters) MaxCiphertextBytes() int { return p.CiphertextBytes(p.MaxLevel(), false) }

// PeekCiphertext reads the header without the residues, whose presence and length
// it does not check. It fails with ErrVersion, ErrKind, ErrMalformed, ErrTruncated,
// ErrLength, ErrLevel, ErrScale, ErrDomain or ErrDegree.
func PeekCiphertext(b []byte) (Header, error) {
	h, _, _, err := readHeader(b)
	if err != nil {
		return Header{}, fmt.Errorf("ciphertext header: %w", err)
	}
	return h, nil
}

// readHeader reads everything before the first polynomial.
func readHeader(b []byte) (h Header, seed []byte, r *wire.Reader, err error) {
	r, err = wire.NewReader(b, wire.KindCiphertext, ciphertextElements)
	if err != nil {
		return h, nil, nil, err
	}
	level, scale, n2, transform := r.Uint(), r.Float(), r.Uint(), r.Uint()
	seed = r.OptionalBlob(32)
	polys := r.Array()
	if err := r.Err(); err != nil {
		return h, nil, nil, err
	}
	if level > MaxPrimes {
		return h, nil, nil, fmt.Errorf("%w: level %d is above %d", ErrLevel, level, MaxPrimes)
	}
	if !(scale >= 1) {
		return h, nil, nil, fmt.Errorf("%w: scale %g is below 1", ErrScale, scale)
	}
	d := cutrantt.Domain{N2: uint8(min(n2, 255)), NTT: transform == transformNTT}
	if !d.Valid() || transform > transformNTT {
		return h, nil, nil, fmt.Errorf("%w: n2 = %d, transform = %d", ErrDomain, n2, transform)
	}
	want := 2
	if seed != nil {
		want = 1
	}
	if polys != want {
		return h, nil, nil, fmt.Errorf(
			"%w: %d polynomials where %d belong: c0 and c1, or c0 alone with the seed of c1", ErrDegree, polys, want,
		)
	}
	return Header{Params: r.Head.Params, Level: int(level), Scale: scale, Domain: d, Seeded: seed != nil}, seed, r, nil
}

// UnmarshalCiphertext decodes a ciphertext of the context's parameters. Residues of
// another n2, or of coefficients, are brought to the context's domain; a seeded
// ciphertext keeps its Seed only if no conversion was needed. Every other byte
// string than MarshalCiphertext of some context writes is refused, before anything
// of its claimed size is allocated: ErrTooLarge above MaxCiphertextBytes, ErrVersion,
// ErrKind, ErrParams for other parameters, ErrLevel, ErrScale, ErrDomain, ErrDegree,
// ErrLength, ErrRange for a residue not below its prime, ErrDegenerate for a c1 of
// zeros, ErrTruncated, ErrMalformed for anything else.
func (c *Context) UnmarshalCiphertext(b []byte) (*Ciphertext, error) {
	return c.unmarshal(b, true)
}

// UnmarshalAsSent is UnmarshalCiphertext without the change of domain: the ciphertext is in that
// of Header, unless a device has changed it on the way. Only Sum takes it if that is not the
// context's.
func (c *Context) UnmarshalAsSent(b []byte) (*Ciphertext, error) { return c.unmarshal(b, false) }

func (c *Context) unmarshal(b []byte, convert bool) (*Ciphertext, error) {
	r := c.read(b)
	c.load([]*reading{r})
	return c.finish(r, convert)
}

// UnmarshalCiphertexts is UnmarshalCiphertext for each of bodies. A device gets those of one
// shape together.
func (c *Context) UnmarshalCiphertexts(bodies [][]byte) ([]*Ciphertext, []error) {
	all := make([]*reading, len(bodies))
	for i, b := range bodies {
		all[i] = c.read(b)
	}
	return c.unmarshalAll(all)
}

func (c *Context) unmarshalAll(all []*reading) ([]*Ciphertext, []error) {
	c.load(all)
	cts, errs := make([]*Ciphertext, len(all)), make([]error, len(all))
	for i, r := range all {
		cts[i], errs[i] = c.finish(r, true)
	}
	return cts, errs
}

// reading is a ciphertext on its way from its bytes to a batch.
type reading struct {
	h      Header
	seed   []byte
	pieces [][]byte        // all of it, if it lies in several pieces or was staged
	packed [][]byte        // c0, or c0 and c1; the same bytes in other pieces, if there are pieces
	value  *cutrantt.Batch // nil until it is loaded
	whole  bool            // value is in the context's domain, c1 of a seed included
	err    error
}

// read reads everything but the residues.
func (c *Context) read(b []byte) *reading {
	r := &reading{}
	r.err = c.readParts(r, b)
	return r
}

func (c *Context) readParts(r *reading, b []byte) error {
	if err := c.ready(); err != nil {
		return err
	}
	if limit := c.params.MaxCiphertextBytes(); len(b) > limit {
		return fmt.Errorf("%w: %d bytes, %q allows %d", ErrTooLarge, len(b), c.params.Name(), limit)
	}
	h, seed, rest, err := readHeader(b)
	if err != nil {
		return err
	}
	if h.Params != c.params.Hash() {
		return fmt.Errorf(
			"%w: the ciphertext's are %x, this context has %q", ErrParams, h.Params[:8], c.params.Name(),
		)
	}
	if err := c.params.CheckScale(h.Level, h.Scale); err != nil {
		return err
	}
	r.h, r.seed = h, seed
	r.packed = [][]byte{rest.Blob(c.params.PackedBytes(h.Level))}
	if !h.Seeded {
		r.packed = append(r.packed, rest.Blob(c.params.PackedBytes(h.Level)))
	}
	return rest.Close()
}

// load has the ring load the residues of those of all that were read, where it can. It leaves
// out those with which something is wrong, for unpack to find out.
func (c *Context) load(all []*reading) {
	if c.ready() != nil {
		return // every reading says so
	}
	ring, ok := c.ring.(cutrantt.Packed)
	if !ok {
		return
	}
	type shape struct {
		level  int
		domain cutrantt.Domain
		seeded bool
	}
	groups := map[shape][]*reading{}
	for _, r := range all {
		if r.err == nil {
			s := shape{r.h.Level, r.h.Domain, r.h.Seeded}
			groups[s] = append(groups[s], r)
		}
	}
	for s, group := range groups {
		l := &cutrantt.PackedLoad{Polys: 2, Limbs: c.params.QLimbs(s.level), From: s.domain, To: c.Domain(),
			Label: LabelCipherA}
		for _, r := range group {
			l.Residues = append(l.Residues, r.packed)
			if s.seeded {
				l.Seeds = append(l.Seeds, (*[32]byte)(r.seed))
			}
		}
		values, err := ring.LoadPacked(l)
		for i, r := range group {
			switch {
			case err == nil:
				r.value, r.whole = values[i], values[i] != nil
			case !errors.Is(err, cutrantt.ErrNotSupported):
				r.err = err
			}
		}
	}
}

// finish makes the ciphertext, in the context's domain if convert is set.
func (c *Context) finish(r *reading, convert bool) (*Ciphertext, error) {
	if r.err == nil && r.value == nil && r.pieces != nil {
		*r = *c.read(bytes.Join(r.pieces, nil))
	}
	if r.err == nil && r.value == nil {
		r.value, r.err = c.unpack(r.packed, r.h)
	}
	var ct *Ciphertext
	if r.err == nil {
		if ct, r.err = c.complete(r, convert); r.err != nil {
			c.ring.Free(r.value)
		}
	}
	if r.err != nil {
		return nil, fmt.Errorf("unmarshal ciphertext: %w", r.err)
	}
	return ct, nil
}

// complete expands the seed and, if convert is set, converts to the context's domain.
func (c *Context) complete(r *reading, convert bool) (*Ciphertext, error) {
	value, h := r.value, r.h
	ct := &Ciphertext{Value: value, Level: h.Level, Scale: h.Scale}
	if h.Seeded && h.Domain == c.Domain() {
		ct.Seed = (*[32]byte)(slices.Clone(r.seed))
	}
	if r.whole {
		return ct, nil
	}
	if h.Seeded {
		c1, err := value.Slice(1, 2, 0, len(value.Limbs()))
		if err != nil {
			return nil, err
		}
		if err := c.ring.SampleUniform(c1, (*[32]byte)(r.seed), LabelCipherA); err != nil {
			return nil, err
		}
	}
	if h.Domain == c.Domain() || !convert {
		return ct, nil
	}
	own, err := cutrantt.NewResult(c.ring, 2, value.Limbs(), c.Domain())
	if err != nil {
		return nil, err
	}
	if err := c.ring.Convert(own, value); err != nil {
		return nil, err
	}
	c.ring.Free(value)
	ct.Value = own
	return ct, nil
}

// Sum adds up ciphertexts, at least one, at a level, like DropLevel and Evaluator.Add one after
// the other. They may be in any domain (UnmarshalAsSent): those of one are added up before they
// are converted. The result is in the context's domain and has memory of its own. It fails with
// ErrParams for no ciphertext, ErrDegree, ErrLevel for one below the level, and ErrScale if their
// scales differ.
func (c *Context) Sum(cts []*Ciphertext, level int) (*Ciphertext, error) {
	const op = "sum"
	if err := c.ready(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if len(cts) == 0 {
		return nil, fmt.Errorf("%s: %w: no ciphertexts", op, ErrParams)
	}
	s := chain.New(c.ring)
	byDomain, domains := map[cutrantt.Domain][]*cutrantt.Batch{}, []cutrantt.Domain(nil)
	for i, ct := range cts {
		if err := c.checkSummand(ct, cts[0], level); err != nil {
			return nil, fmt.Errorf("%s: ciphertext %d: %w", op, i, err)
		}
		d := ct.Value.Domain()
		if byDomain[d] == nil {
			domains = append(domains, d)
		}
		byDomain[d] = append(byDomain[d], s.View(ct.Value, 0, 2, 0, c.params.LimbsAt(level)))
	}
	var total *cutrantt.Batch
	result := func(d cutrantt.Domain) *cutrantt.Batch { return s.Result(2, c.params.QLimbs(level), d) }
	for _, d := range domains {
		sum := byDomain[d][0]
		if more := byDomain[d][1:]; len(more) > 0 {
			to := result(d)
			for _, b := range more {
				s.Op3(c.ring.Add, to, sum, b)
				sum = to
			}
		}
		if d != c.Domain() {
			own := result(c.Domain())
			s.Op2(c.ring.Convert, own, sum)
			sum = own
		}
		if total != nil {
			both := result(c.Domain())
			s.Op3(c.ring.Add, both, total, sum)
			sum = both
		}
		total = sum
	}
	if len(cts) == 1 && domains[0] == c.Domain() {
		own := result(c.Domain())
		s.Op2(c.ring.Copy, own, total)
		total = own
	}
	out, _ := s.Keep(total)
	if err := s.Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return &Ciphertext{Value: out, Level: level, Scale: cts[0].Scale}, nil
}

// checkSummand is CheckCiphertext for any domain, beside another summand at a level.
func (c *Context) checkSummand(ct, first *Ciphertext, level int) error {
	switch {
	case ct == nil || ct.Value == nil:
		return fmt.Errorf("%w: no ciphertext", ErrDegree)
	case level < 0 || level > ct.Level:
		return fmt.Errorf("%w: a ciphertext at level %d, wanted at level %d", ErrLevel, ct.Level, level)
	case ct.Scale != first.Scale:
		return fmt.Errorf("%w: scale %g, the first has %g", ErrScale, ct.Scale, first.Scale)
	}
	return c.checkIn("ciphertext", ct.Value, 2, ct.Level, ct.Scale, ct.Value.Domain())
}

// unpack makes a batch of two polynomials in the header's domain from the packed
// ones. What there is none of is arbitrary.
func (c *Context) unpack(packed [][]byte, h Header) (*cutrantt.Batch, error) {
	limbs := c.params.QLimbs(h.Level)
	ring, ok := c.ring.(cutrantt.Direct)
	if !ok {
		return c.unpackUpload(packed, h)
	}
	value, err := cutrantt.NewResult(c.ring, 2, limbs, h.Domain)
	if err != nil {
		return nil, err
	}
	if err := c.unpackTo(packed, len(limbs), func(p, l int) ([]uint32, error) {
		return ring.Residues(value, p, l)
	}); err != nil {
		c.ring.Free(value)
		return nil, err
	}
	return value, nil
}

// unpackUpload is unpack for rings whose batches lie elsewhere.
func (c *Context) unpackUpload(packed [][]byte, h Header) (*cutrantt.Batch, error) {
	n, limbs := c.params.N(), c.params.QLimbs(h.Level)
	buf, _ := c.words.Get().(*[]uint32)
	if size := 2 * len(limbs) * n; buf == nil || len(*buf) < size {
		buf = new(make([]uint32, size))
	}
	defer c.words.Put(buf)
	x := (*buf)[:2*len(limbs)*n]
	clear(x[len(packed)*len(limbs)*n:])
	if err := c.unpackTo(packed, len(limbs), func(p, l int) ([]uint32, error) {
		return x[(p*len(limbs)+l)*n:][:n], nil
	}); err != nil {
		return nil, err
	}
	value, err := cutrantt.NewResult(c.ring, 2, limbs, h.Domain)
	if err != nil {
		return nil, err
	}
	if err := c.ring.Upload(value, x); err != nil {
		return nil, err
	}
	return value, nil
}

// unpackTo unpacks and checks polynomials of so many limbs, to what to returns for each.
func (c *Context) unpackTo(packed [][]byte, limbs int, to func(poly, limb int) ([]uint32, error)) error {
	for p, b := range packed {
		for l, q := range c.params.data().lit.Q[:limbs] {
			x, err := to(p, l)
			if err != nil {
				return err
			}
			size := cutrantt.PackedBytes(c.params.N(), q)
			if err := wire.Unpack(x, b[:size], q); err != nil {
				return fmt.Errorf("c%d limb %d: %w", p, l, err)
			}
			b = b[size:]
		}
	}
	for l := range limbs {
		if len(packed) < 2 {
			return nil // c1 is a seed's
		}
		c1, err := to(1, l)
		if err != nil {
			return err
		}
		if err := checkHides(c1, l); err != nil {
			return err
		}
	}
	return nil
}
