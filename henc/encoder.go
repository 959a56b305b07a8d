package henc

// Encoder maps vectors of numbers to plaintext polynomials and back by the
// canonical embedding. It is safe for concurrent use.
type Encoder struct {
	ctx *Context
}

func newEncoder(c *Context) *Encoder { return &Encoder{ctx: c} }
