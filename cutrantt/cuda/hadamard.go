package cuda

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
)

// autoMethod is what MethodAuto means for blocks of n2 residues where nothing is
// measured (an H200's choice, docs/lab/gpu.md).
func autoMethod(n2 int) cutrantt.Method {
	if n2 == 16 {
		return cutrantt.MethodKaratsuba
	}
	return cutrantt.MethodLazy
}

// variant is a compiled product: the blocks and the results of one thread. It
// mirrors kernels/hadamard.cu.
type variant struct {
	name          string
	rows, results int
}

// variantFor is the kernel of a method for products with so many results.
func variantFor(m cutrantt.Method, n2, results int) variant {
	v := variant{numbered(m.String(), n2), 1, 1}
	if m != cutrantt.MethodToomCook4 && (m != cutrantt.MethodSchoolbook || n2 == 1) {
		v.rows = neighbours(n2)
	}
	if results%2 == 0 && (m == cutrantt.MethodLazy || m == cutrantt.MethodKaratsuba && n2 == 16) {
		v.name, v.results = numbered(m.String()+"2", n2), 2
	}
	return v
}

func (r *ring) Mul(dst, a, b *cutrantt.Batch) error    { return r.hadamard(false, dst, a, b) }
func (r *ring) MulAdd(dst, a, b *cutrantt.Batch) error { return r.hadamard(true, dst, a, b) }

func (r *ring) hadamard(accumulate bool, dst, a, b *cutrantt.Batch) error {
	srcs := []*cutrantt.Batch{a, b}
	if accumulate {
		srcs = append(srcs, dst)
	}
	if err := r.check.Elementwise(check.Broadcast, dst, srcs...); err != nil {
		return err
	}
	if err := check.Method(r.method, a); err != nil {
		return err
	}
	n2 := int(a.Domain().N2)
	err := r.exec(func() error {
		x, y := r.source(a), r.source(b)
		p := product{terms: 1, results: dst.Polys(), a: x, b: y, as: x.stride, bs: y.stride, accumulate: accumulate}
		return r.multiply(variantFor(r.resolved(n2), n2, 1), r.tensor(dst), dst.Limbs(), n2, p)
	}, dst, a, b)
	if err == nil {
		dst.SetDomain(a.Domain())
	}
	return err
}

// product is a launch of a Hadamard kernel: result r is the sum over terms i of
// a at r*as + i*ai times b at r*bs + i*bi.
type product struct {
	terms, results int
	a, b           tensor
	as, ai, bs, bi uint64
	at             pointer // positions of b's limbs, nil if they are dst's
	accumulate     bool
}

// multiply queues a Hadamard kernel.
func (r *ring) multiply(v variant, dst tensor, limbs []int, n2 int, p product) error {
	n1 := r.n / n2
	t, err := r.twiddles(n1)
	if err != nil {
		return err
	}
	list, err := r.list(limbs)
	if err != nil {
		return err
	}
	a := productArgs{
		args: args{
			dst: dst.at, ds: dst.stride, a: p.a.at, as: p.as,
			limbs: list, tw: t.at, ts: t.stride, logN2: uint32(log2(n2)),
		},
		ai: p.ai, b: p.b.at, bs: p.bs, bi: p.bi, at: p.at, terms: uint32(p.terms),
	}
	if p.accumulate {
		a.accumulate = 1
	}
	return launch(r, v.name, p.results/v.results*max(n1/(128*v.rows), 1), len(limbs), 128, 0, a)
}

// operand holds fixed factors: for Toom-Cook-4 their values at the evaluation
// points, else a copy.
type operand struct {
	ring  *ring
	shape cutrantt.Shape
	words int // of a block
	mem   *memory
	plain *memory // a copy besides, for whole encryptions, where mem is in another form
}

// factors is where a copy of the factors lies, or false.
func (o *operand) factors() (tensor, bool) {
	m, n2 := o.mem, int(o.shape.Domain.N2)
	if o.words != n2 {
		m = o.plain
	}
	if m == nil {
		return tensor{}, false
	}
	return tensor{m.at, uint64(len(o.shape.Limbs) * o.ring.n)}, true
}

func (o *operand) Shape() cutrantt.Shape { return o.shape }

// Release wipes the operand.
func (o *operand) Release() {
	n := o.mem.Len()
	if n == 0 {
		return
	}
	_ = o.ring.exec(func() error { return o.ring.backend.drv.Fill(o.mem.at, 0, n, o.ring.pool.stream) })
	o.mem.release()
	if o.plain != nil {
		_ = o.ring.exec(
			func() error { return o.ring.backend.drv.Fill(o.plain.at, 0, o.plain.Len(), o.ring.pool.stream) },
		)
		o.plain.release()
	}
}

// tensor is where the factors lie.
func (o *operand) tensor() tensor {
	return tensor{o.mem.at, uint64(len(o.shape.Limbs) * o.words * (o.ring.n / int(o.shape.Domain.N2)))}
}

func (r *ring) Precompute(b *cutrantt.Batch) (cutrantt.Operand, error) {
	if err := r.check.Batches(b); err != nil {
		return nil, err
	}
	if err := check.Method(r.method, b); err != nil {
		return nil, err
	}
	if r.recorded != nil { // it would be for this ring alone
		return nil, fmt.Errorf("%w: an operand made within a recording", cutrantt.ErrNotSupported)
	}
	n2 := int(b.Domain().N2)
	o := &operand{ring: r, shape: b.Shape().Clone(), words: n2}
	toom := r.fixed(n2) == cutrantt.MethodToomCook4
	if toom {
		o.words = 7 * n2 / 4
	}
	n1, polys := r.n/n2, b.Polys()
	err := r.exec(func() (err error) {
		if o.mem, err = r.allocate(max(1, polys*len(b.Limbs())*o.words*n1)); err != nil {
			return err
		}
		if !toom {
			return r.element("element_copy", o.tensor(), r.tensor(b), tensor{}, polys, b.Limbs(), 0)
		}
		x := r.tensor(b)
		if r.method == cutrantt.MethodAuto && polys == 2 { // perhaps a public key
			if o.plain, err = r.allocate(2 * len(b.Limbs()) * r.n); err != nil {
				return err
			}
			t, _ := o.factors()
			if err := r.element("element_copy", t, x, tensor{}, 2, b.Limbs(), 0); err != nil {
				return err
			}
		}
		return r.multiply(
			variant{numbered("evaluations", n2), 1, 1}, o.tensor(), b.Limbs(), n2,
			product{results: polys, a: x, as: x.stride},
		)
	}, b)
	if err != nil {
		return nil, err
	}
	return o, nil
}

func (r *ring) MulOperand(dst, a *cutrantt.Batch, b cutrantt.Operand) error {
	o, ok := b.(*operand)
	if !ok || o == nil || o.ring != r.base() || o.mem.Len() == 0 {
		return fmt.Errorf("%w: operand of another ring or backend, or released", cutrantt.ErrForeign)
	}
	where, err := r.check.Operand(dst, a, o.shape)
	if err != nil {
		return err
	}
	r.recorded.noteKey(o)
	err = r.exec(func() error { return r.mulOperand(dst, a, o, where) }, dst, a)
	runtime.KeepAlive(o)
	if err == nil {
		dst.SetDomain(a.Domain())
	}
	return err
}

func (r *ring) mulOperand(dst, a *cutrantt.Batch, o *operand, where []int) error {
	n2, limbs, results := int(a.Domain().N2), dst.Limbs(), dst.Polys()
	at, err := r.list(where)
	if err != nil {
		return err
	}
	x, y, method := r.tensor(a), o.tensor(), r.fixed(n2)
	v := variantFor(method, n2, results)
	if method == cutrantt.MethodToomCook4 {
		v = variant{numbered("prepared", n2), 1, 1}
	}
	if results > v.results && dst.Mem() == a.Mem() {
		// One result is written while another still reads a.
		tmp, release, err := r.scratch(a.Polys(), len(limbs))
		if err != nil {
			return err
		}
		defer release()
		if err := r.element("element_copy", tmp, x, tensor{}, a.Polys(), limbs, 0); err != nil {
			return err
		}
		x = tmp
	}
	return r.multiply(v, r.tensor(dst), limbs, n2, product{
		terms: a.Polys(), results: results, a: x, ai: x.stride,
		b: y, bs: y.stride, bi: uint64(results) * y.stride, at: at,
	})
}

// The kernel for sums of products (kernels/sums.cu) is for sumsColumns columns. It makes sumsTogether of them at a
// time.
const (
	sumsColumns  = 4
	sumsTogether = 4
)

func (r *ring) SumProducts(dst, a []*cutrantt.Batch, b [][]*cutrantt.Batch, flat bool) error {
	all := slices.Concat(dst, a)
	for _, row := range b {
		for _, y := range row {
			if y != nil {
				all = append(all, y)
			}
		}
	}
	if err := r.check.Batches(all...); err != nil {
		return err
	}
	limbs, d := a[0].Limbs(), a[0].Domain()
	rows := (len(dst) + sumsTogether - 1) / sumsTogether * sumsTogether
	items := a[0].Polys() / 2
	slots := 2 * items * (len(a) + len(dst))
	words := slots + rows*len(a)
	if !r.backend.tensor || d.N2 != sumsColumns || a[0].Polys()%2 != 0 || 8*words > pageable {
		return fmt.Errorf("%w: %d sums of %d products of %d polynomials with %d columns at once",
			cutrantt.ErrNotSupported, len(dst), len(a), a[0].Polys(), d.N2)
	}
	table := make([]uint64, words)
	for i, x := range slices.Concat(a, dst) {
		for k := range items {
			t, at := r.tensor(x).poly(2*k), 2*(k*(len(a)+len(dst))+i)
			table[at], table[at+1] = uint64(t.at), t.stride
		}
	}
	factors := table[slots:]
	for i, row := range b {
		for t, y := range row {
			if y != nil {
				factors[t*rows+i] = uint64(r.tensor(y).at)
			}
		}
	}
	err := r.exec(func() error { return r.sumProducts(table, items, len(a), len(dst), limbs, flat) }, all...)
	if err != nil {
		return err
	}
	for _, x := range dst {
		x.SetDomain(d)
	}
	return nil
}

// sumProducts queues the kernel with its table (struct SumArgs of kernels/args.cuh).
func (r *ring) sumProducts(table []uint64, items, terms, sums int, limbs []int, flat bool) error {
	n1 := r.n / sumsColumns
	t, err := r.twiddles(n1)
	if err != nil {
		return err
	}
	list, err := r.list(limbs)
	if err != nil {
		return err
	}
	a := sumArgs{
		args:  args{limbs: list, tw: t.at, ts: t.stride, logN2: uint32(log2(sumsColumns))},
		terms: uint32(terms), sums: uint32(sums), items: uint32(items),
	}
	if flat {
		a.flat = 1
	}
	return r.table(bytesOf(table), func(x pointer) error {
		a.a = x
		return launch(r, numbered("sums", sumsColumns), items*max(n1/128, 1), len(limbs), 128, 0, a)
	})
}
