package cuda

import (
	"fmt"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

// inTurn runs f for one variant and the other, twice, as machines and minutes differ.
func inTurn(b *testing.B, name string, set func(on bool), f func(b *testing.B)) {
	for round := range 2 {
		for _, on := range []bool{false, true} {
			set(on)
			b.Run(fmt.Sprintf("%s/%t/%d", name, on, round+1), f)
		}
	}
}

// BenchmarkWide compares transforms with factors in shared memory (kernels/wide.cu)
// with the others, alone and in products of ciphertexts.
func BenchmarkWide(b *testing.B) {
	opened, err := New()
	if err != nil {
		b.Skip(err)
	}
	gpu := opened.(*backend)
	defer func(u wideUse) { gpu.wide = u }(gpu.wide)
	set := func(on bool) {
		gpu.wide = wideNever
		if on {
			gpu.wide = wideAuto
		}
	}
	for _, c := range []struct{ logN, limbs, n2 int }{{16, 66, 16}, {16, 132, 16}, {16, 66, 8}, {15, 66, 8}} {
		r := benchRing(b, c.logN, min(c.limbs, 66), cutrantt.MethodAuto)
		polys := c.limbs / 66
		src := r.uniform(b, benchSets, polys, upTo(66), cutrantt.Coeffs(c.n2))
		dst := r.uniform(b, benchSets, polys, upTo(66), cutrantt.NTT(c.n2))
		at := fmt.Sprintf("2^%d/%d/n2=%d", c.logN, c.limbs, c.n2)
		inTurn(b, "ntt/"+at, set, func(b *testing.B) {
			timeGPU(b, r, 2*benchSets, func(i int) error { return r.Forward(dst[i], src[i]) })
		})
		inTurn(b, "intt/"+at, set, func(b *testing.B) {
			timeGPU(b, r, 2*benchSets, func(i int) error { return r.Inverse(src[i], dst[i]) })
		})
	}
	for _, n2 := range []int{16, 8} {
		s := newBenchSwitch(b, 16, 66, 22, n2)
		inTurn(b, fmt.Sprintf("hmult/2^16/n2=%d", n2), set, func(b *testing.B) { timeGPU(b, s.r, benchSets, s.product) })
	}
}

// product is a whole product of ciphertexts.
func (s *benchSwitch) product(i int) error {
	if err := s.tensor(i); err != nil {
		return err
	}
	return cutrantt.SwitchKeys(s.r, s.gadget, []cutrantt.KeySwitch{s.item(s.out[i], i)})
}
