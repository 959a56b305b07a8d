// Package dudect compares two sets of times: O. Reparaz, J. Balasch and I. Verbauwhede,
// "Dude, is my code constant time?", DATE 2017. Only tests use it.
package dudect

import (
	"math"
	"slices"
)

// Leaking is the statistic from which a leak is taken for certain. 4.5 is usual for a
// single test on an idle machine; the paper's own tool uses 10.
const Leaking = 10

// Statistic returns the largest |t| of Welch's test between two sets of times, over all of
// them and over those below some percentiles, where rare interruptions do not count. Both
// sets need two times at least.
func Statistic(a, b []float64) float64 {
	all := slices.Concat(a, b)
	slices.Sort(all)
	most := 0.0
	for _, part := range []float64{0.25, 0.5, 0.75, 0.9, 0.99, 1} {
		limit := all[int(part*float64(len(all)-1))]
		m0, v0, n0 := moments(a, limit)
		m1, v1, n1 := moments(b, limit)
		if d := math.Abs(m0 - m1); d > 0 {
			most = max(most, d/math.Sqrt(v0/n0+v1/n1))
		}
	}
	return most
}

// moments returns mean, variance and count of the values up to limit.
func moments(x []float64, limit float64) (mean, variance, n float64) {
	var squares float64
	for _, v := range x {
		if v > limit {
			continue
		}
		n++
		d := v - mean
		mean += d / n
		squares += d * (v - mean)
	}
	return mean, squares / max(n-1, 1), n
}
