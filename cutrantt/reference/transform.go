package reference

import (
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
)

// pow is x^e mod q.
func pow(x, e uint64, q uint32) uint64 {
	r, m := uint64(1), uint64(q)
	for x %= m; e > 0; e /= 2 {
		if e%2 == 1 {
			r = r * x % m
		}
		x = x * x % m
	}
	return r
}

func inv(x uint64, q uint32) uint64 { return pow(x, uint64(q)-2, q) }

// Root is w_b, the constant of block b modulo X^n2 - w_b, of a ring of degree
// n: psi^(n2*(2*brv(b)+1)) with brv reversing log2(n/n2) bits.
func Root(m cutrantt.Modulus, n, n2, b int) uint32 {
	return uint32(pow(uint64(m.Psi), uint64(exponent(n, n2, b)), m.Q))
}

// exponent is the power of psi that w_b is, in [0, 2n).
func exponent(n, n2, b int) int {
	brv := 0
	for n1 := n / n2; n1 > 1; n1 /= 2 {
		brv, b = 2*brv+b%2, b/2
	}
	return n2 * (2*brv + 1)
}

// powersOf is psi^0 to psi^(2n-1), all powers there are: psi^(2n) = 1.
func powersOf(m cutrantt.Modulus, n int) []uint32 {
	p, x := make([]uint32, 2*n), uint64(1)
	for e := range p {
		p[e], x = uint32(x), x*uint64(m.Psi)%uint64(m.Q)
	}
	return p
}

// dot is the sum of x[i]*y[i] modulo q, for residues x and y. Both are at most 2^30-2, so
// 16 products and a remainder fit 64 bits.
func dot(x, y []uint32, q uint32) (sum uint64) {
	y = y[:len(x)]
	for i, v := range x {
		sum += uint64(v) * uint64(y[i])
		if i%16 == 15 {
			sum %= uint64(q)
		}
	}
	return sum % uint64(q)
}

// Block is f mod (X^n2 - w_b) for the polynomial with the coefficients f, in
// natural order: output j is the sum of f[r*n2+j]*w_b^r.
func Block(m cutrantt.Modulus, f []uint32, n2, b int) []uint32 {
	w, q := uint64(Root(m, len(f), n2, b)), uint64(m.Q)
	out := make([]uint32, n2)
	for j := range out {
		var s uint64
		for row := len(f)/n2 - 1; row >= 0; row-- { // Horner's rule
			s = (s*w + uint64(f[row*n2+j])) % q
		}
		out[j] = uint32(s)
	}
	return out
}

// at is the position of coefficient k, or of coefficient k%n2 of block k/n2.
func at(k, n, n2 int) int { return k%n2*(n/n2) + k/n2 }

// coefficients reads a limb in any domain as natural-order coefficients.
func coefficients(limb []uint32, d cutrantt.Domain, m cutrantt.Modulus) []uint32 {
	n, n2 := len(limb), int(d.N2)
	f := make([]uint32, n)
	if !d.NTT {
		for k := range f {
			f[k] = limb[at(k, n, n2)]
		}
		return f
	}
	// f[r*n2+j] = 1/n1 * sum over b of F_b[j]*w_b^-r.
	n1, q := n/n2, uint64(m.Q)
	powers, scale := powersOf(m, n), inv(uint64(n1), m.Q)
	exponents, row := make([]int, n1), make([]uint32, n1)
	for b := range exponents {
		exponents[b] = exponent(n, n2, b)
	}
	for r := range n1 {
		for b, e := range exponents {
			row[b] = powers[-e*r&(2*n-1)] // w_b^-r
		}
		for j := range n2 {
			f[r*n2+j] = uint32(dot(limb[j*n1:(j+1)*n1], row, m.Q) * scale % q)
		}
	}
	return f
}

// arrange writes natural-order coefficients to a limb in any domain.
func arrange(limb, f []uint32, d cutrantt.Domain, m cutrantt.Modulus) {
	n, n2 := len(limb), int(d.N2)
	for k, x := range f {
		limb[at(k, n, n2)] = x
	}
	if !d.NTT {
		return
	}
	// F_b[j] = sum over r of f[r*n2+j]*w_b^r, as in Block.
	n1, columns := n/n2, slices.Clone(limb)
	powers, block := powersOf(m, n), make([]uint32, n1)
	for b := range n1 {
		e := exponent(n, n2, b)
		for r := range block {
			block[r] = powers[e*r&(2*n-1)] // w_b^r
		}
		for j := range n2 {
			limb[j*n1+b] = uint32(dot(columns[j*n1:(j+1)*n1], block, m.Q))
		}
	}
}

// move brings src to dst in domain d.
func (r *ring) move(dst, src *cutrantt.Batch, d cutrantt.Domain) {
	r.each(dst, func(p, l int, m cutrantt.Modulus) {
		arrange(r.limb(dst, p, l), coefficients(r.limb(src, p, l), src.Domain(), m), d, m)
	})
}

func (r *ring) Forward(dst, src *cutrantt.Batch) error {
	if err := r.Elementwise(check.Equal, dst, src); err != nil {
		return err
	}
	if err := check.Coeffs(src); err != nil {
		return err
	}
	d := cutrantt.NTT(int(src.Domain().N2))
	r.move(dst, src, d)
	dst.SetDomain(d)
	return nil
}

func (r *ring) Inverse(dst, src *cutrantt.Batch) error {
	if err := r.Elementwise(check.Equal, dst, src); err != nil {
		return err
	}
	if err := check.NTT(src); err != nil {
		return err
	}
	d := cutrantt.Coeffs(int(src.Domain().N2))
	r.move(dst, src, d)
	dst.SetDomain(d)
	return nil
}

func (r *ring) Convert(dst, src *cutrantt.Batch) error {
	if err := r.Elementwise(check.Equal, dst, src); err != nil {
		return err
	}
	if dst.Domain() == src.Domain() {
		return r.Copy(dst, src)
	}
	r.move(dst, src, dst.Domain())
	return nil
}

func (r *ring) Automorphism(dst, a *cutrantt.Batch, g uint64) error {
	if err := r.Galois(dst, a, g); err != nil {
		return err
	}
	n, d := r.N(), a.Domain()
	r.each(dst, func(p, l int, m cutrantt.Modulus) {
		f, h := coefficients(r.limb(a, p, l), d, m), make([]uint32, n)
		for k, x := range f {
			e := k * int(g) % (2 * n)
			if e >= n { // X^N = -1
				e, x = e-n, (m.Q-x)%m.Q
			}
			h[e] = x
		}
		arrange(r.limb(dst, p, l), h, d, m)
	})
	dst.SetDomain(d)
	return nil
}
