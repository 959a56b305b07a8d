package main

import (
	"fmt"
	"math"
	"math/big"

	"github.com/tuneinsight/lattigo/v6/ring"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"

	"github.com/hencedge/hencedge/henc"
)

// shape is one row of the comparison: degree 2^logN, a modulus of about logQ bits
// and dnum key-switching digits, with the chains of both sides.
type shape struct {
	name             string
	logN, logQ, dnum int
	ours, theirs     chain
}

// chain is count primes of bits/count bits each, and p special ones. Every digit
// takes p primes.
type chain struct{ count, p int }

var shapes = []shape{
	{"A", 13, 150, 3, chain{5, 2}, chain{3, 1}},
	{"B", 14, 300, 6, chain{11, 2}, chain{6, 1}},
	{"C4", 15, 600, 4, chain{20, 5}, chain{12, 3}},
	{"D", 16, 1692, 3, chain{57, 19}, chain{33, 11}},
}

// logScale is the scale of both sides.
const logScale = 45

// parameters is our set of the shape. One level is all that is timed.
func (s shape) parameters() (henc.Parameters, error) {
	q, err := primes(s.logN, float64(s.logQ)/float64(s.ours.count), s.ours.count, nil)
	if err != nil {
		return henc.Parameters{}, err
	}
	p, err := primes(s.logN, 30, s.ours.p, q)
	if err != nil {
		return henc.Parameters{}, err
	}
	return henc.NewParameters(henc.ParametersLiteral{
		Name: "bench-" + s.name, LogN: s.logN, LogScale: logScale, Mode: henc.ModePair,
		Depth: 1, Q: narrow(q), P: narrow(p), Insecure: true,
	})
}

// lattigo is Lattigo's set of the shape.
func (s shape) lattigo() (ckks.Parameters, error) {
	q, err := primes(s.logN, float64(s.logQ)/float64(s.theirs.count), s.theirs.count, nil)
	if err != nil {
		return ckks.Parameters{}, err
	}
	p, err := primes(s.logN, float64(s.logQ)/float64(s.theirs.count)+1, s.theirs.p, q)
	if err != nil {
		return ckks.Parameters{}, err
	}
	return ckks.NewParametersFromLiteral(ckks.ParametersLiteral{LogN: s.logN, Q: q, P: p, LogDefaultScale: logScale, Xs: ring.Ternary{P: 2.0 / 3}})
}

// primes are count primes q = 1 mod 2N whose product has about count*bits bits,
// taken alternately above and below 2^bits (only below where 2^bits is 2^30), none
// of them in used.
func primes(logN int, bits float64, count int, used []uint64) ([]uint64, error) {
	step := uint64(2) << logN
	middle := uint64(math.Exp2(bits))/step*step + 1
	taken := make(map[uint64]bool)
	for _, q := range used {
		taken[q] = true
	}
	up, down := middle, middle-step
	next := func(q *uint64, by uint64) (uint64, bool) {
		for ; *q > step && (*q < 1<<30 || bits > 30); *q += by {
			if c := *q; !taken[c] && new(big.Int).SetUint64(c).ProbablyPrime(0) {
				*q += by
				return c, true
			}
		}
		return 0, false
	}
	var out []uint64
	sum := 0.0
	for len(out) < count {
		var q uint64
		var ok bool
		if sum <= bits*float64(len(out)) {
			q, ok = next(&up, step)
		}
		if !ok {
			q, ok = next(&down, -step)
		}
		if !ok {
			return nil, fmt.Errorf("degree 2^%d has no %d primes of %.1f bits", logN, count, bits)
		}
		out, sum = append(out, q), sum+math.Log2(float64(q))
	}
	return out, nil
}

func narrow(x []uint64) []uint32 {
	y := make([]uint32, len(x))
	for i, v := range x {
		y[i] = uint32(v)
	}
	return y
}
