package main

// Packing and unpacking of residues for package henc/internal/wire, for four pairs a, b, c
// and d at a time: a and c, b and d are the lanes of two vectors. The 2w bits of a and b,
// a string, are within 16 bytes from the byte where they begin, and so are those of c and
// d. If w is a multiple of 4 every string begins with the lowest bit of a byte, and there
// is less to do: the functions called aligned.

var (
	shift64 = same("ushl", 0x6ee04400, "2d")
	notLess = same("cmhs", 0x6ea03c00, "4s")
	maximum = same("umax", 0x6ea06400, "4s")
)

func packing(g *file) {
	for _, aligned := range []bool{true, false} {
		pack(g, aligned)
		unpack(g, aligned)
	}
}

// loadPairs loads v and the register after it, whose 64-bit lanes take turns in memory;
// storeWords stores them, 32-bit lanes taking turns. p moves on.
func (f *function) loadPairs(v vreg, p xreg) {
	f.word(0x4cdf8c00|uint32(p)<<5|uint32(v), "ld2 {%v.2d, %v.2d}, [x%d],#32", v, v+1, int(p))
}

func (f *function) storeWords(v vreg, p xreg) {
	f.word(0x4c9f8800|uint32(p)<<5|uint32(v), "st2 {%v.4s, %v.4s}, [x%d],#32", v, v+1, int(p))
}

// shifts loads the vectors of shifts of half h: for a and c, and for b and d, those of
// the lower and of the upper word.
func (f *function) shifts(t xreg, h int) [4]vreg {
	v := [4]vreg(f.takeAll(4))
	f.loadPair(v[0], v[1], t, 64*h)
	f.loadPair(v[2], v[3], t, 64*h+32)
	return v
}

// places are the bytes of a group where its strings begin, the first in byte 0.
func (f *function) places(w xreg) (at [4]xreg) {
	for i := 1; i < 4; i++ {
		at[i] = f.scalar()
	}
	f.line("LSR $2, %v, %v", w, at[1])
	f.line("LSR $1, %v, %v", w, at[2])
	f.line("ADD %v<<1, %v, %v", w, w, at[3])
	f.line("LSR $2, %v", at[3])
	return at
}

// pack: a pair x + q*y is x + 2^32*y, as it is in memory, less (2^32-q)*y.
func pack(g *file, aligned bool) {
	name, doc := "pack", "is code.pack."
	if aligned {
		name, doc = "packAligned", "is code.packAligned."
	}
	f := g.new(name, "dst *byte, x *uint32, groups int, w, q uint64, t *uint64", doc)
	dst, x, groups := f.param("dst"), f.param("x"), f.param("groups")
	w, c, t := f.param("w"), f.param("q"), f.param("t")
	less := f.take()
	f.line("NEG %v, %v", c, c)
	f.broadcast(less, c)
	at := f.places(w)
	var by [2][4]vreg
	var last [4]vreg // the byte in which string i-1 ends, if string i begins in it
	for h := range by {
		if aligned && h == 1 {
			by[1] = by[0]
			break
		}
		by[h] = f.shifts(t, h)
	}
	if !aligned {
		for i := 1; i < 4; i++ {
			last[i] = f.take()
			f.load(last[i], t, 128+16*(i-1))
		}
	}
	pairs := f.block(2)
	strings := f.takeAll(2)
	a, b, y, z, carry := pairs, pairs+1, f.take(), f.take(), f.take()
	f.loop(groups, 1, func() {
		for h := range 2 {
			f.loadPairs(pairs, x)
			f.op(uzp2, y, a, b)
			f.op(mlsl, a, y, less)
			f.op(mlsl2, b, y, less)
			low, high := y, z
			f.op(shift64, low, b, by[h][2])
			f.op(shift64, high, b, by[h][3])
			if aligned {
				f.op(or, low, low, a)
			} else {
				f.op(shift64, b, a, by[h][1])
				f.op(shift64, a, a, by[h][0])
				f.op(or, low, low, a)
				f.op(or, high, high, b)
				if h == 1 {
					f.table(carry, strings[1], last[2])
				}
			}
			f.op(low64, strings[0], low, high)
			f.op(high64, strings[1], low, high)
			if !aligned {
				if h == 1 {
					f.op(or, strings[0], strings[0], carry)
				}
				f.table(carry, strings[0], last[2*h+1])
				f.op(or, strings[1], strings[1], carry)
			}
			for i, v := range strings {
				if h+i == 0 {
					f.store(v, dst, 0)
				} else {
					f.storeAt(v, dst, at[2*h+i])
				}
			}
		}
		f.line("ADD %v, %v", w, dst)
	})
}

// unpack: the residues are quotient and remainder of a division by q, after A. Menezes,
// P. van Oorschot and S. Vanstone, Handbook of Applied Cryptography, algorithm 14.42,
// with the radix 2: the quotient of the upper 31 bits of a pair is at most one too
// small for pairs below q^2. For every pair the remainder is below 2^32, so pair =
// quotient*q + remainder holds, and the pair is below q^2 if both are below q.
func unpack(g *file, aligned bool) {
	name, doc := "unpack", "is code.unpack."
	if aligned {
		name, doc = "unpackAligned", "is code.unpackAligned."
	}
	f := g.new(name, "dst *uint32, src *byte, groups int, w, q, mu uint64, t *uint64", doc)
	dst, src, groups := f.param("dst"), f.param("src"), f.param("groups")
	w, modulus, factor, t := f.param("w"), f.param("q"), f.param("mu"), f.param("t")
	q, mu, mask, down, most := f.take(), f.take(), f.take(), f.take(), f.take()
	f.broadcast(q, modulus)
	f.broadcast(mu, factor)
	f.loadPair(mask, down, t, 128)
	f.zero(most)
	at, results := f.places(w), f.block(4)
	var by [2][4]vreg
	for h := range by {
		if aligned && h == 1 {
			by[1] = by[0]
			break
		}
		by[h] = f.shifts(t, h)
	}
	f.loop(groups, 1, func() {
		f.each(2, func(h int) {
			r, quotient := results+vreg(2*h), results+vreg(2*h)+1
			s, u, low, high, v := f.take(), f.take(), f.take(), f.take(), f.take()
			if h == 0 {
				f.load(s, src, 0)
			} else {
				f.loadAt(s, src, at[2])
			}
			f.loadAt(u, src, at[2*h+1])
			f.op(low64, low, s, u)
			f.op(high64, high, s, u)
			a, b := s, v
			if aligned {
				f.op(and, a, low, mask)
			} else {
				f.op(shift64, a, low, by[h][0])
				f.op(shift64, u, high, by[h][1])
				f.op(or, a, a, u)
				f.op(and, a, a, mask)
			}
			f.op(shift64, b, low, by[h][2])
			f.op(shift64, u, high, by[h][3])
			f.op(or, b, b, u)
			f.op(and, b, b, mask)
			f.op(shift64, low, a, down)
			f.op(shift64, high, b, down)
			f.op(trn1, u, low, high)
			f.op(trn1, r, a, b)
			f.op(mull, low, u, mu)
			f.op(mull2, high, u, mu)
			f.op(uzp2, quotient, low, high)
			f.op(mls, r, quotient, q)
			f.op(notLess, low, r, q)
			f.op(sub, high, r, q)
			f.op(minimum, r, r, high)
			f.op(sub, quotient, quotient, low)
			f.op(maximum, most, most, r)
			f.op(maximum, most, most, quotient)
			f.storeWords(r, dst)
		})
		f.line("ADD %v, %v", w, src)
	})
	f.largest(groups, most)
	f.advance(modulus, -1)
	f.line("SUB %v, %v", groups, modulus)
	f.line("LSR $63, %v", modulus)
	f.returns("bad", "uint64", modulus)
}
