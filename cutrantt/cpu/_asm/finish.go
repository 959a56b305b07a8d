package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// finish is what becomes of a transform e that is the remainder of a division:
// (x - e)*w, plus z where add is set. It reads e from the registers in which the last
// level leaves it, in [0, 3q).
type finish struct {
	g         *gen
	add, far  bool // far: fetch what comes from memory ahead
	dst, x, z Register
	w         twiddle
	q3        vec // 3q
}

// fetched is how far ahead, in bytes: rescaling 57 limbs of 2^16 became 7 % faster, and
// 5 of 2^13 slower by 1 %.
const fetched = 2048

// newFinish reads the arguments.
func (g *gen) newFinish(add, far bool) *finish {
	f := &finish{g: g, add: add, far: far, dst: pointer("dst"), x: pointer("from"), w: g.pair(at(pointer("w"), 0)),
		q3: g.reg()}
	if add {
		f.z = pointer("z")
	}
	VPADDD(g.q, g.q, f.q3)
	VPADDD(g.q, f.q3, f.q3)
	return f
}

// store puts residues e, disp bytes from here, in place.
func (f *finish) store(e vec, disp int) {
	g := f.g
	if f.far {
		PREFETCHT0(at(f.x, fetched+disp))
		PREFETCHT0(at(f.dst, fetched+disp))
		if f.add {
			PREFETCHT0(at(f.z, fetched+disp))
		}
	}
	d := g.op2(VPADDD, g.op2(VPSUBD, g.load(at(f.x, disp)), e), f.q3) // (0, 4q)
	r := g.corr(g.mul(d, f.w), g.q)
	if f.add {
		r = g.corr(g.op2(VPADDD, r, at(f.z, disp)), g.q)
	}
	g.store(r, at(f.dst, disp))
}

// advance goes on to the next residues.
func (f *finish) advance(bytes int) {
	ADDQ(U32(uint32(bytes)), f.dst)
	ADDQ(U32(uint32(bytes)), f.x)
	if f.add {
		ADDQ(U32(uint32(bytes)), f.z)
	}
}

// looseLastButterfly is lastButterfly without the last reductions: [0, 4q) to [0, 3q).
func (g *gen) looseLastButterfly(a, b vec, w twiddle) (_, _ vec) {
	a = g.corr(a, g.q2)
	v := g.corr(g.mul(b, w), g.q)
	return g.op2(VPADDD, a, v), g.op2(VPADDD, g.op2(VPSUBD, a, v), g.q)
}

// looseLazyLastButterfly is lazyLastButterfly without the last correction: to
// [0, q + q/32].
func (g *gen) looseLazyLastButterfly(a, b vec, w twiddle) (_, _ vec) {
	s, d := one(g.lazyButterflies(false))(4, g.op2(VPADDD, a, g.bias), b, w)
	return g.reduceUnsigned(s), g.reduceUnsigned(d)
}

// finishLast is forwardLast, and its lazy forms, with the division at their end.
func (g *gen) finishLast(e ends) {
	args := "x *uint32, blocks int, s *uint64, " + e.arg() + "dst, from, z *uint32, w *uint64, "
	for _, add := range []bool{false, true} {
		name, doc := "finish"+e.name(), "(from - e) * w"
		if add {
			name, doc = "finishAdd"+e.name(), "(from - e) * w + z"
		}
		doc = "sets dst to " + doc + ` with the Shoup pair w, where e is what forwardLast
makes of x, which stays as it is. Residues of from and z are in [0, q).`
		g.function(name, args+"q uint32", doc)
		g.lastLevels(e, VPMULUDQ, g.butterflies, g.looseLastButterfly, g.newFinish(add, e.compact))
		for _, reduced := range []bool{false, true} {
			name, of := lazyName(name, reduced)
			g.lazyFunction(name, args+lazyArg, doc+" The twiddles\nare those of lazyPair. "+of)
			g.bias = g.broadcastAt(at(pointer("m"), 8))
			g.lastLevels(e, VPMULDQ, g.lazyButterflies(reduced), g.looseLazyLastButterfly, g.newFinish(add, e.compact))
		}
	}
}
