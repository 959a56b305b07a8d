package program

import (
	"math"
	"math/bits"
)

// evaluator plans the nodes of a graph.
type evaluator struct {
	*planner
	done   map[*node]val
	depths depths
	packs  *packs // of a set; nil for a program alone
	fleet  *fleet // of a program across devices; nil for others
}

// val is a planned value: A times the value of step w, plus B, in the slots
// that it uses: sh.n slots from pos on, or the slot pos alone. In all other
// slots of a window's blocks (from n to stride) the ciphertext is zero, unless
// full is set; elsewhere it holds anything below the step's magnitude.
type val struct {
	a      float64
	b      double
	w      int
	sh     shape
	pos    int
	full   bool
	lo, hi float64 // bounds of the value, in natural units
}

// bare returns the value of the ciphertext alone.
func (x val) bare() val { return val{a: 1, w: x.w, sh: x.sh, pos: x.pos, full: x.full} }

// valTerm is coef*v.
type valTerm struct {
	coef float64
	v    val
}

// depths are the multiplications one after another that nodes need.
type depths map[*node]int

func (d depths) of(n *node) int {
	if v, ok := d[n]; ok {
		return v
	}
	deepest, leaves := 0, 0.0
	for i, a := range n.args {
		k := d.of(a)
		deepest = max(deepest, k)
		if n.op == opProd {
			leaves += float64(n.exps[i]) * math.Exp2(float64(k))
		}
	}
	v := deepest
	switch n.op {
	case opProd: // the shallowest factors are multiplied first
		v = int(math.Ceil(math.Log2(leaves)))
	case opPoly:
		v += bits.Len(uint(len(n.coef) - 2))
	case opCov, opDot, opCast, opFleetVar:
		v++
	}
	d[n] = v
	return v
}

// packs shares sums over windows of the same shape: their summands are moved to free blocks
// of slots, added, and summed at once. A first pass over the programs finds them. They are
// moved before the second pass.
type packs struct {
	limit  int // summands that may share one sum; 1: none do
	wanted []packing
	moved  map[summand]placed

	quiet  map[int]quiet
	blocks map[summand][]bool
}

func newPacks(limit int) *packs {
	return &packs{limit: limit, quiet: map[int]quiet{}, blocks: map[summand][]bool{}}
}

// summand is a step whose blocks are summed, each over its n samples.
type summand struct {
	step int
	sh   shape
}

// packing is a summand, and what decides which others it can share a sum with.
type packing struct {
	summand
	inputs set    // the input steps that it depends on
	blocks []bool // of stride slots that hold more than the noise of quiet
	quiet  quiet
}

// placed is where a summand lies: slot j of it is slot j - shift of step.
type placed struct{ step, shift int }

// quiet is the error of a step in slots where all its operands hold zero. After products it
// is far smaller than elsewhere, because the noise is multiplied by zero.
type quiet struct {
	fresh deviation // noise that the steps of roots added
	roots set
	tied  deviation // error that may depend on anything else
}

func (q quiet) all() deviation { return q.fresh.with(q.tied) }

// double is the unevaluated sum of two float64, the second at most half a unit in the
// last place of the first: about 106 bits (Dekker, "A floating-point technique for
// extending the available precision", Numerische Mathematik 18, 1971). Offsets are kept
// in it, because they may be large and cancel: x*y - z*w for values around 10^9 has
// parts of 10^18, where float64 has steps of 128.
type double struct{ hi, lo float64 }

func exactly(x float64) double { return double{x, 0} }

// value returns x rounded to float64.
func (x double) value() float64 { return x.hi }

func (x double) plus(y double) double {
	s := x.hi + y.hi
	t := s - x.hi
	return normal(s, (x.hi-(s-t))+(y.hi-t)+(x.lo+y.lo))
}

func (x double) times(y double) double {
	p := x.hi * y.hi
	return normal(p, math.FMA(x.hi, y.hi, -p)+(x.hi*y.lo+x.lo*y.hi))
}

// normal returns s+e for e much smaller than s. What is not finite has no second part.
func normal(s, e float64) double {
	hi := s + e
	if !finite(hi) {
		return double{hi: s}
	}
	return double{hi, e - (hi - s)}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
