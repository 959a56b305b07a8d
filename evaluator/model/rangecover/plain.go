package rangecover

import "fmt"

// Plain is the machine on plain numbers: the reference for encrypted ones. It says what encrypted evaluation must give,
// slot by slot, and is slow.
type Plain struct {
	plan *Plan
	bits []uint64
}

var _ Machine[[]uint64] = (*Plain)(nil)

// NewPlain returns the machine for one row, encoded by Code.Bits.
func (p *Plan) NewPlain(bits []uint64) (*Plain, error) {
	if len(bits) != p.Code.Size() {
		return nil, fmt.Errorf("%w: %d bits, not %d", ErrPlan, len(bits), p.Code.Size())
	}
	return &Plain{p, bits}, nil
}

// Form implements Machine.
func (m *Plain) Form(block, form int) ([]uint64, error) {
	f := &m.plan.Blocks[block].Forms[form]
	out := m.plan.Dense(f.Const)
	for _, t := range f.Terms {
		if m.bits[t.Bit] == 0 {
			continue
		}
		for _, e := range t.Entries {
			out[e.Slot] = (out[e.Slot] + m.plan.mod(e.Value)) % m.plan.T
		}
	}
	return out, nil
}

// Mul implements Machine.
func (m *Plain) Mul(a, b []uint64) ([]uint64, error) {
	return m.SumPlain([][]uint64{a}, [][]uint64{b})
}

// Add implements Machine.
func (m *Plain) Add(a, b []uint64) ([]uint64, error) { return m.AddPlain(a, b) }

// AddPlain implements Machine.
func (m *Plain) AddPlain(a, plain []uint64) ([]uint64, error) {
	out := make([]uint64, len(a))
	for i := range a {
		out[i] = (a[i] + plain[i]) % m.plan.T
	}
	return out, nil
}

// SumPlain implements Machine.
func (m *Plain) SumPlain(as, plains [][]uint64) ([]uint64, error) {
	out := make([]uint64, m.plan.Slots)
	for k, a := range as {
		for i := range a {
			out[i] = (out[i] + a[i]*plains[k][i]) % m.plan.T
		}
	}
	return out, nil
}

// Back implements Machine.
func (m *Plain) Back(a []uint64, k int) ([]uint64, error) {
	half := len(a) / 2
	var out []uint64
	for _, row := range [][]uint64{a[:half], a[half:]} {
		out = append(append(out, row[half-k:]...), row[:half-k]...)
	}
	return out, nil
}

// Swap implements Machine.
func (m *Plain) Swap(a []uint64) ([]uint64, error) {
	half := len(a) / 2
	return append(append([]uint64(nil), a[half:]...), a[:half]...), nil
}
