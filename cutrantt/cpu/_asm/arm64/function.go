package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// file collects functions.
type file struct {
	command   string // that writes it
	functions []*function
}

// function is one function as it is written: its lines and the registers that are
// not in use.
type function struct {
	name, signature, doc string
	result               string // names and types, or empty

	lines   []string
	free    []vreg
	freeX   []xreg
	at      map[string]int // offsets of the parameters
	size    int            // of the parameters
	labels  int
	merging bool   // a body of together is being written: registers stay with it
	own     []vreg // those that it has given back

	q, q2 vreg // the modulus and twice the modulus in every lane
	lazy  bool // butterflies reduce nothing (see lazy.go)
}

// new starts a function.
func (g *file) new(name, signature, doc string) *function {
	f := &function{name: name + "NEON", signature: signature, doc: doc, at: map[string]int{}}
	for v := range vreg(32) {
		f.free = append(f.free, 31-v)
	}
	for x := range xreg(26) {
		if r := 25 - x; r != 18 && r != 17 && r != 16 { // R18, and what the linker may use
			f.freeX = append(f.freeX, r)
		}
	}
	f.parameters()
	g.functions = append(g.functions, f)
	return f
}

// modular starts a function with the modulus in q and twice the modulus in q2.
func (g *file) modular(name, signature, doc string) *function {
	f := g.new(name, signature, doc)
	f.q, f.q2 = f.param32("q"), f.take()
	f.op(add, f.q2, f.q, f.q)
	return f
}

// parameters sets the offsets: pointers, int and uint64 have 8 bytes, uint32 has 4.
func (f *function) parameters() {
	var names []string
	for _, part := range strings.Split(f.signature, ",") {
		name, kind, typed := strings.Cut(strings.TrimSpace(part), " ")
		names = append(names, name)
		if !typed {
			continue
		}
		size := 8
		if kind == "uint32" {
			size = 4
		}
		for _, n := range names {
			f.size = (f.size + size - 1) / size * size
			f.at[n] = f.size
			f.size += size
		}
		names = nil
	}
}

func (f *function) line(format string, args ...any) {
	f.lines = append(f.lines, "\t"+fmt.Sprintf(format, args...))
}

// take is a vector register that is not in use, give returns it; scalar is take for
// general registers.
func (f *function) take() vreg {
	if n := len(f.own); n > 0 {
		v := f.own[n-1]
		f.own = f.own[:n-1]
		return v
	}
	v := f.free[len(f.free)-1]
	f.free = f.free[:len(f.free)-1]
	return v
}

func (f *function) takeAll(n int) []vreg {
	all := make([]vreg, n)
	for i := range all {
		all[i] = f.take()
	}
	return all
}

// block is n registers that follow each other.
func (f *function) block(n int) vreg {
	for first := range vreg(33 - n) {
		var rest []vreg
		for _, v := range f.free {
			if v < first || v >= first+vreg(n) {
				rest = append(rest, v)
			}
		}
		if len(rest) == len(f.free)-n {
			f.free = rest
			return first
		}
	}
	panic(f.name + ": no block of registers is left")
}

func (f *function) give(vs ...vreg) {
	if f.merging {
		f.own = append(f.own, vs...)
	} else {
		f.free = append(f.free, vs...)
	}
}

func (f *function) scalar() xreg {
	x := f.freeX[len(f.freeX)-1]
	f.freeX = f.freeX[:len(f.freeX)-1]
	return x
}

// param is a parameter of 64 bits in a register.
func (f *function) param(name string) xreg {
	x := f.scalar()
	f.line("MOVD %s+%d(FP), %v", name, f.at[name], x)
	return x
}

// params are parameters by the names in list.
func (f *function) params(list string) (all []xreg) {
	for _, name := range strings.Fields(list) {
		all = append(all, f.param(name))
	}
	return all
}

// bytes is the parameter of so many residues in bytes.
func (f *function) bytes(name string) xreg {
	x := f.param(name)
	f.line("LSL $2, %v", x)
	return x
}

// param32 is a parameter of 32 bits in every lane.
func (f *function) param32(name string) vreg {
	x, v := f.scalar(), f.take()
	f.line("MOVWU %s+%d(FP), %v", name, f.at[name], x)
	f.broadcast(v, x)
	f.freeX = append(f.freeX, x)
	return v
}

// copy is a register with the value of x.
func (f *function) copy(x xreg) xreg {
	r := f.scalar()
	f.line("MOVD %v, %v", x, r)
	return r
}

func (f *function) constant(n uint64) xreg {
	x := f.scalar()
	f.line("MOVD $%d, %v", n, x)
	return x
}

func (f *function) advance(x xreg, by int) {
	if by < 0 {
		f.line("SUB $%d, %v", -by, x)
	} else {
		f.line("ADD $%d, %v", by, x)
	}
}

// loop runs body until n, which goes down by step, is zero.
func (f *function) loop(n xreg, step int, body func()) {
	f.labels++
	label := fmt.Sprintf("loop%d", f.labels)
	f.lines = append(f.lines, label+":")
	body()
	f.line("SUBS $%d, %v", step, n)
	f.line("BNE %s", label)
}

// unless runs body unless the condition of a branch holds.
func (f *function) unless(branch string, body func()) {
	f.labels++
	label := fmt.Sprintf("skip%d", f.labels)
	f.line("%s %s", branch, label)
	body()
	f.lines = append(f.lines, label+":")
}

// returns adds x to the results, as a type of 64 bits.
func (f *function) returns(name, kind string, x xreg) {
	f.line("MOVD %v, %s+%d(FP)", x, name, f.size)
	if f.result != "" {
		f.result += ", "
	}
	f.result, f.size = f.result+name+" "+kind, f.size+8
}

func (f *function) declaration() string {
	if f.result == "" {
		return fmt.Sprintf("func %s(%s)", f.name, f.signature)
	}
	return fmt.Sprintf("func %s(%s) (%s)", f.name, f.signature, f.result)
}

// together merges the lines of bodies, one of each in turn: results of one are ready
// while others work. Bodies share no registers that they write; the registers that
// they take are free again at the end.
func (f *function) together(bodies ...func()) {
	before, outer, own, free := f.lines, f.merging, f.own, slices.Clone(f.free)
	f.merging = true
	all := make([][]string, len(bodies))
	for i, body := range bodies {
		f.lines, f.own = nil, nil
		body()
		all[i] = f.lines
	}
	f.lines, f.own = before, own
	for at, more := 0, true; more; at++ {
		more = false
		for _, lines := range all {
			if at < len(lines) {
				f.lines = append(f.lines, lines[at])
				more = true
			}
		}
	}
	if f.merging = outer; !outer {
		f.free = free
	}
}

// each is together for 0, ..., n-1.
func (f *function) each(n int, body func(i int)) {
	bodies := make([]func(), n)
	for i := range bodies {
		bodies[i] = func() { body(i) }
	}
	f.together(bodies...)
}

const header = "// Code generated by command: go run ./arm64 %s. DO NOT EDIT.\n"

func (g *file) assembly() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, header+"\n#include \"textflag.h\"\n", g.command)
	for _, f := range g.functions {
		fmt.Fprintf(&b, "\n// %s\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", f.declaration(), f.name, f.size)
		for _, l := range f.lines {
			fmt.Fprintln(&b, l)
		}
		fmt.Fprintln(&b, "\tRET")
	}
	return b.Bytes()
}

func (g *file) declarations(pkg string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, header+"\npackage %s\n", g.command, pkg)
	for _, f := range g.functions {
		fmt.Fprintf(&b, "\n// %s %s\n//\n//go:noescape\n%s\n", f.name, strings.ReplaceAll(f.doc, "\n", "\n// "),
			f.declaration())
	}
	return b.Bytes()
}
