package program

import (
	"errors"
	"fmt"
	"math"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// Run computes the result from the encrypted windows, with ev's keys. The inputs
// stay as they are. It fails with ErrInput when a window is missing or does not
// fit, with henc.ErrNoKey when ev lacks a key (see NeedsRelin and Rotations), or
// with ErrParams when ev is for other parameters.
func (c *Circuit) Run(ev *henc.Evaluator, inputs map[Input]*henc.Ciphertext) (*henc.Ciphertext, Output, error) {
	cts, err := c.run(ev, inputs)
	if err != nil {
		return nil, Output{}, err
	}
	return cts[0], c.out, nil
}

// run computes every result.
func (r *routine) run(ev *henc.Evaluator, inputs map[Input]*henc.Ciphertext) ([]*henc.Ciphertext, error) {
	ctx := ev.Context()
	if ctx == nil || !ctx.Parameters().Equal(r.params) {
		return nil, fmt.Errorf("%w: the evaluator is not for parameters %s", ErrParams, r.params.Name())
	}
	n := len(r.steps)
	run := &runner{r: r, ev: ev, ring: ctx.Ring(), values: make([]*henc.Ciphertext, n), uses: make([]int, n),
		held: map[*cutrantt.Batch]int{}}
	cts, err := run.run(inputs)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", r.name, err)
	}
	return cts, nil
}

// runner holds the ciphertexts of one run and frees each after its last use.
type runner struct {
	r      *routine
	ev     *henc.Evaluator
	ring   cutrantt.Ring
	values []*henc.Ciphertext
	uses   []int
	held   map[*cutrantt.Batch]int // steps that hold a batch; inputs are not in it
}

func (r *runner) run(inputs map[Input]*henc.Ciphertext) ([]*henc.Ciphertext, error) {
	steps := r.r.steps
	for _, i := range r.r.results {
		r.uses[i]++
	}
	for i := range steps {
		for _, a := range steps[i].operands() {
			r.uses[a]++
		}
	}
	for i := range steps {
		s := &steps[i]
		if err := r.compute(s, i, inputs); err != nil {
			r.free()
			return nil, fmt.Errorf("step %d (%s): %w", i, s, err)
		}
		for _, a := range s.operands() {
			if r.uses[a]--; r.uses[a] == 0 {
				r.release(a)
			}
		}
	}
	out, err := r.take()
	if err != nil {
		r.free()
	}
	return out, err
}

// compute makes the value of step i, unless an earlier step made it already.
func (r *runner) compute(s *step, i int, inputs map[Input]*henc.Ciphertext) error {
	switch {
	case r.values[i] != nil:
		return nil
	case s.op == stepRotate:
		return r.rotate(i)
	}
	ct, err := r.step(s, i, inputs)
	if err != nil {
		return err
	}
	return r.keep(i, ct)
}

// rotate makes the value of step i, and of all later rotations of the same ciphertext:
// that is decomposed once for all of them.
func (r *runner) rotate(i int) error {
	steps := r.r.steps
	var at, ks []int
	for j := i; j < len(steps); j++ {
		if steps[j].op == stepRotate && steps[j].a == steps[i].a {
			at, ks = append(at, j), append(ks, int(steps[j].k))
		}
	}
	cts, err := r.ev.RotateMany(r.values[steps[i].a], ks)
	if err != nil {
		return err
	}
	for n, j := range at {
		err = errors.Join(err, r.keep(j, cts[n]))
	}
	return err
}

// keep notes the value of step i, which it owns from now on.
func (r *runner) keep(i int, ct *henc.Ciphertext) error {
	s := &r.r.steps[i]
	r.values[i] = ct
	if s.op != stepInput { // which counts what it owns
		r.held[ct.Value]++
	}
	if s.op != stepInput && (ct.Level != s.level || !near(ct.Scale, s.scale)) {
		return fmt.Errorf("%w: %s gave level %d and scale 2^%.6f, planned were %d and 2^%.6f",
			ErrParams, s, ct.Level, math.Log2(ct.Scale), s.level, math.Log2(s.scale))
	}
	ct.Scale = s.scale
	return nil
}

// take returns the results. Each has memory of its own: what is an input as it came, or
// the same as another result, is copied.
func (r *runner) take() ([]*henc.Ciphertext, error) {
	out := make([]*henc.Ciphertext, len(r.r.results))
	given := map[*cutrantt.Batch]bool{}
	for n, i := range r.r.results {
		ct := r.values[i]
		if r.held[ct.Value] > 0 && !given[ct.Value] {
			given[ct.Value] = true
			out[n] = ct
			continue
		}
		own, err := ct.Clone(r.ev.Context())
		if err != nil {
			for m, o := range out[:n] {
				if o != r.values[r.r.results[m]] {
					r.ring.Free(o.Value)
				}
			}
			return nil, err
		}
		out[n] = own
	}
	return out, nil
}

// release frees the ciphertext of step i unless another step shares its memory.
func (r *runner) release(i int) {
	ct := r.values[i]
	r.values[i] = nil
	if ct == nil || r.held[ct.Value] == 0 {
		return
	}
	if r.held[ct.Value]--; r.held[ct.Value] == 0 {
		r.ring.Free(ct.Value)
		delete(r.held, ct.Value)
	}
}

// free releases everything after an error.
func (r *runner) free() {
	for i := range r.values {
		r.release(i)
	}
}

func (r *runner) step(s *step, i int, inputs map[Input]*henc.Ciphertext) (*henc.Ciphertext, error) {
	if s.op == stepInput {
		return r.input(s, inputs)
	}
	a, b := r.values[s.a], r.values[s.b]
	switch s.op {
	case stepMulInt:
		ct := &henc.Ciphertext{Value: a.Value, Level: a.Level, Scale: s.scale}
		if s.k != 1 {
			prod, err := r.ev.MulConst(a, s.k, 1) // exact: k is an integer
			if err != nil {
				return nil, err
			}
			ct.Value = prod.Value
		} else if r.held[a.Value] == 0 { // memory of an input, which is not ours
			own, err := a.Clone(r.ev.Context())
			if err != nil {
				return nil, err
			}
			ct.Value = own.Value
		}
		return ct, nil
	case stepAdd:
		return r.ev.Add(a, b)
	case stepSub:
		return r.ev.Sub(a, b)
	case stepMul:
		return r.ev.Mul(a, b)
	case stepMulRescale:
		return r.ev.MulRescale(a, b)
	case stepMulPlain:
		pt, err := r.r.plaintext(r.ev.Context(), i)
		if err != nil {
			return nil, err
		}
		return r.ev.MulPlain(a, pt)
	case stepRescale:
		return r.ev.Rescale(a)
	case stepDrop:
		return r.ev.DropLevel(a, a.Level-s.level)
	default:
		return r.ev.SumSlots(a, int(s.k), 1)
	}
}

func (r *runner) input(s *step, inputs map[Input]*henc.Ciphertext) (*henc.Ciphertext, error) {
	ct := inputs[s.in]
	if ct == nil {
		return nil, fmt.Errorf("%w: no ciphertext for %s", ErrInput, s.in)
	}
	if err := s.accepts(ct.Level, ct.Scale); err != nil {
		return nil, err
	}
	if ct.Level == s.level {
		same := *ct
		return &same, nil
	}
	low, err := r.ev.DropLevel(ct, ct.Level-s.level)
	if err == nil {
		r.held[low.Value]++
	}
	return low, err
}
