package henc

import (
	"math"
	"math/bits"
)

// embedding is the special Fourier transform of the canonical embedding. With
// n = N/2 slots and zeta = exp(i*pi/N), it maps a_k = f_k + i*f_(k+n), which
// holds the N real coefficients of f, to the slots
//
//	z_j = f(zeta^(5^j)) = sum over k < n of a_k * zeta^(k*5^j)
//
// (zeta^(5^j*n) = i for every j, because 5^j = 1 mod 4). Read as
// transform-by-halves, z over n slots is two such sums over n/2 slots joined by
// twiddles exp(2*pi*i*(5^j mod 4*len)/(4*len)), len = 2, 4, ..., n.
//
// Rounding: every twiddle is within 2^-52.5 of its value, so by Higham, Accuracy
// and Stability of Numerical Algorithms, theorem 24.2, the Euclidean norm of the
// error of one transform is at most 8*log2(n)*2^-53 of that of its result.
type embedding struct {
	n        int
	twiddles []complex128 // those of len = 2 first, len/2 of each
}

func newEmbedding(n int) *embedding {
	e := &embedding{n: n, twiddles: make([]complex128, 0, max(n-1, 0))}
	for length := 2; length <= n; length <<= 1 {
		power := 1
		for range length / 2 {
			e.twiddles = append(e.twiddles, unitRoot(power, 4*length))
			power = power * 5 & (4*length - 1)
		}
	}
	return e
}

// unitRoot is exp(2*pi*i*k/m) for m a power of two >= 8 and 0 <= k < m. The angle
// is reduced to the first octant in integers, so the result does not lose
// accuracy with k.
func unitRoot(k, m int) complex128 {
	octant, r := k/(m/8), k%(m/8)
	if octant&1 == 1 {
		r = m/8 - r
	}
	s, c := math.Sincos(2 * math.Pi * (float64(r) / float64(m)))
	switch octant {
	case 0:
		return complex(c, s)
	case 1:
		return complex(s, c)
	case 2:
		return complex(-s, c)
	case 3:
		return complex(-c, s)
	case 4:
		return complex(-c, -s)
	case 5:
		return complex(-s, -c)
	case 6:
		return complex(s, -c)
	default:
		return complex(c, -s)
	}
}

// toSlots replaces a, len n, by the slots z. Butterflies take (u, v) to
// (u + t*v, u - t*v).
func (e *embedding) toSlots(a []complex128) {
	bitReverse(a)
	tw := e.twiddles
	for half := 1; half < e.n; half <<= 1 {
		for i := 0; i < e.n; i += 2 * half {
			lo, hi := a[i:i+half], a[i+half:i+2*half]
			for j, t := range tw[:half] {
				v := hi[j] * t
				hi[j] = lo[j] - v
				lo[j] += v
			}
		}
		tw = tw[half:]
	}
}

// fromSlots is the inverse of toSlots: the same butterflies undone from the last.
func (e *embedding) fromSlots(z []complex128) {
	end := len(e.twiddles)
	for half := e.n / 2; half >= 1; half >>= 1 {
		tw := e.twiddles[end-half : end]
		end -= half
		for i := 0; i < e.n; i += 2 * half {
			lo, hi := z[i:i+half], z[i+half:i+2*half]
			for j, t := range tw {
				d := lo[j] - hi[j]
				lo[j] += hi[j]
				hi[j] = d * complex(real(t), -imag(t))
			}
		}
	}
	bitReverse(z)
	inv := 1 / float64(e.n) // exact, n is a power of two
	for i, v := range z {
		z[i] = complex(real(v)*inv, imag(v)*inv)
	}
}

// bitReverse permutes a, whose length is a power of two.
func bitReverse(a []complex128) {
	shift := 64 - bits.Len(uint(len(a))-1)
	if len(a) < 2 {
		return
	}
	for i := range a {
		if j := int(bits.Reverse64(uint64(i)) >> shift); i < j {
			a[i], a[j] = a[j], a[i]
		}
	}
}
