package embed

import "sync"

// coeffs holds vectors of zeros, in a pool for each length.
var coeffs sync.Map // int to *sync.Pool of *[]float64

// GetCoeffs returns n zeros.
func GetCoeffs(n int) []float64 {
	pool, ok := coeffs.Load(n)
	if !ok {
		pool, _ = coeffs.LoadOrStore(n, &sync.Pool{New: func() any { return new(make([]float64, n)) }})
	}
	return *pool.(*sync.Pool).Get().(*[]float64)
}

// PutCoeffs wipes coefficients and keeps their memory for GetCoeffs.
func PutCoeffs(c []float64) {
	if c == nil {
		return
	}
	clear(c)
	if pool, ok := coeffs.Load(len(c)); ok {
		pool.(*sync.Pool).Put(&c)
	}
}
