package cutrantt

import (
	"errors"
	"fmt"
	"slices"
)

// Bounds of what every backend supports.
const (
	MinLogN = 10      // smallest ring degree 2^10
	MaxLogN = 17      // largest ring degree 2^17
	MaxQ    = 1 << 30 // moduli are below 2^30, so 4q fits in 32 bits
	MaxN2   = 16      // largest number of columns
)

// Errors that every backend wraps; test with errors.Is.
var (
	// ErrShape: the batches of one call do not fit each other.
	ErrShape = errors.New("cutrantt: shapes do not fit")
	// ErrDomain: a batch is in another domain than the operation needs.
	ErrDomain = errors.New("cutrantt: wrong domain")
	// ErrForeign: a batch was made by another ring or backend.
	ErrForeign = errors.New("cutrantt: batch belongs to another ring")
	// ErrRange: a residue or scalar is not below its modulus.
	ErrRange = errors.New("cutrantt: residue out of range")
	// ErrNotSupported: the backend or method cannot do this.
	ErrNotSupported = errors.New("cutrantt: not supported")
	// ErrMemory: the device's memory, or pinned host memory, is exhausted. What
	// was there before is untouched, and the ring works on once memory is free.
	ErrMemory = errors.New("cutrantt: out of device memory")
	// ErrDevice: the device failed. What its memory held is gone, and every call
	// of its rings fails with this from then on (see Broken).
	ErrDevice = errors.New("cutrantt: the device failed")
	// ErrModulus: a modulus or root is not usable for the ring.
	ErrModulus = errors.New("cutrantt: unusable modulus")
)

// Domain says how the N residues of a limb are arranged: the number of columns
// n2 in {1, 2, 4, 8, 16}, and whether the columns are transformed. It is the
// domain tag that travels on the wire. The zero Domain is invalid.
type Domain struct {
	N2  uint8 // columns; 1 is the ordinary, complete layout
	NTT bool  // true: transformed, blocks modulo X^n2 - w_b; false: coefficients
}

// Coeffs is the coefficient domain with n2 columns, invalid for other n2.
func Coeffs(n2 int) Domain {
	if n2 < 0 || n2 > MaxN2 {
		n2 = 0
	}
	return Domain{N2: uint8(n2)}
}

// NTT is the transform domain with n2 columns, invalid for other n2.
func NTT(n2 int) Domain {
	d := Coeffs(n2)
	d.NTT = true
	return d
}

// Valid reports whether d names a domain.
func (d Domain) Valid() bool {
	switch d.N2 {
	case 1, 2, 4, 8, 16:
		return true
	}
	return false
}

// String is, for example, "ntt/16" or "coeff/1".
func (d Domain) String() string {
	if d.NTT {
		return fmt.Sprintf("ntt/%d", d.N2)
	}
	return fmt.Sprintf("coeff/%d", d.N2)
}

// Shape is what a batch holds: Polys polynomials, each over the moduli
// Limbs[0], Limbs[1], ... (indices into Ring.Moduli), in one domain.
type Shape struct {
	Polys  int
	Limbs  []int
	Domain Domain
}

// Clone returns a shape that shares nothing with s.
func (s Shape) Clone() Shape {
	s.Limbs = slices.Clone(s.Limbs)
	return s
}

// SameLimbs reports whether both shapes are over the same moduli in order.
func (s Shape) SameLimbs(t Shape) bool { return slices.Equal(s.Limbs, t.Limbs) }

// Batch is polys x limbs x N residues resident on one backend (device memory
// for a GPU, a slice for the CPU). Residue (poly, limb, col, row) lies at
// poly*PolyStride + limb*N + col*n1 + row from Offset, counted in residues.
//
// A batch made by Ring.NewBatch owns its memory; the views that Slice makes
// share it. Between operations every residue is fully reduced, in [0, q).
// A batch is not safe for concurrent writes.
type Batch struct {
	shape      Shape
	n          int
	offset     int
	polyStride int
	mem        any
}

// MakeBatch is for backends: it wraps freshly allocated contiguous memory of
// shape.Polys*len(shape.Limbs)*n residues. mem is the backend's own handle.
func MakeBatch(shape Shape, n int, mem any) *Batch {
	return &Batch{shape: shape.Clone(), n: n, polyStride: len(shape.Limbs) * n, mem: mem}
}

// Shape returns the batch's shape; the caller must not modify its Limbs.
func (b *Batch) Shape() Shape { return b.shape }

// Polys is the number of polynomials.
func (b *Batch) Polys() int { return b.shape.Polys }

// Limbs are the modulus indices, one per limb; not to be modified.
func (b *Batch) Limbs() []int { return b.shape.Limbs }

// Domain is the arrangement of every limb of the batch.
func (b *Batch) Domain() Domain { return b.shape.Domain }

// SetDomain relabels the batch; it moves no data. Backends call it after an
// in-place transform. Views made earlier keep their own label.
func (b *Batch) SetDomain(d Domain) { b.shape.Domain = d }

// N is the ring degree.
func (b *Batch) N() int { return b.n }

// Len is the number of residues, polys*limbs*N.
func (b *Batch) Len() int { return b.shape.Polys * len(b.shape.Limbs) * b.n }

// Mem is the backend's handle of the memory that the batch lies in.
func (b *Batch) Mem() any { return b.mem }

// Offset is where limb (poly, limb) starts in Mem, in residues.
func (b *Batch) Offset(poly, limb int) int { return b.offset + poly*b.polyStride + limb*b.n }

// Slice is a view of polynomials [polyLo, polyHi) and limbs [limbLo, limbHi),
// sharing the memory. It fails with ErrShape outside the batch.
func (b *Batch) Slice(polyLo, polyHi, limbLo, limbHi int) (*Batch, error) {
	if polyLo < 0 || polyHi < polyLo || polyHi > b.shape.Polys ||
		limbLo < 0 || limbHi < limbLo || limbHi > len(b.shape.Limbs) {
		return nil, fmt.Errorf("%w: slice polys [%d,%d) limbs [%d,%d) of %d polys, %d limbs",
			ErrShape, polyLo, polyHi, limbLo, limbHi, b.shape.Polys, len(b.shape.Limbs))
	}
	v := *b
	v.shape = Shape{Polys: polyHi - polyLo, Limbs: b.shape.Limbs[limbLo:limbHi:limbHi], Domain: b.shape.Domain}
	v.offset = b.Offset(polyLo, limbLo)
	return &v, nil
}

// Each is the views of b's polynomials 0 to polys-1, polys to 2*polys-1 and so on, over all
// limbs. It fails with ErrShape if polys does not divide their number.
func (b *Batch) Each(polys int) ([]*Batch, error) {
	if polys < 1 || b.shape.Polys%polys != 0 {
		return nil, fmt.Errorf("%w: %d polynomials in parts of %d", ErrShape, b.shape.Polys, polys)
	}
	views := make([]Batch, b.shape.Polys/polys)
	out := make([]*Batch, len(views))
	for i := range views {
		views[i] = *b
		views[i].shape.Polys = polys
		views[i].offset = b.Offset(i*polys, 0)
		out[i] = &views[i]
	}
	return out, nil
}
