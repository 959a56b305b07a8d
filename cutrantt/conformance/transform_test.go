package conformance

import (
	"fmt"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/reference"
)

// TestTransform compares whole transforms, both ways, with the definition.
func TestTransform(t *testing.T) {
	eachCompared(t, func(t *testing.T, b cutrantt.Backend) {
		for _, c := range []struct {
			logN, moduli int
			fill         []pattern
		}{
			{10, 3, patterns},
			{11, 2, []pattern{random, extremes}},
			{12, 1, []pattern{random}},
			{13, 1, []pattern{random}},
		} {
			for _, n2 := range columns {
				if c.logN == 13 && n2 < 4 {
					continue // seconds by the definition; see TestBlocks
				}
				t.Run(fmt.Sprintf("N=2^%d/n2=%d", c.logN, n2), func(t *testing.T) {
					g := newRig(t, b, c.logN, moduli(t, c.logN, c.moduli), cutrantt.MethodAuto)
					src := g.batch(upTo(c.moduli), cutrantt.Coeffs(n2), c.fill...)
					dst := g.blank(len(c.fill), upTo(c.moduli), cutrantt.Coeffs(1))
					g.run("forward", dst, func(r cutrantt.Ring, of func(pair) *cutrantt.Batch) error {
						return r.Forward(of(dst), of(src))
					})
					if d := dst.got.Domain(); d != cutrantt.NTT(n2) {
						t.Fatalf("forward leaves %v", d)
					}
					g.same("source of forward", src)
					in := g.batch(upTo(c.moduli), cutrantt.NTT(n2), c.fill...)
					g.run("inverse", dst, func(r cutrantt.Ring, of func(pair) *cutrantt.Batch) error {
						return r.Inverse(of(dst), of(in))
					})
					if d := dst.got.Domain(); d != cutrantt.Coeffs(n2) {
						t.Fatalf("inverse leaves %v", d)
					}
				})
			}
		}
	})
}

// TestBlocks checks chosen blocks of large transforms against their definition,
// and that the inverse restores the input; in place.
func TestBlocks(t *testing.T) {
	eachBackend(t, func(t *testing.T, b cutrantt.Backend) {
		sizes := []int{10, 13, 14, 15, 16, 17}
		if b.Name() == "reference" {
			sizes = sizes[:1]
		}
		for _, logN := range sizes {
			m := []cutrantt.Modulus{modulus(t, logN, cutrantt.MaxQ-2<<logN+1, -2<<logN)}
			g := newRig(t, b, logN, m, cutrantt.MethodAuto)
			n := g.ring.N()
			for _, n2 := range columns {
				what := fmt.Sprintf("N=2^%d n2=%d", logN, n2)
				src := g.batch([]int{0}, cutrantt.Coeffs(n2), random).got
				input := download(g, g.ring, src)
				f, n1 := natural(input, n2), n/n2
				g.ok(g.ring.Forward(src, src))
				out := download(g, g.ring, src)
				for _, block := range []int{0, 1, 2, n1 / 2, n1 - 1, g.rng.IntN(n1)} {
					for j, want := range reference.Block(m[0], f, n2, block) {
						if got := out[j*n1+block]; got != want {
							t.Fatalf("%s: block %d, coefficient %d: %d, want %d", what, block, j, got, want)
						}
					}
				}
				g.ok(g.ring.Inverse(src, src))
				g.equal(what+": inverse of forward", download(g, g.ring, src), input)
			}
		}
	})
}

// TestConvert goes from every domain to every other one.
func TestConvert(t *testing.T) {
	var all []cutrantt.Domain
	for _, n2 := range columns {
		all = append(all, cutrantt.Coeffs(n2), cutrantt.NTT(n2))
	}
	eachBackend(t, func(t *testing.T, b cutrantt.Backend) {
		g := newRig(t, b, 10, moduli(t, 10, 2), cutrantt.MethodAuto)
		start := g.batch(upTo(2), cutrantt.Coeffs(1), random, extremes)
		images := make(map[cutrantt.Domain]pair)
		for _, d := range all {
			p := g.blank(2, upTo(2), d)
			g.ok(g.ref.Convert(p.want, start.want))
			g.ok(g.ring.Upload(p.got, download(g, g.ref, p.want)))
			images[d] = p
		}
		for _, from := range all {
			for _, to := range all {
				dst := g.blank(2, upTo(2), to)
				g.ok(g.ring.Convert(dst.got, images[from].got))
				g.ok(g.ref.Copy(dst.want, images[to].want))
				g.same(fmt.Sprintf("%v to %v", from, to), dst)
				// In place: two views of one batch with different labels.
				whole := g.batch(upTo(2), from, zeros, zeros).got
				g.ok(g.ring.Copy(whole, images[from].got))
				view, err := whole.Slice(0, 2, 0, 2)
				g.ok(err)
				view.SetDomain(to)
				g.ok(g.ring.Convert(view, whole))
				g.same(fmt.Sprintf("%v to %v in place", from, to), pair{view, dst.want})
			}
		}
	})
}

// TestConvertLarge finishes and undoes all levels of large rings, where blocks
// are checked one by one.
func TestConvertLarge(t *testing.T) {
	eachCompared(t, func(t *testing.T, b cutrantt.Backend) {
		for _, logN := range []int{14, 17} {
			g := newRig(t, b, logN, moduli(t, logN, 1), cutrantt.MethodAuto)
			src := g.batch([]int{0}, cutrantt.Coeffs(8), random).got
			f := natural(download(g, g.ring, src), 8)
			last, n := src, g.ring.N()
			for _, n2 := range []int{16, 1, 4, 2, 8} {
				dst := g.blank(1, []int{0}, cutrantt.NTT(n2)).got
				g.ok(g.ring.Convert(dst, last))
				out, n1 := download(g, g.ring, dst), n/n2
				for range 4 {
					block := g.rng.IntN(n1)
					for j, want := range reference.Block(g.ring.Moduli()[0], f, n2, block) {
						if got := out[j*n1+block]; got != want {
							t.Fatalf("2^%d: %v to %v: block %d, coefficient %d: %d, want %d", logN, last.Domain(),
								dst.Domain(), block, j, got, want)
						}
					}
				}
				last = dst
			}
			back := g.blank(1, []int{0}, cutrantt.Coeffs(8)).got
			g.ok(g.ring.Convert(back, last))
			g.equal("and back", download(g, g.ring, back), download(g, g.ring, src))
		}
	})
}
