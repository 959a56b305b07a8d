package henc

import (
	"math"
	"math/rand/v2"
)

// directSlots evaluates the real polynomial f at zeta^(5^j), j < N/2, term by term.
func directSlots(f []float64) []complex128 {
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

func randomSlots(r *rand.Rand, n int) []complex128 {
	z := make([]complex128, n)
	for i := range z {
		z[i] = complex(2*r.Float64()-1, 2*r.Float64()-1)
	}
	return z
}

func rms(z []complex128) float64 {
	s := 0.0
	for _, v := range z {
		s += real(v)*real(v) + imag(v)*imag(v)
	}
	return math.Sqrt(s / float64(len(z)))
}

func diff(a, b []complex128) []complex128 {
	d := make([]complex128, len(a))
	for i := range d {
		d[i] = a[i] - b[i]
	}
	return d
}
