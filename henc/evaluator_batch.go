package henc

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// BatchEvaluator runs each operation on several independent ciphertexts at once, item i under
// the keys of evaluator i. The results equal those of Evaluator's operation of the same name,
// bit for bit. A GPU runs a batch of any size in one set of launches. If one item fails, the
// whole operation fails. A BatchEvaluator is immutable and safe for concurrent use.
type BatchEvaluator struct {
	ctx *Context
	evs []*Evaluator
}

// NewBatchEvaluator makes a batch evaluator with one item per evaluator. It fails with
// ErrParams if there are none or if they do not share one context.
func NewBatchEvaluator(evs []*Evaluator) (*BatchEvaluator, error) {
	if len(evs) == 0 {
		return nil, fmt.Errorf("%w: a batch of no evaluators", ErrParams)
	}
	for i, ev := range evs {
		if ev == nil || ev.ctx.ready() != nil {
			return nil, fmt.Errorf("item %d: %w: evaluator without a context", i, ErrParams)
		}
		if ev.ctx != evs[0].ctx {
			return nil, fmt.Errorf("%w: item %d has another context", ErrParams, i)
		}
	}
	return &BatchEvaluator{ctx: evs[0].ctx, evs: evs}, nil
}

// Context is the context of all evaluators.
func (be *BatchEvaluator) Context() *Context {
	if be == nil {
		return nil
	}
	return be.ctx
}

// Ciphertexts holds one ciphertext per item of a batch, all at one level and one scale. The
// results of an operation share one allocation: an element-wise operation on all of them is
// one call of the ring, and they are freed together.
type Ciphertexts struct {
	level int
	scale float64
	items []*cutrantt.Batch // 2 polynomials each
	whole *cutrantt.Batch   // all 2*len(items) polynomials; nil if the items are separate
}

// Level is the level of every item.
func (a *Ciphertexts) Level() int {
	if a == nil {
		return 0
	}
	return a.level
}

// Scale is the scale of every item.
func (a *Ciphertexts) Scale() float64 {
	if a == nil {
		return 0
	}
	return a.scale
}

// Len is the number of items.
func (a *Ciphertexts) Len() int {
	if a == nil {
		return 0
	}
	return len(a.items)
}

// At returns item i, or nil outside the batch. It shares the memory of the batch: freeing it
// frees all items.
func (a *Ciphertexts) At(i int) *Ciphertext {
	if i < 0 || i >= a.Len() {
		return nil
	}
	return &Ciphertext{Value: a.items[i], Level: a.level, Scale: a.scale}
}

// Part is items lo to hi-1 as a batch of their own, or nil outside the batch. It shares the memory of a and is freed
// with it, not by itself.
func (a *Ciphertexts) Part(lo, hi int) *Ciphertexts {
	if lo < 0 || lo >= hi || hi > a.Len() {
		return nil
	}
	part := &Ciphertexts{level: a.level, scale: a.scale, items: a.items[lo:hi:hi]}
	if a.whole != nil {
		part.whole, _ = a.whole.Slice(2*lo, 2*hi, 0, len(a.whole.Limbs())) // within the batch
	}
	return part
}

// WithScale is Ciphertext.WithScale for every item.
func (a *Ciphertexts) WithScale(scale float64) *Ciphertexts {
	if a == nil {
		return nil
	}
	c := *a
	c.scale = scale
	return &c
}

// Of makes a batch of one ciphertext per item, at the given level. Like DropLevel it takes the
// leading limbs of ciphertexts at higher levels, but it copies nothing. It fails with
// ErrParams unless there is one ciphertext per item, with ErrLevel if one is below the level,
// and with ErrScale if their scales differ.
func (be *BatchEvaluator) Of(cts []*Ciphertext, level int) (*Ciphertexts, error) {
	const op = "batch"
	if be == nil || be.ctx == nil || len(cts) != len(be.evs) {
		return nil, fmt.Errorf("%s: %w: %d ciphertexts", op, ErrParams, len(cts))
	}
	out := &Ciphertexts{level: level, items: make([]*cutrantt.Batch, len(cts))}
	for i, ct := range cts {
		if err := be.ctx.CheckCiphertext(ct); err != nil {
			return nil, fmt.Errorf("%s: item %d: %w", op, i, err)
		}
		if level < 0 || level > ct.Level {
			return nil, fmt.Errorf("%s: item %d: %w: a ciphertext at level %d, wanted at level %d", op, i, ErrLevel,
				ct.Level, level)
		}
		if i == 0 {
			out.scale = ct.Scale
		}
		if ct.Scale != out.scale {
			return nil, fmt.Errorf("%s: item %d: %w: scale %g, the first has %g", op, i, ErrScale, ct.Scale, out.scale)
		}
		var err error
		if out.items[i], err = ct.Value.Slice(0, 2, 0, be.ctx.params.LimbsAt(level)); err != nil {
			return nil, fmt.Errorf("%s: item %d: %w", op, i, err)
		}
	}
	if err := be.ctx.params.CheckScale(level, out.scale); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if len(out.items) == 1 {
		out.whole = out.items[0]
	}
	return out, nil
}

// Take makes a batch of residues that lie together, two polynomials for each item, as the results of operations do.
// They belong to the batch from then on, and are freed with it, or after an error. It fails with ErrParams, ErrDegree,
// ErrLevel or ErrScale where they do not fit.
func (be *BatchEvaluator) Take(value *cutrantt.Batch, level int, scale float64) (*Ciphertexts, error) {
	const op = "batch"
	if be == nil || be.ctx == nil {
		return nil, fmt.Errorf("%s: %w: batch evaluator without a context", op, ErrParams)
	}
	if err := be.ctx.checkIn("ciphertexts", value, 2*len(be.evs), level, scale, be.ctx.Domain()); err != nil {
		be.ctx.ring.Free(value)
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	items, err := value.Each(2)
	if err != nil {
		be.ctx.ring.Free(value)
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return &Ciphertexts{level: level, scale: scale, items: items, whole: value}, nil
}

// Free frees the result of an operation, which must not be used again.
func (be *BatchEvaluator) Free(a *Ciphertexts) {
	if be != nil && be.ctx != nil && a != nil && a.whole != nil {
		be.ctx.ring.Free(a.whole)
	}
}

// Add is Evaluator.Add for each item.
func (be *BatchEvaluator) Add(a, b *Ciphertexts) (*Ciphertexts, error) {
	return be.combine("add", a, b, cutrantt.Ring.Add)
}

// Sub is Evaluator.Sub for each item.
func (be *BatchEvaluator) Sub(a, b *Ciphertexts) (*Ciphertexts, error) {
	return be.combine("subtract", a, b, cutrantt.Ring.Sub)
}

func (be *BatchEvaluator) combine(
	op string, a, b *Ciphertexts, f func(r cutrantt.Ring, dst, a, b *cutrantt.Batch) error,
) (*Ciphertexts, error) {
	if err := be.pair(op, a, b, true); err != nil {
		return nil, err
	}
	return be.result(op, a.level, a.scale, func(c *chain.Chain, out *Ciphertexts) {
		x := be.joined(c, a)
		y := x
		if b != a {
			y = be.joined(c, b)
		}
		c.Do(func() error { return f(be.ctx.ring, out.whole, x, y) })
	})
}

// Rescale is Evaluator.Rescale for each item.
func (be *BatchEvaluator) Rescale(a *Ciphertexts) (*Ciphertexts, error) {
	const op = "rescale"
	if err := be.valid(op, a); err != nil {
		return nil, err
	}
	scale, err := be.evs[0].rescaled(a.level, a.scale)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return be.result(op, a.level-1, scale, func(c *chain.Chain, out *Ciphertexts) {
		c.Do(func() error { return cutrantt.DivRounds(be.ctx.ring, out.items, a.items) })
	})
}

// DropLevel is Evaluator.DropLevel for each item.
func (be *BatchEvaluator) DropLevel(a *Ciphertexts, levels int) (*Ciphertexts, error) {
	const op = "drop level"
	if err := be.valid(op, a); err != nil {
		return nil, err
	}
	if levels < 0 || levels > a.level {
		return nil, fmt.Errorf("%s: %w: cannot drop %d levels at level %d", op, ErrLevel, levels, a.level)
	}
	return be.copied(op, a, a.level-levels)
}

// AtLevel is DropLevel to a level, without a copy: the result shares the memory of a and is freed with it.
func (be *BatchEvaluator) AtLevel(a *Ciphertexts, level int) (*Ciphertexts, error) {
	const op = "lower level"
	if err := be.valid(op, a); err != nil {
		return nil, err
	}
	if level < 0 || level > a.level {
		return nil, fmt.Errorf("%s: %w: a ciphertext at level %d, wanted at level %d", op, ErrLevel, a.level, level)
	}
	if err := be.ctx.params.CheckScale(level, a.scale); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	c, limbs := chain.New(be.ctx.ring), be.ctx.params.LimbsAt(level)
	out := &Ciphertexts{level: level, scale: a.scale}
	if a.whole != nil {
		out.whole = c.View(a.whole, 0, a.whole.Polys(), 0, limbs)
	}
	for _, b := range a.items {
		out.items = append(out.items, c.View(b, 0, 2, 0, limbs))
	}
	if err := c.Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return out, nil
}

// Clone is Ciphertext.Clone for each item, without seeds.
func (be *BatchEvaluator) Clone(a *Ciphertexts) (*Ciphertexts, error) {
	const op = "copy"
	if err := be.valid(op, a); err != nil {
		return nil, err
	}
	return be.copied(op, a, a.level)
}

// copied copies the leading limbs of each item.
func (be *BatchEvaluator) copied(op string, a *Ciphertexts, level int) (*Ciphertexts, error) {
	limbs := be.ctx.params.LimbsAt(level)
	return be.result(op, level, a.scale, func(c *chain.Chain, out *Ciphertexts) {
		if a.whole != nil {
			c.Op2(be.ctx.ring.Copy, out.whole, c.View(a.whole, 0, a.whole.Polys(), 0, limbs))
			return
		}
		from := make([]*cutrantt.Batch, len(a.items))
		for i, b := range a.items {
			from[i] = c.View(b, 0, 2, 0, limbs)
		}
		c.Do(func() error { return cutrantt.Collect(be.ctx.ring, out.whole, from) })
	})
}

// halves returns c0 and c1 of every item.
func (a *Ciphertexts) halves(c *chain.Chain) (c0, c1 []*cutrantt.Batch) {
	var all []*cutrantt.Batch
	if a.whole != nil {
		all = c.Each(a.whole, 1)
	} else {
		for _, b := range a.items {
			all = append(all, c.Each(b, 1)...)
		}
	}
	for i := 0; i < len(all); i += 2 {
		c0, c1 = append(c0, all[i]), append(c1, all[i+1])
	}
	return c0, c1
}

// joined returns all items as one batch of the ring. It copies separate items; c frees the
// copy.
func (be *BatchEvaluator) joined(c *chain.Chain, a *Ciphertexts) *cutrantt.Batch {
	if a.whole != nil {
		return a.whole
	}
	b := c.Result(2*len(a.items), be.ctx.params.QLimbs(a.level), be.ctx.Domain())
	c.Do(func() error { return cutrantt.Collect(be.ctx.ring, b, a.items) })
	return b
}

// valid refuses an unusable evaluator or operand.
func (be *BatchEvaluator) valid(op string, a *Ciphertexts) error {
	if be == nil || be.ctx == nil {
		return fmt.Errorf("%s: %w: batch evaluator without a context", op, ErrParams)
	}
	if a.Len() != len(be.evs) {
		return fmt.Errorf("%s: %w: a batch of %d items for %d evaluators", op, ErrParams, a.Len(), len(be.evs))
	}
	for i := range a.items {
		if i > 0 && a.whole != nil {
			break // the other items are views of the same batch
		}
		if err := be.ctx.CheckCiphertext(a.At(i)); err != nil {
			return fmt.Errorf("%s: item %d: %w", op, i, err)
		}
	}
	return nil
}

// pair refuses operands of different level and, for sums, of different scale.
func (be *BatchEvaluator) pair(op string, a, b *Ciphertexts, scales bool) error {
	if err := be.valid(op, a); err != nil {
		return err
	}
	if err := be.valid(op, b); err != nil {
		return err
	}
	return be.evs[0].matches(op, a.level, b.level, a.scale, b.scale, scales)
}

// result is Context.results for one batch.
func (be *BatchEvaluator) result(
	op string, level int, scale float64, f func(c *chain.Chain, out *Ciphertexts),
) (*Ciphertexts, error) {
	r, err := be.ctx.results(op, level, len(be.evs), 1, scale, func(c *chain.Chain, out []*Ciphertexts) {
		f(c, out[0])
	})
	if err != nil {
		return nil, err
	}
	return r[0], nil
}

// results allocates batches of n results each and runs f, which writes all of them. After an
// error it frees them.
func (ctx *Context) results(
	op string, level, n, batches int, scale float64, f func(c *chain.Chain, out []*Ciphertexts),
) ([]*Ciphertexts, error) {
	if err := ctx.params.CheckScale(level, scale); err != nil {
		return nil, fmt.Errorf("%s: result: %w", op, err)
	}
	c, limbs := chain.New(ctx.ring), ctx.params.QLimbs(level)
	out := make([]*Ciphertexts, batches)
	for k := range out {
		r := &Ciphertexts{level: level, scale: scale}
		r.whole = c.Result(2*n, limbs, ctx.Domain())
		if r.items = []*cutrantt.Batch{r.whole}; n > 1 {
			r.items = c.Each(r.whole, 2)
		}
		out[k] = r
	}
	if c.Err() == nil {
		f(c, out)
	}
	for _, r := range out {
		_, _ = c.Keep(r.whole)
	}
	if err := c.Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return out, nil
}

// batch returns a batch evaluator whose one item is ev.
func (ev *Evaluator) batch() *BatchEvaluator {
	return &BatchEvaluator{ctx: ev.ctx, evs: []*Evaluator{ev}}
}

// alone returns a batch of one ciphertext.
func alone(a *Ciphertext) *Ciphertexts {
	return &Ciphertexts{level: a.Level, scale: a.Scale, items: []*cutrantt.Batch{a.Value}, whole: a.Value}
}

// first returns the only item of a batch of one.
func first(r *Ciphertexts, err error) (*Ciphertext, error) {
	if err != nil {
		return nil, err
	}
	return r.At(0), nil
}
