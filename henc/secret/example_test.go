package secret_test

import (
	"fmt"
	"log"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

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
