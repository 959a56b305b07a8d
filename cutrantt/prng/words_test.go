package prng

// words fills dst with words start, start+1, ... of stream (seed, label,
// index, attempt). A stream has 2^36 words; start and len(dst) stay within it.
// It shows the stream itself, which the samplers only draw from.
func words(dst []uint32, seed *[32]byte, label, index, attempt uint32, start int) {
	if c := selected(); c != generic {
		vectorWords(c, dst, seed, label, index, attempt, start)
		return
	}
	genericWords(dst, seed, label, index, attempt, start)
}

// vectorWords is words by the vector code c.
func vectorWords(c code, dst []uint32, seed *[32]byte, label, index, attempt uint32, start int) {
	var s source
	s.open(seed, label, index, attempt)
	var buf [16 * most]uint32
	s.from(start / 16)
	group := 16 * c.few()
	if skip := start % 16; skip > 0 && len(dst) > 0 {
		c.words(&buf[0], 1, &s)
		dst = dst[copy(dst, buf[skip:group]):]
	}
	if groups := len(dst) / group; groups > 0 {
		c.words(&dst[0], groups, &s)
		dst = dst[groups*group:]
	}
	if len(dst) > 0 {
		c.words(&buf[0], 1, &s)
		copy(dst, buf[:])
	}
	clear(buf[:])
	s.wipe()
}
