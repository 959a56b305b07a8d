// Command _asm writes the vector code of package cpu: see the go:generate lines in
// vector_amd64.go. Functions for the variants are made from one description, with
// the width of a vector as a parameter.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("amd64")
	g := newGen("AVX512", 64)
	for _, e := range forms {
		g.forwardLast(e)
		g.inverseFirst(e)
		g.lazyForwardLast(e)
		g.lazyInverseFirst(e)
	}
	for _, e := range forms[1:] {
		g.finishLast(e)
	}
	g.common()
	g.tensor()
	n := newGen("AVX2", 32)
	for _, e := range narrowForms {
		n.narrowLast(e)
		n.narrowFirst(e)
		n.lazyNarrow(e)
	}
	n.common()
	Generate()
}

// common is what all variants have.
func (g *gen) common() {
	g.forwardPasses()
	g.inversePasses()
	g.lazyForward()
	g.lazyInverse()
	g.elementwise()
	g.products()
	g.inner()
	g.basis()
	g.integers()
	g.operands()
	g.permute()
}
