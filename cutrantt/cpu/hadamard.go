package cpu

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
)

// lanes is how many neighbouring blocks are multiplied together: 16 residues
// of one column are one cache line, so every line is read once although a
// block is spread over all columns.
const lanes = 16

// kernel is one Hadamard method for one n2, working on tiles of lanes blocks.
// Both operands are prepared first (a: evaluated; b: evaluated and multiplied
// by w where products wrap around), so that an operand that is used several
// times is prepared once. Prepared words are in [0, 2q), residues in [0, q).
type kernel struct {
	n2     int
	aWords int // prepared words of one block of a
	bWords int // and of b
	prepA  func(dst, tile []uint32, m *modulus)
	prepB  func(dst, tile []uint32, w *[lanes]factor, m *modulus)
	// mul sets the tile dst to the products of prepared operands.
	mul func(dst, a, b []uint32, m *modulus)
}

// kernelFor resolves a method that supports n2.
func kernelFor(method cutrantt.Method, n2 int) *kernel {
	if method == cutrantt.MethodAuto {
		method = autoMethod(n2)
	}
	if n2 == 1 {
		method = cutrantt.MethodLazy
	}
	return kernels[kernelKey{method, n2}]
}

type kernelKey struct {
	method cutrantt.Method
	n2     int
}

var kernels = map[kernelKey]*kernel{
	{cutrantt.MethodSchoolbook, 2}:  schoolbookKernel(2),
	{cutrantt.MethodSchoolbook, 4}:  schoolbookKernel(4),
	{cutrantt.MethodSchoolbook, 8}:  schoolbookKernel(8),
	{cutrantt.MethodSchoolbook, 16}: schoolbookKernel(16),
	{cutrantt.MethodLazy, 1}:        {n2: 1, bWords: 1}, // mulRows and operandRows, for every method
	{cutrantt.MethodLazy, 2}:        lazyKernel(2),
	{cutrantt.MethodLazy, 4}:        lazyKernel(4),
	{cutrantt.MethodLazy, 8}:        lazyKernel(8),
	{cutrantt.MethodLazy, 16}:       lazyKernel(16),
	{cutrantt.MethodKaratsuba, 2}:   karatsubaKernel(2),
	{cutrantt.MethodKaratsuba, 4}:   karatsubaKernel(4),
	{cutrantt.MethodKaratsuba, 8}:   karatsubaKernel(8),
	{cutrantt.MethodKaratsuba, 16}:  karatsubaKernel(16),
	{cutrantt.MethodToomCook4, 4}:   toomKernel(4),
	{cutrantt.MethodToomCook4, 8}:   toomKernel(8),
	{cutrantt.MethodToomCook4, 16}:  toomKernel(16),
}

// autoMethod is what MethodAuto means here. BenchmarkHadamard, N = 2^13, one core
// of an AMD EPYC, in ns per residue of the result, for Mul and for two products
// with prepared operands that share a (MulOperand):
//
//	n2           2            4            8            16
//	schoolbook   12.6   9.9   13.2  11.4   18.6  17.6   32.5  31.8
//	lazy          9.3   4.5    8.1   4.9    8.1   5.6   10.3   8.2
//	karatsuba    10.2   4.8    8.7   4.6    8.7   4.6   10.0   7.0
//	toomcook4       -     -   23.1  13.8   25.8  15.7   27.3  16.5
//
// Toom-Cook-4 saves the least where, as here, a 64-bit multiplication costs no
// more than an addition with its correction.
func autoMethod(n2 int) cutrantt.Method {
	if n2 >= 8 {
		return cutrantt.MethodKaratsuba
	}
	return cutrantt.MethodLazy
}

// workspace is the working memory of one task; it may hold secrets.
type workspace struct {
	*scratch
	w             [lanes]factor
	a, b, x, y, z []uint32
}

// newWorkspace has room for prepared operands a and b, tiles x and y, and
// results z for several polynomials.
func (k *kernel) newWorkspace(results int) *workspace {
	tile := lanes * k.n2
	s := getScratch(lanes*(k.aWords+k.bWords) + (2+results)*tile)
	ws, rest := &workspace{scratch: s}, s.words
	cut := func(n int) (part []uint32) { part, rest = rest[:n:n], rest[n:]; return part }
	ws.a, ws.b = cut(lanes*k.aWords), cut(lanes*k.bWords)
	ws.x, ws.y, ws.z = cut(tile), cut(tile), cut(results*tile)
	return ws
}

// roots sets w to the factors of blocks b0, b0+1, ... (b0 is even).
func (ws *workspace) roots(t []factor, n1, b0 int) {
	for l := 0; l < lanes; l += 2 {
		ws.w[l] = t[n1/2+(b0+l)/2]
		ws.w[l+1] = ws.w[l].neg()
	}
}

// load gathers lanes blocks, from b0 on, of a limb into a tile, block by block.
func load(tile, limb []uint32, n2, b0 int) {
	n1 := len(limb) / n2
	for j := range n2 {
		col := (*[lanes]uint32)(limb[j*n1+b0:])
		for l, x := range col {
			tile[l*n2+j] = x
		}
	}
}

// store is the inverse of load.
func store(limb, tile []uint32, n2, b0 int) {
	n1 := len(limb) / n2
	for j := range n2 {
		col := (*[lanes]uint32)(limb[j*n1+b0:])
		for l := range col {
			col[l] = tile[l*n2+j]
		}
	}
}

// eachRows runs f over ranges [lo, hi) of rows of every (poly, limb); ranges
// are multiples of lanes.
func (r *ring) eachRows(polys, limbs, n2, cost int, f func(p, l, lo, hi int)) {
	n1 := r.n / n2
	rows := min(n1, max(512, 8192/n2))
	parts := n1 / rows
	r.run(polys*limbs*parts, rows*n2*cost, func(i int) {
		at, lo := i/parts, i%parts*rows
		f(at/limbs, at%limbs, lo, lo+rows)
	})
}

func (r *ring) Mul(dst, a, b *cutrantt.Batch) error {
	return r.hadamard(dst, a, b, false, dst, a, b)
}

func (r *ring) MulAdd(dst, a, b *cutrantt.Batch) error {
	return r.hadamard(dst, a, b, true, dst, a, b, dst)
}

func (r *ring) hadamard(dst, a, b *cutrantt.Batch, acc bool, all ...*cutrantt.Batch) error {
	if err := r.check.Elementwise(check.Broadcast, all[0], all[1:]...); err != nil {
		return err
	}
	if err := check.Method(r.method, a); err != nil {
		return err
	}
	n2, limbs := int(a.Domain().N2), dst.Limbs()
	if r.lazyVector(n2) {
		r.hadamardWindows(dst, a, b, acc, n2)
		dst.SetDomain(a.Domain())
		return nil
	}
	k, n1 := kernelFor(r.method, n2), r.n/n2
	r.eachRows(dst.Polys(), len(limbs), n2, n2, func(p, l, lo, hi int) {
		m := r.moduli[limbs[l]]
		x, y, z := r.source(a, p, l), r.source(b, p, l), r.limb(dst, p, l)
		if n2 == 1 {
			r.mulRows(z[lo:hi], x[lo:hi], y[lo:hi], acc, &m.barrett)
			return
		}
		t, ws := m.twiddles(n1), k.newWorkspace(1)
		defer ws.put()
		for b0 := lo; b0 < hi; b0 += lanes {
			load(ws.x, x, n2, b0)
			load(ws.y, y, n2, b0)
			ws.roots(t, n1, b0)
			k.prepA(ws.a, ws.x, m)
			k.prepB(ws.b, ws.y, &ws.w, m)
			k.mul(ws.z, ws.a, ws.b, m)
			if acc {
				load(ws.x, z, n2, b0)
				addTo(ws.z, ws.x, m.q)
			}
			store(z, ws.z, n2, b0)
		}
	})
	dst.SetDomain(a.Domain())
	return nil
}

// mulRows is the product for n2 = 1, where every method is the same.
func (r *ring) mulRows(z, x, y []uint32, acc bool, m *barrett) {
	if r.vec != nil {
		mu, s := m.vector()
		f := r.vec.mul
		if acc {
			f = r.vec.mulAdd
		}
		f(&z[0], &x[0], &y[0], len(z), mu, s, m.q)
		return
	}
	x, y = x[:len(z)], y[:len(z)]
	if acc {
		for j := range z {
			z[j] = m.reduce(uint64(x[j])*uint64(y[j]) + uint64(z[j]))
		}
		return
	}
	for j := range z {
		z[j] = m.mul(x[j], y[j])
	}
}

// SumProducts sums piece by piece, so that a piece stays in the cache until its sum is complete. With one column there
// is nothing to leave out of flat factors.
func (r *ring) SumProducts(dst, a []*cutrantt.Batch, b [][]*cutrantt.Batch, _ bool) error {
	for _, list := range append([][]*cutrantt.Batch{dst, a}, b...) {
		for _, x := range list {
			if x == nil {
				continue // a product that is left out
			}
			if err := r.check.Batches(x); err != nil {
				return err
			}
		}
	}
	if d := a[0].Domain(); d.N2 != 1 {
		return fmt.Errorf("%w: sums of products with %d columns", cutrantt.ErrNotSupported, d.N2)
	}
	limbs := a[0].Limbs()
	r.eachRows(1, len(limbs), 1, 2*len(a)*len(dst), func(_, l, lo, hi int) {
		m := r.moduli[limbs[l]]
		for i, z := range dst {
			for p := range z.Polys() {
				sum, more := r.limb(z, p, l)[lo:hi], false
				for t, y := range b[i] {
					if y != nil {
						r.mulRows(sum, r.limb(a[t], p, l)[lo:hi], r.limb(y, 0, l)[lo:hi], more, &m.barrett)
						more = true
					}
				}
				if !more {
					clear(sum)
				}
			}
		}
	})
	for _, z := range dst {
		z.SetDomain(a[0].Domain())
	}
	return nil
}

// addTo adds y to x, both in [0, q).
func addTo(x, y []uint32, q uint32) {
	y = y[:len(x)]
	for j := range x {
		x[j] = add(x[j], y[j], q)
	}
}

// The schoolbook method reduces each term (paper, Algorithm 9). b is prepared
// as its words followed by the two halves of the factor w.

func schoolbookKernel(n2 int) *kernel {
	words := n2 + 2
	return &kernel{
		n2: n2, aWords: n2, bWords: words,
		prepA: func(dst, tile []uint32, _ *modulus) { copy(dst, tile) },
		prepB: func(dst, tile []uint32, w *[lanes]factor, _ *modulus) {
			for l := range lanes {
				e := dst[l*words : (l+1)*words]
				copy(e, tile[l*n2:(l+1)*n2])
				e[n2], e[n2+1] = uint32(w[l]), uint32(w[l]>>32)
			}
		},
		mul: func(dst, a, b []uint32, m *modulus) {
			for l := range lanes {
				y := b[l*words : (l+1)*words]
				schoolbook(dst[l*n2:(l+1)*n2], a[l*n2:(l+1)*n2], y[:n2], factor(y[n2])|factor(y[n2+1])<<32, &m.barrett)
			}
		},
	}
}

// schoolbook sets z = a*b mod X^n - w; all in [0, q).
func schoolbook(z, a, b []uint32, w factor, m *barrett) {
	n := len(z)
	var c [2 * 16]uint32 // c[n+k] is folded onto z[k]
	for i, x := range a {
		for j, y := range b {
			k := (i + j) & 31
			c[k] = add(c[k], m.mul(x, y), m.q)
		}
	}
	for k := range z {
		z[k] = add(c[k], w.mul(c[n+k], uint64(m.q)), m.q)
	}
}
