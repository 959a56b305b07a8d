package henc

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"

	"github.com/hencedge/hencedge/cutrantt"
)

// powMod is b^e mod q for b < q < 2^32.
func powMod(b uint32, e uint64, q uint32) uint32 {
	r, x, m := uint64(1)%uint64(q), uint64(b), uint64(q)
	for ; e > 0; e >>= 1 {
		if e&1 == 1 {
			r = r * x % m
		}
		x = x * x % m
	}
	return uint32(r)
}

// isPrime is the Miller-Rabin test with the bases 2, 3, 5, 7, which decide
// every q < 3215031751 and so everything below 2^30.
func isPrime(q uint32) bool {
	if q < 2 {
		return false
	}
	for _, p := range []uint32{2, 3, 5, 7} {
		if q%p == 0 {
			return q == p
		}
	}
	s := bits.TrailingZeros32(q - 1)
	for _, a := range []uint32{2, 3, 5, 7} {
		x := powMod(a, uint64(q-1)>>s, q)
		if x == 1 || x == q-1 {
			continue
		}
		composite := true
		for range s - 1 {
			x = uint32(uint64(x) * uint64(x) % uint64(q))
			if x == q-1 {
				composite = false
				break
			}
		}
		if composite {
			return false
		}
	}
	return true
}

// primitiveRoot is the smallest primitive root of the prime q that is at least 3.
func primitiveRoot(q uint32) uint32 {
	var factors []uint32
	m := q - 1
	for d := uint32(2); d*d <= m; d++ {
		if m%d == 0 {
			factors = append(factors, d)
			for m%d == 0 {
				m /= d
			}
		}
	}
	if m > 1 {
		factors = append(factors, m)
	}
next:
	for g := uint32(3); ; g++ {
		for _, p := range factors {
			if powMod(g, uint64((q-1)/p), q) == 1 {
				continue next
			}
		}
		return g
	}
}

// canonicalPsi is the pinned primitive 2N-th root of unity modulo the prime
// q = 1 mod 2N: g^((q-1)/2N) for g = primitiveRoot(q). This is Lattigo's rule.
func canonicalPsi(q uint32, logN int) uint32 {
	return powMod(primitiveRoot(q), uint64(q-1)>>(logN+1), q)
}

// NewModulus is q with the root of unity that NewParameters derives for it. It fails with cutrantt.ErrModulus unless q
// is a prime below 2^30 and 1 modulo 2^(logN+1).
func NewModulus(q uint32, logN int) (cutrantt.Modulus, error) {
	if logN < cutrantt.MinLogN || logN > cutrantt.MaxLogN || q >= cutrantt.MaxQ || !isPrime(q) ||
		q&(1<<(logN+1)-1) != 1 {
		return cutrantt.Modulus{}, fmt.Errorf("%w: %d is not a prime below 2^30 that is 1 modulo 2^%d",
			cutrantt.ErrModulus, q, logN+1)
	}
	return cutrantt.Modulus{Q: q, Psi: canonicalPsi(q, logN)}, nil
}

// product multiplies the moduli; the product of none is 1.
func product(q ...[]uint32) *big.Int {
	r := big.NewInt(1)
	for _, l := range q {
		for _, v := range l {
			r.Mul(r, new(big.Int).SetUint64(uint64(v)))
		}
	}
	return r
}

// log2Big is log2(x) for x >= 1, to float64 accuracy.
func log2Big(x *big.Int) float64 {
	m := new(big.Float).SetInt(x)
	exp := m.MantExp(m) // x = m * 2^exp, m in [1/2, 1)
	f, _ := m.Float64()
	return math.Log2(f) + float64(exp)
}
