package conformance

import (
	"fmt"
	"math/big"
	"slices"
	"sync"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

// TestMul compares Hadamard products with the definition.
func TestMul(t *testing.T) {
	eachCompared(t, func(t *testing.T, b cutrantt.Backend) {
		eachMethod(t, b, func(t *testing.T, m cutrantt.Method, n2 int) {
			g := newRig(t, b, 10, moduli(t, 10, 3), m)
			limbs := upTo(3)
			x := g.batch(limbs, cutrantt.NTT(n2), random, largest, largest, extremes, alternating, zeros, ones)
			y := g.batch(limbs, cutrantt.NTT(n2), random, largest, random, extremes, largest, random, random)
			one := g.slice(y, 1, 2, 0, 3)
			dst := g.blank(7, limbs, cutrantt.Coeffs(1))
			mul := func(what string, dst, x, y pair) {
				t.Helper()
				g.run(what, dst, func(r cutrantt.Ring, of func(pair) *cutrantt.Batch) error {
					return r.Mul(of(dst), of(x), of(y))
				})
			}
			mul("mul", dst, x, y)
			mul("mul, broadcast right", dst, x, one)
			mul("mul, broadcast left", dst, one, y)
			mul("mul, both broadcast", dst, one, one)
			add := func(what string, dst, x, y pair) {
				t.Helper()
				g.run(what, dst, func(r cutrantt.Ring, of func(pair) *cutrantt.Batch) error {
					return r.MulAdd(of(dst), of(x), of(y))
				})
			}
			acc := g.batch(limbs, cutrantt.NTT(n2), largest, largest, random, random, extremes, largest, zeros)
			add("muladd", acc, x, y)
			add("muladd, broadcast", acc, x, one)
			g.same("left factor", x)
			g.same("right factor", y)
			// Views: one limb and two polynomials inside larger batches.
			mul("mul of views", g.slice(dst, 2, 4, 1, 2), g.slice(x, 0, 2, 1, 2), g.slice(y, 3, 5, 1, 2))
			g.same("around the view", dst)
			add("muladd in place of a factor", x, x, y)
			mul("mul in place of the left factor", x, x, y)
			mul("mul in place of the right factor", y, x, y)
			mul("square in place", x, x, x)
		})
	})
}

// TestMulLarge spot-checks larger rings: other twiddle indices, all blocks.
func TestMulLarge(t *testing.T) {
	eachCompared(t, func(t *testing.T, b cutrantt.Backend) {
		eachMethod(t, b, func(t *testing.T, m cutrantt.Method, n2 int) {
			for _, logN := range []int{11, 13, 17} {
				if logN == 17 && n2 != 16 && n2 != 4 {
					continue
				}
				g := newRig(t, b, logN, moduli(t, logN, 1), m)
				x := g.batch([]int{0}, cutrantt.NTT(n2), random)
				y := g.batch([]int{0}, cutrantt.NTT(n2), extremes)
				g.run(fmt.Sprintf("2^%d", logN), x, func(r cutrantt.Ring, of func(pair) *cutrantt.Batch) error {
					return r.Mul(of(x), of(x), of(y))
				})
			}
		})
	})
}

// negacyclic is f*h mod (X^N+1, q) by one multiplication of integers: the
// coefficients are packed 80 bits apart (Kronecker substitution).
func negacyclic(f, h []uint32, q uint32) []uint32 {
	const width = 10 // bytes; sums are below 2^(17+60)
	n := len(f)
	pack := func(f []uint32) *big.Int {
		b := make([]byte, width*n)
		for k, x := range f {
			end := len(b) - width*k
			b[end-1], b[end-2], b[end-3], b[end-4] = byte(x), byte(x>>8), byte(x>>16), byte(x>>24)
		}
		return new(big.Int).SetBytes(b)
	}
	b := new(big.Int).Mul(pack(f), pack(h)).FillBytes(make([]byte, width*2*n))
	out := make([]uint32, n)
	for k := range 2 * n {
		end := len(b) - width*k
		var c uint64
		for _, d := range b[end-width : end] {
			c = (c<<8 | uint64(d)) % uint64(q)
		}
		if k < n {
			out[k] = uint32(c)
		} else { // X^N = -1
			out[k-n] = uint32((uint64(out[k-n]) + uint64(q) - c) % uint64(q))
		}
	}
	return out
}

// products caches f, h and f*h per degree; both in natural order.
var products struct {
	sync.Mutex
	m map[int][3][]uint32
}

func productOf(t testing.TB, logN int, m cutrantt.Modulus, g *rig) (f, h, fh []uint32) {
	t.Helper()
	products.Lock()
	defer products.Unlock()
	if p, ok := products.m[logN]; ok {
		return p[0], p[1], p[2]
	}
	n := 1 << logN
	f, h = make([]uint32, n), make([]uint32, n)
	for k := range n {
		f[k], h[k] = random(k, m.Q, g.rng), extremes(k, m.Q, g.rng)
	}
	fh = negacyclic(f, h, m.Q)
	if products.m == nil {
		products.m = make(map[int][3][]uint32)
	}
	products.m[logN] = [3][]uint32{f, h, fh}
	return f, h, fh
}

// TestProduct multiplies polynomials through the transform and compares with
// math/big.
func TestProduct(t *testing.T) {
	eachBackend(t, func(t *testing.T, b cutrantt.Backend) {
		sizes := []int{10, 12, 14}
		if b.Name() == "reference" {
			sizes = sizes[:1]
		}
		eachMethod(t, b, func(t *testing.T, method cutrantt.Method, n2 int) {
			for _, logN := range sizes {
				g := newRig(t, b, logN, moduli(t, logN, 1), method)
				f, h, want := productOf(t, logN, g.ring.Moduli()[0], g)
				x := g.blank(1, []int{0}, cutrantt.Coeffs(n2)).got
				y := g.blank(1, []int{0}, cutrantt.Coeffs(n2)).got
				for batch, f := range map[*cutrantt.Batch][]uint32{x: f, y: h} {
					words := make([]uint32, len(f))
					for k, c := range f {
						words[place(k, len(f), n2)] = c
					}
					g.ok(g.ring.Upload(batch, words))
				}
				g.ok(g.ring.Forward(x, x))
				g.ok(g.ring.Forward(y, y))
				g.ok(g.ring.Mul(x, x, y))
				g.ok(g.ring.Inverse(x, x))
				g.equal(fmt.Sprintf("2^%d", logN), natural(download(g, g.ring, x), n2), want)
			}
		})
	})
}

// TestMulOperand covers sums of up to 33 terms (longer than any lazy run), one
// to three results, and limbs that are a subset, in another order, of the
// operand's.
func TestMulOperand(t *testing.T) {
	eachCompared(t, func(t *testing.T, b cutrantt.Backend) {
		eachMethod(t, b, func(t *testing.T, m cutrantt.Method, n2 int) {
			g := newRig(t, b, 10, moduli(t, 10, 4), m)
			for _, c := range []struct {
				terms, results int
				limbs          []int
			}{
				{1, 1, []int{0, 1, 2, 3}}, {1, 2, []int{3, 0}}, {2, 2, []int{1}}, {3, 1, []int{0, 1}},
				{2, 3, []int{0, 2}}, {16, 2, []int{0}}, {17, 1, []int{0}}, {33, 1, []int{0}},
			} {
				what := fmt.Sprintf("%d terms, %d results, limbs %v", c.terms, c.results, c.limbs)
				fill := func(n int, p pattern) []pattern { return slices.Repeat([]pattern{p}, n) }
				for _, p := range []pattern{random, largest} {
					a := g.batch(c.limbs, cutrantt.NTT(n2), fill(c.terms, p)...)
					y := g.batch([]int{2, 0, 3, 1}, cutrantt.NTT(n2), fill(c.terms*c.results, p)...)
					ops := [2]cutrantt.Operand{}
					var err error
					ops[0], err = g.ring.Precompute(y.got)
					g.ok(err)
					ops[1], err = g.ref.Precompute(y.want)
					g.ok(err)
					if s := ops[0].Shape(); s.Polys != c.terms*c.results || !s.SameLimbs(y.got.Shape()) ||
						s.Domain != cutrantt.NTT(n2) {
						t.Fatalf("operand of shape %v", s)
					}
					g.ok(g.ring.Wipe(y.got)) // the operand is a copy
					op := func(r cutrantt.Ring) cutrantt.Operand {
						if r == g.ring {
							return ops[0]
						}
						return ops[1]
					}
					dst := g.blank(c.results, c.limbs, cutrantt.Coeffs(1))
					g.run(what, dst, func(r cutrantt.Ring, of func(pair) *cutrantt.Batch) error {
						return r.MulOperand(of(dst), of(a), op(r))
					})
					g.same(what+": a", a)
					if c.terms == c.results {
						g.run(what+", in place", a, func(r cutrantt.Ring, of func(pair) *cutrantt.Batch) error {
							return r.MulOperand(of(a), of(a), op(r))
						})
					}
					ops[0].Release()
					ops[0].Release()
					wantErr(t, "released operand", g.ring.MulOperand(dst.got, a.got, ops[0]), cutrantt.ErrForeign)
				}
			}
		})
	})
}

// TestOperandDefinition says what MulOperand is in terms of Mul and Add.
func TestOperandDefinition(t *testing.T) {
	eachBackend(t, func(t *testing.T, b cutrantt.Backend) {
		for _, n2 := range columns {
			g := newRig(t, b, 10, moduli(t, 10, 2), cutrantt.MethodAuto)
			r := g.ring
			a := g.batch([]int{1}, cutrantt.NTT(n2), random, random, random).got
			y := g.batch([]int{0, 1}, cutrantt.NTT(n2), random, random, random, random, random, random).got
			op, err := r.Precompute(y)
			g.ok(err)
			got := g.blank(2, []int{1}, cutrantt.NTT(n2)).got
			g.ok(r.MulOperand(got, a, op))
			for k := range 2 {
				sum := g.batch([]int{1}, cutrantt.NTT(n2), zeros).got
				for i := range 3 {
					ai, err := a.Slice(i, i+1, 0, 1)
					g.ok(err)
					bi, err := y.Slice(2*i+k, 2*i+k+1, 1, 2)
					g.ok(err)
					g.ok(r.MulAdd(sum, ai, bi))
				}
				part, err := got.Slice(k, k+1, 0, 1)
				g.ok(err)
				g.equal(fmt.Sprintf("n2=%d result %d", n2, k), download(g, r, part), download(g, r, sum))
			}
		}
	})
}
