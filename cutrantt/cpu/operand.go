package cpu

import (
	"fmt"
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
)

// operand holds polynomials prepared as the b side of a kernel: for each
// (poly, limb), n1 blocks of bWords words. For n2 = 1 it is a copy.
//
// For n2 = 1 and vector code it is a copy times 2^32 (barrett.montgomery) in another
// order: for each limb, pieces (vectorCode.piece) of every polynomial in turn, so that
// a sum of products reads the words of a limb one after the other. For n2 > 1 and
// vector code it is the windows of each (poly, limb) (lazy.go).
type operand struct {
	owner *check.Ring
	shape cutrantt.Shape
	k     *kernel
	limb  int // words of one limb
	piece int
	words []uint32
}

func (o *operand) Shape() cutrantt.Shape { return o.shape }

// Release wipes the prepared words.
func (o *operand) Release() {
	clear(o.words)
	o.words = nil
}

// at is the prepared limb at position l of polynomial p.
func (o *operand) at(p, l int) []uint32 {
	i := (p*len(o.shape.Limbs) + l) * o.limb
	return o.words[i : i+o.limb]
}

// pieces points to the piece from residue lo on of polynomial p and the limb at
// position l. The next polynomial's is a piece further on, and the next of the same
// step words.
func (o *operand) pieces(p, l, lo int) (first *uint32, step int) {
	polys := o.shape.Polys
	return &o.words[(l*o.limb+lo)*polys+p*o.piece], polys * o.piece
}

func (r *ring) Precompute(b *cutrantt.Batch) (cutrantt.Operand, error) {
	if err := r.check.Batches(b); err != nil {
		return nil, err
	}
	if err := check.Method(r.method, b); err != nil {
		return nil, err
	}
	n2, limbs := int(b.Domain().N2), b.Limbs()
	k := kernelFor(r.method, n2)
	n1, words := r.n/n2, k.bWords
	o := &operand{owner: r.check, shape: b.Shape().Clone(), k: k, limb: n1 * words}
	if r.vec != nil {
		o.piece = r.vec.piece
	}
	if r.lazyVector(n2) {
		o.limb = r.windowWords(n2)
	}
	o.words = make([]uint32, b.Polys()*len(limbs)*o.limb)
	collapse(o.words)
	if r.lazyVector(n2) {
		r.eachLimb(b.Polys(), len(limbs), 2*r.n, func(p, l int) {
			r.setWindows(o.at(p, l), r.limb(b, p, l), n2, r.moduli[limbs[l]])
		})
		return o, nil
	}
	r.eachRows(b.Polys(), len(limbs), n2, 4, func(p, l, lo, hi int) {
		m, y := r.moduli[limbs[l]], r.limb(b, p, l)
		if n2 == 1 && r.vec != nil {
			w := m.shoup(m.montgomery(1))
			tmp := getScratch(hi - lo)
			defer tmp.put()
			r.vec.scale(&tmp.words[0], &y[lo], hi-lo, &w, m.q)
			for at := lo; at < hi; at += o.piece {
				to, _ := o.pieces(p, l, at)
				copy(unsafe.Slice(to, o.piece), tmp.words[at-lo:])
			}
			return
		}
		to := o.at(p, l)
		if n2 == 1 {
			copy(to[lo:hi], y[lo:hi])
			return
		}
		t, ws := m.twiddles(n1), k.newWorkspace(0)
		defer ws.put()
		for b0 := lo; b0 < hi; b0 += lanes {
			load(ws.y, y, n2, b0)
			ws.roots(t, n1, b0)
			k.prepB(to[b0*words:(b0+lanes)*words], ws.y, &ws.w, m)
		}
	})
	return o, nil
}

func (r *ring) MulOperand(dst, a *cutrantt.Batch, b cutrantt.Operand) error {
	o, ok := b.(*operand)
	if !ok || o == nil || o.owner != r.check || o.words == nil {
		return fmt.Errorf("%w: operand of another ring or backend, or released", cutrantt.ErrForeign)
	}
	where, err := r.check.Operand(dst, a, o.shape)
	if err != nil {
		return err
	}
	k, n2, limbs := o.k, int(a.Domain().N2), dst.Limbs()
	terms, results := a.Polys(), dst.Polys()
	if r.lazyVector(n2) {
		r.eachLimb(1, len(limbs), n2*terms*results*r.n, func(_, l int) { r.operandWindows(dst, a, o, l, where[l], n2) })
		dst.SetDomain(a.Domain())
		return nil
	}
	r.eachRows(1, len(limbs), n2, n2*terms*results, func(_, l, lo, hi int) {
		m := r.moduli[limbs[l]]
		if n2 == 1 {
			r.operandRows(dst, a, o, l, where[l], lo, hi, &m.barrett)
			return
		}
		ws := k.newWorkspace(results)
		defer ws.put()
		tile := lanes * n2
		for b0 := lo; b0 < hi; b0 += lanes {
			for i := range terms {
				load(ws.x, r.limb(a, i, l), n2, b0)
				k.prepA(ws.a, ws.x, m)
				for j := range results {
					y := o.at(i*results+j, where[l])[b0*k.bWords : (b0+lanes)*k.bWords]
					z := ws.z[j*tile : (j+1)*tile]
					if i == 0 {
						k.mul(z, ws.a, y, m)
						continue
					}
					k.mul(ws.y, ws.a, y, m)
					addTo(z, ws.y, m.q)
				}
			}
			for j := range results {
				store(r.limb(dst, j, l), ws.z[j*tile:(j+1)*tile], n2, b0)
			}
		}
	})
	dst.SetDomain(a.Domain())
	return nil
}

// operandRows is MulOperand on rows [lo, hi) of limb l for n2 = 1: up to 15
// products below 2^60 and a reduced value are summed before each reduction.
func (r *ring) operandRows(dst, a *cutrantt.Batch, o *operand, l, at, lo, hi int, m *barrett) {
	const rows = 128
	terms, results := a.Polys(), dst.Polys()
	if r.vec != nil {
		r.vectorRows(dst, a, o, l, at, lo, hi, m)
		return
	}
	if terms == 1 && results <= 2 { // HENC: no sums, and x is read before dst is written
		x, y := r.limb(a, 0, l)[lo:hi], o.at(0, at)[lo:hi]
		if results == 2 {
			r.mulRows(r.limb(dst, 1, l)[lo:hi], x, o.at(1, at)[lo:hi], false, m)
		}
		r.mulRows(r.limb(dst, 0, l)[lo:hi], x, y, false, m)
		return
	}
	buf := getScratch(results * rows)
	defer buf.put()
	var acc [rows]uint64
	for r0 := lo; r0 < hi; r0 += rows {
		for j := range results {
			clear(acc[:])
			for i := range terms {
				if i > 0 && i%15 == 0 {
					for c := range acc {
						acc[c] = uint64(m.reduce(acc[c]))
					}
				}
				x := (*[rows]uint32)(r.limb(a, i, l)[r0:])
				y := (*[rows]uint32)(o.at(i*results+j, at)[r0:])
				for c := range acc {
					acc[c] += uint64(x[c]) * uint64(y[c])
				}
			}
			z := (*[rows]uint32)(buf.words[j*rows:])
			for c := range acc {
				z[c] = m.reduce(acc[c])
			}
		}
		for j := range results {
			copy(r.limb(dst, j, l)[r0:], buf.words[j*rows:(j+1)*rows])
		}
	}
}

// vectorRows is operandRows by vector code, two results together or else one by one;
// more than two go through a copy of a, which dst may be.
func (r *ring) vectorRows(dst, a *cutrantt.Batch, o *operand, l, at, lo, hi int, m *barrett) {
	terms, results, n := a.Polys(), dst.Polys(), hi-lo
	x, xStride := &r.limb(a, 0, l)[lo], 0
	if terms > 1 {
		xStride = a.Offset(1, l) - a.Offset(0, l)
	}
	if results > 2 {
		buf := getScratch(terms * n)
		defer buf.put()
		for i := range terms {
			copy(buf.words[i*n:(i+1)*n], r.limb(a, i, l)[lo:hi])
		}
		x, xStride = &buf.words[0], n
	}
	qinv := uint32(m.qinv)
	if results == 2 {
		y, step := o.pieces(0, at, lo)
		r.vec.inner[1](
			&r.limb(dst, 0, l)[lo], x, y, dst.Offset(1, l)-dst.Offset(0, l), xStride, o.piece, step, terms, n, qinv,
			m.q,
		)
		return
	}
	for j := range results { // term i of result j is polynomial i*results+j
		y, step := o.pieces(j, at, lo)
		r.vec.inner[0](&r.limb(dst, j, l)[lo], x, y, 0, xStride, results*o.piece, step, terms, n, qinv, m.q)
	}
}
