package rangecover

import (
	"fmt"
	"math/bits"
	"time"
)

// Counts is what a plan costs: its size, and the operations of one row.
type Counts struct {
	Trees, Splits, Blocks int
	Parts                 int // trees that share a block with others
	Terms                 int // slots that hold a term of a split
	Bits                  int // of a row's code
	Depth                 int // products of ciphertexts one after the other
	Products              int // of ciphertexts
	PlainProducts         int // of a ciphertext and a plaintext
	Switches              int // key switches besides those of products: automorphisms and rotations, on average
	Results               int // ciphertexts that go to the key holder
}

// Count returns what the plan costs.
func (p *Plan) Count() Counts {
	c := Counts{
		Trees: p.Trees, Splits: p.splits, Blocks: len(p.Blocks), Terms: p.terms, Bits: p.Code.Size(),
		Results: len(p.Blocks) * (1 + p.Outputs*p.Words),
	}
	c.Switches = p.Code.Size() - 1 // to separate the bits
	for _, b := range p.Blocks {
		c.Products += len(b.Forms) - 1
		c.Depth = max(c.Depth, bits.Len(uint(len(b.Forms)-1)))
		for _, f := range b.Forms {
			c.PlainProducts += len(f.Terms)
		}
		c.Parts += len(b.Parts)
		moves := bits.Len(uint(p.Slots/2-1))/2 + 1
		c.Switches += b.Log + moves*max(1, len(b.Parts))
		c.PlainProducts += max(1, 2*len(b.Parts)) * (1 + p.Outputs*p.Words)
	}
	return c
}

// Costs is how long one operation takes.
type Costs struct{ Product, PlainProduct, Switch time.Duration }

// Time estimates how long one row takes on so many workers.
func (c Counts) Time(each Costs, workers int) time.Duration {
	sum := time.Duration(c.Products)*each.Product + time.Duration(c.PlainProducts)*each.PlainProduct +
		time.Duration(c.Switches)*each.Switch
	return sum / time.Duration(max(1, workers))
}

// String says it in words, a line each.
func (c Counts) String() string {
	return fmt.Sprintf("trees %d, splits %d, terms of range covers %d, in %d blocks\n"+
		"a row: %d bits in one ciphertext\n"+
		"evaluation: %d products of ciphertexts (depth %d), %d by plaintexts, %d key switches\n"+
		"results: %d ciphertexts",
		c.Trees, c.Splits, c.Terms, c.Blocks, c.Bits, c.Products, c.Depth, c.PlainProducts, c.Switches, c.Results)
}
