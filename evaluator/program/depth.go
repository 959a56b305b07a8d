package program

import (
	"math"
	"math/bits"
)

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
	case opCov, opDot, opCast:
		v++
	}
	d[n] = v
	return v
}
