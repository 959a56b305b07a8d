package conformance

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/internal/testenv"
)

// TestExtend compares with the reference, which computes with math/big, for
// counts of limbs around every lazy run of 15 terms, and every count of chunks of
// kernels/extend.cu.
func TestExtend(t *testing.T) {
	eachCompared(t, func(t *testing.T, b cutrantt.Backend) {
		g := newRig(t, b, 10, moduli(t, 10, 40), cutrantt.MethodAuto)
		for _, c := range []struct{ from, to []int }{
			{[]int{0}, []int{1, 2, 3}},
			{[]int{1}, []int{0, 3}},
			{[]int{2, 0}, []int{0, 1, 2, 3, 4}},
			{upTo(15), []int{15, 3}},
			{upTo(16), []int{39, 16}},
			{upTo(17), []int{20, 21, 0}},
			{upTo(24), []int{30, 2, 31, 32, 33, 34, 35, 36, 37, 38}},
			{upTo(31), []int{39, 38, 37, 36, 35, 34, 33, 32, 31, 0}}, // the most that the tensor cores take
			{upTo(32), []int{35, 33}},
		} {
			for _, n2 := range []int{1, 4, 16} {
				if testing.Short() && n2 != 16 && len(c.from) > 17 {
					continue
				}
				src := g.batch(c.from, cutrantt.Coeffs(n2), random, largest, zeros, ones, extremes)
				dst := g.blank(5, c.to, cutrantt.Coeffs(n2))
				g.run(fmt.Sprintf("extend %v to %v", c.from, c.to), dst,
					func(r cutrantt.Ring, of func(pair) *cutrantt.Batch) error {
						return r.Extend(of(dst), of(src))
					})
				g.same("source of extend", src)
			}
		}
	})
}

// TestExtendScaled compares with separate products of the reference, with and without each factor.
func TestExtendScaled(t *testing.T) {
	eachCompared(t, func(t *testing.T, b cutrantt.Backend) {
		mods := moduli(t, 10, 40)
		g := newRig(t, b, 10, mods, cutrantt.MethodAuto)
		rng := rand.New(rand.NewPCG(11, 12))
		scalars := func(limbs []int) []uint32 {
			out := make([]uint32, len(limbs))
			for i, l := range limbs {
				switch i % 4 {
				case 0:
					out[i] = mods[l].Q - 1
				case 1:
					out[i] = rng.Uint32N(mods[l].Q)
				case 2:
					out[i] = 1
				}
			}
			return out
		}
		for _, c := range []struct{ from, to []int }{
			{[]int{0}, []int{1, 2, 3}}, {[]int{4, 0}, []int{1, 2, 3}}, {[]int{2, 0}, []int{0, 1}},
			{upTo(6), []int{30, 7, 8}}, {upTo(17), []int{20, 21, 39}},
		} {
			for _, n2 := range []int{1, 16} {
				for _, with := range [][2][]uint32{
					{}, {scalars(c.from), nil}, {nil, scalars(c.to)}, {scalars(c.from), scalars(c.to)},
				} {
					src := g.batch(c.from, cutrantt.Coeffs(n2), random, largest, zeros, ones, extremes)
					dst := g.blank(5, c.to, cutrantt.Coeffs(n2))
					g.run(fmt.Sprintf("extend %v to %v by %v", c.from, c.to, with), dst,
						func(r cutrantt.Ring, of func(pair) *cutrantt.Batch) error {
							return cutrantt.ExtendScaled(r, of(dst), of(src), with[0], with[1])
						})
				}
			}
		}
		src := g.batch([]int{0}, cutrantt.Coeffs(1), random)
		dst := g.blank(1, []int{1}, cutrantt.Coeffs(1))
		for _, with := range [][2][]uint32{{{}, nil}, {nil, {1, 1}}, {{mods[0].Q}, nil}, {nil, {mods[1].Q}}} {
			if err := cutrantt.ExtendScaled(g.ring, dst.got, src.got, with[0], with[1]); err == nil {
				t.Errorf("extended by %v", with)
			}
		}
	})
}

// TestExtendLarge gives the blocks of kernels/extend.cu several groups of outputs,
// even and odd numbers of them, for every number of chunks: smaller rings deal the
// groups out to more blocks.
func TestExtendLarge(t *testing.T) {
	eachCompared(t, func(t *testing.T, b cutrantt.Backend) {
		if testing.Short() && b.Name() != "cuda" {
			testenv.Missing(t, "deep", "-short: processors have no such blocks, and the sizes take long")
		}
		g := newRig(t, b, 13, moduli(t, 13, 43), cutrantt.MethodAuto)
		for _, c := range []struct{ from, outputs int }{{3, 17}, {10, 12}, {20, 17}, {20, 12}, {26, 17}} {
			to := upTo(c.from + c.outputs)[c.from:]
			src := g.batch(upTo(c.from), cutrantt.Coeffs(16), random, largest, random, extremes, random)
			dst := g.blank(5, to, cutrantt.Coeffs(16))
			g.run(fmt.Sprintf("extend %d limbs to %d", c.from, c.outputs), dst,
				func(r cutrantt.Ring, of func(pair) *cutrantt.Batch) error {
					return r.Extend(of(dst), of(src))
				})
		}
	})
}

// TestDivRound compares with the reference in both domains, dropping one limb,
// two, and more than one lazy run; also in place of the leading limbs.
func TestDivRound(t *testing.T) {
	eachCompared(t, func(t *testing.T, b cutrantt.Backend) {
		g := newRig(t, b, 10, moduli(t, 10, 36), cutrantt.MethodAuto)
		for _, n2 := range columns {
			for _, d := range []cutrantt.Domain{cutrantt.Coeffs(n2), cutrantt.NTT(n2)} {
				for _, c := range []struct {
					limbs []int
					keep  int
				}{{[]int{0, 2}, 1}, {[]int{1, 2, 0}, 1}, {[]int{4, 0, 2, 1, 3}, 3}, {upTo(20), 3}, {upTo(36), 2}} {
					if len(c.limbs) > 5 && n2 != 16 {
						continue
					}
					what := fmt.Sprintf("%v: %v to %d", d, c.limbs, c.keep)
					src := g.batch(c.limbs, d, random, extremes)
					dst := g.blank(2, c.limbs[:c.keep], d)
					g.run(what, dst, func(r cutrantt.Ring, of func(pair) *cutrantt.Batch) error {
						return r.DivRound(of(dst), of(src))
					})
					g.same("source of divround", src)
					head := g.slice(src, 0, 2, 0, c.keep)
					g.run(what+", in place", head, func(r cutrantt.Ring, of func(pair) *cutrantt.Batch) error {
						return r.DivRound(of(head), of(src))
					})
				}
			}
		}
	})
}

// TestIntegers checks what Extend and DivRound mean, on integers: x comes back
// modulo other primes, and src/D is rounded to nearest.
func TestIntegers(t *testing.T) {
	eachBackend(t, func(t *testing.T, b cutrantt.Backend) {
		for _, limbs := range []int{1, 2, 5} {
			const keep = 2
			ms := moduli(t, 10, keep+limbs)
			g := newRig(t, b, 10, ms, cutrantt.MethodAuto)
			n := g.ring.N()
			s := product(ms[keep:]) // also the divisor D
			xs := make([]*big.Int, n)
			for k := range xs {
				xs[k] = centredRandom(g.rng, s)
			}
			small := g.blank(1, upTo(keep + limbs)[keep:], cutrantt.Coeffs(2)).got
			g.ok(g.ring.Upload(small, residues(xs, ms[keep:], 2)))
			wide := g.blank(1, upTo(keep+limbs), cutrantt.Coeffs(2)).got
			g.ok(g.ring.Extend(wide, small))
			g.equal("extend", download(t, g.ring, wide), residues(xs, ms, 2))

			whole := product(ms)
			want := make([]*big.Int, n)
			for k := range xs {
				xs[k] = centredRandom(g.rng, whole)
				want[k] = divRound(xs[k], s)
			}
			g.ok(g.ring.Upload(wide, residues(xs, ms, 2)))
			out := g.blank(1, upTo(keep), cutrantt.Coeffs(2)).got
			g.ok(g.ring.DivRound(out, wide))
			g.equal("divround", download(t, g.ring, out), residues(want, ms[:keep], 2))
		}
	})
}

func product(ms []cutrantt.Modulus) *big.Int {
	s := big.NewInt(1)
	for _, m := range ms {
		s.Mul(s, big.NewInt(int64(m.Q)))
	}
	return s
}

// centredRandom is in (-0.49*s, 0.49*s), or a few units.
func centredRandom(rng *rand.Rand, s *big.Int) *big.Int {
	if rng.IntN(4) == 0 {
		return big.NewInt(rng.Int64N(7) - 3)
	}
	b := make([]byte, len(s.Bytes())+8)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	bound := new(big.Int).Div(new(big.Int).Mul(s, big.NewInt(98)), big.NewInt(100))
	x := new(big.Int).Mod(new(big.Int).SetBytes(b), bound)
	return x.Sub(x, bound.Rsh(bound, 1))
}

// divRound is x/d rounded to nearest, d odd.
func divRound(x, d *big.Int) *big.Int {
	half := new(big.Int).Rsh(d, 1)
	return new(big.Int).Div(half.Add(half, x), d) // Euclidean: floor for d > 0
}

// residues are coefficients in the coefficient layout of n2 columns.
func residues(xs []*big.Int, ms []cutrantt.Modulus, n2 int) []uint32 {
	n := len(xs)
	out := make([]uint32, len(ms)*n)
	for l, m := range ms {
		q := big.NewInt(int64(m.Q))
		for k, x := range xs {
			out[l*n+place(k, n, n2)] = uint32(new(big.Int).Mod(x, q).Uint64())
		}
	}
	return out
}

// TestAutomorphism compares with the definition on coefficients.
func TestAutomorphism(t *testing.T) {
	eachCompared(t, func(t *testing.T, b cutrantt.Backend) {
		for _, n2 := range columns {
			g := newRig(t, b, 10, moduli(t, 10, 2), cutrantt.MethodAuto)
			for _, d := range []cutrantt.Domain{cutrantt.Coeffs(n2), cutrantt.NTT(n2)} {
				for _, e := range []uint64{1, 3, 5, 25, 1023, 1025, 2047, uint64(g.rng.IntN(1024))*2 + 1} {
					src := g.batch(upTo(2), d, random, extremes)
					dst := g.blank(2, upTo(2), cutrantt.Coeffs(1))
					g.run(fmt.Sprintf("%v, X^%d", d, e), dst,
						func(r cutrantt.Ring, of func(pair) *cutrantt.Batch) error {
							return r.Automorphism(of(dst), of(src), e)
						})
					g.same("source of automorphism", src)
				}
			}
		}
	})
}

// TestAutomorphismCoefficients checks the definition itself, and that both
// domains agree in large rings.
func TestAutomorphismCoefficients(t *testing.T) {
	eachBackend(t, func(t *testing.T, b cutrantt.Backend) {
		sizes := []int{10, 13, 17}
		if b.Name() == "reference" {
			sizes = sizes[:1]
		}
		for _, logN := range sizes {
			ms := moduli(t, logN, 1)
			g := newRig(t, b, logN, ms, cutrantt.MethodAuto)
			n, r := g.ring.N(), g.ring
			for _, n2 := range columns {
				e := g.rng.IntN(n)*2 + 1
				src := g.batch([]int{0}, cutrantt.Coeffs(n2), random).got
				dst := g.blank(1, []int{0}, cutrantt.Coeffs(n2)).got
				g.ok(r.Automorphism(dst, src, uint64(e)))
				want := make([]uint32, n)
				for k, x := range natural(download(t, r, src), n2) {
					to := k * e % (2 * n)
					if to >= n {
						to, x = to-n, (ms[0].Q-x)%ms[0].Q
					}
					want[to] = x
				}
				g.equal("coefficients", natural(download(t, r, dst), n2), want)
				g.ok(r.Forward(src, src))
				g.ok(r.Automorphism(dst, src, uint64(e)))
				g.ok(r.Inverse(dst, dst))
				g.equal("through the transform", natural(download(t, r, dst), n2), want)
			}
		}
	})
}

// TestSet covers SetSmall and SetFloats, up to the largest float64.
func TestSet(t *testing.T) {
	eachBackend(t, func(t *testing.T, b cutrantt.Backend) {
		g := newRig(t, b, 10, moduli(t, 10, 3), cutrantt.MethodAuto)
		n, ms := g.ring.N(), g.ring.Moduli()
		small := make([]int32, n)
		copy(small, []int32{0, 1, -1, 1<<30 - 1, -(1<<30 - 1), 12289, -12289, 12288, 1 << 29})
		for k := 16; k < n; k++ {
			small[k] = g.rng.Int32N(1<<31-1) - 1<<30 + 1
		}
		floats := [][]float64{make([]float64, n), make([]float64, n)}
		copy(floats[0], []float64{0, math.Copysign(0, -1), 1, -1, 1 << 53, -(1 << 53), 1<<62 + 1<<20, -(1 << 62),
			1<<63 - 1024, -(1<<63 - 1024)})
		copy(floats[1], []float64{1 << 63, -(1 << 63), 1.7976931348623157e308, -1.7976931348623157e308,
			1e300, -1e22, 3, -7})
		for k := 16; k < n; k++ {
			floats[0][k] = float64(g.rng.Int64N(1<<62)>>g.rng.IntN(60)) * float64(1-2*g.rng.IntN(2))
			floats[1][k] = float64(g.rng.Int64N(1<<53)-1<<52) * float64(uint64(1)<<g.rng.IntN(64)) *
				float64(uint64(1)<<g.rng.IntN(64))
		}
		for _, n2 := range columns {
			dst := g.blank(1, []int{1, 0, 2}, cutrantt.Coeffs(n2)).got
			g.ok(g.ring.SetSmall(dst, small))
			check := func(what string, v func(k int) *big.Int) {
				t.Helper()
				xs := make([]*big.Int, n)
				for k := range xs {
					xs[k] = v(k)
				}
				g.equal(what, download(t, g.ring, dst), residues(xs, []cutrantt.Modulus{ms[1], ms[0], ms[2]}, n2))
			}
			check("small", func(k int) *big.Int { return big.NewInt(int64(small[k])) })
			for i, f := range floats {
				g.ok(g.ring.SetFloats(dst, f))
				check(fmt.Sprintf("floats %d", i), func(k int) *big.Int {
					x, _ := big.NewFloat(f[k]).Int(nil)
					return x
				})
			}
		}
	})
}

// TestSample compares the samplers with the reference and checks that small
// polynomials do not depend on n2, nor uniform limbs on the other limbs.
func TestSample(t *testing.T) {
	seed := &[32]byte{7, 1, 255}
	eachBackend(t, func(t *testing.T, b cutrantt.Backend) {
		g := newRig(t, b, 10, append(moduli(t, 10, 3), rejecting(t, 10)), cutrantt.MethodAuto)
		for name, f := range map[string]func(r cutrantt.Ring, dst *cutrantt.Batch, seed *[32]byte, label uint32) error{
			"uniform": cutrantt.Ring.SampleUniform, "ternary": cutrantt.Ring.SampleTernary,
			"cbd": cutrantt.Ring.SampleCBD,
		} {
			var first []uint32
			for _, n2 := range columns {
				dst := g.blank(1, []int{2, 0}, cutrantt.Coeffs(n2))
				g.run(name, dst, func(r cutrantt.Ring, of func(pair) *cutrantt.Batch) error {
					return f(r, of(dst), seed, 9)
				})
				limb := download(t, g.ring, dst.got)[1024:]
				if name != "uniform" {
					limb = natural(limb, n2)
				}
				if first == nil {
					first = limb
				}
				g.equal(name+": the same for every n2", limb, first)
				alone := g.blank(1, []int{0}, cutrantt.Coeffs(n2)).got
				g.ok(f(g.ring, alone, seed, 9))
				g.equal(name+": limb 0 alone", download(t, g.ring, alone), download(t, g.ring, dst.got)[1024:])
				g.ok(f(g.ring, alone, seed, 10))
				if slices.Equal(download(t, g.ring, alone), download(t, g.ring, dst.got)[1024:]) {
					t.Errorf("%s: two labels give the same polynomial", name)
				}
			}
		}
		u := g.blank(1, upTo(4), cutrantt.NTT(16))
		g.run("uniform in the ntt domain", u, func(r cutrantt.Ring, of func(pair) *cutrantt.Batch) error {
			return r.SampleUniform(of(u), seed, 1)
		})
	})
}
