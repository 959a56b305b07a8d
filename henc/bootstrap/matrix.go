package bootstrap

import (
	"math"
	"math/cmplx"
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

// toSlots is the factors of the transform from the coefficients in bit-reversed order,
// a_k = f_k + i*f_(k+slots), to the slots, over n slots in which the slots repeat. The first factor
// is applied first; factor i joins groups[i] levels.
func toSlots(n int, groups []int) []matrix {
	var out []matrix
	h := 1
	for _, levels := range groups {
		var m matrix
		for l := range levels {
			if b := butterfly(n, h, false); l == 0 {
				m = b
			} else {
				m = b.times(m)
			}
			h *= 2
		}
		out = append(out, m)
	}
	return out
}

// toCoefficients is the factors of the inverse of toSlots times the number of slots. The first
// factor is applied first.
func toCoefficients(n int, groups []int) []matrix {
	out := make([]matrix, len(groups))
	h := 1
	for i, levels := range groups {
		var m matrix
		for l := range levels {
			if b := butterfly(n, h, true); l == 0 {
				m = b
			} else {
				m = m.times(b)
			}
			h *= 2
		}
		out[len(groups)-1-i] = m
	}
	return out
}
