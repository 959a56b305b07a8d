package compare

import (
	"math/rand/v2"
	"testing"
)

// polynomials are the operations on plain polynomials modulo X^n + 1 and t, by the definitions.
type polynomials struct {
	n int
	t uint64
}

func (p polynomials) Add(a, b []uint64) ([]uint64, error) {
	out := make([]uint64, p.n)
	for i := range out {
		out[i] = (a[i] + b[i]) % p.t
	}
	return out, nil
}

func (p polynomials) Mul(a, b []uint64) ([]uint64, error) {
	out := make([]uint64, p.n)
	for i, x := range a {
		for j, y := range b {
			if k := i + j; k < p.n {
				out[k] = (out[k] + x*y) % p.t
			} else {
				out[k-p.n] = (out[k-p.n] + (p.t-x)*y) % p.t
			}
		}
	}
	return out, nil
}

func (p polynomials) MulConst(a []uint64, k int64) ([]uint64, error) {
	out := make([]uint64, p.n)
	for i := range out {
		out[i] = a[i] * uint64((k%int64(p.t)+int64(p.t))%int64(p.t)) % p.t
	}
	return out, nil
}

func (p polynomials) Automorphism(a []uint64, g uint64) ([]uint64, error) {
	out := make([]uint64, p.n)
	for i, x := range a {
		if k := i * int(g) % (2 * p.n); k < p.n {
			out[k] = (out[k] + x) % p.t
		} else {
			out[k-p.n] = (out[k-p.n] + p.t - x) % p.t
		}
	}
	return out, nil
}

func (p polynomials) AddCoeffs(a, coeffs []uint64) ([]uint64, error) {
	return p.Add(a, append(append([]uint64(nil), coeffs...), make([]uint64, p.n-len(coeffs))...))
}

func (p polynomials) MulOnes(a []uint64) ([]uint64, error) {
	ones := make([]uint64, p.n)
	for i := range ones {
		ones[i] = 1
	}
	return p.Mul(a, ones)
}

func (p polynomials) monomial(k int) []uint64 {
	out := make([]uint64, p.n)
	out[k] = 1
	return out
}

// constantly fails unless a polynomial is the constant 1 if yes, otherwise 0.
func constantly(t *testing.T, a, b int, got []uint64, err error, yes bool) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if want := uint64(0); v != want && !(i == 0 && yes && v == 1) || i == 0 && yes && v == 0 {
			t.Fatalf("%d and %d: coefficient %d is %d", a, b, i, v)
		}
	}
}

// TestExhaustive compares all pairs for small moduli, with the code that works on ciphertexts.
func TestExhaustive(t *testing.T) {
	random := rand.NewChaCha8([32]byte{1})
	for _, c := range []struct {
		n int
		t uint64
	}{{4, 17}, {16, 97}, {32, 193}, {32, 65537}} {
		p := polynomials{c.n, c.t}
		s := scheme[[]uint64]{p, c.n, c.t}
		for a := range c.n {
			for b := range c.n {
				d, err := s.difference(p.monomial(a), p.monomial(b))
				if err != nil {
					t.Fatal(err)
				}
				got, err := s.greater(d)
				constantly(t, a, b, got, err, a > b)
				got, err = s.different(d)
				constantly(t, a, b, got, err, a != b)
				got, err = s.masked(d, random)
				constantly(t, a, b, got[:1], err, a > b)
			}
		}
	}
}

// TestExhaustiveWide compares all pairs of numbers of two digits.
func TestExhaustiveWide(t *testing.T) {
	p := polynomials{8, 17}
	s := scheme[[]uint64]{p, p.n, p.t}
	for a := range p.n * p.n {
		for b := range p.n * p.n {
			got, err := s.wide(p.monomial(a/p.n), p.monomial(a%p.n), p.monomial(b/p.n), p.monomial(b%p.n))
			constantly(t, a, b, got, err, a > b)
		}
	}
}
