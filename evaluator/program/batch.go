package program

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/hencedge/hencedge/henc"
)

// Batches: what has one form runs as one call, step by step, whatever the devices and keys.
//
//   - The results of an item are those that it has alone, bit for bit.
//   - No step waits for the device; what is wrong with one item fails the batch, whose
//     other items can run again without it.
//   - At most Peak bytes are held for an item at a time, inputs not among them.

// Routine is what can run: a Circuit, or a Set with a result for each program.
type Routine interface {
	Parameters() henc.Parameters
	// Form is equal for routines that can run together.
	Form() [32]byte
	// Peak bounds the memory of a run, in bytes.
	Peak() int64

	base() *routine
}

var _, _ Routine = (*Circuit)(nil), (*Set)(nil)

func (r *routine) base() *routine { return r }

// Item is one run of a routine.
type Item struct {
	Routine   Routine
	Evaluator *henc.Evaluator // with the keys of the inputs
	Inputs    map[Input]*henc.Ciphertext
}

// Form is the SHA-256 hash of the parameters and of all steps with operands, levels,
// scales, factors and plain values, and of which steps are results. Inputs count by their
// place only: the same expression over the windows of different devices has one form.
func (r *routine) Form() [32]byte {
	r.formed.Do(func() { r.form = r.makeForm() })
	return r.form
}

func (r *routine) makeForm() [32]byte {
	h := sha256.New()
	var b []byte
	number := func(v int) { b = binary.BigEndian.AppendUint64(b, uint64(v)) }
	float := func(v float64) { b = binary.BigEndian.AppendUint64(b, math.Float64bits(v)) }
	params := r.params.Hash()
	b = append(b, params[:]...)
	number(len(r.steps))
	for i := range r.steps {
		s := &r.steps[i]
		number(int(s.op))
		for _, a := range s.operands() {
			number(a)
		}
		float(s.k)
		number(s.level)
		float(s.scale)
		if s.plain != nil {
			number(s.plain.first)
			float(s.plain.scale)
			number(len(s.plain.values))
			for _, v := range s.plain.values {
				float(v)
			}
		}
		_, _ = h.Write(b) // which never fails
		b = b[:0]
	}
	for _, i := range r.results {
		number(i)
	}
	_, _ = h.Write(b)
	return [32]byte(h.Sum(nil))
}

// Peak counts the values that are alive at a time and the working memory of the largest
// step. What a device needs for a key switch is not in it, since that does not grow with
// the number of items.
func (r *routine) Peak() int64 {
	last := make([]int, len(r.steps)) // where each value is used last
	for i := range r.steps {
		for _, a := range r.steps[i].operands() {
			last[a] = i
		}
	}
	for _, i := range r.results {
		last[i] = len(r.steps)
	}
	polynomial := func(level int) int64 { return 4 * int64(r.params.N()) * int64(r.params.LimbsAt(level)) }
	var held, most int64
	for i := range r.steps {
		s, work := &r.steps[i], int64(0)
		switch s.op {
		case stepInput:
			continue
		case stepMul, stepMulRescale: // the product before its relinearisation
			work = 3 * polynomial(r.steps[s.a].level)
		case stepSum: // two sums at a time
			work = 2 * polynomial(s.level)
		case stepAdd, stepSub, stepMulInt, stepMulPlain: // operands that lie apart are copied
			work = 4 * polynomial(s.level)
		}
		held += 2 * polynomial(s.level)
		most = max(most, held+work)
		for _, a := range s.operands() {
			if last[a] == i && r.steps[a].op != stepInput {
				held -= 2 * polynomial(r.steps[a].level)
				last[a] = -1 // once, also where both operands are the same
			}
		}
	}
	return most + int64(len(r.results))*2*polynomial(r.params.MaxLevel()) // results that are copied
}

// Batch is the results of a batch. Those of all items lie side by side.
type Batch struct {
	be      *henc.BatchEvaluator
	items   []Item
	r       *routine
	results []made
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
