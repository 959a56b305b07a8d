package compact

import (
	"math/big"
	"testing"
)

// TestRescaled compares with big integers at the ends and between them.
func TestRescaled(t *testing.T) {
	for _, from := range []uint64{1 << 18, 1 << 22, modulus} {
		for _, to := range []uint64{3, 12451841 * 11599873, 1055260673 * 1054212097, 1<<63 - 1} {
			for _, x := range []uint64{0, 1, 2, from/3 + 1, from / 2, from/2 + 1, from - 2, from - 1} {
				want := new(big.Int).Mul(new(big.Int).SetUint64(x), new(big.Int).SetUint64(to))
				want.Add(want, new(big.Int).SetUint64(from/2)).Div(want, new(big.Int).SetUint64(from))
				if got := rescaled(x, to, from); got != want.Uint64() {
					t.Errorf("%d*%d/%d is %d, want %d", x, to, from, got, want)
				}
			}
		}
	}
}
