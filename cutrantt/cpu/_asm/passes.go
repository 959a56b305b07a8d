package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// merged is the most levels of a pass that the registers hold.
func (g *gen) merged() int {
	if g.narrow() {
		return 2
	}
	return 3
}

// held is the twiddle at m: in registers from now on, or where they are few loaded
// for each use.
func (g *gen) held(m Mem) func() twiddle {
	if !g.narrow() {
		w := g.pair(m)
		return func() twiddle { return w }
	}
	return func() twiddle {
		h := g.reg()
		VPBROADCASTQ(m, h)
		return twiddle{high: h, odd: h, late: func() vec { return g.broadcastAt(m.Offset(4)) }}
	}
}

const passArgs = "dst, src *uint32, size, first, groups int, t *uint64, q uint32"

// pass is the common frame of the passes that merge k levels whose distances are
// whole vectors. A group has 1<<k parts of size residues; its twiddles are those of
// index first (going up or down by step for the next group) of the outermost level,
// two from twice that index of the next level, and so on. body gets the parts of a
// group and w[level][i] and returns the parts.
func (g *gen) pass(k, step int, body func(x []vec, w [][]func() twiddle) []vec) {
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	size, first := Load(Param("size"), GP64()), Load(Param("first"), GP64())
	groups, t := Load(Param("groups"), GP64()), Load(Param("t"), GP64())
	SHLQ(U8(2), size) // bytes
	levels := make([]Register, k)
	for j := range levels {
		levels[j] = GP64()
		MOVQ(first, levels[j])
		SHLQ(U8(3+j), levels[j])
		ADDQ(t, levels[j])
	}
	three, dst4, src4 := Register(size), dst, src
	if k >= 2 {
		three = GP64()
		LEAQ(Mem{Base: size, Index: size, Scale: 2}, three)
	}
	if k >= 3 {
		dst4, src4 = GP64(), GP64()
	}
	label := fmt.Sprintf("pass%d", k)
	Label(label + "group")
	w := make([][]func() twiddle, k)
	for j := range w {
		for i := range 1 << j {
			w[j] = append(w[j], g.held(at(levels[j], 8*i)))
		}
	}
	n := GP64()
	MOVQ(size, n)
	Label(label + "vector")
	if k >= 3 {
		LEAQ(Mem{Base: src, Index: size, Scale: 4}, src4)
		LEAQ(Mem{Base: dst, Index: size, Scale: 4}, dst4)
	}
	var x []vec
	for _, m := range parts(k, src, size, three, src4) {
		x = append(x, g.load(m))
	}
	x = body(x, w)
	for i, m := range parts(k, dst, size, three, dst4) {
		g.store(x[i], m)
	}
	ADDQ(U32(uint32(g.bytes)), src)
	ADDQ(U32(uint32(g.bytes)), dst)
	SUBQ(U32(uint32(g.bytes)), n)
	JNE(LabelRef(label + "vector"))
	// To the next group: over the other parts.
	for _, p := range []Register{src, dst} {
		for range 1<<k - 1 {
			ADDQ(size, p)
		}
	}
	for j := range levels {
		if step > 0 {
			ADDQ(U8(8<<j), levels[j])
		} else {
			SUBQ(U8(8<<j), levels[j])
		}
	}
	DECQ(groups)
	JNE(LabelRef(label + "group"))
	g.end()
}

// butterflies writes butterflies of a level next to each other.
type butterflies[T any] func(level int, a, b []T, w []twiddle) (_, _ []T)

// inLevels writes the levels of a pass in the given order, n butterflies abreast; those
// of group s of level j take twiddle w[j][turn(j, s)].
func inLevels[T any](order []int, turn func(j, s int) int, n int, x []T, w [][]func() twiddle, f butterflies[T]) []T {
	for _, j := range order {
		d := len(x) >> (j + 1) // distance
		var at, group []int
		for s := range 1 << j {
			for i := s * 2 * d; i < s*2*d+d; i++ {
				at, group = append(at, i), append(group, turn(j, s))
			}
		}
		for len(at) > 0 {
			m := min(n, len(at))
			var a, b []T
			var t []twiddle
			for i, k := range at[:m] {
				a, b, t = append(a, x[k]), append(b, x[k+d]), append(t, w[j][group[i]]())
			}
			sums, diffs := f(j, a, b, t)
			for i, k := range at[:m] {
				x[k], x[k+d] = sums[i], diffs[i]
			}
			at, group = at[m:], group[m:]
		}
	}
	return x
}

// levels writes the k levels of a pass of the forward transform.
func (g *gen) levels(k int, x []vec, w [][]func() twiddle, f butterflies[vec]) []vec {
	order := make([]int, k)
	for j := range order {
		order[j] = j
	}
	return inLevels(order, func(_, s int) int { return s }, abreast, x, w, f)
}

// undo writes the levels k-1 down to last of a pass of the inverse, n butterflies
// abreast.
func undo[T any](k, last, n int, x []T, w [][]func() twiddle, f butterflies[T]) []T {
	var order []int
	for j := k - 1; j >= last; j-- {
		order = append(order, j)
	}
	return inLevels(order, func(j, s int) int { return 1<<j - 1 - s }, n, x, w, f)
}

func (g *gen) forwardPasses() {
	for k := 1; k <= g.merged(); k++ {
		g.function(fmt.Sprintf("forward%d", k), passArgs,
			fmt.Sprintf(`is %d levels of the forward transform over groups of %d parts of size
residues, from src to dst, which are equal or apart: [0, 4q) to [0, 4q). The
twiddles of the first group have index first in the outermost level.`, k, 1<<k))
		g.pass(k, 1, func(x []vec, w [][]func() twiddle) []vec {
			return g.levels(k, x, w, g.butterflies)
		})
	}
}

func (g *gen) inversePasses() {
	for k := 1; k <= g.merged(); k++ {
		g.function(fmt.Sprintf("inverse%d", k), passArgs,
			fmt.Sprintf(`undoes forward%d: [0, 2q) to [0, 2q). The twiddles are read backwards: first
is the mirrored index 2m-1-i of group i of m.`, k))
		g.pass(k, -1, func(x []vec, w [][]func() twiddle) []vec {
			return undo(k, 0, abreast, x, w, g.inverseButterflies)
		})
	}
	for k := 1; k <= g.merged(); k++ {
		g.function(fmt.Sprintf("inverseEnd%d", k), passArgs+", scale *uint64",
			fmt.Sprintf(`is inverse%d for the last levels, with one group: [0, 2q) to [0, q). scale is
the pair of factors of the sums and of the differences of the last level.`, k))
		scale := Load(Param("scale"), GP64())
		sum, diff := g.held(at(scale, 0)), g.held(at(scale, 8))
		g.pass(k, -1, func(x []vec, w [][]func() twiddle) []vec {
			undo(k, 1, abreast, x, w, g.inverseButterflies)
			for i := range len(x) / 2 {
				a, b := x[i], x[i+len(x)/2]
				s, d := g.reg(), g.reg()
				VPADDD(a, b, s)
				VPADDD(g.q2, b, d)
				VPSUBD(a, d, d)
				x[i], x[i+len(x)/2] = g.corr(g.mul(s, sum()), g.q), g.corr(g.mul(d, diff()), g.q)
			}
			return x
		})
	}
}
