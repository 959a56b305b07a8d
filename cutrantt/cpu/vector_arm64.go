package cpu

import "golang.org/x/sys/cpu"

// vectorCodes are the variants that this machine can run, best first.
func vectorCodes() []*vectorCode {
	if !cpu.ARM64.HasASIMD {
		return nil
	}
	c := *neon
	if !cpu.ARM64.HasASIMDRDM {
		// A core of Armv8.0, such as Cortex-A72, takes two cycles for a product of four
		// lanes: with lazy code these alone would take longer than all that it saves.
		c.lazy = nil
	}
	return []*vectorCode{&c}
}

// neon keeps residues between the levels of a transform as signed numbers (see
// _asm/arm64/passes.go), so what it transforms is in [0, 2q), where liftWide leaves it.
var neon = &vectorCode{
	name: "neon", about: "NEON", index: 0, merged: 3, piece: 16, signed: true,
	pair: (*barrett).signedPair, fill: fillTransposed,
	forward: [4]func(dst, src *uint32, size, first, groups int, t *uint64, q uint32){nil, forward1NEON,
		forward2NEON, forward3NEON},
	inverse: [4]func(dst, src *uint32, size, first, groups int, t *uint64, q uint32){nil, inverse1NEON,
		inverse2NEON, inverse3NEON},
	inverseEnd: [4]func(dst, src *uint32, size, first, groups int, t *uint64, q uint32, scale *uint64){
		nil, inverseEnd1NEON, inverseEnd2NEON, inverseEnd3NEON},
	forwardLast:  [2]func(x *uint32, blocks int, s *uint64, q uint32){forwardLastNEON, forwardLastNEON},
	inverseFirst: [2]func(dst, src *uint32, blocks int, s *uint64, q uint32){inverseFirstNEON, inverseFirstNEON},
	add:          addNEON, sub: subNEON, scale: scaleNEON, subScale: subScaleNEON,
	mul: mulNEON, mulAdd: mulAddNEON, mulSub: mulSubNEON, operandAdd: operandAddNEON,
	tensor: tensorNEON, permute: permuteNEON,
	liftSmall: liftSmallNEON, split: splitNEON, liftWide: liftWideNEON,
	inner: [2]func(dst, x, y *uint32, dstStride, xStride, yStride, yStep, terms, n int, qinv, q uint32){innerNEON,
		innerPairNEON},
	digits: digitsNEON, extend: extendNEON, rounds: roundsNEON, subScaleAdd: subScaleAddNEON,
	lazy: lazyNEON,
}

// lazyNEON has no inverse of its own: its sums would take reductions by products, of
// which the processors do fewer at a time than of the minima that they would save.
var lazyNEON = &lazyCode{
	forward: [2][4]lazyPass{
		{nil, forward1LazyNEON, forward2LazyNEON, forward3LazyNEON},
		{nil, forward1ReducedNEON, forward2ReducedNEON, forward3ReducedNEON},
	},
	forwardLast: [2][2]lazyLast{
		{forwardLastLazyNEON, forwardLastLazyNEON},
		{forwardLastReducedNEON, forwardLastReducedNEON},
	},
	forwardOnly: true,
}

// signedPair is w in [0, q) for signed products: w*2^31/q, rounded, in the low half.
func (b *barrett) signedPair(w uint32) uint64 {
	return uint64(w)<<32 | (uint64(w)<<31+uint64(b.q)/2)/uint64(b.q)
}

// fillTransposed is vectorCode.fill; _asm/arm64/ends.go says where the twiddles are
// used.
func fillTransposed(s []uint64, w []uint32, b int, of func(w uint32) uint64) {
	pair := func(distance, group int) uint64 { return of(twiddle(w, distance, b, group)) }
	s[0], s[1] = pair(16, 0), 0
	s[2], s[3] = pair(8, 0), pair(8, 1)
	for i := range 4 {
		s[4+i] = pair(4, i)
	}
	// Words of one 64-bit entry: the quotient at i, the factor span entries further on.
	set := func(first, span, i int, p uint64) {
		at, shift := first+i/2, 32*(i%2)
		s[at] |= p & 0xffffffff << shift
		s[at+span] |= p >> 32 << shift
	}
	for i := range 8 {
		set(8, 4, i, pair(2, i))
		half, lane := i/4, i%4
		for j := range 2 {
			set(16, 8, 8*half+4*j+lane, pair(1, 2*i+j))
		}
	}
}
