package program

import (
	"fmt"
	"math"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// scaleSlack is how far a scale may be from the planned one, relatively; the
// difference is far below float64's own rounding of a whole plan.
const scaleSlack = 0x1p-40

// CheckInput refuses a ciphertext that cannot stand for the input in: a level
// below the planned one or another scale. It fails with ErrInput.
func (c *Circuit) CheckInput(in Input, level int, scale float64) error {
	for i := range c.steps {
		if s := &c.steps[i]; s.op == stepInput && s.in == in {
			return s.accepts(level, scale)
		}
	}
	return fmt.Errorf("%w: %s is not an input of program %s", ErrInput, in, c.prog.Name)
}

func (s *step) accepts(level int, scale float64) error {
	if level < s.level {
		return fmt.Errorf("%w: %s is at level %d, the program was compiled for level %d; give the stream the same "+
			"level: on the device and here", ErrInput, s.in, level, s.level)
	}
	if !near(scale, s.scale) {
		return fmt.Errorf("%w: %s has scale 2^%.6f, the program was compiled for 2^%.6f; give the stream the same "+
			"level: and log_scale: on the device and here", ErrInput, s.in, math.Log2(scale), math.Log2(s.scale))
	}
	return nil
}

func near(a, b float64) bool { return math.Abs(a-b) <= scaleSlack*b }

// Run computes the result from the encrypted windows, with ev's keys. The inputs
// stay as they are. It fails with ErrInput when a window is missing or does not
// fit, with henc.ErrNoKey when ev lacks a key (see NeedsRelin and Rotations), or
// with ErrParams when ev is for other parameters.
func (c *Circuit) Run(ev *henc.Evaluator, inputs map[Input]*henc.Ciphertext) (*henc.Ciphertext, Output, error) {
	ctx := ev.Context()
	if ctx == nil || !ctx.Parameters().Equal(c.params) {
		return nil, Output{}, fmt.Errorf("%w: the evaluator is not for parameters %s", ErrParams, c.params.Name())
	}
	r := &runner{c: c, ev: ev, ring: ctx.Ring(), values: make([]*henc.Ciphertext, len(c.steps)),
		uses: make([]int, len(c.steps)), held: map[*cutrantt.Batch]int{}}
	ct, err := r.run(inputs)
	if err != nil {
		return nil, Output{}, fmt.Errorf("run program %s: %w", c.prog.Name, err)
	}
	return ct, c.out, nil
}

// runner holds the ciphertexts of one run and frees each after its last use.
type runner struct {
	c      *Circuit
	ev     *henc.Evaluator
	ring   cutrantt.Ring
	values []*henc.Ciphertext
	uses   []int
	held   map[*cutrantt.Batch]int // steps that hold a batch; inputs are not in it
}

func (r *runner) run(inputs map[Input]*henc.Ciphertext) (*henc.Ciphertext, error) {
	steps := r.c.steps
	last := len(steps) - 1
	r.uses[last] = 1
	for i := range steps {
		for _, a := range steps[i].operands() {
			r.uses[a]++
		}
	}
	defer r.free(last)
	for i := range steps {
		s := &steps[i]
		ct, err := r.step(s, i, inputs)
		if err != nil {
			return nil, fmt.Errorf("step %d (%s): %w", i, s, err)
		}
		if s.op != stepInput && (ct.Level != s.level || !near(ct.Scale, s.scale)) {
			return nil, fmt.Errorf("%w: step %d (%s) gave level %d and scale 2^%.6f, planned were %d and 2^%.6f",
				ErrParams, i, s, ct.Level, math.Log2(ct.Scale), s.level, math.Log2(s.scale))
		}
		ct.Scale = s.scale
		r.values[i] = ct
		if s.op != stepInput {
			r.held[ct.Value]++
		}
		for _, a := range s.operands() {
			if r.uses[a]--; r.uses[a] == 0 {
				r.release(a)
			}
		}
	}
	out := r.values[last]
	if r.held[out.Value] == 0 { // an input as it came
		return out.Clone(r.ev.Context())
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

// free releases everything but the result.
func (r *runner) free(last int) {
	for i := range r.values {
		if i != last {
			r.release(i)
		}
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
		pt, err := r.c.plaintext(r.ev.Context(), i)
		if err != nil {
			return nil, err
		}
		return r.ev.MulPlain(a, pt)
	case stepRescale:
		return r.ev.Rescale(a)
	case stepDrop:
		return r.ev.DropLevel(a, a.Level-s.level)
	case stepRotate:
		return r.ev.Rotate(a, int(s.k))
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

// plaintext encodes the slot values of step i, once for a context.
func (c *Circuit) plaintext(ctx *henc.Context, i int) (*henc.Plaintext, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.encoded, func(e encoded) bool { return e.ctx == ctx })
	if at < 0 {
		c.encoded = slices.DeleteFunc(c.encoded, func(e encoded) bool { return cutrantt.Broken(e.ctx.Ring()) != nil })
		if len(c.encoded) == maxContexts {
			c.encoded = slices.Delete(c.encoded, 0, 1)
		}
		at = len(c.encoded)
		c.encoded = append(c.encoded, encoded{ctx, map[int]*henc.Plaintext{}})
	}
	plains := c.encoded[at].plains
	if pt := plains[i]; pt != nil {
		return pt, nil
	}
	s := &c.steps[i]
	slots := make([]float64, ctx.Parameters().Slots())
	for j, v := range s.plain.values {
		slots[(s.plain.first+j)%len(slots)] = v
	}
	pt, err := ctx.Encoder().EncodeReal(slots, s.level, s.plain.scale)
	if err != nil {
		return nil, err
	}
	plains[i] = pt
	return pt, nil
}
