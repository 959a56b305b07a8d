package encrypted

import (
	"math"
	"slices"

	"github.com/hencedge/hencedge/evaluator/model/rangecover"
	"github.com/hencedge/hencedge/henc/bfv"
)

// bounds is the machine on bounds of noise.
type bounds struct {
	plan *rangecover.Plan
	bit  bfv.Noise // of a separated bit
	bfv.NoiseModel
}

var _ rangecover.Machine[bfv.Noise] = bounds{}

// Budget returns how many bits the noise of results may still grow before they are switched down, for rows encrypted
// under the public key. Below zero they might not decrypt, and New refuses the plan.
func Budget(p bfv.Parameters, plan *rangecover.Plan) float64 {
	m, top := p.Noise(), p.Base().MaxLevel()
	down := top - p.LowestLevel()
	unit := bfv.Noise{Deviation: 1}
	most := m.Largest(unit) * math.Exp2(m.BudgetAt(unit, down)) // that decrypts
	left := most - m.Largest(m.ModSwitch(bfv.Noise{}, down))
	return math.Log2(left) + p.Base().LogQ(top) - p.Base().LogQ(top-down) - math.Log2(m.Largest(Noise(p, plan)))
}

// Noise bounds the noise of results before they are switched down.
func Noise(p bfv.Parameters, plan *rangecover.Plan) bfv.Noise {
	m := bounds{plan: plan, NoiseModel: p.Noise()}
	m.bit = m.FreshPK()
	for range plan.Code.Log() {
		m.bit = m.NoiseModel.Add(m.bit, m.Switch(m.bit))
	}
	var worst bfv.Noise
	for b := range plan.Blocks {
		noise, err := rangecover.Wrong(plan, m, b)
		for k := 1; k < p.N()/2 && err == nil; k *= 2 {
			noise, err = m.Back(noise, k)
		}
		noise, _ = m.Swap(noise) // or back by a segment
		parts := max(1, 2*len(plan.Blocks[b].Parts))
		noise, _ = m.SumPlain(slices.Repeat([]bfv.Noise{noise}, parts), make([][]uint64, parts))
		if noise, err = m.AddPlain(noise, nil); err != nil {
			return bfv.Noise{Deviation: math.Inf(1)}
		}
		if m.Largest(noise) > m.Largest(worst) {
			worst = noise
		}
	}
	return worst
}

// Form implements Machine.
func (m bounds) Form(block, form int) (bfv.Noise, error) {
	var sum bfv.Noise
	for range m.plan.Blocks[block].Forms[form].Terms {
		sum = m.NoiseModel.Add(sum, m.NoiseModel.MulPlain(m.bit, m.MaxNorm()))
	}
	return m.AddPlain(sum, nil)
}

// Mul implements Machine.
func (m bounds) Mul(a, b bfv.Noise) (bfv.Noise, error) { return m.NoiseModel.Mul(a, b), nil }

// Add implements Machine.
func (m bounds) Add(a, b bfv.Noise) (bfv.Noise, error) { return m.NoiseModel.Add(a, b), nil }

// AddPlain implements Machine.
func (m bounds) AddPlain(a bfv.Noise, _ []uint64) (bfv.Noise, error) {
	return m.NoiseModel.AddPlain(a), nil
}

// SumPlain implements Machine.
func (m bounds) SumPlain(as []bfv.Noise, _ [][]uint64) (bfv.Noise, error) {
	var sum bfv.Noise
	for _, a := range as {
		sum = m.NoiseModel.Add(sum, m.NoiseModel.MulPlain(a, m.MaxNorm()))
	}
	return sum, nil
}

// Back implements Machine.
func (m bounds) Back(a bfv.Noise, _ int) (bfv.Noise, error) { return m.Switch(a), nil }

// Swap implements Machine.
func (m bounds) Swap(a bfv.Noise) (bfv.Noise, error) { return m.Switch(a), nil }
