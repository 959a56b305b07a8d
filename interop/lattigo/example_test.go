package lattigo_test

import (
	"fmt"
	"log"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/interop/lattigo"
)

// A board encrypts with hencedge, Lattigo multiplies with hencedge's keys, and
// hencedge decrypts.
func Example() {
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	params, err := henc.Named("edge13-d3")
	must(err)
	ctx, err := henc.NewContext(params)
	must(err)
	bridge, err := lattigo.NewBridge(ctx)
	must(err)

	key, err := secret.Generate(ctx, nil)
	must(err)
	pk, err := key.PublicKey()
	must(err)
	evk, err := key.EvaluationKeys([]int{1}, false)
	must(err)
	enc, err := henc.NewEncryptor(ctx, pk)
	must(err)
	ct, err := enc.EncryptReal([]float64{0.5, -0.25, 0.75}, params.MaxLevel(), 0, nil)
	must(err)

	// Lattigo's side: no secret key here.
	keys, err := bridge.EvaluationKeysToLattigo(evk)
	must(err)
	x, err := bridge.CiphertextToLattigo(ct)
	must(err)
	ev := ckks.NewEvaluator(bridge.Parameters(), keys)
	square, err := ev.MulRelinNew(x, x)
	must(err)
	for range params.PrimesPerLevel() { // twice in a pair set
		low := rlwe.NewCiphertext(bridge.Parameters(), 1, square.Level()-1)
		low.MetaData = square.MetaData.CopyNew()
		must(ev.Rescale(square, low))
		square = low
	}

	result, err := bridge.CiphertextFromLattigo(square)
	must(err)
	values, err := secret.NewDecryptor(ctx, key).DecryptReal(result)
	must(err)
	fmt.Printf("level %d: %.2f %.2f %.2f\n", result.Level, values[0], values[1], values[2])
	// Output: level 2: 0.25 0.06 0.56
}
