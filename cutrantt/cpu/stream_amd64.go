package cpu

// Streams of twiddles as _asm/ends.go and _asm/narrow.go say.

// pairOrder is the order of the four pairs of neighbours of a group of eight in the
// last level.
var pairOrder = [4]int{0, 2, 1, 3}

// The orders of the groups of eight in streams.
var (
	avx512Order = [4]int{0, 2, 1, 3}
	avx2Order   = [4]int{0, 1, 2, 3}
)

// fillStream is vectorCode.fill with the groups of eight in the given order.
func fillStream(s []uint64, w []uint32, b int, groups [4]int, pair func(w uint32) uint64) {
	fillBlock(s, w, b, groups, pair)
	for i, g := range groups {
		for j := range 2 {
			s[8+2*i+j] = pair(twiddle(w, 2, b, 2*g+j))
		}
		for j, h := range pairOrder {
			setLane(s[16:], 4*i+j, pair(twiddle(w, 1, b, 4*g+h)))
		}
	}
}

// fillBlock sets the twiddles of the levels before the last two: words 0 and 2 to 7.
func fillBlock(s []uint64, w []uint32, b int, groups [4]int, pair func(w uint32) uint64) {
	s[0] = pair(twiddle(w, 16, b, 0))
	for i := range 2 {
		s[2+i] = pair(twiddle(w, 8, b, i))
	}
	for i, g := range groups {
		s[4+i] = pair(twiddle(w, 4, b, g))
	}
}

// setLane sets the twiddle of a lane where quotients and factors stand apart.
func setLane(s []uint64, lane int, p uint64) {
	at, shift := lane/2, 32*(lane%2)
	s[at] |= p & 0xffffffff << shift
	s[at+8] |= p >> 32 << shift
}

// compactFill is compactCode.fill for an order of the groups.
func compactFill(groups [4]int) func(w []uint32, pair func(w uint32) uint64) (stream, c []uint64) {
	return func(w []uint32, pair func(w uint32) uint64) (stream, c []uint64) { return fillCompact(w, groups, pair) }
}

// fillCompact is compactCode.fill with the groups of eight in the given order: of each
// block the 8 words of fillBlock, the second of them its factor for distance 1, and then
// the factor for distance 2. The constants are those of the lanes: for distance 2 pairs
// and the factors in both halves again, for distance 1 as setLane has them.
func fillCompact(w []uint32, groups [4]int, pair func(w uint32) uint64) (stream, c []uint64) {
	blocks := len(w) / vectorBlock
	stream, c = make([]uint64, compactWords*blocks), make([]uint64, 32)
	for b := range blocks {
		s := stream[compactWords*b:]
		fillBlock(s, w, b, groups, pair)
		s[1], s[8] = pair(twiddle(w, 1, b, 0)), pair(twiddle(w, 2, b, 0))
	}
	for i, g := range groups {
		for j := range 2 {
			p := pair(w[2*g+j])
			c[2*i+j], c[8+2*i+j] = p, p>>32<<32|p>>32
		}
		for j, h := range pairOrder {
			setLane(c[16:], 4*i+j, pair(w[4*g+h]))
		}
	}
	return stream, c
}
