package cutrantt

import "fmt"

// Check reports, wrapping ErrModulus, why m cannot be used for degree 2^logN:
// q must be a prime below MaxQ with q = 1 mod 2^(logN+1), and psi a primitive
// 2^(logN+1)-th root of unity modulo q. It takes a few microseconds.
func (m Modulus) Check(logN int) error {
	if logN < 1 || logN > MaxLogN {
		return fmt.Errorf("%w: log2 of the degree is %d, not in [1, %d]", ErrModulus, logN, MaxLogN)
	}
	if m.Q >= MaxQ {
		return fmt.Errorf("%w: q = %d is not below 2^30", ErrModulus, m.Q)
	}
	if !isPrime(m.Q) {
		return fmt.Errorf("%w: q = %d is not a prime", ErrModulus, m.Q)
	}
	if m.Q&(1<<(logN+1)-1) != 1 {
		return fmt.Errorf("%w: q = %d is not 1 modulo 2^%d", ErrModulus, m.Q, logN+1)
	}
	// psi has order exactly 2N if and only if psi^N = -1, as 2N is a power of 2.
	if m.Psi >= m.Q || powMod(m.Psi, 1<<logN, m.Q) != m.Q-1 {
		return fmt.Errorf(
			"%w: psi = %d is not a primitive 2^%d-th root of unity modulo %d", ErrModulus, m.Psi, logN+1, m.Q,
		)
	}
	return nil
}

// powMod is x^e mod q for q < 2^32.
func powMod(x, e, q uint32) uint32 {
	r, b := uint64(1)%uint64(q), uint64(x)%uint64(q)
	for ; e > 0; e >>= 1 {
		if e&1 == 1 {
			r = r * b % uint64(q)
		}
		b = b * b % uint64(q)
	}
	return uint32(r)
}

// isPrime is the Miller-Rabin test with bases 2, 3, 5 and 7, which is exact
// below 3215031751 (Jaeschke, "On strong pseudoprimes to several bases").
func isPrime(n uint32) bool {
	for _, p := range []uint32{2, 3, 5, 7} {
		if n%p == 0 {
			return n == p
		}
	}
	if n < 2 {
		return false
	}
	d, s := n-1, 0
	for d%2 == 0 {
		d, s = d/2, s+1
	}
bases:
	for _, a := range []uint32{2, 3, 5, 7} {
		x := uint64(powMod(a, d, n))
		if x == 1 || x == uint64(n-1) {
			continue
		}
		for range s - 1 {
			if x = x * x % uint64(n); x == uint64(n-1) {
				continue bases
			}
		}
		return false
	}
	return true
}
