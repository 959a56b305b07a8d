// Command prng writes the vector code of package prng: see the go:generate line in
// its vector_amd64.go. Every jump counts groups of blocks or blocks to redraw, and
// every address follows from such counts and, in retry, from the numbers of blocks with
// rejected words, which are public: none depends on a word of the stream.
package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64")
	wideUniform("uniformAVX512", 2)
	wideUniform("againAVX512", 1)
	wideRetry()
	wideTernary()
	wideCBD()
	narrowTables()
	narrowUniform()
	narrowRetry()
	narrowTernary()
	narrowCBD()
	Generate()
}

// Offsets in the source of package prng.
const (
	atState    = 0            // [16]uint32
	atCounters = atState + 64 // [32]uint32
	atQ        = atCounters + 128
	atBelow    = atQ + 4
	atSpill    = atBelow + 4 // [256]uint32
)

func function(name, signature, doc string) {
	TEXT(name, NOSPLIT, "func("+signature+")")
	Doc(strings.Split(name+" "+doc, "\n")...)
	Pragma("noescape")
}

func pointer(name string) Register { return Load(Param(name), GP64()) }

func at(p Register, disp int) Mem { return Mem{Base: p, Disp: disp} }

// op is r = f(a, b) in a register of its own.
func op(f func(...Op), r VecVirtual, a, b Op) VecVirtual {
	f(b, a, r)
	return r
}

// quarters are the four quarter rounds on columns, then those on diagonals, as
// indices of words.
func quarters(diagonal int) (g [4][4]int) {
	for i := range g {
		for j := range 4 {
			g[i][j] = 4*j + (i+j*diagonal)%4
		}
	}
	return g
}
