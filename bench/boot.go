package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/tuneinsight/lattigo/v6/circuits/ckks/bootstrapping"
	"github.com/tuneinsight/lattigo/v6/ring"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"

	"github.com/hencedge/hencedge/henc"
)

// bootShape is one row of the comparison of bootstrappings: a set of ours, and Lattigo's own set for a dense
// secret with the same ring degree and about the same modulus of the keys.
type bootShape struct {
	name   string
	set    string
	logN   int // of both: less than that of the sets is not secure and only to compare with
	scheme ckks.ParametersLiteral
	boot   bootstrapping.ParametersLiteral
}

var bootShapes = []bootShape{
	{"boot15", "boot15", 15, bootstrapping.N15QP880H16384H32.SchemeParams, lattigoBoot15()},
	{"boot15-13", "boot15", 13, bootstrapping.N15QP880H16384H32.SchemeParams, lattigoBoot15()},
	{
		"boot16", "boot16", 16, bootstrapping.N16QP1767H32768H32.SchemeParams,
		bootstrapping.N16QP1767H32768H32.BootstrappingParams,
	},
}

// lattigoBoot15 is Lattigo's set, but with a level of 30 bits for each of the two factors of SlotsToCoeffs.
// The set has one of 60 bits for both, from which Lattigo 6.1.1 rescales twice, and results are noise.
func lattigoBoot15() bootstrapping.ParametersLiteral {
	l := bootstrapping.N15QP880H16384H32.BootstrappingParams
	l.SlotsToCoeffsFactorizationDepthAndLogScales = [][]int{{30}, {30}}
	return l
}

// parameters is our set of the shape.
func (s bootShape) parameters() (henc.Parameters, error) {
	p, err := henc.NamedInsecure(s.set)
	if err != nil || s.logN == p.LogN() {
		return p, err
	}
	l := p.Literal()
	l.LogN, l.Insecure, l.PsiQ, l.PsiP = s.logN, true, nil, nil
	return henc.NewParameters(l)
}

// lattigo is Lattigo's set of the shape, with the special primes that its name counts.
func (s bootShape) lattigo() (ckks.Parameters, bootstrapping.Parameters, error) {
	s.scheme.LogN, s.scheme.Xs = s.logN, ring.Ternary{H: 1 << (s.logN - 1)}
	p, err := ckks.NewParametersFromLiteral(s.scheme)
	if err != nil {
		return p, bootstrapping.Parameters{}, err
	}
	s.boot.LogN, s.boot.LogP, s.boot.Xs = &s.scheme.LogN, s.scheme.LogP, s.scheme.Xs
	b, err := bootstrapping.NewParametersFromLiteral(p, s.boot)
	return p, b, err
}

// bootSide is the bootstrapping of one library.
type bootSide struct {
	run    func() error // one bootstrapping, whose result is dropped
	errors func(z []complex128) (rms, most float64, err error)
	levels int // left after it
	about  string
}

// precision is the error of both sides for one kind of slots, in bits: of the real or imaginary part, for
// parts in [-1, 1], root mean square and largest.
type precision struct {
	Slots       string  `json:"slots"`
	Ours        float64 `json:"ours_bits"`
	OursLeast   float64 `json:"ours_least_bits"`
	Theirs      float64 `json:"lattigo_bits"`
	TheirsLeast float64 `json:"lattigo_least_bits"`
}

// leastBits is what the largest error of a bootstrapping has to reach, so that a wrong one is not timed.
const leastBits = 8

// bootstraps times the bootstrappings of the names and prints a row and their precision for each.
func bootstraps(names []string, rounds int, span time.Duration, n2 int, write func(record) error) error {
	for _, name := range names {
		i := slices.IndexFunc(bootShapes, func(s bootShape) bool { return s.name == name })
		if i < 0 {
			return fmt.Errorf("no bootstrapping of the name %q", name)
		}
		if err := bootstrapOne(bootShapes[i], rounds, span, n2, write); err != nil {
			return fmt.Errorf("bootstrapping %s: %w", name, err)
		}
	}
	return nil
}

func bootstrapOne(s bootShape, rounds int, span time.Duration, n2 int, write func(record) error) error {
	f, err := ourBoot(s, n2)
	if err != nil {
		return err
	}
	g, err := theirBoot(s)
	if err != nil {
		return fmt.Errorf("lattigo: %w", err)
	}
	debug.FreeOSMemory() // Lattigo makes its matrices of large numbers
	p, err := s.parameters()
	if err != nil {
		return err
	}
	fmt.Printf("\n%s: N = 2^%d, all slots; ours %s; Lattigo %s\n", s.name, p.LogN(), f.about, g.about)
	var all []precision
	for _, kind := range []string{"random", "constant"} {
		c, err := precisionOf(f, g, kind, p.Slots())
		if err != nil {
			return err
		}
		fmt.Printf("%s slots, bits: ours %.1f, least %.1f; Lattigo %.1f, least %.1f\n", kind, c.Ours, c.OursLeast,
			c.Theirs, c.TheirsLeast)
		all = append(all, c)
	}
	fmt.Println(heading)
	r, err := compare(f.run, g.run, rounds, span)
	if err != nil {
		return err
	}
	r.Shape, r.LogN, r.LogQ, r.Op = s.name, p.LogN(), int(math.Round(p.LogQ(p.MaxLevel()))), "bootstrap"
	r.Dnum, r.OursLevels, r.TheirsLevels, r.Precision = p.Dnum(p.MaxLevel()), f.levels, g.levels, all
	fmt.Println(r)
	return write(r)
}

// precisionOf bootstraps the same slots on both sides.
func precisionOf(f, g bootSide, kind string, n int) (precision, error) {
	z, rng := make([]complex128, n), rand.New(rand.NewPCG(1, 2))
	for i := range z {
		if z[i] = 1; kind == "random" {
			z[i] = complex(2*rng.Float64()-1, 2*rng.Float64()-1)
		}
	}
	c := precision{Slots: kind}
	for _, side := range []struct {
		of          bootSide
		bits, least *float64
	}{{f, &c.Ours, &c.OursLeast}, {g, &c.Theirs, &c.TheirsLeast}} {
		rms, most, err := side.of.errors(z)
		if err != nil {
			return c, err
		}
		if *side.bits, *side.least = -math.Log2(rms), -math.Log2(most); !(*side.least >= leastBits) {
			return c, fmt.Errorf("%s slots are off by %g: %s", kind, most, side.of.about)
		}
	}
	return c, nil
}

// errorsOf is the root mean square and the largest error of the real and imaginary parts.
func errorsOf(got, want []complex128) (rms, most float64) {
	for i := range want {
		d := got[i] - want[i]
		rms += real(d)*real(d) + imag(d)*imag(d)
		most = max(most, math.Abs(real(d)), math.Abs(imag(d)))
	}
	return math.Sqrt(rms / float64(2*len(want))), most
}

// list splits names at commas; there are none in an empty list.
func list(names string) []string {
	return slices.DeleteFunc(strings.Split(names, ","), func(s string) bool { return s == "" })
}
