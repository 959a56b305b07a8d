package compact

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/hencedge/hencedge/henc"
)

// LogRatio is log2 of the message ratio: a reading of 1 is the modulus over 2^LogRatio.
const LogRatio = 6

// noise is the largest magnitude of a coefficient of the noise (prng.CBD).
const noise = 21

// Precision says how exact the readings of a window are: their error is at most 2^-Precision.
type Precision int

// The precisions.
const (
	Bits12 Precision = 12
	Bits16 Precision = 16
)

// Bits is how many bits of each coefficient of c0 are sent, 0 for an unknown precision.
func (p Precision) Bits() int {
	switch p {
	case Bits12:
		return 18
	case Bits16:
		return 22
	}
	return 0
}

// Bound is the largest error of a reading that a window carries, as a part of the range
// -1..1; infinite for an unknown precision. It counts all that the board does, not the server's
// work.
//
// With x the reading, D = q/2^LogRatio, k = Bits and c0 = m + e - (a*s) the exact coefficient:
// |m - x*D| <= 1/2 by rounding, |e| <= 21, and the value v that is sent has
// |v*q/2^k - c0| <= q/2^(k+1) modulo q. So v*q/2^k + (a*s) is x*D up to q/2^(k+1) + 21.5, and over D
//
//	|error| <= 2^(LogRatio-1-k) + 21.5*2^LogRatio/q
//
// which is 2^-12.98 for 18 bits and 2^-16.78 for 22.
func (p Precision) Bound() float64 {
	k := p.Bits()
	if k == 0 {
		return math.Inf(1)
	}
	return math.Exp2(float64(LogRatio-1-k)) + (noise+0.5)/Scale()
}

// CheckPrecision fails unless windows of a precision have results in a key set with the parameters p: with
// henc.ErrMalformed for an unknown precision, and with henc.ErrParams where p has no levels for bootstrapping, or too
// much noise. That of boot15 is too large for 16 bits (docs/cryptography.md).
func CheckPrecision(p henc.Parameters, precision Precision) error {
	switch {
	case precision.Bits() == 0:
		return fmt.Errorf("compact windows: %w: a precision of %d bits", henc.ErrMalformed, precision)
	case p.UpperLevels() == 0:
		return fmt.Errorf("compact windows: %w: %s has no levels for bootstrapping; use %s", henc.ErrParams, p.Name(),
			strings.Join(henc.BootstrapNames(), " or "))
	case precision > Bits12 && p.LogN() > 14 && p.LogQ(0) < 55:
		return fmt.Errorf("compact windows: %w: the noise of %s is too large for a precision of %d bits",
			henc.ErrParams, p.Name(), precision)
	}
	return nil
}

// modulus is the q of every set.
const modulus = 1073692673

// sets are the rings of boards. One with 2^11 coefficients would be secure for the board, but not under
// the moduli of a device's key (Switching). 2^10 is for tests.
var sets = []struct {
	number byte
	lit    henc.ParametersLiteral
}{
	{1, henc.ParametersLiteral{Name: "compact12", LogN: 12}},
	{0xf0, henc.ParametersLiteral{Name: "compact10-insecure", LogN: 10, Insecure: true}},
}

// SetFor names the set of the boards whose windows have results in p.
func SetFor(p henc.Parameters) string {
	if p.Insecure() {
		return "compact10-insecure"
	}
	return "compact12"
}

// Names lists the secure sets.
func Names() (names []string) {
	for _, s := range sets {
		if !s.lit.Insecure {
			names = append(names, s.lit.Name)
		}
	}
	return names
}

// Named returns the parameters of a set, checked against the security table as all are. It fails
// with henc.ErrUnknownSet for a name that is not in Names, and with henc.ErrSecurity for an insecure set
// (henc.Parameters.CheckKeys).
func Named(name string) (henc.Parameters, error) {
	p, err := NamedInsecure(name)
	if err == nil && p.CheckKeys() != nil {
		return henc.Parameters{}, fmt.Errorf("%w: %q has N = 2^%d, for which no bound is known; it is for tests only",
			henc.ErrSecurity, name, p.LogN())
	}
	return p, err
}

// NamedInsecure returns any set, also one for tests only.
func NamedInsecure(name string) (henc.Parameters, error) {
	all, err := made()
	if err != nil {
		return henc.Parameters{}, err
	}
	for i, s := range sets {
		if s.lit.Name == name {
			return all[i], nil
		}
	}
	return henc.Parameters{}, fmt.Errorf("compact windows: %w: %q; known: %s", henc.ErrUnknownSet, name,
		strings.Join(Names(), ", "))
}

// made are the parameters of all sets.
var made = sync.OnceValues(func() (all []henc.Parameters, err error) {
	for _, s := range sets {
		lit := s.lit
		lit.Mode, lit.LogScale, lit.Q = henc.ModeSingle, 30-LogRatio, []uint32{modulus}
		p, err := henc.NewParameters(lit)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
})

// numberOf is the number of a set on the wire. It fails with henc.ErrParams for other parameters.
func numberOf(p henc.Parameters) (byte, error) {
	all, err := made()
	if err != nil {
		return 0, err
	}
	for i, s := range sets {
		if all[i].Equal(p) {
			return s.number, nil
		}
	}
	return 0, fmt.Errorf("%w: %q is no set of compact windows; known: %s", henc.ErrParams, p.Name(),
		strings.Join(Names(), ", "))
}

// CheckSet fails with henc.ErrParams unless p is one of the sets.
func CheckSet(p henc.Parameters) error {
	_, err := numberOf(p)
	return err
}

// nameOf is the name of the set with a number.
func nameOf(number byte) string {
	for _, s := range sets {
		if s.number == number {
			return s.lit.Name
		}
	}
	return fmt.Sprintf("number %d", number)
}

// Scale is the scale of readings: the modulus over 2^LogRatio.
func Scale() float64 { return modulus / float64(int(1)<<LogRatio) }

// Stride is the distance of the coefficients that carry n readings in a ring of degree N: N over n,
// rounded up to a power of two. Reading j is coefficient j*Stride. It is 0 where n is not in 1..N.
func Stride(degree, n int) int {
	if n < 1 || n > degree {
		return 0
	}
	for n&(n-1) != 0 {
		n += n & -n
	}
	return degree / n
}
