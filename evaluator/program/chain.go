package program

import (
	"math"

	"github.com/hencedge/hencedge/henc"
)

// chain is what the planner needs of the parameters.
type chain struct {
	params    henc.Parameters
	slots     int
	maxLevel  int
	logQ      []float64 // log2 of the modulus by level
	factor    []float64 // what rescaling from a level divides by
	noise     henc.NoiseModel
	switching bool    // there are special primes: products and rotations work
	rounding  float64 // float64 error of encoding or decoding, relative to the largest slot
}

func newChain(p henc.Parameters) *chain {
	c := &chain{params: p, slots: p.Slots(), maxLevel: p.MaxLevel(), noise: p.Noise(), switching: p.Alpha() > 0}
	for l := range c.maxLevel + 1 {
		c.logQ = append(c.logQ, p.LogQ(l))
		c.factor = append(c.factor, p.RescaleFactor(l))
	}
	// The encoder states a root mean square; eight times it covers every slot.
	c.rounding = 8 * henc.EncodingError(p.LogN())
	return c
}

// margin is what a ciphertext leaves free below half its modulus, in bits.
const margin = 0.2

// room returns log2 of the largest slot value at scale 1 that a level holds.
func (c *chain) room(level int) float64 { return c.logQ[level] - 1 - margin }

// fits reports whether slot values up to mag with the given error can be held.
func (c *chain) fits(level int, mag, err, scale float64) bool {
	return scale >= 1 && math.Log2(scale) <= min(c.room(level), 1000) &&
		math.Log2(mag+err)+math.Log2(scale) <= c.room(level)
}
