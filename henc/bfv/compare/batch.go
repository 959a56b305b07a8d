package compare

import (
	"fmt"
	"io"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
)

// Batch compares windows of encrypted numbers. It is safe for concurrent use.
//
// For digits a and b, the slots of each place k from 1 to 3 hold [a >= k] and [b >= k]; place 0 holds 0, which removes
// what rotations bring there. The sum over k of ([a >= k-1] - [a >= k])*[b >= k] is 1 if a < b, else 0: one product.
// With the same for b < a, equality is 1 less both. Neighbours are then put together, the lower digits l with the
// higher ones h, until one number is left:
//
//	less  = less(h) + equal(h)*less(l)
//	equal = equal(h)*equal(l)
type Batch struct {
	w   Window
	ev  *bfv.Evaluator
	one *bfv.Plaintext // 1 at place 1 of every digit
	all *bfv.Plaintext // 1 everywhere
}

// NewBatch returns a Batch. It fails with ErrWindow if the window is not one of the context's parameters, with
// bfv.ErrNoise if results might not decrypt, and with henc.ErrNoKey if the relinearisation key is missing, or one of
// Window.Elements.
func NewBatch(ctx *bfv.Context, keys *henc.EvaluationKeys, w Window) (*Batch, error) {
	p := ctx.Parameters()
	if p.N() == 0 || w.slots() != p.N() {
		return nil, fmt.Errorf("%w: it has %d slots, the context %d", ErrWindow, w.slots(), p.N())
	}
	if b := w.Budget(p); b < 0 {
		return nil, fmt.Errorf("%w: %.1f bits too much for numbers up to %d; use larger parameters", bfv.ErrNoise, -b,
			w.top)
	}
	if keys == nil || keys.Relin == nil {
		return nil, fmt.Errorf("%w: relinearisation key", henc.ErrNoKey)
	}
	for _, g := range w.Elements(p) {
		if keys.Galois[g] == nil {
			return nil, fmt.Errorf("%w: Galois key of element %d", henc.ErrNoKey, g)
		}
	}
	b := &Batch{w: w, ev: bfv.NewEvaluator(ctx, keys)}
	var err error
	if b.one, err = ctx.EncodeSlots(w.constant(1)); err == nil {
		b.all, err = ctx.EncodeSlots(w.constant(-1))
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// constant returns 1 at a place of every digit, or everywhere for place -1.
func (w Window) constant(place int) []uint64 {
	out := make([]uint64, w.slots())
	for i := range out {
		if place < 0 || i/w.lanes%places == place {
			out[i] = 1
		}
	}
	return out
}

// Less returns a ciphertext with 1 in Window.Slot(i) if number i of a is below that of b, otherwise 0, for i below
// count. Every other slot is random, from an unpredictable reader (crypto/rand.Reader). Its noise is not flooded:
// whoever decrypts and analyses that may learn more of a and b.
func (b *Batch) Less(x, y *bfv.Ciphertext, count int, random io.Reader) (*bfv.Ciphertext, error) {
	if b == nil || count < 1 || count > b.w.Numbers() {
		return nil, fmt.Errorf("%w: no answers for %d numbers", ErrWindow, count)
	}
	ctx := b.ev.Context()
	if err := ctx.Check(x); err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	if err := ctx.Check(y); err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	mask, err := uniform(random, b.w.slots(), uint64(ctx.Parameters().T()))
	if err != nil {
		return nil, err
	}
	for i := range count {
		mask[b.w.Slot(i)] = 0
	}
	hidden, err := ctx.EncodeSlots(mask)
	if err != nil {
		return nil, err
	}
	m := &machine{b: b}
	defer func() { ctx.Free(m.made...) }()
	out, err := less[*bfv.Ciphertext](b.w, m, x, y)
	if err != nil {
		return nil, err
	}
	return b.ev.AddPlain(out, hidden)
}

// digitwise are operations on slots, in whatever form.
type digitwise[C any] interface {
	Add(a, b C) (C, error)
	Sub(a, b C) (C, error)
	// MulBatch multiplies a[i] by b[i] for each i.
	MulBatch(a, b []C) ([]C, error)
	// Back moves slot i-k to slot i in both rows, cyclically, for k a power of two.
	Back(a C, k int) (C, error)
	// AddFirst adds 1 at place 1 of every digit.
	AddFirst(a C) (C, error)
	// Complement is 1 - a in every slot.
	Complement(a C) (C, error)
}

// less leaves in place 3 of the highest digit whether the numbers of a are below those of b. Other slots hold what the
// computation leaves there.
func less[C any](w Window, ops digitwise[C], a, b C) (C, error) {
	s := &steps[C]{ops: ops}
	left, right := []C{s.below(a, w.lanes)}, []C{b}
	if w.digits > 1 {
		left, right = append(left, s.below(b, w.lanes)), append(right, a)
	}
	found := s.mul(left, right)
	for i := range found {
		for k := 1; k < places; k *= 2 {
			found[i] = s.add(found[i], s.back(found[i], k*w.lanes))
		}
	}
	if w.digits < 2 || s.err != nil {
		return found[0], s.err
	}
	is := found[0]
	equal := s.complement(s.add(found[0], found[1]))
	for span := 1; span < w.digits; span *= 2 {
		by := span * places * w.lanes
		left, right = []C{equal}, []C{s.back(is, by)}
		if 2*span < w.digits {
			left, right = append(left, equal), append(right, s.back(equal, by))
		}
		found = s.mul(left, right)
		is, equal = s.add(is, found[0]), found[len(found)-1]
	}
	return is, s.err
}

// steps does operations one after another until one fails.
type steps[C any] struct {
	ops digitwise[C]
	err error
}

func (s *steps[C]) one(f func() (C, error)) (out C) {
	if s.err == nil {
		out, s.err = f()
	}
	return out
}

// below is 1 at place k from 1 to 3 of a digit if it is k-1, else 0, with anything at place 0.
func (s *steps[C]) below(a C, lanes int) C {
	moved := s.back(a, lanes)
	moved = s.one(func() (C, error) { return s.ops.AddFirst(moved) })
	return s.one(func() (C, error) { return s.ops.Sub(moved, a) })
}

func (s *steps[C]) add(a, b C) C      { return s.one(func() (C, error) { return s.ops.Add(a, b) }) }
func (s *steps[C]) back(a C, k int) C { return s.one(func() (C, error) { return s.ops.Back(a, k) }) }
func (s *steps[C]) complement(a C) C  { return s.one(func() (C, error) { return s.ops.Complement(a) }) }
func (s *steps[C]) mul(a, b []C) (out []C) {
	out = make([]C, len(a))
	if s.err == nil {
		var made []C
		if made, s.err = s.ops.MulBatch(a, b); s.err == nil {
			out = made
		}
	}
	return out
}

// machine are the operations on ciphertexts, which it remembers.
type machine struct {
	b    *Batch
	made []*bfv.Ciphertext
}

func (m *machine) keep(ct *bfv.Ciphertext, err error) (*bfv.Ciphertext, error) {
	if err == nil {
		m.made = append(m.made, ct)
	}
	return ct, err
}

func (m *machine) Add(a, b *bfv.Ciphertext) (*bfv.Ciphertext, error) { return m.keep(m.b.ev.Add(a, b)) }
func (m *machine) Sub(a, b *bfv.Ciphertext) (*bfv.Ciphertext, error) { return m.keep(m.b.ev.Sub(a, b)) }

func (m *machine) MulBatch(a, b []*bfv.Ciphertext) ([]*bfv.Ciphertext, error) {
	out, err := m.b.ev.MulBatch(a, b)
	m.made = append(m.made, out...)
	return out, err
}

func (m *machine) Back(a *bfv.Ciphertext, k int) (*bfv.Ciphertext, error) {
	return m.keep(m.b.ev.RotateRows(a, -k))
}

func (m *machine) AddFirst(a *bfv.Ciphertext) (*bfv.Ciphertext, error) {
	return m.keep(m.b.ev.AddPlain(a, m.b.one))
}

func (m *machine) Complement(a *bfv.Ciphertext) (*bfv.Ciphertext, error) {
	less, err := m.keep(m.b.ev.SubPlain(a, m.b.all))
	if err != nil {
		return nil, err
	}
	return m.keep(m.b.ev.Neg(less))
}

// noises are the operations on bounds of noise.
type noises struct{ m bfv.NoiseModel }

func (n noises) Add(a, b bfv.Noise) (bfv.Noise, error)      { return n.m.Add(a, b), nil }
func (n noises) Sub(a, b bfv.Noise) (bfv.Noise, error)      { return n.m.Add(a, b), nil }
func (n noises) Back(a bfv.Noise, _ int) (bfv.Noise, error) { return n.m.Switch(a), nil }
func (n noises) AddFirst(a bfv.Noise) (bfv.Noise, error)    { return n.m.AddPlain(a), nil }
func (n noises) Complement(a bfv.Noise) (bfv.Noise, error)  { return n.m.AddPlain(a), nil }
func (n noises) MulBatch(a, b []bfv.Noise) ([]bfv.Noise, error) {
	out := make([]bfv.Noise, len(a))
	for i := range a {
		out[i] = n.m.Mul(a[i], b[i])
	}
	return out, nil
}
