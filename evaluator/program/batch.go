package program

import (
	"fmt"

	"github.com/hencedge/hencedge/henc"
)

// Batches: what has one form runs as one call, step by step, whatever the devices and keys.
//
//   - The results of an item are those that it has alone, bit for bit.
//   - No step waits for the device; what is wrong with one item fails the batch, whose
//     other items can run again without it.
//   - At most Peak bytes are held for an item at a time, inputs not among them.

// Run computes the result from the encrypted windows, with ev's keys. The inputs
// stay as they are. It fails with ErrInput when a window is missing or does not
// fit, with henc.ErrNoKey when ev lacks a key (see NeedsRelin and Rotations), or
// with ErrParams when ev is for other parameters.
func (c *Circuit) Run(ev *henc.Evaluator, inputs map[Input]*henc.Ciphertext) (*henc.Ciphertext, Output, error) {
	cts, err := c.run(Item{Routine: c, Evaluator: ev, Inputs: inputs})
	if err != nil {
		return nil, Output{}, err
	}
	return cts[0], c.out, nil
}

// run computes every result of one item, which is for r.
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

// RunBatch runs items of one form, all with evaluators of one context. It fails as Run
// does, for all items, if one of them fails.
func RunBatch(items []Item) (*Batch, error) {
	if len(items) == 0 {
		return nil, fmt.Errorf("%w: a batch of nothing", ErrParams)
	}
	r := items[0].Routine.base()
	evs := make([]*henc.Evaluator, len(items))
	for i, it := range items {
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

// Batch is the results of a batch. Those of all items lie side by side.
type Batch struct {
	be      *henc.BatchEvaluator
	items   []Item
	r       *routine
	results []made
}

// Result returns result k of item i. Its memory is freed with that of the batch.
func (b *Batch) Result(i, k int) *henc.Ciphertext {
	ct := b.results[k].cts.At(i)
	at := b.r.results[k]
	for b.r.steps[at].op == stepDrop {
		at = b.r.steps[at].a
	}
	if b.r.steps[at].op == stepInput { // as it came, also with its seed
		if in := b.items[i].Inputs[b.items[i].Routine.base().steps[at].in]; in.Seed != nil {
			seed := *in.Seed
			ct.Seed = &seed
		}
	}
	return ct
}

// Free gives back the memory of the results.
func (b *Batch) Free() {
	for _, v := range b.results {
		b.be.Free(v.cts)
	}
}

// Results returns how many results an item has.
func (b *Batch) Results() int { return len(b.results) }
