package program

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"github.com/expr-lang/expr/ast"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
)

// Circuit is a compiled program. It is immutable and safe for concurrent use.
type Circuit struct {
	prog   Source
	src    *source
	tree   ast.Node
	params henc.Parameters
	steps  []step // in an order that they can run in; the last is the result
	out    Output
	sh     shape
	lo, hi float64 // range of the value before the root
	policy policy

	mu      sync.Mutex
	encoded []encoded // newest context last, at most maxContexts
}

// encoded are the plain slot values of a circuit's steps, encoded for one context.
type encoded struct {
	ctx    *henc.Context
	plains map[int]*henc.Plaintext
}

// maxContexts bounds the contexts, one for each device, that a circuit keeps plaintexts
// for. Those of a device that failed go when another comes.
const maxContexts = 16

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
	root, err := lower(src, &prog, tree)
	if err != nil {
		return nil, err
	}
	s := &search{prog: &prog, src: src, root: root, ch: newChain(params)}
	best, perr := s.run()
	if perr != nil {
		return nil, perr
	}
	return &Circuit{prog: prog, src: src, tree: tree, params: params, steps: best.steps, out: best.out,
		sh: best.sh, lo: best.lo, hi: best.hi, policy: best.policy}, nil
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

// Name returns the program's name.
func (c *Circuit) Name() string { return c.prog.Name }

// Parameters returns what the circuit was compiled for.
func (c *Circuit) Parameters() henc.Parameters { return c.params }

// Output says how to read the result.
func (c *Circuit) Output() Output { return c.out }

// Level and Scale are those of the result.
func (c *Circuit) Level() int     { return c.steps[len(c.steps)-1].level }
func (c *Circuit) Scale() float64 { return c.steps[len(c.steps)-1].scale }

// Inputs returns the ciphertexts that Run needs, in a fixed order.
func (c *Circuit) Inputs() []Input {
	var ins []Input
	for i := range c.steps {
		if c.steps[i].op == stepInput {
			ins = append(ins, c.steps[i].in)
		}
	}
	slices.SortFunc(ins, compareInputs)
	return ins
}

func compareInputs(a, b Input) int {
	for _, d := range []int{cmpString(a.Device, b.Device), cmpString(a.Stream, b.Stream), a.Lag - b.Lag} {
		if d != 0 {
			return d
		}
	}
	return 0
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// NeedsRelin reports whether Run multiplies ciphertexts and so needs the
// relinearisation key.
func (c *Circuit) NeedsRelin() bool {
	return slices.ContainsFunc(c.steps, func(s step) bool { return s.op == stepMul || s.op == stepMulRescale })
}

// Rotations returns the rotations whose Galois keys Run needs, ascending: powers of two.
func (c *Circuit) Rotations() []int {
	set := map[int]bool{}
	for i := range c.steps {
		for _, k := range c.steps[i].rotations() {
			set[k] = true
		}
	}
	out := make([]int, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// Depth returns the number of multiplications one after another.
func (c *Circuit) Depth() int { return c.steps[len(c.steps)-1].depth }

// Hash identifies what the program computes on what: SHA-256 over a tag, the
// expression, the parameter hash and, for each variable in alphabetical order,
// its name, device, channel and the layout hash of its stream. Strings stand
// with their length (8 bytes, big endian). It does not depend on how the
// circuit is planned or on how full the windows are.
func (c *Circuit) Hash() [32]byte {
	var b []byte
	str := func(s string) {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	str("hencedge program v1")
	str(c.prog.Expr)
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

// Magnitude bounds the coefficients of the decrypted result: no honest one is larger.
func (c *Circuit) Magnitude() float64 {
	s := &c.steps[len(c.steps)-1]
	return (s.mag + s.dev.limit()) * s.scale
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
