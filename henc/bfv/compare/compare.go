package compare

import (
	"crypto/subtle"
	"fmt"
	"io"
	"math/bits"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
)

// Elements returns the Galois elements whose keys a Comparer needs, besides the relinearisation key.
func Elements(p bfv.Parameters) []uint64 {
	out := []uint64{uint64(2*p.N() - 1)}
	for l := range p.Base().LogN() {
		out = append(out, 1<<(l+1)+1)
	}
	return out
}

// Encode returns X^value as a plaintext, for 0 <= value < N. It fails with henc.ErrMessage. Its time does not depend on
// the value.
func Encode(ctx *bfv.Context, value int) (*bfv.Plaintext, error) {
	n := ctx.Parameters().N()
	if value < 0 || value >= n {
		return nil, fmt.Errorf("%w: %d is not between 0 and %d", henc.ErrMessage, value, n-1)
	}
	coeffs := make([]uint64, n)
	defer clear(coeffs)
	for i := range coeffs {
		coeffs[i] = uint64(subtle.ConstantTimeEq(int32(i), int32(value)))
	}
	return ctx.EncodeCoeffs(coeffs)
}

// EncodeWide encodes a number below N^2 as two plaintexts, its digits to the base N, high and low.
func EncodeWide(ctx *bfv.Context, value int) (high, low *bfv.Plaintext, err error) {
	log := ctx.Parameters().Base().LogN()
	if high, err = Encode(ctx, value>>log); err != nil {
		return nil, nil, err
	}
	low, err = Encode(ctx, value&(1<<log-1))
	return high, low, err
}

// Wide is an encrypted number below N^2, by its digits.
type Wide struct{ High, Low *bfv.Ciphertext }

// Comparer compares encrypted numbers. It is safe for concurrent use.
type Comparer struct{ s scheme[*bfv.Ciphertext] }

// New returns a Comparer. It fails with henc.ErrNoKey if a key of Elements is missing.
func New(ctx *bfv.Context, keys *henc.EvaluationKeys) (*Comparer, error) {
	p := ctx.Parameters()
	if keys == nil || keys.Relin == nil {
		return nil, fmt.Errorf("%w: relinearisation key", henc.ErrNoKey)
	}
	for _, g := range Elements(p) {
		if keys.Galois[g] == nil {
			return nil, fmt.Errorf("%w: Galois key of element %d", henc.ErrNoKey, g)
		}
	}
	all := make([]uint64, p.N())
	for i := range all {
		all[i] = 1
	}
	pt, err := ctx.EncodeCoeffs(all)
	if err != nil {
		return nil, err
	}
	ones, err := ctx.Factor(pt)
	if err != nil {
		return nil, err
	}
	ops := &ciphertexts{bfv.NewEvaluator(ctx, keys), ones}
	return &Comparer{scheme[*bfv.Ciphertext]{ops, p.N(), uint64(p.T())}}, nil
}

// Greater returns 1 in every slot if a > b, otherwise 0, for numbers below N as Encode has them: one product and
// log2(N)+1 key switches.
func (c *Comparer) Greater(a, b *bfv.Ciphertext) (*bfv.Ciphertext, error) {
	d, err := c.s.difference(a, b)
	if err != nil {
		return nil, err
	}
	return c.s.greater(d)
}

// Different returns 1 in every slot if a and b differ, otherwise 0.
func (c *Comparer) Different(a, b *bfv.Ciphertext) (*bfv.Ciphertext, error) {
	d, err := c.s.difference(a, b)
	if err != nil {
		return nil, err
	}
	return c.s.different(d)
}

// GreaterWide is Greater of numbers below N^2: three products, one after another two.
func (c *Comparer) GreaterWide(a, b Wide) (*bfv.Ciphertext, error) {
	return c.s.wide(a.High, a.Low, b.High, b.Low)
}

// Masked returns a ciphertext whose constant coefficient is 1 if a > b, otherwise 0, and whose other coefficients are
// random, drawn from an unpredictable reader (crypto/rand.Reader). It needs one key switch besides the product. Its
// noise is not flooded: whoever decrypts and analyses that may learn more of a and b.
func (c *Comparer) Masked(a, b *bfv.Ciphertext, random io.Reader) (*bfv.Ciphertext, error) {
	d, err := c.s.difference(a, b)
	if err != nil {
		return nil, err
	}
	return c.s.masked(d, random)
}

// operations are those of a scheme whose plaintexts are polynomials modulo X^N + 1 and t.
type operations[C any] interface {
	Add(a, b C) (C, error)
	Mul(a, b C) (C, error)
	MulConst(a C, k int64) (C, error)
	Automorphism(a C, g uint64) (C, error)
	AddCoeffs(a C, coeffs []uint64) (C, error)
	MulOnes(a C) (C, error) // by 1 + X + ... + X^(N-1)
}

// ciphertexts are the operations on ciphertexts.
type ciphertexts struct {
	*bfv.Evaluator
	ones *bfv.Factor
}

func (c *ciphertexts) AddCoeffs(a *bfv.Ciphertext, coeffs []uint64) (*bfv.Ciphertext, error) {
	pt, err := c.Context().EncodeCoeffs(coeffs)
	if err != nil {
		return nil, err
	}
	return c.AddPlain(a, pt)
}

func (c *ciphertexts) MulOnes(a *bfv.Ciphertext) (*bfv.Ciphertext, error) {
	return c.MulPlain(a, c.ones)
}

// scheme is a comparison over operations.
type scheme[C any] struct {
	operations[C]
	n int
	t uint64 // odd
}

// difference returns X^(a-b).
func (s scheme[C]) difference(a, b C) (C, error) {
	turned, err := s.Automorphism(b, uint64(2*s.n-1))
	if err != nil {
		return turned, err
	}
	return s.Mul(a, turned)
}

// greater is (1 - sign)/2 , where the sign is 1 for a <= b, -1 for a > b.
func (s scheme[C]) greater(d C) (C, error) {
	sign, err := s.MulOnes(d)
	if err != nil {
		return sign, err
	}
	return s.constant(sign, s.t-s.half(), s.half())
}

// different is 1 minus the constant coefficient of X^(a-b), which is 1 for a = b and otherwise 0.
func (s scheme[C]) different(d C) (C, error) { return s.constant(d, s.t-1, 1) }

// wide is e*(high - low) + low, where e says that the high digits differ.
func (s scheme[C]) wide(ah, al, bh, bl C) (C, error) {
	dh, err := s.difference(ah, bh)
	if err != nil {
		return dh, err
	}
	dl, err := s.difference(al, bl)
	if err != nil {
		return dl, err
	}
	differ, err := s.different(dh)
	if err != nil {
		return differ, err
	}
	high, err := s.greater(dh)
	if err != nil {
		return high, err
	}
	low, err := s.greater(dl)
	if err != nil {
		return low, err
	}
	minus, err := s.MulConst(low, -1)
	if err != nil {
		return minus, err
	}
	sum, err := s.Add(high, minus)
	if err != nil {
		return sum, err
	}
	if sum, err = s.Mul(differ, sum); err != nil {
		return sum, err
	}
	return s.Add(sum, low)
}

// constant returns mul times the constant coefficient of a, plus add, as a constant polynomial.
func (s scheme[C]) constant(a C, mul, add uint64) (C, error) {
	inverse := uint64(1)
	for range bits.Len(uint(s.n)) - 1 {
		inverse = inverse * s.half() % s.t
	}
	k := int64(mul * inverse % s.t)
	if uint64(k) > s.t/2 {
		k -= int64(s.t) // the smaller magnitude makes less noise
	}
	sum, err := s.MulConst(a, k)
	for g := 2; g <= s.n && err == nil; g *= 2 {
		var turned C
		if turned, err = s.Automorphism(sum, uint64(g+1)); err == nil {
			sum, err = s.Add(sum, turned)
		}
	}
	if err != nil {
		return sum, err
	}
	return s.AddCoeffs(sum, []uint64{add})
}

func (s scheme[C]) half() uint64 { return (s.t + 1) / 2 }

// masked multiplies the sign by -1/2 and adds 1/2 and random coefficients.
func (s scheme[C]) masked(d C, random io.Reader) (C, error) {
	sign, err := s.MulOnes(d)
	if err != nil {
		return sign, err
	}
	if sign, err = s.MulConst(sign, -int64(s.half())); err != nil {
		return sign, err
	}
	mask, err := s.mask(random)
	if err != nil {
		return sign, err
	}
	return s.AddCoeffs(sign, mask)
}

// mask returns coefficients below t, uniform but for the first, which is 1/2.
func (s scheme[C]) mask(random io.Reader) ([]uint64, error) {
	out, err := uniform(random, s.n, s.t)
	if err == nil {
		out[0] = s.half()
	}
	return out, err
}

// uniform returns n numbers below t, each as likely as the others.
func uniform(random io.Reader, n int, t uint64) ([]uint64, error) {
	out := make([]uint64, 0, n)
	buf := make([]byte, 4*n)
	limit := uint64(1<<32) / t * t
	for len(out) < n {
		if _, err := io.ReadFull(random, buf); err != nil {
			return nil, fmt.Errorf("randomness of a mask: %w", err)
		}
		for i := 0; i < len(buf) && len(out) < n; i += 4 {
			v := uint64(buf[i]) | uint64(buf[i+1])<<8 | uint64(buf[i+2])<<16 | uint64(buf[i+3])<<24
			if v < limit {
				out = append(out, v%t)
			}
		}
	}
	return out, nil
}
