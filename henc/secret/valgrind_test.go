//go:build taint && linux && amd64

package secret_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/hencedge/hencedge/cutrantt/prng"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bootstrap"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/taint"
)

// TestNoSecretBranch runs samplers, key generation, encryption and decryption with
// secrets that valgrind's memcheck takes for undefined memory: seeds, and with them
// the keys, v, e and all that follows, and messages. Memcheck counts each branch and
// each address that depends on one; cross/timing.sh runs it.
func TestNoSecretBranch(t *testing.T) {
	if !taint.Running() {
		t.Fatal("this test needs valgrind: make timing")
	}
	t.Run("control", controls)
	for _, n := range []int{4096, 4093} {
		small := make([]int32, n)
		clean(t, fmt.Sprint("ternary ", n), func() { prng.Ternary(small, (*[32]byte)(secretSeed(t, "v")), 1) })
		clean(t, fmt.Sprint("binomial ", n), func() { prng.CBD(small, (*[32]byte)(secretSeed(t, "e")), 2) })
	}
	small := make([]int32, 4096)
	clean(t, "sparse", func() { prng.Sparse(small, henc.SparseWeight, (*[32]byte)(secretSeed(t, "s")), 3) })
	t.Run("bootstrapping", bootstrapKeys)
	t.Run("compact", compactWindow)
	for _, set := range []string{"edge12-d1", "edge13-d2p"} { // with and without residues beyond four primes
		for _, n2 := range []int{1, 16} { // encryption as a whole and step by step
			t.Run(fmt.Sprintf("%s/n2=%d", set, n2), func(t *testing.T) { operations(t, context(t, set, n2)) })
		}
	}
}

// bootstrapKeys makes the keys of the smallest bootstrapping.
func bootstrapKeys(t *testing.T) {
	p := must(henc.NamedInsecure("boot10-insecure"))(t)
	ctx := must(henc.NewContext(p, henc.WithN2(1)))(t)
	lit := must(bootstrap.LiteralOf(p))(t)
	lit.Stages, lit.LogSlots = 1, 1
	plan := must(bootstrap.NewPlan(p, lit))(t)
	key := must(secret.Generate(ctx, secretSeed(t, "k")))(t)
	clean(t, "bootstrapping keys", func() { must(key.BootstrapKeys(plan))(t) })
}

// compactWindow makes a board's key and encrypts a window with it.
func compactWindow(t *testing.T) {
	ctx := must(henc.NewContext(must(compact.Named("compact12"))(t), henc.WithN2(1)))(t)
	key := must(secret.Generate(ctx, secretSeed(t, "board")))(t)
	e := must(secret.NewCompactEncryptor(key))(t)
	x := []float64{1, -0.5, 0.97, 0}
	taint.Secret(x)
	clean(t, "encrypt compact", func() { must(e.Encrypt(x, compact.Bits16, origin, secretSeed(t, "e")))(t) })
	big := must(henc.NewContext(must(henc.Named("edge13-d3"))(t), henc.WithN2(1)))(t)
	small := must(henc.NewContext(must(compact.Switching(key.Context().Parameters(), big.Parameters()))(t)))(t)
	holder := must(secret.Generate(big, secretSeed(t, "k")))(t)
	var common *secret.Key
	clean(t, "common secret", func() { common = must(holder.CompactSecret(small))(t) })
	clean(t, "key of a device", func() { must(common.CompactKey(key))(t) })
	clean(t, "key of the common secret", func() { must(holder.CompactKey(common))(t) })
}

func operations(t *testing.T, ctx *henc.Context) {
	p := ctx.Parameters()
	// What is public must not look secret: ciphertexts and keys to read come from an
	// equal key of a seed without a mark.
	plain := must(secret.Generate(ctx, seed(t, "k")))(t)
	enc := must(henc.NewEncryptor(ctx, must(plain.PublicKey())(t)))(t)
	var key *secret.Key
	clean(t, "key", func() { key = must(secret.Generate(ctx, secretSeed(t, "k")))(t) })
	clean(t, "public key", func() { must(key.PublicKey())(t) })
	clean(t, "relinearisation key", func() { must(key.RelinKey())(t) })
	clean(t, "galois key", func() { must(key.GaloisKeys([]uint64{5}))(t) })

	values := make([]float64, p.Slots())
	for i := range values {
		values[i] = float64(i%17)/17 - 0.5
	}
	pair := make([]complex128, p.Slots())
	level := p.MaxLevel()
	ct := must(enc.EncryptReal(values, level, 0, seed(t, "e")))(t)
	taint.Secret(values)
	taint.Secret(pair)
	clean(t, "encrypt", func() { must(enc.EncryptReal(values, level, 0, secretSeed(t, "e")))(t) })
	clean(t, "encrypt complex", func() { must(enc.EncryptComplex(pair, level, 0, secretSeed(t, "e")))(t) })
	seeded := secret.NewSeededEncryptor(ctx, key)
	clean(t, "encrypt seeded", func() { must(seeded.EncryptPacked(values, level, 0, secretSeed(t, "e")))(t) })
	clean(t, "plaintext", func() { must(ctx.Encoder().EncodeReal(values, level, p.DefaultScale()))(t) })
	if p.LogQ(level) > 100 { // coefficients beyond 64-bit integers
		clean(t, "large plaintext", func() { must(ctx.Encoder().EncodeReal(values, level, 0x1p70))(t) })
		clean(t, "encrypt large", func() { must(enc.EncryptReal(values, level, 0x1p70, secretSeed(t, "e")))(t) })
	}
	dec := secret.NewDecryptor(ctx, key)
	clean(t, "decrypt", func() { must(dec.DecryptReal(ct))(t) })
	noise := uniform(t, ctx, level, 1)
	clean(t, "decrypt anything", func() { must(dec.DecryptRealBounded(noise, 0x1p60))(t) })
	clean(t, "decrypt complex", func() { must(dec.DecryptComplex(ct))(t) })
	clean(t, "wipe", func() {
		if err := key.Wipe(); err != nil {
			t.Fatal(err)
		}
	})
}

// controls leak on purpose: a check that does not see them sees nothing.
func controls(t *testing.T) {
	secret := []uint32{1, 2, 3, 4}
	taint.Secret(secret)
	var table [256]byte
	for what, leak := range map[string]func(){
		"branch":  func() { leakBranch(secret) },
		"address": func() { leakAddress(secret, &table) },
	} {
		if n := uses(leak); n < len(secret) {
			t.Fatalf("%s: memcheck saw %d of %d uses", what, n, len(secret))
		}
	}
	if n := uses(func() { leakNothing(secret) }); n != 0 {
		t.Fatalf("memcheck saw %d uses in a sum", n)
	}
}

//go:noinline
func leakBranch(x []uint32) {
	for _, v := range x {
		if v&64 != 0 {
			sink++
			fmt.Fprint(os.Stderr)
		}
	}
}

//go:noinline
func leakAddress(x []uint32, table *[256]byte) {
	for _, v := range x {
		sink += uint32(table[v&255])
	}
}

//go:noinline
func leakNothing(x []uint32) {
	for _, v := range x {
		sink += v * v
	}
	sink = 0
}

var sink uint32

// clean fails if a secret decides a branch or an address in f.
func clean(t *testing.T, what string, f func()) {
	t.Helper()
	if n := uses(f); n > 0 {
		t.Errorf("%s: %d branches or addresses depend on a secret", what, n)
		return
	}
	t.Logf("%s: clean", what)
}

// uses is how often a secret decides a branch or an address in f.
func uses(f func()) int {
	before := taint.Errors()
	f()
	return taint.Errors() - before
}

// secretSeed is a seed with the mark.
func secretSeed(t testing.TB, label string) *henc.Seed {
	s := seed(t, label)
	taint.Secret(s[:])
	return s
}
