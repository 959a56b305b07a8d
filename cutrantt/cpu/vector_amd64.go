package cpu

import "golang.org/x/sys/cpu"

//go:generate go run -C _asm . -out ../zvector_amd64.s -stubs ../zvector_amd64.go -pkg cpu

// vectorCodes are the variants that this machine can run, best first.
func vectorCodes() (have []*vectorCode) {
	if x := &cpu.X86; x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL {
		have = append(have, avx512)
	}
	if cpu.X86.HasAVX2 {
		have = append(have, avx2)
	}
	return have
}

// Compact twiddles take 144 KiB a limb at 2^16 instead of 512 KiB, for 14 more operations
// on a block of 32. There the tables of all limbs fit in the third-level cache, where
// they came from memory; with AVX-512 at 2^15 they leave room there for keys, but AVX2
// is slower with them.
const compactAVX512, compactAVX2 = 1 << 15, 1 << 16

var avx512 = &vectorCode{
	name: "avx512", about: "AVX-512", index: 0, merged: 3, piece: 32,
	pair: (*barrett).shoup,
	fill: func(s []uint64, w []uint32, b int, pair func(w uint32) uint64) {
		fillStream(s, w, b, avx512Order, pair)
	},
	forward: [4]func(dst, src *uint32, size, first, groups int, t *uint64, q uint32){nil, forward1AVX512,
		forward2AVX512, forward3AVX512},
	inverse: [4]func(dst, src *uint32, size, first, groups int, t *uint64, q uint32){nil, inverse1AVX512,
		inverse2AVX512, inverse3AVX512},
	inverseEnd: [4]func(dst, src *uint32, size, first, groups int, t *uint64, q uint32, scale *uint64){
		nil, inverseEnd1AVX512, inverseEnd2AVX512, inverseEnd3AVX512},
	forwardLast:  [2]func(x *uint32, blocks int, s *uint64, q uint32){forwardLast2AVX512, forwardLast4AVX512},
	inverseFirst: [2]func(dst, src *uint32, blocks int, s *uint64, q uint32){inverseFirst2AVX512, inverseFirst4AVX512},
	compact: &compactCode{
		compactAVX512, compactFill(avx512Order), forwardLastCompactAVX512, inverseFirstCompactAVX512,
	},
	finish: finishAVX512,
	lazy:   lazyAVX512,
	add:    addAVX512, sub: subAVX512, scale: scaleAVX512, subScale: subScaleAVX512,
	mul: mulAVX512, mulAdd: mulAddAVX512, mulSub: mulSubAVX512, operandAdd: operandAddAVX512,
	tensor: tensorAVX512, permute: permuteAVX512,
	liftSmall: liftSmallAVX512, split: splitAVX512, liftWide: liftWideAVX512,
	inner: [2]func(dst, x, y *uint32, dstStride, xStride, yStride, yStep, terms, n int, qinv, q uint32){innerAVX512,
		innerPairAVX512}, innerOwn: innerOwnAVX512,
	digits: digitsAVX512, extend: extendAVX512, rounds: roundsAVX512, subScaleAdd: subScaleAddAVX512,
	extendFew: [2]func(dst, y *uint32, stride, n int, v *uint32, c *uint64, q uint32){extendFew1AVX512,
		extendFew2AVX512},
	extendMany: [3]func(dst, y *uint32, dstStride, stride, limbs, n int, v *uint32, c *uint64, cStride int, q uint32){
		extendMany2AVX512, extendMany3AVX512, extendMany4AVX512},
}

var avx2 = &vectorCode{
	name: "avx2", about: "AVX2", index: 1, merged: 2, piece: 8,
	pair: (*barrett).shoup,
	fill: func(s []uint64, w []uint32, b int, pair func(w uint32) uint64) {
		fillStream(s, w, b, avx2Order, pair)
	},
	forward: [4]func(dst, src *uint32, size, first, groups int, t *uint64, q uint32){
		nil, forward1AVX2, forward2AVX2},
	inverse: [4]func(dst, src *uint32, size, first, groups int, t *uint64, q uint32){
		nil, inverse1AVX2, inverse2AVX2},
	inverseEnd: [4]func(dst, src *uint32, size, first, groups int, t *uint64, q uint32, scale *uint64){
		nil, inverseEnd1AVX2, inverseEnd2AVX2},
	forwardLast:  [2]func(x *uint32, blocks int, s *uint64, q uint32){forwardLastAVX2, forwardLastAVX2},
	inverseFirst: [2]func(dst, src *uint32, blocks int, s *uint64, q uint32){inverseFirstAVX2, inverseFirstAVX2},
	compact:      &compactCode{compactAVX2, compactFill(avx2Order), forwardLastCompactAVX2, inverseFirstCompactAVX2},
	lazy:         lazyAVX2,
	add:          addAVX2, sub: subAVX2, scale: scaleAVX2, subScale: subScaleAVX2,
	mul: mulAVX2, mulAdd: mulAddAVX2, mulSub: mulSubAVX2, operandAdd: operandAddAVX2,
	permute:   permuteAVX2,
	liftSmall: liftSmallAVX2, split: splitWide, liftWide: liftWideAVX2,
	inner: [2]func(dst, x, y *uint32, dstStride, xStride, yStride, yStep, terms, n int, qinv, q uint32){innerAVX2,
		innerPairAVX2}, innerOwn: innerOwnAVX2,
	digits: digitsAVX2, extend: extendAVX2, rounds: roundsAVX2, subScaleAdd: subScaleAddAVX2,
	extendFew: [2]func(dst, y *uint32, stride, n int, v *uint32, c *uint64, q uint32){extendFew1AVX2, extendFew2AVX2},
}

var finishAVX512 = &finishCode{
	last:    [2]finishLast{finish4AVX512, finishAdd4AVX512},
	compact: [2]finishCompact{finishCompactAVX512, finishAddCompactAVX512},
	lazy: [2][2]finishLazy{
		{finish4LazyAVX512, finish4ReducedAVX512},
		{finishAdd4LazyAVX512, finishAdd4ReducedAVX512},
	},
	lazyCompact: [2][2]finishLazyCompact{
		{finishCompactLazyAVX512, finishCompactReducedAVX512},
		{finishAddCompactLazyAVX512, finishAddCompactReducedAVX512},
	},
}

var lazyAVX512 = &lazyCode{
	forward: [2][4]lazyPass{
		{nil, forward1LazyAVX512, forward2LazyAVX512, forward3LazyAVX512},
		{nil, forward1ReducedAVX512, forward2ReducedAVX512, forward3ReducedAVX512},
	},
	forwardLast: [2][2]lazyLast{
		{forwardLast2LazyAVX512, forwardLast4LazyAVX512},
		{forwardLast2ReducedAVX512, forwardLast4ReducedAVX512},
	},
	compactLast: [2]lazyCompactLast{forwardLastCompactLazyAVX512, forwardLastCompactReducedAVX512},
	inverse: [2][4]lazyPass{
		{nil, inverse1Lazy26AVX512, inverse2Lazy26AVX512, inverse3Lazy26AVX512},
		{nil, inverse1Lazy28AVX512, inverse2Lazy28AVX512, inverse3Lazy28AVX512},
	},
	inverseEnd: [2][4]lazyEnd{
		{nil, inverseEnd1Lazy26AVX512, inverseEnd2Lazy26AVX512, inverseEnd3Lazy26AVX512},
		{nil, inverseEnd1Lazy28AVX512, inverseEnd2Lazy28AVX512, inverseEnd3Lazy28AVX512},
	},
	inverseFirst: [2][2]lazyFirst{
		{inverseFirst2Lazy26AVX512, inverseFirst4Lazy26AVX512},
		{inverseFirst2Lazy28AVX512, inverseFirst4Lazy28AVX512},
	},
	compactFirst: [2]lazyCompactFirst{inverseFirstCompactLazy26AVX512, inverseFirstCompactLazy28AVX512},
}

var lazyAVX2 = &lazyCode{
	forward: [2][4]lazyPass{
		{nil, forward1LazyAVX2, forward2LazyAVX2},
		{nil, forward1ReducedAVX2, forward2ReducedAVX2},
	},
	forwardLast: [2][2]lazyLast{
		{forwardLastLazyAVX2, forwardLastLazyAVX2},
		{forwardLastReducedAVX2, forwardLastReducedAVX2},
	},
	compactLast: [2]lazyCompactLast{forwardLastCompactLazyAVX2, forwardLastCompactReducedAVX2},
	inverse: [2][4]lazyPass{
		{nil, inverse1Lazy26AVX2, inverse2Lazy26AVX2},
		{nil, inverse1Lazy28AVX2, inverse2Lazy28AVX2},
	},
	inverseEnd: [2][4]lazyEnd{
		{nil, inverseEnd1Lazy26AVX2, inverseEnd2Lazy26AVX2},
		{nil, inverseEnd1Lazy28AVX2, inverseEnd2Lazy28AVX2},
	},
	inverseFirst: [2][2]lazyFirst{
		{inverseFirstLazy26AVX2, inverseFirstLazy26AVX2},
		{inverseFirstLazy28AVX2, inverseFirstLazy28AVX2},
	},
	compactFirst: [2]lazyCompactFirst{inverseFirstCompactLazy26AVX2, inverseFirstCompactLazy28AVX2},
}
