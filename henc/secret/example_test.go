package secret_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// volatile counts in memory. A real counter writes to disk before it returns:
// otherwise a restart gives the budget back.
type volatile struct{ used uint64 }

func (v *volatile) Increment([16]byte) (uint64, error) {
	v.used++
	return v.used, nil
}

// An exact decryption gives the key away to whoever has the ciphertext too. Share adds
// noise that hides the ciphertext's own error, for as many queries as were declared.
func ExampleDecryptor_Share() {
	params, err := henc.Named("edge13-d2p")
	if err != nil {
		log.Fatal(err)
	}
	ctx, err := henc.NewContext(params)
	if err != nil {
		log.Fatal(err)
	}
	key, err := secret.Generate(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer key.Wipe()
	ct, err := secret.NewSeededEncryptor(ctx, key).EncryptReal([]float64{0.5, -0.25}, 0, 0, nil)
	if err != nil {
		log.Fatal(err)
	}

	noise := params.Noise()
	budget := &secret.Budget{Queries: 1, Bits: 30, Counter: &volatile{}}
	what := secret.ShareOptions{ErrorBound: noise.Max(noise.FreshSeeded(ct.Scale), params.N())}
	dec := secret.NewDecryptor(ctx, key)
	values, err := dec.Share(ct, budget, what)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%+.2f\n", values[:2])

	_, err = dec.Share(ct, budget, what)
	fmt.Println(errors.Is(err, secret.ErrBudget))
	// Output:
	// [+0.50 -0.25]
	// true
}

// A secret key on disk is nobody else's to read: mode 0600, and the bytes cleared.
func ExampleKey_Marshal() {
	params, err := henc.Named("edge12-d1")
	if err != nil {
		log.Fatal(err)
	}
	ctx, err := henc.NewContext(params)
	if err != nil {
		log.Fatal(err)
	}
	key, err := secret.Generate(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	stored, err := key.Marshal()
	if err != nil {
		log.Fatal(err)
	}
	before, err := key.PublicKey()
	if err != nil {
		log.Fatal(err)
	}
	if err := key.Wipe(); err != nil {
		log.Fatal(err)
	}
	_, err = key.PublicKey()
	fmt.Println(err)

	again, err := secret.Unmarshal(ctx, stored)
	clear(stored)
	if err != nil {
		log.Fatal(err)
	}
	defer again.Wipe()
	after, err := again.PublicKey()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the same public key:", before.KeyID == after.KeyID)
	// Output:
	// public key: henc/secret: secret key was wiped
	// the same public key: true
}
