package program

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/expr-lang/expr/ast"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
)

// Circuit is a compiled program. It is immutable and safe for concurrent use.
type Circuit struct {
	routine // with one result, the last step
	prog    Source
	src     *source
	tree    ast.Node
	out     Output
	sh      shape
	lo, hi  float64 // range of the value before the root
	policy  policy
}

var _ Routine = (*Circuit)(nil)

// compile is Compile without advice.
func compile(prog Source, params henc.Parameters) (*Circuit, error) {
	if params.N() == 0 {
		return nil, &Error{Program: prog.Name, Kind: ErrParams, Message: "no parameters are given"}
	}
	if err := prog.check(params.Name(), params.Slots()); err != nil {
		return nil, err
	}
	src, tree, err := parse(prog.Name, prog.Expr)
	if err != nil {
		return nil, err
	}
	root, err := newGraph().lower(src, &prog, tree)
	if err != nil {
		return nil, err
	}
	s := &search{prog: &prog, src: src, root: root, ch: newChain(params)}
	best, perr := s.run()
	if perr != nil {
		return nil, perr
	}
	return &Circuit{prog: prog, src: src, tree: tree, out: best.out, sh: best.sh, lo: best.lo, hi: best.hi,
		policy: best.policy, routine: routine{name: "program " + prog.Name, params: params, steps: best.steps,
			results: []int{len(best.steps) - 1}}}, nil
}

// compileChanged compiles a program with changed streams.
func compileChanged(prog Source, p henc.Parameters, change func(*config.Stream)) (*Circuit, error) {
	vars := make(map[string]Var, len(prog.Vars))
	for name, v := range prog.Vars {
		change(&v.Stream)
		vars[name] = v
	}
	prog.Vars = vars
	return compile(prog, p)
}

// Class returns the class whose devices each have a result of their own, or "".
func (c *Circuit) Class() string { return c.prog.Class }

// Name returns the program's name.
func (c *Circuit) Name() string { return c.prog.Name }

// Output says how to read the result.
func (c *Circuit) Output() Output { return c.out }

// Level and Scale are those of the result.
func (c *Circuit) Level() int     { return c.last().level }
func (c *Circuit) Scale() float64 { return c.last().scale }

// last returns the step of the result.
func (c *Circuit) last() *step { return &c.steps[c.results[0]] }

// Depth returns the number of multiplications one after another.
func (c *Circuit) Depth() int { return c.last().depth }

// Packed reports whether the circuit makes its result for a pack.
func (c *Circuit) Packed() bool { return c.prog.Packed }

// Rotations returns the rotations whose Galois keys the program needs, also to fill a pack.
func (c *Circuit) Rotations() []int {
	ks := c.routine.Rotations()
	if c.Packed() && (len(ks) == 0 || ks[0] != PackRotation) {
		ks = append([]int{PackRotation}, ks...)
	}
	return ks
}

// Hash identifies what the program computes on what: SHA-256 over a tag, the
// expression, the parameter hash and, for each variable in alphabetical order,
// its name, device, channel and the layout hash of its stream. Strings stand
// with their length (8 bytes, big endian). Of a program for a class the tag is another
// one, the class follows the expression, and the devices are empty: it is the same for
// all devices. It does not depend on how the circuit is planned or on how full the windows are.
func (c *Circuit) Hash() [32]byte {
	var b []byte
	str := func(s string) {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	if c.prog.Class == "" {
		str("hencedge program v1")
		str(c.prog.Expr)
	} else {
		str("hencedge class program v1")
		str(c.prog.Expr)
		str(c.prog.Class)
	}
	hash := c.params.Hash()
	b = append(b, hash[:]...)
	for _, name := range sortedKeys(c.prog.Vars) {
		v := c.prog.Vars[name]
		layout := v.Stream.LayoutHash()
		str(name)
		str(v.Device)
		b = binary.BigEndian.AppendUint64(b, uint64(v.Channel))
		b = append(b, layout[:]...)
	}
	return sha256.Sum256(b)
}

// Magnitude bounds the coefficients of the decrypted result: no honest one is larger. It is
// twice what the program alone gives, for what a Set leaves in slots that nobody reads.
func (c *Circuit) Magnitude() float64 {
	s := c.last()
	return 2 * (s.mag + s.dev.limit()) * s.scale
}

// Range returns the range of the result's values, errors aside.
func (c *Circuit) Range() (low, high float64) {
	if !c.out.Sqrt {
		return c.lo, c.hi
	}
	return math.Sqrt(max(c.lo, 0)), math.Sqrt(max(c.hi, 0))
}

// Useful reports whether the promised error is below a hundredth of the range
// of results.
func (c *Circuit) Useful() bool { return useful(c.lo, c.hi, c.out) }
