package bootstrap_test

import (
	"fmt"
	"log"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bootstrap"
	"github.com/hencedge/hencedge/henc/secret"
)

// A ciphertext that has no levels left gets new ones. The set is for tests; use
// henc.NamedBootstrap("boot15") instead.
func Example() {
	params, err := henc.NamedInsecure("boot10-insecure")
	if err != nil {
		log.Fatal(err)
	}
	ctx, err := henc.NewContext(params)
	if err != nil {
		log.Fatal(err)
	}
	literal, err := bootstrap.LiteralOf(params)
	if err != nil {
		log.Fatal(err)
	}
	plan, err := bootstrap.NewPlan(params, literal)
	if err != nil {
		log.Fatal(err)
	}

	// The key holder.
	key, err := secret.Generate(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	keys, err := key.BootstrapKeys(plan)
	if err != nil {
		log.Fatal(err)
	}
	used, err := secret.NewSeededEncryptor(ctx, key).EncryptReal([]float64{0.5, -0.25}, plan.LowestLevel(), 0, nil)
	if err != nil {
		log.Fatal(err)
	}

	// The evaluator.
	b, err := bootstrap.New(ctx, plan, keys)
	if err != nil {
		log.Fatal(err)
	}
	fresh, err := b.Bootstrap(used)
	if err != nil {
		log.Fatal(err)
	}

	values, err := secret.NewDecryptor(ctx, key).DecryptReal(fresh)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("level %d, then %d: %.3f %.3f\n", used.Level, fresh.Level, values[0], values[1])
	// Output: level 3, then 6: 0.500 -0.250
}
