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

var avx512 = &vectorCode{
	name: "avx512", about: "AVX-512", index: 0, merged: 3, piece: 32,
	pair:         (*barrett).shoup,
	fill:         func(m *modulus, s []uint64, w []uint32, b int) { fillStream(m, s, w, b, [4]int{0, 2, 1, 3}) },
	forward:      [4]func(dst, src *uint32, size, first, groups int, t *uint64, q uint32){nil, forward1AVX512, forward2AVX512, forward3AVX512},
	inverse:      [4]func(dst, src *uint32, size, first, groups int, t *uint64, q uint32){nil, inverse1AVX512, inverse2AVX512, inverse3AVX512},
	inverseEnd:   [4]func(dst, src *uint32, size, first, groups int, t *uint64, q uint32, scale *uint64){nil, inverseEnd1AVX512, inverseEnd2AVX512, inverseEnd3AVX512},
	forwardLast:  [3]func(x *uint32, blocks int, s *uint64, q uint32){forwardLast2AVX512, forwardLast4AVX512, forwardLast4FarAVX512},
	inverseFirst: [3]func(dst, src *uint32, blocks int, s *uint64, q uint32){inverseFirst2AVX512, inverseFirst4AVX512, inverseFirst4FarAVX512},
	add:          addAVX512, sub: subAVX512, scale: scaleAVX512, subScale: subScaleAVX512,
	mul: mulAVX512, mulAdd: mulAddAVX512, mulSub: mulSubAVX512, operandAdd: operandAddAVX512,
	tensor: tensorAVX512, permute: permuteAVX512,
	liftSmall: liftSmallAVX512, split: splitAVX512, liftWide: liftWideAVX512,
	inner:  [2]func(dst, x, y *uint32, dstStride, xStride, yStride, yStep, terms, n int, qinv, q uint32){innerAVX512, innerPairAVX512},
	digits: digitsAVX512, extend: extendAVX512,
}

var avx2 = &vectorCode{
	name: "avx2", about: "AVX2", index: 1, merged: 2, piece: 8,
	pair:         (*barrett).shoup,
	fill:         func(m *modulus, s []uint64, w []uint32, b int) { fillStream(m, s, w, b, [4]int{0, 1, 2, 3}) },
	forward:      [4]func(dst, src *uint32, size, first, groups int, t *uint64, q uint32){nil, forward1AVX2, forward2AVX2},
	inverse:      [4]func(dst, src *uint32, size, first, groups int, t *uint64, q uint32){nil, inverse1AVX2, inverse2AVX2},
	inverseEnd:   [4]func(dst, src *uint32, size, first, groups int, t *uint64, q uint32, scale *uint64){nil, inverseEnd1AVX2, inverseEnd2AVX2},
	forwardLast:  [3]func(x *uint32, blocks int, s *uint64, q uint32){forwardLastAVX2, forwardLastAVX2, forwardLastAVX2},
	inverseFirst: [3]func(dst, src *uint32, blocks int, s *uint64, q uint32){inverseFirstAVX2, inverseFirstAVX2, inverseFirstAVX2},
	add:          addAVX2, sub: subAVX2, scale: scaleAVX2, subScale: subScaleAVX2,
	mul: mulAVX2, mulAdd: mulAddAVX2, mulSub: mulSubAVX2, operandAdd: operandAddAVX2,
	permute:   permuteBlocks,
	liftSmall: liftSmallAVX2, split: splitWide, liftWide: liftWideAVX2,
	inner:  [2]func(dst, x, y *uint32, dstStride, xStride, yStride, yStep, terms, n int, qinv, q uint32){innerAVX2, innerPairAVX2},
	digits: digitsAVX2, extend: extendAVX2,
}

// pairOrder is the order of the four pairs of neighbours of a group of eight in the
// last level.
var pairOrder = [4]int{0, 2, 1, 3}

// fillStream is vectorCode.fill with the groups of eight in the given order; _asm/ends.go
// and _asm/narrow.go say where they are used.
func fillStream(m *modulus, s []uint64, w []uint32, b int, groups [4]int) {
	level := func(distance, group int) uint32 { return twiddle(w, distance, b, group) }
	s[0], s[1] = m.shoup(level(16, 0)), 0
	s[2], s[3] = m.shoup(level(8, 0)), m.shoup(level(8, 1))
	for i, g := range groups {
		s[4+i] = m.shoup(level(4, g))
		s[8+2*i], s[9+2*i] = m.shoup(level(2, 2*g)), m.shoup(level(2, 2*g+1))
		for j, h := range pairOrder {
			p := m.shoup(level(1, 4*g+h))
			at, shift := 16+(4*i+j)/2, 32*(j%2)
			s[at] |= p & 0xffffffff << shift
			s[at+8] |= p >> 32 << shift
		}
	}
}
