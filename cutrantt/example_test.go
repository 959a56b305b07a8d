package cutrantt_test

import (
	"fmt"
	"log"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
)

// (1 + X)^2 modulo X^N + 1 and one prime: two transforms and one product of blocks.
func ExampleRing() {
	const logN = 10
	prime := cutrantt.Modulus{Q: 12289, Psi: 1945} // 1945 is a 2048th root of unity
	ring, err := cpu.New().NewRing(logN, []cutrantt.Modulus{prime}, cutrantt.Options{})
	if err != nil {
		log.Fatal(err)
	}
	x, err := ring.NewBatch(1, []int{0}, cutrantt.Coeffs(16))
	if err != nil {
		log.Fatal(err)
	}
	defer ring.Free(x)
	coefficients := make([]int32, ring.N())
	coefficients[0], coefficients[1] = 1, 1
	if err := ring.SetSmall(x, coefficients); err != nil {
		log.Fatal(err)
	}
	if err := ring.Forward(x, x); err != nil {
		log.Fatal(err)
	}
	if err := ring.Mul(x, x, x); err != nil {
		log.Fatal(err)
	}
	// Coefficients in natural order are the layout with one column.
	natural, err := ring.NewBatch(1, []int{0}, cutrantt.Coeffs(1))
	if err != nil {
		log.Fatal(err)
	}
	defer ring.Free(natural)
	if err := ring.Convert(natural, x); err != nil {
		log.Fatal(err)
	}
	out := make([]uint32, natural.Len())
	if err := ring.Download(out, natural); err != nil {
		log.Fatal(err)
	}
	fmt.Println(out[:4])
	// Output: [1 2 1 0]
}
