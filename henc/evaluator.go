package henc

import (
	"fmt"
	"math"

	"github.com/hencedge/hencedge/cutrantt"
)

// Evaluator computes on ciphertexts with public keys only. Every operation
// returns a new ciphertext and leaves its inputs alone. It is immutable and safe
// for concurrent use, also by operations that share inputs.
//
// Levels and scales are strict: operands must be at one level (DropLevel aligns
// them; ErrLevel otherwise), sums need scales within Parameters.ScaleTolerance
// of each other (ErrScale), products multiply scales and refuse a scale that leaves no
// room below the modulus (ErrScale). Nothing is rescaled implicitly.
type Evaluator struct {
	ctx  *Context
	keys *EvaluationKeys
}

// NewEvaluator makes an evaluator for ctx. keys may be nil or partial; the
// operations that miss a key fail with ErrNoKey.
func NewEvaluator(ctx *Context, keys *EvaluationKeys) *Evaluator {
	return &Evaluator{ctx: ctx, keys: keys}
}

// Context is the evaluator's context.
func (ev *Evaluator) Context() *Context {
	if ev == nil {
		return nil
	}
	return ev.ctx
}

// Record records what f does with an evaluator like ev: see cutrantt.Recorder. The context of on shares the ciphertexts
// and plaintexts of ev's.
func (ev *Evaluator) Record(f func(on *Evaluator) error) (cutrantt.Recording, error) {
	if ev == nil || ev.ctx.ready() != nil || f == nil {
		return nil, fmt.Errorf("record: %w: evaluator without a context, or nothing to record", ErrParams)
	}
	c := ev.ctx
	r, ok := c.ring.(cutrantt.Recorder)
	if !ok {
		return nil, fmt.Errorf("record: %w by this backend", cutrantt.ErrNotSupported)
	}
	return r.Record(func(ring cutrantt.Ring) error {
		return f(NewEvaluator(&Context{params: c.params, ring: ring, n2: c.n2, encoder: c.encoder}, ev.keys))
	})
}

// rescaled is the scale after rescaling from level.
func (ev *Evaluator) rescaled(level int, scale float64) (float64, error) {
	if level == 0 {
		return 0, fmt.Errorf("%w: level 0 has no prime left to divide by", ErrLevel)
	}
	s := scale / ev.ctx.params.RescaleFactor(level)
	if s < 1 {
		return 0, fmt.Errorf("%w: scale 2^%.2f at level %d would fall to 2^%.2f; multiply before rescaling",
			ErrScale, math.Log2(scale), level, math.Log2(s))
	}
	return s, nil
}

// valid refuses an unusable evaluator or operand.
func (ev *Evaluator) valid(op string, a *Ciphertext) error {
	if ev == nil || ev.ctx == nil {
		return fmt.Errorf("%s: %w: evaluator without a context", op, ErrParams)
	}
	if err := ev.ctx.CheckCiphertext(a); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// same refuses operands of different level and, for sums, of different scale.
func (ev *Evaluator) same(op string, a, b *Ciphertext, scales bool) error {
	if err := ev.valid(op, a); err != nil {
		return err
	}
	if err := ev.valid(op, b); err != nil {
		return err
	}
	return ev.matches(op, a.Level, b.Level, a.Scale, b.Scale, scales)
}

func (ev *Evaluator) matches(op string, levelA, levelB int, scaleA, scaleB float64, scales bool) error {
	if levelA != levelB {
		return fmt.Errorf("%s: %w: operands are at levels %d and %d; drop the higher one to %d",
			op, ErrLevel, levelA, levelB, min(levelA, levelB))
	}
	large, small := max(scaleA, scaleB), min(scaleA, scaleB)
	if scales && large-small > large*ev.ctx.params.ScaleTolerance(levelA, large) {
		return fmt.Errorf("%s: %w: scales 2^%.6f and 2^%.6f differ by a part in 2^%.1f; multiply one by a constant "+
			"at the right scale first",
			op, ErrScale, math.Log2(scaleA), math.Log2(scaleB), -math.Log2(1-small/large))
	}
	return nil
}
