package henc

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
)

// Mode says how many primes one rescaling drops.
type Mode string

// The modes.
const (
	ModeSingle Mode = "single" // one prime per level, scale 2^26..2^29
	ModePair   Mode = "pair"   // two primes per level, scale 2^50..2^55
	ModeMixed  Mode = "mixed"  // Lower says how many at each level
)

// ParametersLiteral describes parameters, unchecked and serialisable; NewParameters
// checks it.
type ParametersLiteral struct {
	Name     string   `json:"name"`
	LogN     int      `json:"logN"`     // ring degree 2^LogN, 10..17
	LogScale int      `json:"logScale"` // default scale 2^LogScale
	Mode     Mode     `json:"mode"`
	Depth    int      `json:"depth"` // rescalings from the top level, or from that below Upper
	Q        []uint32 `json:"q"`     // ciphertext primes, bottom first
	P        []uint32 `json:"p,omitempty"`
	// PsiQ and PsiP pin the 2N-th roots of unity; nil derives the canonical ones.
	PsiQ []uint32 `json:"psiQ,omitempty"`
	PsiP []uint32 `json:"psiP,omitempty"`
	// Alpha is the number of Q primes in a key-switching digit, at most len(P);
	// 0 means len(P).
	Alpha int `json:"alpha,omitempty"`
	// Lower are the primes, 1 or 2, that rescaling from each of the levels 1..Depth drops, bottom first, in ModeMixed
	// only. Where one and two take turns, a level has one and a half primes of almost 30 bits, and the scale of every
	// other level is that of pairs.
	Lower []int `json:"lower,omitempty"`
	// Upper are the primes, 1 to 8, of each level above Depth, bottom first. These levels are
	// for the steps of bootstrapping, each with a scale of its own. The lowest may be left to what was bootstrapped.
	Upper []int `json:"upper,omitempty"`
	// Integers marks a set for package bfv: contexts get the moduli of its products (IntegerModuli), and no scale of a
	// level follows from another's. It is not part of Hash, since no key and no ciphertext has limbs of them.
	Integers bool `json:"integers,omitempty"`
	// Insecure admits parameters above or outside the security table.
	Insecure bool `json:"insecure,omitempty"`
}

func (l ParametersLiteral) clone() ParametersLiteral {
	l.Q, l.P = slices.Clone(l.Q), slices.Clone(l.P)
	l.PsiQ, l.PsiP = slices.Clone(l.PsiQ), slices.Clone(l.PsiP)
	l.Lower, l.Upper = slices.Clone(l.Lower), slices.Clone(l.Upper)
	return l
}

// Parameters are checked and immutable; copies share what they hold. The zero
// value belongs to no ring: its getters return zeros, and NewContext refuses it.
type Parameters struct{ d *paramData }

type paramData struct {
	lit           ParametersLiteral
	moduli        []cutrantt.Modulus
	limbs         []int // 0, 1, ..., len(Q)+len(P)-1
	counts        []int // limbs at each level
	ppl           int   // primes per level up to Depth, 0 in ModeMixed
	logQ          []float64
	logP          float64
	scales        []float64
	hash          [32]byte
	productQ      []*big.Int // product of Q at each level
	maxScale      []float64  // Q_level/2, or the largest float64 below 2^1023 if that is smaller
	maxCoeff      []float64  // the largest float64 that is at most (Q_level-1)/2
	productP      *big.Int
	securityBound int
}

var noParams = &paramData{productP: big.NewInt(1)}

func (p Parameters) data() *paramData {
	if p.d == nil {
		return noParams
	}
	return p.d
}

// NewParameters checks lit and returns the parameters. It fails with ErrParams
// when lit is inconsistent (a modulus is not prime, not 1 mod 2N, not below 2^30 or
// repeated, a root has the wrong order, Depth does not fit len(Q), the special
// primes do not cover a key-switching digit, the scale does not fit) and with
// ErrSecurity, naming both numbers, when log2(QP) is above the 128-bit bound of the
// 2024 guidelines and lit.Insecure is not set.
func NewParameters(lit ParametersLiteral) (Parameters, error) {
	lit = lit.clone()
	bad := func(format string, args ...any) (Parameters, error) {
		return Parameters{}, fmt.Errorf("%w: set %q: "+format, append([]any{ErrParams, lit.Name}, args...)...)
	}
	if !validName(lit.Name) {
		return bad("the name must be 1..64 letters, digits, dots, underscores or hyphens")
	}
	if lit.LogN < cutrantt.MinLogN || lit.LogN > cutrantt.MaxLogN {
		return bad("logN = %d is outside %d..%d", lit.LogN, cutrantt.MinLogN, cutrantt.MaxLogN)
	}
	if lit.LogScale < 10 || lit.LogScale > 60 {
		return bad("logScale = %d is outside 10..60", lit.LogScale)
	}
	if len(lit.Q) > MaxPrimes || len(lit.P) > MaxPrimes {
		return bad("%d and %d primes in Q and P, at most %d each", len(lit.Q), len(lit.P), MaxPrimes)
	}
	d := &paramData{}
	var err error
	if d.ppl, d.counts, err = levelCounts(&lit); err != nil {
		return bad("%w", err)
	}
	if err := fillRoots(&lit); err != nil {
		return bad("%w", err)
	}
	if err := checkDigits(&lit); err != nil {
		return bad("%w", err)
	}
	d.lit = lit
	d.derive()
	for level, s := range d.scales {
		if logS := math.Log2(s); !(logS >= 1 && logS+2 <= d.logQ[level]) {
			return bad("the scale at level %d is 2^%.2f, it must be at least 2 and leave two bits below Q = 2^%.2f",
				level, logS, d.logQ[level])
		}
	}
	if !lit.Insecure {
		if err := checkSecurity(lit.Name, lit.LogN, product(lit.Q, lit.P)); err != nil {
			return Parameters{}, err
		}
	}
	return Parameters{d}, nil
}

// levelCounts checks the levels and returns the primes per level, 0 in ModeMixed, and the limbs at each level.
func levelCounts(lit *ParametersLiteral) (ppl int, counts []int, err error) {
	if lit.Depth < 0 || lit.Depth > MaxPrimes {
		return 0, nil, fmt.Errorf("depth %d is outside 0..%d", lit.Depth, MaxPrimes)
	}
	lower := lit.Lower
	switch lit.Mode {
	case ModeSingle:
		ppl = 1
	case ModePair:
		ppl = 2
	case ModeMixed:
	default:
		return 0, nil, fmt.Errorf("mode %q is none of %q, %q and %q", lit.Mode, ModeSingle, ModePair, ModeMixed)
	}
	switch {
	case ppl > 0 && lower != nil:
		return 0, nil, fmt.Errorf("lower levels of their own need mode %q", ModeMixed)
	case ppl > 0:
		lower = slices.Repeat([]int{ppl}, lit.Depth)
	case len(lower) != lit.Depth:
		return 0, nil, fmt.Errorf("%d lower levels for depth %d", len(lower), lit.Depth)
	}
	counts = []int{len(lit.Q)}
	for i, n := range slices.Concat(lower, lit.Upper) {
		switch {
		case i < len(lower) && (n < 1 || n > 2):
			return 0, nil, fmt.Errorf("a lower level of %d primes, it must have 1 or 2", n)
		case n < 1 || n > 8:
			return 0, nil, fmt.Errorf("an upper level of %d primes, it must have 1 to 8", n)
		}
		counts[0] -= n
		counts = append(counts, n)
	}
	if counts[0] < 1 {
		return 0, nil, fmt.Errorf("depth %d and %d upper levels need at least %d primes in Q, there are %d", lit.Depth,
			len(lit.Upper), len(lit.Q)-counts[0]+1, len(lit.Q))
	}
	for i := range counts[1:] {
		counts[i+1] += counts[i]
	}
	return ppl, counts, nil
}

// MaxPrimes bounds the number of primes in each of Q and P.
const MaxPrimes = 128

func validName(s string) bool {
	if len(s) == 0 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
		if !ok {
			return false
		}
	}
	return true
}

// fillRoots checks the moduli and checks or derives the roots of unity.
func fillRoots(lit *ParametersLiteral) error {
	seen := make(map[uint32]bool)
	check := func(name string, q []uint32, psi *[]uint32) error {
		if *psi != nil && len(*psi) != len(q) {
			return fmt.Errorf("%d roots for %d primes in %s", len(*psi), len(q), name)
		}
		derive := *psi == nil
		if derive {
			*psi = make([]uint32, len(q))
		}
		for i, v := range q {
			switch {
			case v >= cutrantt.MaxQ:
				return fmt.Errorf("%s[%d] = %d is not below 2^30", name, i, v)
			case v&(1<<(lit.LogN+1)-1) != 1:
				return fmt.Errorf("%s[%d] = %d is not 1 modulo 2N = %d", name, i, v, 1<<(lit.LogN+1))
			case !isPrime(v):
				return fmt.Errorf("%s[%d] = %d is not prime", name, i, v)
			case seen[v]:
				return fmt.Errorf("%s[%d] = %d is repeated", name, i, v)
			}
			seen[v] = true
			if derive {
				(*psi)[i] = canonicalPsi(v, lit.LogN)
			} else if r := (*psi)[i]; r >= v || powMod(r, 1<<lit.LogN, v) != v-1 {
				return fmt.Errorf(
					"root %d of %s[%d] = %d is not a primitive 2N-th root of unity, N = 2^%d", r, name, i, v, lit.LogN,
				)
			}
		}
		return nil
	}
	if err := check("Q", lit.Q, &lit.PsiQ); err != nil {
		return err
	}
	return check("P", lit.P, &lit.PsiP)
}

// checkDigits settles Alpha and checks that 2P covers every digit of Q.
func checkDigits(lit *ParametersLiteral) error {
	if lit.Alpha == 0 {
		lit.Alpha = len(lit.P)
	}
	if lit.Alpha < 0 || lit.Alpha > len(lit.P) {
		return fmt.Errorf("alpha = %d is outside 0..%d, the number of special primes", lit.Alpha, len(lit.P))
	}
	if lit.Alpha == 0 {
		return nil
	}
	p2 := new(big.Int).Lsh(product(lit.P), 1)
	for i := 0; i < len(lit.Q); i += lit.Alpha {
		if d := product(lit.Q[i:min(i+lit.Alpha, len(lit.Q))]); d.Cmp(p2) > 0 {
			return fmt.Errorf("key-switching digit %d has %.1f bits, more than the special primes' %.1f + 1",
				i/lit.Alpha, log2Big(d), log2Big(p2)-1)
		}
	}
	return nil
}

// derive fills everything that follows from the checked literal.
func (d *paramData) derive() {
	lit := &d.lit
	for i, q := range lit.Q {
		d.moduli = append(d.moduli, cutrantt.Modulus{Q: q, Psi: lit.PsiQ[i]})
	}
	for i, q := range lit.P {
		d.moduli = append(d.moduli, cutrantt.Modulus{Q: q, Psi: lit.PsiP[i]})
	}
	for i := range d.moduli {
		d.limbs = append(d.limbs, i)
	}
	for _, limbs := range d.counts {
		q := product(lit.Q[:limbs])
		d.productQ = append(d.productQ, q)
		d.maxScale, d.maxCoeff = append(d.maxScale, maxScale(q)), append(d.maxCoeff, maxCoeff(q))
		d.logQ = append(d.logQ, log2Big(q))
	}
	d.productP = product(lit.P)
	d.logP = log2Big(d.productP)
	d.scales = make([]float64, len(d.counts))
	// 256 bits keep the value exact to float64 although each level doubles the
	// relative error of the one above it.
	s := new(big.Float).SetMantExp(big.NewFloat(1).SetPrec(256), lit.LogScale)
	for level := range d.scales {
		d.scales[level] = math.Ldexp(1, lit.LogScale) // the final value above Depth
	}
	for level := lit.Depth; !lit.Integers; level-- { // package bfv has scales of its own
		d.scales[level], _ = s.Float64()
		if level == 0 {
			break
		}
		dropped := new(big.Float).SetPrec(256).SetInt(product(lit.Q[d.counts[level-1]:d.counts[level]]))
		s.Mul(s, s).Quo(s, dropped)
	}
	d.securityBound, _ = SecurityBound(lit.LogN, 128, false)
	d.hash = d.lit.hash()
}

// hash is the hash that Parameters.Hash describes.
func (l *ParametersLiteral) hash() [32]byte {
	ppl, insecure := map[Mode]int{ModeSingle: 1, ModePair: 2}[l.Mode], 0
	if l.Insecure {
		insecure = 1
	}
	version := 1
	words := []int{l.LogN, l.LogScale, ppl, l.Depth, l.Alpha, insecure, len(l.Q), len(l.P)}
	if len(l.Upper) > 0 || l.Mode == ModeMixed {
		version = 2
		words = append(append(words, len(l.Upper)), l.Upper...)
	}
	if l.Mode == ModeMixed {
		version = 3
		words = append(words, l.Lower...)
	}
	b := fmt.Appendf(nil, "hencedge/params/v%d\x00", version)
	for _, v := range words {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	for i, q := range l.Q {
		b = binary.LittleEndian.AppendUint32(b, q)
		b = binary.LittleEndian.AppendUint32(b, l.PsiQ[i])
	}
	for i, q := range l.P {
		b = binary.LittleEndian.AppendUint32(b, q)
		b = binary.LittleEndian.AppendUint32(b, l.PsiP[i])
	}
	return sha256.Sum256(b)
}
