package henc

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// Batches: one operation on independent ciphertexts of one level, each under the
// keys of its own evaluator. All evaluators have one context. The results are
// those of the single operations bit for bit; a GPU runs them in one set of
// launches, which pays for small rings. One failure fails the batch.

// MulBatch is evs[i].Mul(a[i], b[i]) for every i.
func MulBatch(evs []*Evaluator, a, b []*Ciphertext) ([]*Ciphertext, error) {
	const op = "multiply"
	if err := together(op, evs, a, b); err != nil || len(a) == 0 {
		return nil, err
	}
	return multiply(op, false, evs, a, b)
}

// MulRescaleBatch is evs[i].MulRescale(a[i], b[i]) for every i.
func MulRescaleBatch(evs []*Evaluator, a, b []*Ciphertext) ([]*Ciphertext, error) {
	const op = "multiply and rescale"
	if err := together(op, evs, a, b); err != nil || len(a) == 0 {
		return nil, err
	}
	return multiply(op, true, evs, a, b)
}

// RotateBatch is evs[i].Rotate(a[i], k) for every i.
func RotateBatch(evs []*Evaluator, a []*Ciphertext, k int) ([]*Ciphertext, error) {
	const op = "rotate"
	if err := together(op, evs, a, a); err != nil || len(a) == 0 {
		return nil, err
	}
	g := GaloisElement(evs[0].ctx.params, k)
	elements := make([]uint64, len(a))
	for i := range elements {
		elements[i] = g
	}
	return automorphisms(op, evs, a, elements)
}

// RescaleBatch is evs[i].Rescale(a[i]) for every i.
func RescaleBatch(evs []*Evaluator, a []*Ciphertext) ([]*Ciphertext, error) {
	const op = "rescale"
	if err := together(op, evs, a, a); err != nil || len(a) == 0 {
		return nil, err
	}
	scales, values := make([]float64, len(a)), make([]*cutrantt.Batch, len(a))
	for i, ct := range a {
		var err error
		if scales[i], err = evs[i].rescaled(ct.Level, ct.Scale); err != nil {
			return nil, fmt.Errorf("%s: item %d: %w", op, i, err)
		}
		values[i] = ct.Value
	}
	ctx := evs[0].ctx
	return ctx.results(op, a[0].Level-1, scales, func(c *chain.Chain, dst []*cutrantt.Batch) {
		c.Do(func() error { return cutrantt.DivRounds(ctx.ring, dst, values) })
	})
}

// together refuses batches whose items do not fit each other.
func together(op string, evs []*Evaluator, a, b []*Ciphertext) error {
	if len(evs) != len(a) || len(a) != len(b) {
		return fmt.Errorf("%s: %w: %d evaluators for %d and %d ciphertexts", op, ErrParams, len(evs), len(a), len(b))
	}
	for i, ev := range evs {
		if err := ev.valid(op, a[i]); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		if ev.ctx != evs[0].ctx {
			return fmt.Errorf("%s: %w: item %d has another context", op, ErrParams, i)
		}
		if a[i].Level != a[0].Level {
			return fmt.Errorf(
				"%s: %w: item %d is at level %d, the first at %d", op, ErrLevel, i, a[i].Level, a[0].Level,
			)
		}
	}
	return nil
}

// results allocates one result for each scale, runs f, and returns the results
// only if all of it worked.
func (ctx *Context) results(
	op string, level int, scales []float64, f func(c *chain.Chain, dst []*cutrantt.Batch),
) ([]*Ciphertext, error) {
	c := chain.New(ctx.ring)
	dst, out := make([]*cutrantt.Batch, len(scales)), make([]*Ciphertext, len(scales))
	for i, scale := range scales {
		if err := ctx.params.CheckScale(level, scale); err != nil {
			_ = c.Close() // nothing of it has run
			return nil, fmt.Errorf("%s: result: %w", op, err)
		}
		dst[i] = c.Result(2, ctx.params.QLimbs(level), ctx.Domain())
	}
	if c.Err() == nil {
		f(c, dst)
	}
	for i, v := range dst {
		v, _ = c.Keep(v)
		out[i] = &Ciphertext{Value: v, Level: level, Scale: scales[i]}
	}
	if err := c.Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return out, nil
}
