package encrypted

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hencedge/hencedge/evaluator/model/rangecover"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/bfv/steps"
)

// Options of an Evaluator. The zero value is usable.
type Options struct {
	Workers int // operations at a time; 0: one
	Cache   int // bytes that prepared plaintexts may take; beyond, they are made anew for every row
}

// Evaluator evaluates one plan. It is safe for concurrent use.
type Evaluator struct {
	ctx     *bfv.Context
	ev      *bfv.Evaluator
	plan    *rangecover.Plan
	workers int
	forms   [][]*form // of each block; nil where the cache is full
	back    []*bfv.Factor
}

// form is a form of a block, prepared.
type form struct {
	constant *bfv.Plaintext
	bits     []int
	factors  []*bfv.Factor
}

// New prepares a plan. It fails with rangecover.ErrPlan if slots or t are not the context's, with bfv.ErrNoise if
// results might not decrypt, and with henc.ErrNoKey if keys lack one that steps.Elements names.
func New(ctx *bfv.Context, keys *henc.EvaluationKeys, plan *rangecover.Plan, o Options) (*Evaluator, error) {
	p := ctx.Parameters()
	if p.N() != plan.Slots || uint64(p.T()) != plan.T {
		return nil, fmt.Errorf("%w: laid out for %d slots modulo %d, the context has %d modulo %d",
			rangecover.ErrPlan, plan.Slots, plan.T, p.N(), p.T())
	}
	if budget := Budget(p, plan); budget < 0 {
		return nil, fmt.Errorf("%w: %.1f bits too much for this model; use larger parameters", bfv.ErrNoise, -budget)
	}
	if keys == nil || keys.Relin == nil {
		return nil, fmt.Errorf("%w: relinearisation key", henc.ErrNoKey)
	}
	for _, g := range steps.Elements(p, plan.Code) {
		if keys.Galois[g] == nil {
			return nil, fmt.Errorf("%w: Galois key of element %d", henc.ErrNoKey, g)
		}
	}
	e := &Evaluator{ctx: ctx, ev: bfv.NewEvaluator(ctx, keys), plan: plan, workers: max(1, o.Workers)}
	for j := range plan.Code.Log() {
		f, err := ctx.Monomial(-1 << j)
		if err != nil {
			return nil, err
		}
		e.back = append(e.back, f)
	}
	return e, e.fill(o.Cache)
}

// fill prepares forms as long as they fit the cache.
func (e *Evaluator) fill(cache int) error {
	size := 4 * e.plan.Slots * len(e.ctx.Parameters().Base().Q())
	for b := range e.plan.Blocks {
		e.forms = append(e.forms, make([]*form, len(e.plan.Blocks[b].Forms)))
	}
	type place struct{ block, form int }
	var todo []place
	for b := range e.plan.Blocks {
		for i, f := range e.plan.Blocks[b].Forms {
			if cache -= size * len(f.Terms); cache < 0 {
				break
			}
			todo = append(todo, place{b, i})
		}
	}
	return rangecover.Each(len(todo), e.workers, func(i int) error {
		f, err := e.prepare(todo[i].block, todo[i].form)
		e.forms[todo[i].block][todo[i].form] = f
		return err
	})
}

func (e *Evaluator) prepare(block, number int) (*form, error) {
	from := &e.plan.Blocks[block].Forms[number]
	out := &form{}
	var err error
	if out.constant, err = e.ctx.EncodeSlots(e.plan.Dense(from.Const)); err != nil {
		return nil, err
	}
	for _, t := range from.Terms {
		f, err := e.factor(e.plan.Dense(t.Entries))
		if err != nil {
			return nil, err
		}
		out.bits, out.factors = append(out.bits, t.Bit), append(out.factors, f)
	}
	return out, nil
}

func (e *Evaluator) factor(slots []uint64) (*bfv.Factor, error) {
	pt, err := e.ctx.EncodeSlots(slots)
	if err != nil {
		return nil, err
	}
	return e.ctx.Factor(pt)
}

// Run evaluates the forest on an encrypted row, with randomness from an unpredictable reader that is safe for
// concurrent use (crypto/rand.Reader). Results are at the lowest level (bfv.Parameters.LowestLevel).
func (e *Evaluator) Run(row *bfv.Ciphertext, random io.Reader) ([]rangecover.Result[*bfv.Ciphertext], error) {
	if err := e.ctx.Check(row); err != nil {
		return nil, err
	}
	bits, err := e.separate(row)
	if err != nil {
		return nil, err
	}
	defer e.ctx.Free(bits...)
	results, err := rangecover.Run(e.plan, &machine{e, bits}, random, e.workers)
	if err != nil {
		return nil, err
	}
	return results, rangecover.Each(len(results), e.workers, func(i int) error {
		if err := e.lower(&results[i].Test); err != nil {
			return err
		}
		for k := range results[i].Values {
			if err := e.lower(&results[i].Values[k]); err != nil {
				return err
			}
		}
		return nil
	})
}

// lower switches a result down, in place.
func (e *Evaluator) lower(ct **bfv.Ciphertext) error {
	p := e.ctx.Parameters()
	low, err := e.ev.ModSwitch(*ct, p.Base().MaxLevel()-p.LowestLevel())
	if err != nil {
		return err
	}
	e.ctx.Free(*ct)
	*ct = low
	return nil
}

// separate turns a ciphertext of coefficients into one for each, with that coefficient times 2^Log in every slot. A
// step splits a polynomial into its even and its odd powers of X^(2^j), the odd ones brought down by one.
func (e *Evaluator) separate(row *bfv.Ciphertext) ([]*bfv.Ciphertext, error) {
	size := e.plan.Code.Size()
	all := []*bfv.Ciphertext{row}
	for j := range e.plan.Code.Log() {
		next := make([]*bfv.Ciphertext, min(2*len(all), size))
		width := len(all)
		err := rangecover.Each(width, e.workers, func(i int) error {
			a := all[i]
			if i+width >= size { // it has no odd powers
				var err error
				next[i], err = e.ev.Add(a, a)
				return err
			}
			turned, err := e.ev.Automorphism(a, uint64(e.plan.Slots>>j+1))
			if err != nil {
				return err
			}
			defer e.ctx.Free(turned)
			if next[i], err = e.ev.Add(a, turned); err != nil {
				return err
			}
			odd, err := e.ev.Sub(a, turned)
			if err != nil {
				return err
			}
			defer e.ctx.Free(odd)
			next[i+width], err = e.ev.MulPlain(odd, e.back[j])
			return err
		})
		if j > 0 {
			e.ctx.Free(all...)
		}
		if err != nil {
			e.ctx.Free(next...)
			return nil, err
		}
		all = next
	}
	return all, nil
}

// machine is the machine on ciphertexts for one row.
type machine struct {
	*Evaluator
	bits []*bfv.Ciphertext
}

var _ rangecover.Machine[*bfv.Ciphertext] = (*machine)(nil)

// Form implements Machine.
func (m *machine) Form(block, number int) (*bfv.Ciphertext, error) {
	f := m.forms[block][number]
	if f == nil {
		var err error
		if f, err = m.prepare(block, number); err != nil {
			return nil, err
		}
	}
	if len(f.bits) == 0 { // constant: zero and the constants
		zero, err := m.ev.Sub(m.bits[0], m.bits[0])
		if err != nil {
			return nil, err
		}
		return m.ev.AddPlain(zero, f.constant)
	}
	cts := make([]*bfv.Ciphertext, len(f.bits))
	for i, bit := range f.bits {
		cts[i] = m.bits[bit]
	}
	sum, err := m.ev.SumPlain(cts, f.factors)
	if err != nil {
		return nil, err
	}
	defer m.ctx.Free(sum)
	return m.ev.AddPlain(sum, f.constant)
}

// Mul implements Machine.
func (m *machine) Mul(a, b *bfv.Ciphertext) (*bfv.Ciphertext, error) { return m.ev.Mul(a, b) }

// Add implements Machine.
func (m *machine) Add(a, b *bfv.Ciphertext) (*bfv.Ciphertext, error) { return m.ev.Add(a, b) }

// AddPlain implements Machine.
func (m *machine) AddPlain(a *bfv.Ciphertext, plain []uint64) (*bfv.Ciphertext, error) {
	pt, err := m.ctx.EncodeSlots(plain)
	if err != nil {
		return nil, err
	}
	return m.ev.AddPlain(a, pt)
}

// SumPlain implements Machine.
func (m *machine) SumPlain(as []*bfv.Ciphertext, plains [][]uint64) (*bfv.Ciphertext, error) {
	fs := make([]*bfv.Factor, len(plains))
	for i, plain := range plains {
		var err error
		if fs[i], err = m.factor(plain); err != nil {
			return nil, err
		}
	}
	return m.ev.SumPlain(as, fs)
}

// Back implements Machine.
func (m *machine) Back(a *bfv.Ciphertext, k int) (*bfv.Ciphertext, error) {
	return m.ev.RotateRows(a, -k)
}

// Swap implements Machine.
func (m *machine) Swap(a *bfv.Ciphertext) (*bfv.Ciphertext, error) { return m.ev.SwapRows(a) }

// Measure times each kind of operation once on an encrypted row, for Counts.Time.
func (e *Evaluator) Measure(row *bfv.Ciphertext) (rangecover.Costs, error) {
	f, err := e.factor(make([]uint64, e.plan.Slots))
	if err != nil {
		return rangecover.Costs{}, err
	}
	timed := func(op func() (*bfv.Ciphertext, error)) time.Duration {
		start := time.Now()
		ct, oops := op()
		e.ctx.Free(ct)
		err = errors.Join(err, oops)
		return time.Since(start)
	}
	c := rangecover.Costs{
		Product:      timed(func() (*bfv.Ciphertext, error) { return e.ev.Mul(row, row) }),
		PlainProduct: timed(func() (*bfv.Ciphertext, error) { return e.ev.MulPlain(row, f) }),
		Switch:       timed(func() (*bfv.Ciphertext, error) { return e.ev.SwapRows(row) }),
	}
	return c, err
}
