// Package reference is the oracle of cutrantt: every operation follows its
// definition, with the remainder operator and math/big, and nothing is merged,
// cached or parallel. Transforms are sums of O(N*n1) products, so rings above
// 2^12 are for checking chosen blocks (Block) rather than whole batches.
package reference

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
)

var (
	_ cutrantt.Backend = backend{}
	_ cutrantt.Ring    = (*ring)(nil)
	_ cutrantt.Operand = (*operand)(nil)
)

type backend struct{}

// New returns the backend.
func New() cutrantt.Backend { return backend{} }

func (backend) Name() string   { return "reference" }
func (backend) Device() string { return "definitions in plain Go, one CPU" }

func (b backend) NewRing(logN int, moduli []cutrantt.Modulus, opts cutrantt.Options) (cutrantt.Ring, error) {
	c, err := check.NewRing(logN, moduli, opts)
	if err != nil {
		return nil, err
	}
	return &ring{Ring: c, backend: b, opts: opts}, nil
}

// ring embeds the verifier, which also gives N, LogN and Moduli.
type ring struct {
	*check.Ring
	backend cutrantt.Backend
	opts    cutrantt.Options
}

func (r *ring) Backend() cutrantt.Backend { return r.backend }

// Method is what was asked for; products always follow the definition.
func (r *ring) Method() cutrantt.Method { return r.opts.Method }

func (r *ring) Sync() error { return nil }

type memory struct {
	owner *check.Ring
	data  []uint32
}

func (m *memory) Owner() *check.Ring { return m.owner }
func (m *memory) Len() int           { return len(m.data) }

// limb is residues (poly, l) of b; a single polynomial stands for every one.
func (r *ring) limb(b *cutrantt.Batch, poly, l int) []uint32 {
	if b.Polys() == 1 {
		poly = 0
	}
	o := b.Offset(poly, l)
	return b.Mem().(*memory).data[o : o+r.N()]
}

// mod is the modulus of limb l of b.
func (r *ring) mod(b *cutrantt.Batch, l int) cutrantt.Modulus { return r.Moduli()[b.Limbs()[l]] }

// each calls f for every limb of every polynomial of b.
func (r *ring) each(b *cutrantt.Batch, f func(p, l int, m cutrantt.Modulus)) {
	for p := range b.Polys() {
		for l := range b.Limbs() {
			f(p, l, r.mod(b, l))
		}
	}
}

func (r *ring) NewBatch(polys int, limbs []int, d cutrantt.Domain) (*cutrantt.Batch, error) {
	if err := r.Shape(polys, limbs, d); err != nil {
		return nil, err
	}
	m := &memory{owner: r.Ring, data: make([]uint32, polys*len(limbs)*r.N())}
	return cutrantt.MakeBatch(cutrantt.Shape{Polys: polys, Limbs: limbs, Domain: d}, r.N(), m), nil
}

func (r *ring) Free(b *cutrantt.Batch) {
	if r.Batches(b) == nil {
		b.Mem().(*memory).data = nil
	}
}

func (r *ring) Wipe(b *cutrantt.Batch) error {
	if err := r.Batches(b); err != nil {
		return err
	}
	r.each(b, func(p, l int, _ cutrantt.Modulus) { clear(r.limb(b, p, l)) })
	return nil
}

func (r *ring) Upload(dst *cutrantt.Batch, src []uint32) error {
	if err := r.Transfer(dst, len(src)); err != nil {
		return err
	}
	var bad error
	r.each(dst, func(p, l int, m cutrantt.Modulus) {
		for j, x := range src[:r.N()] {
			if x >= m.Q {
				bad = fmt.Errorf(
					"%w: polynomial %d, limb %d, position %d is %d, modulus %d", cutrantt.ErrRange, p, l, j, x, m.Q,
				)
				return
			}
		}
		copy(r.limb(dst, p, l), src)
		src = src[r.N():]
	})
	return bad
}

func (r *ring) Download(dst []uint32, src *cutrantt.Batch) error {
	if err := r.Transfer(src, len(dst)); err != nil {
		return err
	}
	r.each(src, func(p, l int, _ cutrantt.Modulus) { dst = dst[copy(dst, r.limb(src, p, l)):] })
	return nil
}

func (r *ring) Copy(dst, src *cutrantt.Batch) error {
	return r.elementwise(
		check.Equal, dst, func(z []uint32, _ int, _ cutrantt.Modulus, x [][]uint32) { copy(z, x[0]) }, src,
	)
}
