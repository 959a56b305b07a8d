package cpu

import (
	"fmt"
	"math/bits"
	"sync"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
)

// memory is the handle in a batch.
type memory struct {
	owner *check.Ring
	data  []uint32 // nil once freed
}

func (m *memory) Owner() *check.Ring { return m.owner }
func (m *memory) Len() int           { return len(m.data) }

// limb is residues (poly, l) of a batch that was checked.
func (r *ring) limb(b *cutrantt.Batch, poly, l int) []uint32 {
	o := b.Offset(poly, l)
	return b.Mem().(*memory).data[o : o+r.n : o+r.n]
}

// source is like limb; a single polynomial stands for every one (broadcast).
func (r *ring) source(b *cutrantt.Batch, poly, l int) []uint32 {
	if b.Polys() == 1 {
		poly = 0
	}
	return r.limb(b, poly, l)
}

// Residues returns the memory of one limb.
func (r *ring) Residues(b *cutrantt.Batch, poly, limb int) ([]uint32, error) {
	if err := r.check.Batches(b); err != nil {
		return nil, err
	}
	if poly < 0 || poly >= b.Polys() || limb < 0 || limb >= len(b.Limbs()) {
		return nil, fmt.Errorf("%w: limb %d of polynomial %d in a batch of %d polynomials with limbs %v",
			cutrantt.ErrShape, limb, poly, b.Polys(), b.Limbs())
	}
	return r.limb(b, poly, limb), nil
}

func (r *ring) NewBatch(polys int, limbs []int, d cutrantt.Domain) (*cutrantt.Batch, error) {
	return r.newBatch(polys, limbs, d, true)
}

// NewResult is NewBatch with what is left of earlier batches in it.
func (r *ring) NewResult(polys int, limbs []int, d cutrantt.Domain) (*cutrantt.Batch, error) {
	return r.newBatch(polys, limbs, d, false)
}

func (r *ring) newBatch(polys int, limbs []int, d cutrantt.Domain, zero bool) (*cutrantt.Batch, error) {
	if err := r.check.Shape(polys, limbs, d); err != nil {
		return nil, err
	}
	m := &memory{owner: r.check}
	n := polys * len(limbs) * r.n
	if old, ok := r.freed(n).Get().(*[]uint32); ok {
		if m.data = *old; zero {
			clear(m.data)
		}
	} else {
		m.data = make([]uint32, n)
		hugePages(m.data)
	}
	return cutrantt.MakeBatch(cutrantt.Shape{Polys: polys, Limbs: limbs, Domain: d}, r.n, m), nil
}

// freed is the pool of *[]uint32 with n residues. A context works with few sizes.
func (r *ring) freed(n int) *sync.Pool {
	if p, ok := r.pools.Load(n); ok {
		return p.(*sync.Pool)
	}
	p, _ := r.pools.LoadOrStore(n, new(sync.Pool))
	return p.(*sync.Pool)
}

// Free keeps the memory for the next batch of the size.
func (r *ring) Free(b *cutrantt.Batch) {
	if r.check.Batches(b) != nil {
		return
	}
	m := b.Mem().(*memory)
	data := m.data
	m.data = nil
	r.freed(len(data)).Put(&data)
}

func (r *ring) Wipe(b *cutrantt.Batch) error {
	if err := r.check.Batches(b); err != nil {
		return err
	}
	for p := range b.Polys() {
		for l := range b.Limbs() {
			clear(r.limb(b, p, l))
		}
	}
	return nil
}

func (r *ring) Upload(dst *cutrantt.Batch, src []uint32) error {
	if err := r.check.Transfer(dst, len(src)); err != nil {
		return err
	}
	for p, i := 0, 0; p < dst.Polys(); p++ {
		for l, m := range dst.Limbs() {
			from, q := src[i:i+r.n], r.moduli[m].q
			for j, x := range from {
				if x >= q {
					return fmt.Errorf(
						"%w: polynomial %d, limb %d, position %d is %d, modulus %d", cutrantt.ErrRange, p, l, j, x, q,
					)
				}
			}
			i += copy(r.limb(dst, p, l), from)
		}
	}
	return nil
}

func (r *ring) Download(dst []uint32, src *cutrantt.Batch) error {
	if err := r.check.Transfer(src, len(dst)); err != nil {
		return err
	}
	for p, i := 0, 0; p < src.Polys(); p++ {
		for l := range src.Limbs() {
			i += copy(dst[i:], r.limb(src, p, l))
		}
	}
	return nil
}

func (r *ring) Copy(dst, src *cutrantt.Batch) error {
	if err := r.check.Elementwise(check.Equal, dst, src); err != nil {
		return err
	}
	for p := range src.Polys() {
		for l := range src.Limbs() {
			copy(r.limb(dst, p, l), r.limb(src, p, l))
		}
	}
	dst.SetDomain(src.Domain())
	return nil
}

// scratchPools recycle working memory of up to 2^k words. Buffers that may have held
// secrets are cleared when they are put back.
var scratchPools [33]sync.Pool

type scratch struct{ words []uint32 }

// getScratch returns n >= 1 words of any content.
func getScratch(n int) *scratch {
	k := bits.Len(uint(n - 1))
	if k >= len(scratchPools) {
		return &scratch{words: make([]uint32, n)}
	}
	if s, ok := scratchPools[k].Get().(*scratch); ok {
		s.words = s.words[:n]
		return s
	}
	s := &scratch{words: make([]uint32, n, 1<<k)}
	hugePages(s.words)
	return s
}

func (s *scratch) put() {
	clear(s.words)
	s.putPublic()
}

// putPublic is put for words that held no secret.
func (s *scratch) putPublic() {
	if k := bits.Len(uint(cap(s.words) - 1)); k < len(scratchPools) && cap(s.words) == 1<<k {
		scratchPools[k].Put(s)
	}
}
