package henc

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hencedge/hencedge/cutrantt"
)

// Names lists the secure named sets, smallest ring first, without those of BootstrapNames.
func Names() []string { return setNames(false, false) }

// InsecureNames lists the named sets that only NamedInsecure returns, without those of
// BootstrapNames.
func InsecureNames() []string { return setNames(true, false) }

// BootstrapNames lists the secure named sets with levels for bootstrapping.
func BootstrapNames() []string { return setNames(false, true) }

// IntegerNames lists the secure named sets for package bfv, smallest ring first.
func IntegerNames() []string {
	var names []string
	for _, l := range integerSets() {
		names = append(names, l.Name)
	}
	return names
}

// DefaultT is the plaintext modulus of the named sets for package bfv: the prime 2^16 + 1 has slots at every N up to
// 2^15.
const DefaultT = 65537

// integerSets are the named sets for package bfv. All primes are the largest that fit, the special ones first.
var integerSets = sync.OnceValue(func() []ParametersLiteral {
	return []ParametersLiteral{
		{Name: "bfv13", LogN: 13, LogScale: 10, Mode: ModeSingle, Depth: 5, Alpha: 1, Integers: true,
			P: largestPrimes(13, 0, 1), Q: largestPrimes(13, 1, 6)},
		{Name: "bfv14", LogN: 14, LogScale: 10, Mode: ModeSingle, Depth: 10, Alpha: 3, Integers: true,
			P: largestPrimes(14, 0, 3), Q: largestPrimes(14, 3, 11)},
	}
})

// largestPrimes are count primes below 2^30 that are 1 modulo 2^(logN+1), from the largest down, less the first ones.
func largestPrimes(logN, skip, count int) []uint32 {
	var out []uint32
	step := uint32(2) << logN
	for q := uint32(cutrantt.MaxQ) - step + 1; len(out) < skip+count && q > step; q -= step {
		if isPrime(q) {
			out = append(out, q)
		}
	}
	return out[min(skip, len(out)):]
}

// Integers reports whether the parameters are for package bfv, with the plaintext modulus DefaultT. Streams of real
// numbers cannot use them.
func (p Parameters) Integers() bool { return p.data().lit.Integers }

// IntegerModuli returns what the ring of package bfv has besides the primes of p for the plaintext modulus t: the
// auxiliary primes of products, largest first, and last t. It fails with ErrParams if t is not a prime below 2^30 that
// is 1 modulo 2N, if it is a modulus of p, and if there are too few primes.
func IntegerModuli(p Parameters, t uint32) ([]cutrantt.Modulus, error) {
	if p.N() == 0 {
		return nil, fmt.Errorf("%w: the zero Parameters", ErrParams)
	}
	tm, err := NewModulus(t, p.LogN())
	if err != nil {
		return nil, err
	}
	taken := []uint32{t}
	for _, m := range p.Moduli() {
		if m.Q == t {
			return nil, fmt.Errorf("%w: %d is a modulus of %s", ErrParams, t, p.Name())
		}
		taken = append(taken, m.Q)
	}
	var out []cutrantt.Modulus
	need := p.LimbsAt(p.MaxLevel())
	for _, q := range largestPrimes(p.LogN(), 0, need+len(taken)) {
		if len(out) == need {
			break
		}
		if slices.Contains(taken, q) {
			continue
		}
		m, err := NewModulus(q, p.LogN())
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	if len(out) < need {
		return nil, fmt.Errorf("%w: too few primes below 2^30 for products of %s", ErrParams, p.Name())
	}
	return append(out, tm), nil
}

func setNames(insecure, bootstrap bool) (names []string) {
	for _, l := range namedSets {
		if l.Insecure == insecure && len(l.Upper) > 0 == bootstrap {
			names = append(names, l.Name)
		}
	}
	return names
}

// Named returns a named parameter set. It fails with ErrUnknownSet for a name that
// is neither in Names nor in BootstrapNames nor in IntegerNames, and with ErrSecurity for an insecure set.
func Named(name string) (Parameters, error) {
	p, err := named(name)
	if err == nil && p.CheckKeys() != nil {
		return Parameters{}, fmt.Errorf("%w: %q has log2(QP) = %.1f, above the bound of %d for 128 bits at N = 2^%d; "+
			"it exists for benchmarks only and must be asked for as insecure",
			ErrSecurity, name, p.LogQP(), p.SecurityBound(), p.LogN())
	}
	return p, err
}

// NamedBootstrap is Named for the sets of BootstrapNames only.
func NamedBootstrap(name string) (Parameters, error) {
	p, err := Named(name)
	if err == nil && p.UpperLevels() == 0 {
		return Parameters{}, fmt.Errorf("%w: %q has no levels for bootstrapping; known: %s", ErrUnknownSet, name,
			strings.Join(BootstrapNames(), ", "))
	}
	return p, err
}

// NamedInsecure returns any named set, also an insecure one. It is for
// benchmarks behind an explicit flag, and for tests.
func NamedInsecure(name string) (Parameters, error) { return named(name) }

// NameOf is the name of the set whose Hash is given, or the beginning of the hash
// where no named set has it. It is for messages.
func NameOf(hash [32]byte) string {
	for _, l := range append(namedSets[:len(namedSets):len(namedSets)], integerSets()...) {
		if p, err := named(l.Name); err == nil && p.Hash() == hash {
			return l.Name
		}
	}
	return fmt.Sprintf("%x", hash[:8])
}

// madeSets caches the named sets: checking 88 primes takes a while.
var madeSets sync.Map // name -> Parameters

func named(name string) (Parameters, error) {
	if p, ok := madeSets.Load(name); ok {
		return p.(Parameters), nil
	}
	for _, l := range append(namedSets[:len(namedSets):len(namedSets)], integerSets()...) {
		if l.Name == name {
			p, err := NewParameters(l)
			if err == nil {
				madeSets.Store(name, p)
			}
			return p, err
		}
	}
	return Parameters{}, fmt.Errorf("%w: %q; known: %s", ErrUnknownSet, name,
		strings.Join(slices.Concat(Names(), BootstrapNames(), IntegerNames()), ", "))
}
