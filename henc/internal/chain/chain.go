// Package chain runs a sequence of ring operations that stops at the first
// error and gives its temporary batches back, wiped when they hold secrets.
package chain

import (
	"errors"

	"github.com/hencedge/hencedge/cutrantt"
)

// Chain is one sequence of operations on one ring. After an error every
// further step does nothing and returns nil batches, so that only the end of a
// sequence needs a check. It is for one goroutine.
type Chain struct {
	ring   cutrantt.Ring
	secret bool
	owned  []*cutrantt.Batch
	err    error
}

// New starts a sequence over public data.
func New(r cutrantt.Ring) *Chain { return &Chain{ring: r} }

// Secret starts a sequence whose temporaries are wiped before they are freed,
// on success and on every error.
func Secret(r cutrantt.Ring) *Chain { return &Chain{ring: r, secret: true} }

// Err is the first error of the sequence.
func (c *Chain) Err() error { return c.err }

// Batch allocates a zeroed batch that Close gives back unless Keep took it out.
func (c *Chain) Batch(polys int, limbs []int, d cutrantt.Domain) *cutrantt.Batch {
	if c.err != nil {
		return nil
	}
	b, err := c.ring.NewBatch(polys, limbs, d)
	if err != nil {
		c.err = err
		return nil
	}
	c.owned = append(c.owned, b)
	return b
}

// Result is Batch without the zeros, for what the next step overwrites as a
// whole (cutrantt.NewResult).
func (c *Chain) Result(polys int, limbs []int, d cutrantt.Domain) *cutrantt.Batch {
	if c.err != nil {
		return nil
	}
	b, err := cutrantt.NewResult(c.ring, polys, limbs, d)
	if err != nil {
		c.err = err
		return nil
	}
	c.owned = append(c.owned, b)
	return b
}

// View is Batch.Slice.
func (c *Chain) View(b *cutrantt.Batch, polyLo, polyHi, limbLo, limbHi int) *cutrantt.Batch {
	if c.err != nil {
		return nil
	}
	v, err := b.Slice(polyLo, polyHi, limbLo, limbHi)
	if err != nil {
		c.err = err
		return nil
	}
	return v
}

// Each is Batch.Each.
func (c *Chain) Each(b *cutrantt.Batch, polys int) []*cutrantt.Batch {
	if c.err != nil {
		return nil
	}
	var views []*cutrantt.Batch
	views, c.err = b.Each(polys)
	return views
}

// Poly is the view of all limbs of polynomial i.
func (c *Chain) Poly(b *cutrantt.Batch, i int) *cutrantt.Batch {
	if c.err != nil {
		return nil
	}
	return c.View(b, i, i+1, 0, len(b.Limbs()))
}

// Do runs f unless the sequence has failed.
func (c *Chain) Do(f func() error) {
	if c.err == nil {
		c.err = f()
	}
}

// Op2 runs a two-batch operation such as Ring.Forward.
func (c *Chain) Op2(f func(dst, a *cutrantt.Batch) error, dst, a *cutrantt.Batch) {
	if c.err == nil {
		c.err = f(dst, a)
	}
}

// Op3 runs a three-batch operation such as Ring.Mul.
func (c *Chain) Op3(f func(dst, a, b *cutrantt.Batch) error, dst, a, b *cutrantt.Batch) {
	if c.err == nil {
		c.err = f(dst, a, b)
	}
}

// Sample runs a sampler such as Ring.SampleCBD.
func (c *Chain) Sample(f func(dst *cutrantt.Batch, seed *[32]byte, label uint32) error,
	dst *cutrantt.Batch, seed *[32]byte, label uint32) {
	if c.err == nil {
		c.err = f(dst, seed, label)
	}
}

// Keep takes b out of what Close gives back and returns it with the error of
// the sequence: nil and the error if there was one.
func (c *Chain) Keep(b *cutrantt.Batch) (*cutrantt.Batch, error) {
	if c.err != nil {
		return nil, c.err
	}
	for i, o := range c.owned {
		if o == b {
			c.owned = append(c.owned[:i], c.owned[i+1:]...)
			break
		}
	}
	return b, nil
}

// Close wipes (if secret) and frees every batch still owned. It returns the
// error of the sequence joined with a failed wipe, which must not go unseen.
func (c *Chain) Close() error {
	for _, b := range c.owned {
		if c.secret {
			if err := c.ring.Wipe(b); err != nil {
				c.err = errors.Join(c.err, err)
			}
		}
		c.ring.Free(b)
	}
	c.owned = nil
	return c.err
}
