package program

import (
	"fmt"

	"github.com/hencedge/hencedge/henc"
)

// Batches: items of the same form run together, one call per step, whatever their devices
// and keys.
//
//   - Every result equals that of the item run alone, bit for bit.
//   - No step waits for the device. A faulty item fails the whole batch; the others can be
//     run again without it.
//   - Beside its inputs an item needs at most Peak bytes at a time.

// Run computes the result from the encrypted windows, with ev's keys. The inputs
// stay as they are. It fails with ErrInput when a window is missing or does not
// fit, with henc.ErrNoKey when ev lacks a key (see NeedsRelin and Rotations), with ErrParams
// when ev is for other parameters, and with henc.ErrParams when the circuit bootstraps: see Item.
func (c *Circuit) Run(ev *henc.Evaluator, inputs map[Input]*henc.Ciphertext) (*henc.Ciphertext, Output, error) {
	cts, err := c.run(Item{Routine: c, Evaluator: ev, Inputs: inputs})
	if err != nil {
		return nil, Output{}, err
	}
	return cts[0], c.out, nil
}

// run computes all results of an item whose routine is r.
func (r *routine) run(it Item) ([]*henc.Ciphertext, error) {
	b, err := RunBatch([]Item{it})
	if err != nil {
		return nil, err
	}
	out := make([]*henc.Ciphertext, len(r.results))
	for k := range out {
		out[k] = b.Result(0, k)
	}
	return out, nil
}

// RunBatch runs items of the same form whose evaluators share a context. If one of them
// fails, RunBatch fails for all of them, with the errors of Run.
func RunBatch(items []Item) (*Batch, error) {
	if len(items) == 0 {
		return nil, fmt.Errorf("%w: a batch of nothing", ErrParams)
	}
	r := items[0].Routine.base()
	evs := make([]*henc.Evaluator, len(items))
	for i, it := range items {
		if n := len(it.Added); n > 0 && n >= it.Routine.Places() {
			return nil, fmt.Errorf("%w: %s on the sum of %d windows, at most %d", ErrParams, it.Routine.base().name,
				n+1, it.Routine.Places())
		}
		ctx := it.Evaluator.Context()
		if ctx == nil || !ctx.Parameters().Equal(r.params) {
			return nil, fmt.Errorf("%w: the evaluator is not for parameters %s", ErrParams, r.params.Name())
		}
		if i > 0 && it.Routine.Form() != r.Form() {
			return nil, fmt.Errorf("%w: %s and %s differ in more than their windows", ErrParams, r.name,
				it.Routine.base().name)
		}
		evs[i] = it.Evaluator
	}
	be, err := henc.NewBatchEvaluator(evs)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrParams, err)
	}
	run := &runner{r: r, items: items, be: be, values: make([]made, len(r.steps)), uses: make([]int, len(r.steps))}
	results, err := run.run()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", r.name, err)
	}
	return &Batch{be: be, items: items, r: r, results: results}, nil
}

// Batch holds the results of all items. They share their memory.
type Batch struct {
	be      *henc.BatchEvaluator
	items   []Item
	r       *routine
	results []made
}

// Result returns result k of item i. It is valid until Free.
func (b *Batch) Result(i, k int) *henc.Ciphertext {
	ct := b.results[k].cts.At(i)
	at := b.r.results[k]
	for b.r.steps[at].op == stepDrop {
		at = b.r.steps[at].a
	}
	if b.r.steps[at].op == stepInput && len(b.items[i].Added) == 0 { // unchanged, so it keeps its seed
		if in := b.items[i].Inputs[b.items[i].Routine.base().steps[at].in]; in.Seed != nil {
			seed := *in.Seed
			ct.Seed = &seed
		}
	}
	return ct
}

// Free frees the results of all items.
func (b *Batch) Free() {
	for _, v := range b.results {
		b.be.Free(v.cts)
	}
}

// Results returns the number of results per item.
func (b *Batch) Results() int { return len(b.results) }
