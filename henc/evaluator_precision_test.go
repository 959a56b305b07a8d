package henc_test

import (
	"math"
	"os"
	"strings"
	"testing"
)

// precision is the table of docs/parameters.md: x is encrypted with the seeded
// encryptor at the top level (real slots, uniform in [-1, 1], all slots in use) and
// squared depth times with a rescaling after each. The error is the largest
// absolute value, over all slots, of the complex difference between the decrypted
// slots and x^(2^depth) in float64.
var precision = []struct {
	set   string
	depth int
	bits  float64 // log2 of the table's error
	deep  bool
}{
	{"edge12-add", 0, -16.9, false},
	{"edge12-d1", 1, -13.8, false},
	{"edge13-d3", 3, -14, false},
	{"edge13-d2p", 2, -36, false},
	{"std14-d5", 5, -34.7, false},
	// Not in the table, measured here.
	{"std15-d8", 8, -30, false},
	{"std15-d11", 11, -28, true},
	// Not in the table, measured here. Nearly every x^(2^23) is 0, so this says
	// that 23 levels work, not how errors of large values grow.
	{"deep16-d23", 23, -36, true},
}

// TestPrecision asserts the table up to one bit, for the complete transform and
// for 16 columns, with Mul then Rescale and with the fused MulRescale.
func TestPrecision(t *testing.T) {
	for _, row := range precision {
		if row.deep && os.Getenv("HENCEDGE_TEST_DEEP") != "1" {
			t.Logf("%s: set HENCEDGE_TEST_DEEP=1 to run", row.set)
			continue
		}
		for _, n2 := range []int{1, 16} {
			if testing.Short() && n2 == 1 && !strings.HasPrefix(row.set, "edge") {
				continue
			}
			r := newRig(t, row.set, n2)
			x := reals(r.p.Slots(), 7)
			fresh := must(r.seeded.EncryptReal(x, r.p.MaxLevel(), 0, seedOf("precision")))(t)
			for _, fused := range []bool{false, true} {
				if fused && row.depth == 0 || r.p.LogN() >= 15 && fused != (n2 == 16) {
					continue // large rings: one way for each n2
				}
				ct, want := fresh, append([]float64(nil), x...)
				for range row.depth {
					ev := r.evaluator(t)
					if fused {
						ct = must(ev.MulRescale(ct, ct))(t)
					} else {
						ct = must(ev.Rescale(must(ev.Mul(ct, ct))(t)))(t)
					}
					for i := range want {
						want[i] *= want[i]
					}
				}
				if ct.Level != r.p.MaxLevel()-row.depth || math.Abs(ct.Scale/r.p.ScaleAt(ct.Level)-1) > 1e-9 {
					t.Errorf("%s n2=%d: level %d scale 2^%.9f, want level %d scale 2^%.9f", row.set, n2, ct.Level,
						math.Log2(ct.Scale), r.p.MaxLevel()-row.depth, math.Log2(r.p.ScaleAt(ct.Level)))
				}
				got := math.Log2(maxError(must(r.dec.DecryptComplex(ct))(t), complexes(want)))
				t.Logf("%-11s n2=%-2d fused=%-5v depth %2d: error 2^%.2f, table 2^%.1f", row.set, n2, fused,
					row.depth, got, row.bits)
				if got > row.bits+1 {
					t.Errorf("%s n2=%d fused=%v: error 2^%.2f is more than one bit above the table's 2^%.1f", row.set,
						n2, fused, got, row.bits)
				}
				if got < row.bits-8 {
					t.Errorf("%s n2=%d fused=%v: error 2^%.2f is implausibly small: is anything encrypted?", row.set,
						n2, fused, got)
				}
			}
		}
	}
}
