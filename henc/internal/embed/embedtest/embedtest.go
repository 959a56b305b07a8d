// Package embedtest is the slow reference of the embedding, for the tests of
// package embed and of henc.
package embedtest

import (
	"math"
	"math/rand/v2"
)

// DirectSlots evaluates the real polynomial f at zeta^(5^j), j < N/2, term by term.
func DirectSlots(f []float64) []complex128 {
	n := len(f)
	root := make([]complex128, 2*n)
	for k := range root {
		s, c := math.Sincos(math.Pi * float64(k) / float64(n))
		root[k] = complex(c, s)
	}
	z := make([]complex128, n/2)
	g := 1
	for j := range z {
		var re, im float64
		for k, v := range f {
			w := root[k*g%(2*n)]
			re += v * real(w)
			im += v * imag(w)
		}
		z[j] = complex(re, im)
		g = g * 5 % (2 * n)
	}
	return z
}

// RandomSlots draws n values whose parts are uniform in [-1, 1).
func RandomSlots(r *rand.Rand, n int) []complex128 {
	z := make([]complex128, n)
	for i := range z {
		z[i] = complex(2*r.Float64()-1, 2*r.Float64()-1)
	}
	return z
}

// RMS is the root mean square of the magnitudes.
func RMS(z []complex128) float64 {
	s := 0.0
	for _, v := range z {
		s += real(v)*real(v) + imag(v)*imag(v)
	}
	return math.Sqrt(s / float64(len(z)))
}

// Diff is a - b, element by element.
func Diff(a, b []complex128) []complex128 {
	d := make([]complex128, len(a))
	for i := range d {
		d[i] = a[i] - b[i]
	}
	return d
}
