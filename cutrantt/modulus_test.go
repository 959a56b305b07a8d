package cutrantt

import (
	"errors"
	"testing"
)

func TestIsPrime(t *testing.T) {
	const n = 1 << 16
	composite := make([]bool, n)
	for p := 2; p < n; p++ {
		for k := 2 * p; !composite[p] && k < n; k += p {
			composite[k] = true
		}
	}
	for p := range uint32(n) {
		if want := p >= 2 && !composite[p]; isPrime(p) != want {
			t.Fatalf("isPrime(%d) = %v", p, !want)
		}
	}
	for p, want := range map[uint32]bool{
		1073692673: true, 1073479681: true, 67084289: true, 1073741827: true, 2147483647: true,
		// Strong pseudoprimes to the first one, two and three bases, a Carmichael
		// number and a square.
		1373653: false, 25326001: false, 321197185: false, 32767 * 32767: false,
	} {
		if isPrime(p) != want {
			t.Errorf("isPrime(%d) = %v", p, !want)
		}
	}
}

func TestModulusCheck(t *testing.T) {
	const q, psi11 = 12289, 7 // 12288 = 2^12 * 3; 7 has order 2^11 below
	if powMod(psi11, 1024, q) != q-1 {
		t.Fatal("7 is not a primitive 2^11-th root of unity modulo 12289")
	}
	for _, c := range []struct {
		m    Modulus
		logN int
		good bool
	}{
		{Modulus{q, psi11}, 10, true},
		{Modulus{q, q - psi11}, 10, true},
		{Modulus{q, psi11}, 9, false},
		{Modulus{q, psi11}, 11, false},
		{Modulus{q, 49}, 9, true},
		{Modulus{q, 49}, 10, false},
		{Modulus{q, 1}, 10, false},
		{Modulus{q, q - 1}, 10, false},
		{Modulus{q, 0}, 10, false},
		{Modulus{q, psi11 + q}, 10, false},
		{Modulus{q, psi11}, 12, false},
		{Modulus{q, psi11}, 0, false},
		{Modulus{q, psi11}, 18, false},
		{Modulus{12288, psi11}, 10, false},
		{Modulus{0, 0}, 10, false},
		{Modulus{1, 0}, 10, false},
		{Modulus{12289 * 40961, 393041032}, 10, false}, // psi^1024 = -1 modulo both primes
		{Modulus{MaxQ, 3}, 10, false},
		{Modulus{2147473409, 3}, 10, false},
	} {
		if err := c.m.Check(c.logN); (err == nil) != c.good || err != nil && !errors.Is(err, ErrModulus) {
			t.Errorf("%+v for 2^%d: %v", c.m, c.logN, err)
		}
	}
}
