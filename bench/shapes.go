package main

import (
	"fmt"
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

// chain is count primes that share the bits of the modulus, and p special ones.
// Every digit takes p primes.
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
	p, err := primes(s.logN, 30*s.ours.p, s.ours.p, nil)
	if err != nil {
		return henc.Parameters{}, err
	}
	q, err := primes(s.logN, s.logQ, s.ours.count, p)
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
	q, err := primes(s.logN, s.logQ, s.theirs.count, nil)
	if err != nil {
		return ckks.Parameters{}, err
	}
	bits := s.logQ/s.theirs.count + 2 // so that P covers a digit
	p, err := primes(s.logN, bits*s.theirs.p, s.theirs.p, q)
	if err != nil {
		return ckks.Parameters{}, err
	}
	return ckks.NewParametersFromLiteral(
		ckks.ParametersLiteral{LogN: s.logN, Q: q, P: p, LogDefaultScale: logScale, Xs: ring.Ternary{P: 2.0 / 3}},
	)
}

// primes are count primes q = 1 mod 2N with a product of about 2^bits, each the
// next below a power of two, none of them in used.
func primes(logN, bits, count int, used []uint64) ([]uint64, error) {
	step := uint64(2) << logN
	taken := make(map[uint64]bool)
	for _, q := range used {
		taken[q] = true
	}
	var out []uint64
	for i := range count {
		size := (bits + count - 1 - i) / count // the larger ones first
		q := uint64(1)<<size + 1 - step
		for ; q > step && (taken[q] || !new(big.Int).SetUint64(q).ProbablyPrime(0)); q -= step {
		}
		if q <= step {
			return nil, fmt.Errorf("degree 2^%d has no %d primes of %d bits together", logN, count, bits)
		}
		taken[q] = true
		out = append(out, q)
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
