package conformance

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/reference"
)

var columns = []int{1, 2, 4, 8, 16}

// modulus is the first usable prime from q in the direction of step, a multiple
// of 2N; q = 1 mod 2N.
func modulus(t testing.TB, logN int, q, step int) cutrantt.Modulus {
	t.Helper()
	for ; q > 1 && q < cutrantt.MaxQ; q += step {
		for g := 3; g < 60; g++ {
			psi, e := 1, (q-1)>>(logN+1)
			for b := g % q; e > 0; e /= 2 {
				if e%2 == 1 {
					psi = psi * b % q
				}
				b = b * b % q
			}
			if m := (cutrantt.Modulus{Q: uint32(q), Psi: uint32(psi)}); m.Check(logN) == nil {
				return m
			}
		}
	}
	t.Fatalf("no prime for degree 2^%d", logN)
	return cutrantt.Modulus{}
}

// moduli are count usable primes: the largest below 2^30, the smallest, one
// near 2^26, and then more from 2^30 down.
func moduli(t testing.TB, logN, count int) []cutrantt.Modulus {
	t.Helper()
	step := 2 << logN
	ms := []cutrantt.Modulus{
		modulus(t, logN, cutrantt.MaxQ-step+1, -step),
		modulus(t, logN, step+1, step),
		modulus(t, logN, 1<<26+1, step),
	}
	for len(ms) < count {
		last := ms[len(ms)-1]
		if len(ms) == 3 {
			last = ms[0]
		}
		ms = append(ms, modulus(t, logN, int(last.Q)-step, -step))
	}
	return ms[:count]
}

// rejecting is a prime above 2^32/5: uniform samplers draw a fifth of its residues
// again, and some of them many times.
func rejecting(t testing.TB, logN int) cutrantt.Modulus {
	step := 2 << logN
	return modulus(t, logN, (1<<32/5/step+1)*step+1, step)
}

// upTo is 0, 1, ..., n-1.
func upTo(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// A pattern gives residue j of a limb modulo q.
type pattern func(j int, q uint32, rng *rand.Rand) uint32

func zeros(int, uint32, *rand.Rand) uint32         { return 0 }
func ones(int, uint32, *rand.Rand) uint32          { return 1 }
func largest(_ int, q uint32, _ *rand.Rand) uint32 { return q - 1 }
func random(_ int, q uint32, r *rand.Rand) uint32  { return r.Uint32N(q) }
func alternating(j int, q uint32, _ *rand.Rand) uint32 {
	return uint32(j&1) * (q - 1)
}
func extremes(_ int, q uint32, r *rand.Rand) uint32 {
	return [...]uint32{0, 1, q - 1, q - 2, q / 2, q/2 + 1}[r.IntN(6)]
}

// firstColumn is p in the first column, of n1 residues, and 0 in the others.
func firstColumn(p pattern, n1 int) pattern {
	return func(j int, q uint32, r *rand.Rand) uint32 {
		if j >= n1 {
			return 0
		}
		return p(j, q, r)
	}
}

var patterns = []pattern{random, zeros, ones, largest, alternating, extremes}

// rig runs operations on a ring under test and on the reference.
type rig struct {
	testing.TB
	ring, ref cutrantt.Ring
	rng       *rand.Rand
}

func newRig(t testing.TB, b cutrantt.Backend, logN int, ms []cutrantt.Modulus, method cutrantt.Method) *rig {
	t.Helper()
	opts := cutrantt.Options{Method: method}
	r, err := b.NewRing(logN, ms, opts)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := reference.New().NewRing(logN, ms, opts)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, r, ref, rand.New(rand.NewPCG(uint64(logN), uint64(len(ms))))}
}

// pair is the same batch on both rings.
type pair struct{ got, want *cutrantt.Batch }

// batch makes a pair with one polynomial for each pattern.
func (g *rig) batch(limbs []int, d cutrantt.Domain, fill ...pattern) pair {
	g.Helper()
	n := g.ring.N()
	x := make([]uint32, 0, len(fill)*len(limbs)*n)
	for _, f := range fill {
		for _, l := range limbs {
			for j := range n {
				x = append(x, f(j, g.ring.Moduli()[l].Q, g.rng))
			}
		}
	}
	p := g.blank(len(fill), limbs, d)
	g.ok(g.ring.Upload(p.got, x))
	g.ok(g.ref.Upload(p.want, x))
	return p
}

// blank makes a pair whose content does not matter (it is not zero).
func (g *rig) blank(polys int, limbs []int, d cutrantt.Domain) pair {
	g.Helper()
	var p pair
	var err error
	p.got, err = g.ring.NewBatch(polys, limbs, d)
	g.ok(err)
	p.want, err = g.ref.NewBatch(polys, limbs, d)
	g.ok(err)
	junk := make([]uint32, p.got.Len())
	for i := range junk {
		junk[i] = 2
	}
	g.ok(g.ring.Upload(p.got, junk))
	return p
}

func (g *rig) slice(p pair, p0, p1, l0, l1 int) pair {
	g.Helper()
	got, err := p.got.Slice(p0, p1, l0, l1)
	g.ok(err)
	want, err := p.want.Slice(p0, p1, l0, l1)
	g.ok(err)
	return pair{got, want}
}

func (g *rig) ok(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

// run does op on both sides and compares dst afterwards.
func (g *rig) run(what string, dst pair, op func(r cutrantt.Ring, of func(pair) *cutrantt.Batch) error) {
	g.Helper()
	if err := op(g.ring, func(p pair) *cutrantt.Batch { return p.got }); err != nil {
		g.Fatalf("%s: %v", what, err)
	}
	if err := op(g.ref, func(p pair) *cutrantt.Batch { return p.want }); err != nil {
		g.Fatalf("%s: reference: %v", what, err)
	}
	g.same(what, dst)
}

// same compares labels and residues.
func (g *rig) same(what string, p pair) {
	g.Helper()
	if p.got.Domain() != p.want.Domain() {
		g.Fatalf("%s: domain %v, want %v", what, p.got.Domain(), p.want.Domain())
	}
	g.equal(what, download(g, g.ring, p.got), download(g, g.ref, p.want))
}

// equal compares residues in the order of Download.
func (g *rig) equal(what string, got, want []uint32) {
	g.Helper()
	if len(got) != len(want) {
		g.Fatalf("%s: %d residues, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			n := g.ring.N()
			g.Fatalf("%s: limb %d, position %d: %d, want %d", what, i/n, i%n, got[i], want[i])
		}
	}
}

func download(t testing.TB, r cutrantt.Ring, b *cutrantt.Batch) []uint32 {
	t.Helper()
	x := make([]uint32, b.Len())
	if err := r.Download(x, b); err != nil {
		t.Fatal(err)
	}
	return x
}

// natural reads one limb, which lies in coefficient domain with n2 columns, in
// natural order.
func natural(limb []uint32, n2 int) []uint32 {
	f := make([]uint32, len(limb))
	for k := range f {
		f[k] = limb[place(k, len(limb), n2)]
	}
	return f
}

// place is where coefficient k of n lies with n2 columns.
func place(k, n, n2 int) int { return k%n2*(n/n2) + k/n2 }

// eachMethod runs f for every method and number of columns that go together.
func eachMethod(t *testing.T, b cutrantt.Backend, f func(t *testing.T, m cutrantt.Method, n2 int)) {
	for _, m := range append(cutrantt.Methods(), cutrantt.MethodAuto) {
		if b.Name() == "reference" && m != cutrantt.MethodAuto {
			continue // it has one method
		}
		for _, n2 := range columns {
			if m.Supports(n2) {
				t.Run(fmt.Sprintf("%v/n2=%d", m, n2), func(t *testing.T) { f(t, m, n2) })
			}
		}
	}
}
