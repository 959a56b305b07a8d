package cpu

// Functions of lazy code: those of vectorCode but for the modulus, for which they take
// lazyPrime.words.
type (
	lazyPass         = func(dst, src *uint32, size, first, groups int, t *uint64, m *uint32)
	lazyEnd          = func(dst, src *uint32, size, first, groups int, t *uint64, m *uint32, scale *uint64)
	lazyLast         = func(x *uint32, blocks int, s *uint64, m *uint32)
	lazyFirst        = func(dst, src *uint32, blocks int, s *uint64, m *uint32)
	lazyCompactLast  = func(x *uint32, blocks int, s, c *uint64, m *uint32)
	lazyCompactFirst = func(dst, src *uint32, blocks int, s, c *uint64, m *uint32)
)

// lazyCode is the transform for primes between minLazyQ and maxLazyQ, without
// corrections in its butterflies: residues have a sign, and grow from level to level.
// See _asm/lazy.go.
type lazyCode struct {
	// [0] reduces nothing, [1] what its first level does not multiply.
	forward     [2][4]lazyPass
	forwardLast [2][2]lazyLast
	compactLast [2]lazyCompactLast // where vectorCode.compact is not nil
	// [0] is for primes below 2^26, [1] for those below 2^28.
	inverse      [2][4]lazyPass
	inverseEnd   [2][4]lazyEnd
	inverseFirst [2][2]lazyFirst
	compactFirst [2]lazyCompactFirst // where vectorCode.compact is not nil
	// forwardOnly: the inverse and the twiddles are those for all primes.
	forwardOnly bool
}

// The primes of lazy code. Below, reductions would not be precise enough; above, a
// signed residue has too few bits to spare.
const minLazyQ, maxLazyQ = 1 << 23, 1 << 28

// lazyPrime is what lazy code knows about a prime.
type lazyPrime struct {
	words [3]uint32 // q, floor(2^38/q) in the upper half, the largest multiple of q up to 2^31
	limit int       // of residues: |x| < limit*q/4 <= 2^31
	class int       // of the inverse
}

// lazyPrime is nil for primes that take the other code.
func (m *modulus) lazyPrime(c *vectorCode) *lazyPrime {
	if c.lazy == nil || m.q <= minLazyQ || m.q >= maxLazyQ {
		return nil
	}
	many := uint32(1<<31) / m.q
	p := &lazyPrime{words: [3]uint32{m.q, uint32(1<<38/uint64(m.q)) << 16, many * m.q}, limit: 4 * int(many)}
	if m.q > 1<<26 {
		p.class = 1
	}
	return p
}

// lazyPair is w in [0, q) as a twiddle of lazy code: the residue v in (-q/2, q/2) in
// the high half, v*2^32/q, rounded, in the low one; both with a sign.
func (m *modulus) lazyPair(w uint32) uint64 {
	v, q := int64(w), int64(m.q)
	if v > q/2 {
		v -= q
	}
	quotient := (2*v<<32 + q) / (2 * q)
	if 2*v<<32+q < 0 && (2*v<<32+q)%(2*q) != 0 {
		quotient-- // rounds down
	}
	return uint64(uint32(v))<<32 | uint64(uint32(quotient))
}

// The bounds of lazy residues, in quarters of q: of what forward takes (4q, with
// either sign), of what a reduction leaves, and what a level adds.
const lazyInput, lazyReduced, lazyStep = 16, 5, 5

// reductions tells which passes of a plan reduce first, as few as the limit allows. The
// last five levels are the last pass; the residues that they hold before they reduce
// to [0, q) are within the limit too.
func (p *lazyPrime) reductions(ks []int) (at [7]bool) {
	bound := lazyInput
	for i := range len(ks) + 1 {
		k := 5
		if i < len(ks) {
			k = ks[i]
		}
		if at[i] = bound+k*lazyStep > p.limit; at[i] {
			bound = lazyReduced
		}
		bound += k * lazyStep
	}
	return at
}
