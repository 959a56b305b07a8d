package program

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/henc"
)

// Set is several programs that run together: one list of steps with a result for each
// program. It is immutable and safe for concurrent use.
//
// A set changes how results are made, never what they are:
//
//   - Every result has the level, scale, A, B, root, slots and promised error that its
//     program has alone. The key holder compiles each approved program alone and compares;
//     it need not know what ran together.
//   - Every result keeps that promise, and its coefficients stay within Circuit.Magnitude.
//   - A result depends on no other windows than its program reads alone.
//
// The slots that a program does not read may hold anything that is computed from the
// windows that it reads, as they do in a result that was made alone.
type Set struct {
	routine  // with one result for each program
	circuits []*Circuit
}

// Fuse plans programs together. What several of them need is computed once. It fails with
// ErrParams if there are none, or if their parameters differ.
func Fuse(circuits ...*Circuit) (*Set, error) {
	if len(circuits) == 0 {
		return nil, fmt.Errorf("%w: a set has at least one program", ErrParams)
	}
	names := make([]string, len(circuits))
	for i, c := range circuits {
		names[i] = c.Name()
		if !c.params.Equal(circuits[0].params) {
			return nil, fmt.Errorf("%w: programs %s and %s are compiled for parameters %s and %s", ErrParams,
				names[0], names[i], circuits[0].params.Name(), c.params.Name())
		}
	}
	s := &Set{circuits: slices.Clone(circuits)}
	s.name, s.params = "programs "+strings.Join(names, ", "), circuits[0].params
	s.merge()
	return s, nil
}

// merge takes the steps of every program, equal ones once. The results are those of the
// programs alone, bit for bit.
func (s *Set) merge() {
	memo := map[stepKey]int{}
	for _, c := range s.circuits {
		to := make([]int, len(c.steps))
		for i := range c.steps {
			st := c.steps[i]
			switch len(st.operands()) {
			case 1:
				st.a = to[st.a]
			case 2:
				st.a, st.b = to[st.a], to[st.b]
			}
			at, ok := memo[st.key()]
			if !ok {
				at = len(s.steps)
				memo[st.key()] = at
				s.steps = append(s.steps, st)
			}
			to[i] = at
		}
		s.results = append(s.results, to[c.results[0]])
	}
}

// Circuits returns the programs, in the order of the results.
func (s *Set) Circuits() []*Circuit { return slices.Clone(s.circuits) }

// Run computes the results of all programs, in their order. It is Circuit.Run otherwise.
func (s *Set) Run(ev *henc.Evaluator, inputs map[Input]*henc.Ciphertext) ([]*henc.Ciphertext, error) {
	return s.run(Item{Routine: s, Evaluator: ev, Inputs: inputs})
}
