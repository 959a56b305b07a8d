package bootstrap

import (
	"maps"
	"math"
	"math/cmplx"
	"slices"
)

// matrix is an n x n matrix by its nonzero diagonals: row j has diagonal[k][j] in column
// (j+k) mod n, 0 <= k < n.
type matrix struct {
	n         int
	diagonals map[int][]complex128
}

func (m matrix) diagonal(k int) []complex128 {
	k = (k%m.n + m.n) % m.n
	if m.diagonals[k] == nil {
		m.diagonals[k] = make([]complex128, m.n)
	}
	return m.diagonals[k]
}

// times is the product m*o.
func (m matrix) times(o matrix) matrix {
	p := matrix{m.n, map[int][]complex128{}}
	for a, x := range m.diagonals {
		for b, y := range o.diagonals {
			d := p.diagonal(a + b)
			for j, v := range x {
				d[j] += v * y[(j+a)%m.n]
			}
		}
	}
	return p
}

// butterfly is one level of the special Fourier transform over n slots (Cheon, Kim, Kim and Song,
// ASIACRYPT 2017; Cheon, Han, Kim, Kim and Song, EUROCRYPT 2018, section 4): blocks of 2h slots
// go from (a, b) to (a + w_j*b, a - w_j*b), j < h. The inverse goes from (a, b) to
// (a + b, (a - b)/w_j): it is twice the inverse matrix.
func butterfly(n, h int, inverse bool) matrix {
	m := matrix{n, map[int][]complex128{}}
	same, up, down := m.diagonal(0), m.diagonal(h), m.diagonal(-h)
	power := 1
	for j := range h {
		w := cmplx.Rect(1, 2*math.Pi*float64(power)/float64(8*h))
		power = power * 5 % (8 * h)
		for i := j; i < n; i += 2 * h {
			if inverse {
				same[i], up[i] = 1, 1
				same[i+h], down[i+h] = -cmplx.Conj(w), cmplx.Conj(w)
			} else {
				same[i], up[i] = 1, w
				same[i+h], down[i+h] = -w, 1
			}
		}
	}
	return m
}

// factor is a product of butterflies, those of h = 2^low to 2^(low+levels-1).
type factor struct {
	n, low, levels int
	inverse        bool
}

// rounding is what rounding the factor's values to integral coefficients costs, up to a common factor.
func (f factor) rounding() float64 { return math.Exp2(float64(f.low+f.levels) / 2) }

// matrix is the factor with its values, which take a lot of memory.
func (f factor) matrix() matrix {
	m := butterfly(f.n, 1<<f.low, f.inverse)
	for l := f.low + 1; l < f.low+f.levels; l++ {
		if b := butterfly(f.n, 1<<l, f.inverse); f.inverse {
			m = m.times(b)
		} else {
			m = b.times(m)
		}
	}
	return m
}

// diagonals are the indices of the diagonals of matrix, in no order.
func (f factor) diagonals() []int {
	set := map[int]bool{0: true}
	for l := f.low; l < f.low+f.levels; l++ {
		next := map[int]bool{}
		for k := range set {
			for _, d := range []int{0, 1 << l, -(1 << l)} {
				next[((k+d)%f.n+f.n)%f.n] = true
			}
		}
		set = next
	}
	return slices.Collect(maps.Keys(set))
}

// evaluation is the factors of the transform from the coefficients in bit-reversed order,
// a_k = f_k + i*f_(k+slots), to the slots, over n slots in which the slots repeat. The first factor
// is applied first; factor i joins groups[i] levels. Of slots it makes those of the message that has them as its
// coefficients: SlotsToCoeffs.
func evaluation(n int, groups []int) []factor {
	var out []factor
	low := 0
	for _, levels := range groups {
		out = append(out, factor{n, low, levels, false})
		low += levels
	}
	return out
}

// interpolation is the factors of the inverse of evaluation times the number of slots, CoeffsToSlots. The first
// factor is applied first.
func interpolation(n int, groups []int) []factor {
	out := evaluation(n, groups)
	slices.Reverse(out)
	for i := range out {
		out[i].inverse = true
	}
	return out
}
