package secret

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt/prng"
	"github.com/hencedge/hencedge/henc"
)

// labelFlood names the stream that flooding noise is drawn from.
const labelFlood = 0x48580001

// gaussian draws from the discrete Gaussian distribution of deviation 2^log exactly: the
// probability of x is proportional to exp(-x^2 / 2^(2*log+1)), for every integer x. The
// sampler is Canonne, Kamath and Steinke's (eprint 2020/657, algorithms 1 to 3), with a
// power of two as deviation, so that every trial compares words of random bits: there is
// no rounding, and no tail is cut. How many words a value takes depends on what is drawn
// (docs/security.md).
type gaussian struct {
	log  int // 1..henc.MaxFloodLog
	word func() uint64
}

// sample is one value, as a sign, the multiple v of 2^log and the rest u, 0 <= u < 2^log:
// plus or minus (v*2^log + u).
func (g gaussian) sample() (negative bool, v int, u uint64) {
	for {
		negative, v, u = g.laplace()
		// Accept with probability exp(-d^2/2), d = |value|/2^log - 1 = a + b/2^log.
		a, b := v-1, u
		if v == 0 {
			a, b = 0, 1<<g.log-u
		}
		if g.accept(a, b) {
			return negative, v, u
		}
	}
}

// accept is true with probability exp(-(a + b/2^log)^2 / 2), b <= 2^log: the product of
// exp(-1/2) to the power a*a, of exp(-b/2^log) to the power a, and of
// exp(-(b/2^log)^2 / 2).
func (g gaussian) accept(a int, b uint64) bool {
	for range a * a {
		if !g.exp(g.coin) {
			return false
		}
	}
	part := func() bool { return g.below(b) }
	for range a {
		if !g.exp(part) {
			return false
		}
	}
	return g.exp(func() bool {
		for range 2 { // the square of b/2^log
			if !part() {
				return false
			}
		}
		return g.coin()
	})
}

// laplace draws from the discrete Laplace distribution: the probability of x is
// proportional to exp(-|x| / 2^log).
func (g gaussian) laplace() (negative bool, v int, u uint64) {
	for {
		u = g.word() >> (64 - g.log)
		if !g.exp(func() bool { return g.below(u) }) {
			continue
		}
		v = 0
		for g.exp(func() bool { return true }) {
			v++
		}
		if negative = g.coin(); !negative || v > 0 || u > 0 { // zero once, not twice
			return negative, v, u
		}
	}
}

// exp is true with probability exp(-p), for a trial that is true with probability p <= 1:
// trials of probability p/1, p/2, p/3, ... until one fails.
func (g gaussian) exp(trial func() bool) bool {
	k := uint64(1)
	for trial() && g.oneIn(k) {
		k++
	}
	return k%2 == 1
}

// below is true with probability b/2^log, b <= 2^log.
func (g gaussian) below(b uint64) bool { return g.word()>>(64-g.log) < b }

func (g gaussian) coin() bool { return g.word()>>63 == 1 }

// oneIn is true with probability 1/k.
func (g gaussian) oneIn(k uint64) bool {
	reject := -k % k // 2^64 mod k: the words that would make small remainders likelier
	for {
		if x := g.word(); x >= reject {
			return x%k == 0
		}
	}
}

// words are the 64-bit words of a seed's stream, one after another.
type words struct {
	seed *henc.Seed
	buf  [512]uint32
	next int // word of the stream
}

func (w *words) word() uint64 {
	at := w.next % len(w.buf)
	if at == 0 {
		prng.Words(w.buf[:], (*[32]byte)(w.seed), labelFlood, 0, 0, w.next)
	}
	w.next += 2
	return uint64(w.buf[at+1])<<32 | uint64(w.buf[at])
}

// noise fills high and low with samples of deviation 2^log, high[i] + low[i] each. Both
// are exact: high is a multiple of 2^32.
func noise(high, low []float64, log int, seed *henc.Seed) error {
	if log < 1 || log > henc.MaxFloodLog {
		return fmt.Errorf("%w: noise of deviation 2^%d per coefficient", henc.ErrFlood, log)
	}
	w := &words{seed: seed}
	defer clear(w.buf[:])
	g := gaussian{log: log, word: w.word}
	for i := range high {
		negative, v, u := g.sample()
		x, y := float64(u>>32)*0x1p32, float64(u&(1<<32-1))
		if log >= 32 {
			x += float64(v) * float64(uint64(1)<<log)
		} else {
			y += float64(v << log)
		}
		if negative {
			x, y = -x, -y
		}
		high[i], low[i] = x, y
	}
	return nil
}
