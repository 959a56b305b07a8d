package program

import (
	"fmt"
	"sync/atomic"

	"github.com/hencedge/hencedge/cutrantt"
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
	results, err := newRunner(r, items, be).run()
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
	of      *Recorded // whose the results are; nil: they are its own
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
	if b.of != nil {
		b.of.busy.Store(false)
		return
	}
	for _, v := range b.results {
		b.be.Free(v.cts)
	}
}

// Results returns the number of results per item.
func (b *Batch) Results() int { return len(b.results) }

// Recorded is a routine on one item that a device repeats as a whole, which costs the host one call. Its results are
// those of RunBatch bit for bit. Beside two times Peak it needs memory for the inputs and tables of the device.
type Recorded struct {
	of        Item // without inputs
	recording cutrantt.Recording
	be        *henc.BatchEvaluator
	inputs    map[Input]*henc.Ciphertext // which each run fills
	results   []made
	busy      atomic.Bool // somebody has the results
}

// Record records the routine of an item, whose inputs do not matter, with its keys. Such an item must have been run
// before, which prepares the keys. It fails with cutrantt.ErrNotSupported if none was, if the routine bootstraps, or
// where the device records nothing.
func Record(it Item) (*Recorded, error) {
	r, ctx := it.Routine.base(), it.Evaluator.Context()
	if it.Routine.Bootstraps() > 0 || len(it.Added) > 0 {
		return nil, fmt.Errorf("record %s: %w", r.name, cutrantt.ErrNotSupported)
	}
	p := &Recorded{of: Item{Routine: it.Routine, Evaluator: it.Evaluator}, inputs: map[Input]*henc.Ciphertext{}}
	for i := range r.steps {
		s := &r.steps[i]
		if old := p.inputs[s.in]; s.op != stepInput || old != nil && old.Level >= s.level {
			continue
		}
		ct, err := ctx.NewCiphertext(s.level, s.scale)
		if err != nil {
			return nil, fmt.Errorf("record %s: %w", r.name, err)
		}
		p.inputs[s.in] = ct
	}
	var err error
	p.recording, err = it.Evaluator.Record(func(on *henc.Evaluator) (err error) {
		for _, v := range p.results {
			p.be.Free(v.cts)
		}
		if p.be, err = henc.NewBatchEvaluator([]*henc.Evaluator{on}); err != nil {
			return err
		}
		run := newRunner(r, []Item{{Routine: it.Routine, Evaluator: on, Inputs: p.inputs}}, p.be)
		run.plains = ctx
		p.results, err = run.run()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", r.name, err)
	}
	return p, nil
}

// Run is RunBatch for the item with other inputs. It returns nil and no error while a batch that it returned before is
// not freed.
func (p *Recorded) Run(inputs map[Input]*henc.Ciphertext) (b *Batch, err error) {
	if !p.busy.CompareAndSwap(false, true) {
		return nil, nil
	}
	it := p.of
	it.Inputs = inputs
	r := it.Routine.base()
	defer func() {
		if err != nil {
			p.busy.Store(false)
			err = fmt.Errorf("run %s: %w", r.name, err)
		}
	}()
	be, err := henc.NewBatchEvaluator([]*henc.Evaluator{it.Evaluator})
	if err != nil {
		return nil, err
	}
	run := newRunner(r, []Item{it}, be)
	defer run.freeSums()
	for i := range r.steps {
		if r.steps[i].op != stepInput {
			continue
		}
		if err := p.fill(run, i); err != nil {
			return nil, fmt.Errorf("step %d (%s): %w", i, &r.steps[i], err)
		}
	}
	if err := p.recording.Replay(); err != nil {
		return nil, err
	}
	return &Batch{be: p.be, items: run.items, r: r, results: p.results, of: p}, nil
}

// fill copies the input of step i to where the recording has it.
func (p *Recorded) fill(run *runner, i int) error {
	cts, err := run.input(i)
	if err != nil {
		return err
	}
	from := cts.At(0).Value
	to, err := p.inputs[run.r.steps[i].in].Value.Slice(0, 2, 0, len(from.Limbs()))
	if err != nil {
		return err
	}
	return run.be.Context().Ring().Copy(to, from)
}
