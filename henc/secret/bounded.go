package secret

import (
	"fmt"
	"math"

	"github.com/hencedge/hencedge/henc"
)

// fixedPrimes is the most primes with which decoding takes one path for all residues.
const fixedPrimes = 4

// DecryptRealBounded is DecryptReal for a ciphertext whose message, if it is honest, has
// coefficients of at most magnitude. It brings the ciphertext down to at most four
// primes without looking at the residues: it drops the levels that such a message does
// not need, and rescales where it needs more. Decoding then takes one path and returns
// no error, whatever the ciphertext holds. A larger message gives wrong numbers, and
// neither time nor errors reveal that it was larger.
func (d *Decryptor) DecryptRealBounded(ct *henc.Ciphertext, magnitude float64) ([]float64, error) {
	if d == nil || d.ctx == nil {
		return nil, fmt.Errorf("decrypt: %w: decryptor without a context", henc.ErrParams)
	}
	if err := d.ctx.CheckCiphertext(ct); err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	var err error
	ev, p, short := henc.NewEvaluator(d.ctx, nil), d.ctx.Parameters(), ct
	for err == nil && p.LimbsAt(short.Level) > fixedPrimes {
		was := short
		if down := levelsAbove(p, short.Level); math.Log2(magnitude)+2 < p.LogQ(short.Level-down) {
			short, err = ev.DropLevel(was, down)
		} else {
			magnitude = magnitude/p.RescaleFactor(was.Level) + float64(p.N()) // and what rounding adds
			short, err = ev.Rescale(was)
		}
		if was != ct {
			d.ctx.Ring().Free(was.Value)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("decrypt: a result at level %d and scale 2^%.0f: %w", ct.Level, math.Log2(ct.Scale), err)
	}
	if short != ct {
		defer d.ctx.Ring().Free(short.Value)
	}
	return d.DecryptReal(short)
}

// levelsAbove returns how many levels to drop until at most fixedPrimes primes are left.
func levelsAbove(p henc.Parameters, level int) (down int) {
	for down < level && p.LimbsAt(level-down) > fixedPrimes {
		down++
	}
	return down
}
