package program

import (
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/henc"
)

// runner holds the values of one run of one or more items, and frees each after its last
// use.
type runner struct {
	r      *routine
	items  []Item
	be     *henc.BatchEvaluator
	plains *henc.Context       // of the plaintexts
	values []made              // by step
	uses   []int               // of each value that are still to come
	sums   []*henc.Ciphertexts // of windows, which inputs are; freed at the end
	alone  []*henc.Ciphertext  // the same, of one item
}

// made is what a step made for every item.
type made struct {
	cts *henc.Ciphertexts // nil: not made yet, or freed
	// holders counts the values that share the memory; nil: it is that of inputs, which
	// stays.
	holders *int
}

// newRunner makes a runner for items whose evaluators are those of be.
func newRunner(r *routine, items []Item, be *henc.BatchEvaluator) *runner {
	return &runner{r: r, items: items, be: be, plains: be.Context(), values: make([]made, len(r.steps)),
		uses: make([]int, len(r.steps))}
}

func (r *runner) run() ([]made, error) {
	steps := r.r.steps
	defer r.freeSums()
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
		if err := r.compute(s, i); err != nil {
			r.free()
			return nil, fmt.Errorf("step %d (%s): %w", i, s, err)
		}
		for _, a := range s.operands() {
			if r.uses[a]--; r.uses[a] == 0 {
				r.release(a)
			}
		}
	}
	return r.take()
}

// compute makes the value of step i, unless an earlier step made it already.
func (r *runner) compute(s *step, i int) error {
	switch {
	case r.values[i].cts != nil:
		return nil
	case s.op == stepInput:
		cts, err := r.input(i)
		r.values[i] = made{cts: cts}
		return err
	case s.op == stepRotate:
		return r.rotate(i)
	case s.op == stepMulInt && s.k == 1: // the same residues
		from := r.values[s.a]
		if from.holders == nil { // which are not ours
			cts, err := r.be.Clone(from.cts)
			if err != nil {
				return err
			}
			return r.keep(i, cts.WithScale(s.scale))
		}
		*from.holders++
		r.values[i] = made{from.cts.WithScale(s.scale), from.holders}
		return nil
	}
	cts, err := r.step(s, i)
	if err != nil {
		return err
	}
	return r.keep(i, cts)
}

// rotate makes the value of step i, and of all later rotations of the same ciphertexts:
// they are decomposed once for all of them.
func (r *runner) rotate(i int) error {
	steps := r.r.steps
	var at, ks []int
	for j := i; j < len(steps); j++ {
		if steps[j].op == stepRotate && steps[j].a == steps[i].a {
			at, ks = append(at, j), append(ks, int(steps[j].k))
		}
	}
	all, err := r.be.RotateMany(r.values[steps[i].a].cts, ks)
	if err != nil {
		return err
	}
	for n, j := range at {
		if e := r.keep(j, all[n]); err == nil {
			err = e
		}
	}
	return err
}

// keep notes the value of step i, whose memory it owns from now on.
func (r *runner) keep(i int, cts *henc.Ciphertexts) error {
	s, holders := &r.r.steps[i], 1
	r.values[i] = made{cts.WithScale(s.scale), &holders}
	return s.planned(cts.Level(), cts.Scale())
}

// take returns the results. Each has memory of its own: what is an input as it came, or
// the same as another result, is copied.
func (r *runner) take() ([]made, error) {
	out := make([]made, len(r.r.results))
	for n, i := range r.r.results {
		v := r.values[i]
		if r.uses[i]--; v.holders != nil && r.uses[i] == 0 && *v.holders == 1 {
			out[n], r.values[i] = v, made{}
			continue
		}
		cts, err := r.be.Clone(v.cts)
		if err != nil {
			for _, o := range out[:n] {
				r.be.Free(o.cts)
			}
			r.free()
			return nil, err
		}
		holders := 1
		if out[n] = (made{cts, &holders}); r.uses[i] == 0 {
			r.release(i)
		}
	}
	r.free()
	return out, nil
}

// release lets go of the value of step i. Its memory is freed with the last value in it.
func (r *runner) release(i int) {
	v := r.values[i]
	r.values[i] = made{}
	if v.cts == nil || v.holders == nil {
		return
	}
	if *v.holders--; *v.holders == 0 {
		r.be.Free(v.cts)
	}
}

// free releases everything that is left.
func (r *runner) free() {
	for i := range r.values {
		r.release(i)
	}
}

// step runs the operation of step i.
func (r *runner) step(s *step, i int) (*henc.Ciphertexts, error) {
	a, b := r.values[s.a].cts, r.values[s.b].cts
	switch s.op {
	case stepMulInt:
		cts, err := r.be.MulConst(a, s.k, 1) // exact: k is an integer
		return cts.WithScale(s.scale), err
	case stepAdd:
		return r.be.Add(a, b)
	case stepSub:
		return r.be.Sub(a, b)
	case stepMul:
		return r.be.Mul(a, b)
	case stepMulRescale:
		return r.be.MulRescale(a, b)
	case stepMulPlain:
		pt, err := r.r.plaintext(r.plains, i)
		if err != nil {
			return nil, err
		}
		return r.be.MulPlain(a, pt)
	case stepRescale:
		return r.be.Rescale(a)
	case stepDrop:
		return r.be.DropLevel(a, a.Level()-s.level)
	case stepBootstrap:
		return r.bootstrap(s, a)
	case stepGather:
		return nil, fmt.Errorf("%w: %s is computed from the windows of many devices", ErrInput, r.r.name)
	default:
		return r.be.SumSlots(a, int(s.k), max(s.by, 1))
	}
}

// bootstrap gives the values a of all items levels: those under the same keys together.
func (r *runner) bootstrap(s *step, a *henc.Ciphertexts) (*henc.Ciphertexts, error) {
	fresh := make([]*henc.Ciphertext, len(r.items))
	defer func() {
		for _, ct := range fresh {
			if ct != nil {
				r.be.Context().Ring().Free(ct.Value)
			}
		}
	}()
	for n, it := range r.items {
		if fresh[n] != nil {
			continue
		}
		var at []int
		var low []*henc.Ciphertext
		for m := n; m < len(r.items); m++ {
			if r.items[m].Bootstrapper == it.Bootstrapper {
				at, low = append(at, m), append(low, a.At(m).WithScale(s.k))
			}
		}
		raised, err := it.Bootstrapper.BootstrapAll(low)
		if err != nil {
			return nil, err
		}
		for i, m := range at {
			fresh[m] = raised[i]
		}
	}
	all, err := r.be.Of(fresh, s.level)
	if err != nil {
		return nil, err
	}
	all, err = r.be.Clone(all)
	if err != nil {
		return nil, err
	}
	return all.WithScale(all.Scale() * (r.r.steps[s.a].scale / s.k)), nil
}

// input returns the windows of all items for step i, each the sum of those that are added up:
// where one is at a higher level than planned, its leading limbs.
func (r *runner) input(i int) (*henc.Ciphertexts, error) {
	s := &r.r.steps[i]
	cts, summed := make([]*henc.Ciphertext, len(r.items)), make([]bool, len(r.items))
	added := 0 // the most of an item
	for n := range r.items {
		var err error
		if cts[n], err = r.window(n, r.items[n].Inputs, i); err != nil {
			return nil, err
		}
		if summed[n], err = r.sumAlone(cts, n, i); err != nil {
			return nil, err
		}
		if !summed[n] {
			added = max(added, len(r.items[n].Added))
		}
	}
	for k := range added {
		if err := r.addWindows(cts, summed, k, i); err != nil {
			return nil, err
		}
	}
	return r.be.Of(cts, s.level)
}

// window returns the window for step i among some inputs of item n.
func (r *runner) window(n int, inputs map[Input]*henc.Ciphertext, i int) (*henc.Ciphertext, error) {
	s := &r.items[n].Routine.base().steps[i]
	ct := inputs[s.in]
	if ct == nil {
		return nil, fmt.Errorf("%w: no ciphertext for %s", ErrInput, s.in)
	}
	if err := s.accepts(ct.Level, ct.Scale); err != nil {
		return nil, err
	}
	return ct.WithScale(r.r.steps[i].scale), nil
}

// sumAlone adds up the windows of item n for step i, if some have to be converted or if no other
// item could be added up with them in one call. It reports whether it has; the sum stays until
// freeSums.
func (r *runner) sumAlone(cts []*henc.Ciphertext, n, i int) (bool, error) {
	ctx, all := r.be.Context(), []*henc.Ciphertext{cts[n]}
	for _, inputs := range r.items[n].Added {
		ct, err := r.window(n, inputs, i)
		if err != nil {
			return false, err
		}
		all = append(all, ct)
	}
	foreign := slices.ContainsFunc(all, func(ct *henc.Ciphertext) bool {
		return ct.Value != nil && ct.Value.Domain() != ctx.Domain()
	})
	if !foreign && (len(all) == 1 || len(r.items) > 1) {
		return false, nil
	}
	sum, err := ctx.Sum(all, r.r.steps[i].level)
	if err != nil {
		return false, err
	}
	r.alone = append(r.alone, sum)
	cts[n] = sum
	return true, nil
}

// addWindows adds window k of those that are added for step i, for all items that have so
// many and are not summed yet. The sums stay until freeSums.
func (r *runner) addWindows(cts []*henc.Ciphertext, summed []bool, k, i int) error {
	var at []int
	var evs []*henc.Evaluator
	var sums, more []*henc.Ciphertext
	for n, it := range r.items {
		if summed[n] || k >= len(it.Added) {
			continue
		}
		ct, err := r.window(n, it.Added[k], i)
		if err != nil {
			return err
		}
		at, evs, sums, more = append(at, n), append(evs, it.Evaluator), append(sums, cts[n]), append(more, ct)
	}
	be, err := henc.NewBatchEvaluator(evs)
	if err != nil {
		return err
	}
	a, err := be.Of(sums, r.r.steps[i].level)
	if err != nil {
		return err
	}
	b, err := be.Of(more, r.r.steps[i].level)
	if err != nil {
		return err
	}
	sum, err := be.Add(a, b)
	if err != nil {
		return err
	}
	r.sums = append(r.sums, sum)
	for j, n := range at {
		cts[n] = sum.At(j)
	}
	return nil
}

// freeSums frees the sums of windows.
func (r *runner) freeSums() {
	for _, s := range r.sums {
		r.be.Free(s)
	}
	for _, s := range r.alone {
		r.be.Context().Ring().Free(s.Value)
	}
	r.sums, r.alone = nil, nil
}
