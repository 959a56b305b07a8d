package cuda

import (
	"errors"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
)

// element queues an element-wise kernel; b may be the zero tensor, factors 0.
func (r *ring) element(name string, dst, a, b tensor, polys int, limbs []int, factors pointer) error {
	return simple(r, name, dst, a, polys, limbs, 1, 10, elementArgs{b: b.at, bs: b.stride, factors: factors})
}

func (r *ring) Wipe(b *cutrantt.Batch) error {
	if err := r.check.Batches(b); err != nil {
		return err
	}
	return r.exec(func() error {
		return r.element("element_zero", r.tensor(b), tensor{}, tensor{}, b.Polys(), b.Limbs(), 0)
	}, b)
}

func (r *ring) Copy(dst, src *cutrantt.Batch) error { return r.unary("element_copy", dst, src) }
func (r *ring) Neg(dst, a *cutrantt.Batch) error    { return r.unary("element_neg", dst, a) }

func (r *ring) unary(name string, dst, a *cutrantt.Batch) error {
	if err := r.check.Elementwise(check.Equal, dst, a); err != nil {
		return err
	}
	err := r.exec(func() error {
		return r.element(name, r.tensor(dst), r.tensor(a), tensor{}, dst.Polys(), dst.Limbs(), 0)
	}, dst, a)
	if err == nil {
		dst.SetDomain(a.Domain())
	}
	return err
}

func (r *ring) Add(dst, a, b *cutrantt.Batch) error { return r.binary("element_add", dst, a, b) }
func (r *ring) Sub(dst, a, b *cutrantt.Batch) error { return r.binary("element_sub", dst, a, b) }

func (r *ring) binary(name string, dst, a, b *cutrantt.Batch) error {
	if err := r.check.Elementwise(check.Broadcast, dst, a, b); err != nil {
		return err
	}
	err := r.exec(func() error {
		return r.element(name, r.tensor(dst), r.source(a), r.source(b), dst.Polys(), dst.Limbs(), 0)
	}, dst, a, b)
	if err == nil {
		dst.SetDomain(a.Domain())
	}
	return err
}

func (r *ring) MulScalar(dst, a *cutrantt.Batch, c []uint32) error {
	w := make([]uint32, 0, 2*len(c))
	return r.scalars(dst, a, c, func() error {
		for i, l := range dst.Limbs() {
			w = append(w, c[i], quotient(c[i], r.check.Moduli()[l].Q))
		}
		return r.with(bytesOf(w), func(x pointer) error {
			return r.element("element_scale", r.tensor(dst), r.tensor(a), tensor{}, dst.Polys(), dst.Limbs(), x)
		})
	})
}

func (r *ring) AddScalar(dst, a *cutrantt.Batch, c []uint32) error {
	return r.scalars(dst, a, c, func() error {
		return r.with(bytesOf(c), func(x pointer) error {
			own := constantArgs{constants: x}
			if a.Domain().NTT {
				own.transformed = 1
			}
			return simple(
				r, "element_constant", r.tensor(dst), r.tensor(a), dst.Polys(), dst.Limbs(), int(a.Domain().N2), 10,
				own,
			)
		})
	})
}

func (r *ring) scalars(dst, a *cutrantt.Batch, c []uint32, f func() error) error {
	if err := r.check.Batches(dst, a); err != nil {
		return err
	}
	if err := r.check.Scalars(dst, c); err != nil {
		return err
	}
	if err := r.check.Elementwise(check.Equal, dst, a); err != nil {
		return err
	}
	err := r.exec(f, dst, a)
	if err == nil {
		dst.SetDomain(a.Domain())
	}
	return err
}

// pageable is the most bytes that the driver copies from ordinary memory without
// waiting; more go through a staging buffer.
const pageable = 64 << 10

// with copies host data to device memory while f queues work that reads it.
func (r *ring) with(data []byte, f func(x pointer) error) error {
	if len(data) == 0 {
		return nil
	}
	if r.recorded != nil {
		x, err := r.recorded.constant(data)
		if err != nil {
			return err
		}
		return f(x)
	}
	if r.backend.mapped && len(data) <= chunk {
		return r.inPlace(data, f)
	}
	drv, n := r.backend.drv, (len(data)+3)/4
	x, err := r.pool.get(n)
	if err != nil {
		return err
	}
	defer r.pool.put(x, n)
	if len(data) <= pageable || len(data) > chunk {
		if err := drv.CopyIn(x, data, r.pool.stream); err != nil {
			return err
		}
		return f(x)
	}
	b, err := r.backend.staging.get()
	if err != nil {
		return err
	}
	copy(b.bytes, data)
	err = drv.CopyIn(x, b.bytes[:len(data)], r.pool.stream)
	if err == nil {
		err = drv.Record(b.done, r.pool.stream)
	}
	if err == nil {
		err = f(x)
		err = errors.Join(err, r.done(b)) // the buffer is wiped next
	} else {
		_ = drv.Wait(r.pool.stream) // the copy may be under way
	}
	r.backend.staging.put(b, len(data))
	return err
}

// inPlace is with for GPUs that read host memory: f's work reads the staging
// buffer itself.
func (r *ring) inPlace(data []byte, f func(x pointer) error) error {
	drv, st := r.backend.drv, &r.backend.staging
	b, err := st.get()
	if err != nil {
		return err
	}
	copy(b.bytes, data)
	err = f(b.pointer())
	if err == nil {
		err = drv.Record(b.done, r.pool.stream)
	}
	if err == nil {
		err = r.done(b) // the buffer is wiped next
	} else {
		_ = drv.Wait(r.pool.stream)
	}
	st.put(b, len(data))
	return err
}

var _ cutrantt.Combiner = (*ring)(nil)

// combinedTerms is how many terms the kernel combine takes, whose sums have room for as many products.
const combinedTerms = 15

func (r *ring) Combine(dst []*cutrantt.Batch, terms []cutrantt.Term, constants []uint32, add bool) error {
	all := slices.Clone(dst)
	for _, t := range terms {
		all = append(all, t.Of...)
	}
	if err := r.check.Batches(all...); err != nil {
		return err
	}
	domain := dst[0].Domain()
	if len(terms) > 0 {
		domain = terms[0].Of[0].Domain()
	}
	perItem := 16 * (combinedTerms + 1)
	most := max((pageable-4*(combinedTerms+1)*len(dst[0].Limbs()))/perItem, 1)
	err := r.exec(func() error {
		for lo := 0; lo < len(dst); lo += most {
			hi := min(lo+most, len(dst))
			first := terms[:min(len(terms), combinedTerms)]
			if err := r.combine(dst, lo, hi, first, domain, constants, add); err != nil {
				return err
			}
			for from := combinedTerms; from < len(terms); from += combinedTerms {
				part := terms[from:min(from+combinedTerms, len(terms))]
				if err := r.combine(dst, lo, hi, part, domain, nil, true); err != nil {
					return err
				}
			}
		}
		return nil
	}, all...)
	if err != nil {
		return err
	}
	for _, d := range dst {
		d.SetDomain(domain)
	}
	return nil
}

// combine queues the kernel for results lo to hi-1. Without terms only the residues of the constants are touched.
func (r *ring) combine(
	dst []*cutrantt.Batch, lo, hi int, terms []cutrantt.Term, d cutrantt.Domain, constants []uint32, more bool,
) error {
	limbs := dst[lo].Limbs()
	list, err := r.list(limbs)
	if err != nil {
		return err
	}
	a := combineArgs{
		args: args{limbs: list}, terms: uint32(len(terms)), polys: uint32(dst[lo].Polys()),
		logParts: uint32(r.logN - 10), count: 1,
	}
	if d.NTT {
		a.count = uint32(r.n / int(d.N2))
	}
	if more {
		a.more = 1
	}
	if len(terms) == 0 {
		if constants == nil {
			return nil
		}
		a.polys, a.logParts = 1, uint32(log2(max(int(a.count)>>10, 1)))
	}
	var words []uint32
	slot := func(b *cutrantt.Batch) {
		t := r.tensor(b)
		words = append(words, uint32(t.at), uint32(t.at>>32), uint32(t.stride), uint32(t.stride>>32))
	}
	for i := lo; i < hi; i++ {
		slot(dst[i])
		for _, t := range terms {
			slot(t.Of[i])
		}
	}
	factors := len(words)
	for _, t := range terms {
		by := t.By
		if by == nil {
			by = slices.Repeat([]uint32{1}, len(limbs))
		}
		words = append(words, by...)
	}
	offset := len(words)
	words = append(words, constants...)
	return r.table(bytesOf(words), func(x pointer) error {
		a.a, a.factors = x, x+pointer(4*factors)
		if constants != nil {
			a.constants = x + pointer(4*offset)
		}
		return launch(r, "combine", (hi-lo)*int(a.polys)<<a.logParts, len(limbs), 256, 0, a)
	})
}
