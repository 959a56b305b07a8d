package henc

import (
	"fmt"
	"strings"
	"sync"
)

// Names lists the secure named sets, smallest ring first, without those of BootstrapNames.
func Names() []string { return setNames(false, false) }

// InsecureNames lists the named sets that only NamedInsecure returns, without those of
// BootstrapNames.
func InsecureNames() []string { return setNames(true, false) }

// BootstrapNames lists the secure named sets with levels for bootstrapping.
func BootstrapNames() []string { return setNames(false, true) }

func setNames(insecure, bootstrap bool) (names []string) {
	for _, l := range namedSets {
		if l.Insecure == insecure && len(l.Upper) > 0 == bootstrap {
			names = append(names, l.Name)
		}
	}
	return names
}

// Named returns a named parameter set. It fails with ErrUnknownSet for a name that
// is neither in Names nor in BootstrapNames, and with ErrSecurity for an insecure set.
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
	for _, l := range namedSets {
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
	for _, l := range namedSets {
		if l.Name == name {
			p, err := NewParameters(l)
			if err == nil {
				madeSets.Store(name, p)
			}
			return p, err
		}
	}
	return Parameters{}, fmt.Errorf("%w: %q; known: %s", ErrUnknownSet, name,
		strings.Join(append(Names(), BootstrapNames()...), ", "))
}
