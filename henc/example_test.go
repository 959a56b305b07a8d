package henc_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// The whole way: the key holder makes keys, a device encrypts, an evaluator multiplies
// what it cannot read, and the key holder decrypts.
func Example() {
	params, err := henc.Named("edge12-d1") // N = 2^12, one product, about 12 bits
	if err != nil {
		log.Fatal(err)
	}
	ctx, err := henc.NewContext(params)
	if err != nil {
		log.Fatal(err)
	}

	// The key holder. Only the public and the evaluation keys leave it.
	key, err := secret.Generate(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer key.Wipe()
	public, err := key.PublicKey()
	if err != nil {
		log.Fatal(err)
	}
	evaluation, err := key.EvaluationKeys(nil, false)
	if err != nil {
		log.Fatal(err)
	}

	// The device: volts and amperes, scaled to [-1, 1], one to a slot.
	enc, err := henc.NewEncryptor(ctx, public)
	if err != nil {
		log.Fatal(err)
	}
	top := params.MaxLevel()
	volts, err := enc.EncryptReal([]float64{0.5, 0.6, 0.7}, top, 0, nil)
	if err != nil {
		log.Fatal(err)
	}
	amperes, err := enc.EncryptReal([]float64{0.2, -0.4, 0.8}, top, 0, nil)
	if err != nil {
		log.Fatal(err)
	}

	// The evaluator: a product takes one level.
	ev := henc.NewEvaluator(ctx, evaluation)
	watts, err := ev.MulRescale(volts, amperes)
	if err != nil {
		log.Fatal(err)
	}

	// The key holder again.
	values, err := secret.NewDecryptor(ctx, key).DecryptReal(watts)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("level %d: %+.2f\n", watts.Level, values[:3])
	// Output: level 0: [+0.10 -0.24 +0.56]
}

// A ciphertext crosses the network as bytes. Parameters never do: their hash does,
// and the reader has them already.
func ExampleContext_MarshalCiphertext() {
	ctx, key := exampleKeys("edge12-d1")
	enc, err := henc.NewEncryptor(ctx, must0(key.PublicKey()))
	if err != nil {
		log.Fatal(err)
	}
	ct, err := enc.EncryptReal([]float64{0.25}, 0, 0, nil) // level 0: half the bytes of level 1
	if err != nil {
		log.Fatal(err)
	}
	sent, err := ctx.MarshalCiphertext(ct)
	if err != nil {
		log.Fatal(err)
	}

	// Nothing of a header is authenticated: package transport signs the bytes.
	header, err := henc.PeekCiphertext(sent)
	if err != nil {
		log.Fatal(err)
	}
	known := header.Params == ctx.Parameters().Hash()
	received, err := ctx.UnmarshalCiphertext(sent)
	if err != nil {
		log.Fatal(err)
	}
	again, err := ctx.MarshalCiphertext(received)
	fmt.Println(known, header.Level, len(sent) <= ctx.Parameters().CiphertextBytes(0, false),
		bytes.Equal(sent, again), err)

	_, err = ctx.UnmarshalCiphertext(sent[:len(sent)-1])
	fmt.Println(err)
	// Output:
	// true 0 true true <nil>
	// unmarshal ciphertext: henc: truncated encoding: 15359 of 15360 bytes of a byte string
}

// Sums need one level and one scale. x^2 comes out of a rescaling at another scale
// than x has, so x is multiplied by the constant 1 at the scale that takes it there.
func ExampleEvaluator_MulConst() {
	ctx, key := exampleKeys("edge13-d2p")
	params := ctx.Parameters()
	enc := secret.NewSeededEncryptor(ctx, key)
	ev := henc.NewEvaluator(ctx, must0(key.EvaluationKeys(nil, false)))
	top := params.MaxLevel()
	x := must0(enc.EncryptReal([]float64{0.5, -0.3}, top, 0, nil))

	square, err := ev.MulRescale(x, x)
	if err != nil {
		log.Fatal(err)
	}
	_, err = ev.Add(square, x)
	fmt.Println(err)

	one := square.Scale * params.RescaleFactor(top) / x.Scale
	same, err := ev.MulConst(x, 1, one)
	if err != nil {
		log.Fatal(err)
	}
	if same, err = ev.Rescale(same); err != nil {
		log.Fatal(err)
	}
	sum, err := ev.Add(square, same)
	if err != nil {
		log.Fatal(err)
	}
	values, err := secret.NewDecryptor(ctx, key).DecryptReal(sum)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("level %d: %+.6f\n", sum.Level, values[:2])
	// Output:
	// add: henc: wrong level: operands are at levels 1 and 2; drop the higher one to 1
	// level 1: [+0.750000 -0.210000]
}

// The mean of eight samples: three rotations, and a division that costs nothing,
// because the scale is only read differently.
func ExampleEvaluator_SumSlots() {
	ctx, key := exampleKeys("edge12-d1")
	rotations := henc.SumRotations(8, 1)
	ev := henc.NewEvaluator(ctx, must0(key.EvaluationKeys(rotations, false)))
	x := must0(secret.NewSeededEncryptor(ctx, key).EncryptReal([]float64{1, 0.5, 0, 0.5, 1, 0.5, 0, 0.1}, 1, 0, nil))

	sum, err := ev.SumSlots(x, 8, 1)
	if err != nil {
		log.Fatal(err)
	}
	mean := sum.WithScale(8 * sum.Scale)
	values, err := secret.NewDecryptor(ctx, key).DecryptReal(mean)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("rotations", rotations)
	fmt.Printf("mean %.2f\n", values[0])
	// Output:
	// rotations [1 2 4]
	// mean 0.45
}

// Whoever needs other parameters than the named ones describes them; what is not
// secure is refused with both numbers.
func ExampleNewParameters() {
	literal := must0(henc.Named("edge13-d3")).Literal()
	literal.Name, literal.LogN = "half-the-ring", 12
	literal.PsiQ, literal.PsiP = nil, nil // of the other ring
	_, err := henc.NewParameters(literal)
	fmt.Println(errors.Is(err, henc.ErrSecurity))
	_, remedy, _ := strings.Cut(err.Error(), "; ")
	fmt.Println(remedy)
	// Output:
	// true
	// use fewer or smaller primes, or a larger ring
}

// What error to expect: deviations by the noise model, and a bound for all slots.
func ExampleParameters_Noise() {
	params := must0(henc.Named("edge13-d2p"))
	noise, top := params.Noise(), params.MaxLevel()
	fresh := noise.FreshPK(params.ScaleAt(top))
	product := noise.Product(1, fresh, 1, fresh) // of two values of about 1
	fmt.Printf("a slot %.0e, a product %.0e, the largest of %d fresh errors %.0e\n",
		fresh, product, params.Slots(), noise.Max(fresh, params.Slots()))
	// Output:
	// a slot 2e-11, a product 3e-11, the largest of 4096 fresh errors 5e-10
}

// exampleKeys are a context and a secret key.
func exampleKeys(set string) (*henc.Context, *secret.Key) {
	ctx := must0(henc.NewContext(must0(henc.Named(set))))
	return ctx, must0(secret.Generate(ctx, nil))
}

// must0 is v unless there is an error.
func must0[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
