package reference

import (
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
	brv := 0
	for n1 := n / n2; n1 > 1; n1 /= 2 {
		brv, b = 2*brv+b%2, b/2
	}
	return uint32(pow(uint64(m.Psi), uint64(n2*(2*brv+1)), m.Q))
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
	sum := make([]uint64, n)
	for b := range n1 {
		back := inv(uint64(Root(m, n, n2, b)), m.Q)
		power := inv(uint64(n1), m.Q)
		for row := range n1 {
			for j := range n2 {
				sum[row*n2+j] = (sum[row*n2+j] + uint64(limb[j*n1+b])*power) % q
			}
			power = power * back % q
		}
	}
	for k, s := range sum {
		f[k] = uint32(s)
	}
	return f
}

// arrange writes natural-order coefficients to a limb in any domain.
func arrange(limb, f []uint32, d cutrantt.Domain, m cutrantt.Modulus) {
	n, n2 := len(limb), int(d.N2)
	for b := range n / n2 {
		block := f[b*n2 : (b+1)*n2]
		if d.NTT {
			block = Block(m, f, n2, b)
		}
		for j, x := range block {
			limb[at(b*n2+j, n, n2)] = x
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
