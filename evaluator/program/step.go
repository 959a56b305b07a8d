package program

import (
	"fmt"

	"github.com/expr-lang/expr/ast"
)

// stepOp is an operation on ciphertexts.
type stepOp uint8

const (
	stepInput      stepOp = iota // a ciphertext that arrives
	stepMulInt                   // a times the integer k, read at another scale
	stepAdd                      // a + b
	stepSub                      // a - b
	stepMul                      // a * b, relinearised
	stepMulPlain                 // a times plain slot values
	stepMulRescale               // a * b, relinearised and rescaled at once
	stepRescale                  // a with the level's primes divided out
	stepDrop                     // a at a lower level
	stepRotate                   // slot j gets slot j+k
	stepSum                      // slot j gets the sum of k slots from j on, each by slots after the last
	stepGather                   // the sum of a over the windows of many devices
	stepBootstrap                // a at more levels
	stepNote                     // a, of which more is known; only while planning
)

var stepNames = [...]string{"input", "scale", "add", "subtract", "multiply", "multiply-plain", "multiply-rescale",
	"rescale", "drop-level", "rotate", "sum-slots",
	"add-devices", "bootstrap", "note"}

func (o stepOp) String() string { return stepNames[o] }

// plain are slot values that a ciphertext is multiplied by: values in slots
// first, first+1, ... of each place and zero elsewhere, encoded at scale. Equal keys have equal values
// in equal slots.
type plain struct {
	key    string
	values []float64
	first  int
	scale  float64
}

// step is one operation and what is known of its result.
type step struct {
	op    stepOp
	a, b  int     // operands, indices of earlier steps
	k     float64 // an integer: a factor, a rotation or a count; of bootstrapping: values over k are at most 1
	by    int     // of a sum: the distance of the slots; 0: 1
	plain *plain
	in    Input

	level int
	scale float64
	mag   float64   // bound on the magnitude of every slot
	dev   deviation // error of a slot
	depth int       // multiplications one after another
	roots set       // noisy steps that the result depends on
	at    ast.Node  // the part of the program that needs it
}

// stepKey identifies a step, so that equal ones are made once.
type stepKey struct {
	op    stepOp
	a, b  int
	k     float64
	by    int
	level int
	scale float64
	in    Input
	plain string
}

func (s *step) key() stepKey {
	k := stepKey{op: s.op, a: s.a, b: s.b, k: s.k, by: s.by, level: s.level, scale: s.scale, in: s.in}
	if s.plain != nil {
		k.plain = s.plain.key
	}
	return k
}

// set is a set of small integers.
type set []uint64

func (b set) with(i int) set {
	out := make(set, max(len(b), i/64+1))
	copy(out, b)
	out[i/64] |= 1 << (i % 64)
	return out
}

func (b set) or(c set) set {
	out := make(set, max(len(b), len(c)))
	copy(out, b)
	for i, w := range c {
		out[i] |= w
	}
	return out
}

func (b set) meets(c set) bool {
	for i := range min(len(b), len(c)) {
		if b[i]&c[i] != 0 {
			return true
		}
	}
	return false
}

// rotations lists what a step rotates by.
func (s *step) rotations() []int {
	switch s.op {
	case stepRotate:
		return []int{int(s.k)}
	case stepSum:
		var ks []int
		for i := 1; i < int(s.k); i <<= 1 {
			ks = append(ks, i*max(s.by, 1))
		}
		return ks
	}
	return nil
}

// switches returns the number of key switches of a step.
func (s *step) switches() int {
	if s.op == stepMul || s.op == stepMulRescale {
		return 1
	}
	return len(s.rotations())
}

func (s *step) String() string {
	switch s.op {
	case stepInput:
		return fmt.Sprintf("input %s", s.in)
	case stepMulInt:
		return fmt.Sprintf("scale #%d by %.12g", s.a, s.k)
	case stepAdd, stepSub, stepMul, stepMulRescale:
		return fmt.Sprintf("%s #%d #%d", s.op, s.a, s.b)
	case stepRotate:
		return fmt.Sprintf("rotate #%d by %.0f", s.a, s.k)
	case stepSum:
		if s.by > 0 {
			return fmt.Sprintf("sum-slots #%d over %.0f places", s.a, s.k)
		}
		return fmt.Sprintf("sum-slots #%d over %.0f", s.a, s.k)
	}
	return fmt.Sprintf("%s #%d", s.op, s.a)
}

// operands returns the steps that a step works on.
func (s *step) operands() []int {
	switch s.op {
	case stepInput:
		return nil
	case stepAdd, stepSub, stepMul, stepMulRescale:
		return []int{s.a, s.b}
	}
	return []int{s.a}
}

// fuse replaces a product that is only rescaled by the one operation for both,
// which is faster and adds no more noise than was counted.
func fuse(steps []step, results []int) {
	uses := make([]int, len(steps))
	for _, w := range results {
		uses[w]++
	}
	for i := range steps {
		for _, a := range steps[i].operands() {
			uses[a]++
		}
	}
	for i := range steps {
		s := &steps[i]
		if m := &steps[s.a]; s.op == stepRescale && m.op == stepMul && uses[s.a] == 1 {
			s.op, s.a, s.b = stepMulRescale, m.a, m.b
		}
	}
}
