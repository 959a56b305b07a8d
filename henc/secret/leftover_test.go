package secret

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/testenv"
)

// hidden are secrets that a test looks for, kept in a form that does not look like them.
type hidden struct {
	name  string
	words [4]uint64
}

// mask is one byte repeated, so that the forms of a masked word are the masked forms.
const mask = 0xa5a5a5a5a5a5a5a5

func hide(name string, secret *[32]byte) hidden {
	h := hidden{name: name}
	for i := range h.words {
		h.words[i] = binary.LittleEndian.Uint64(secret[8*i:]) ^ mask
	}
	return h
}

// forms are the ways in which code holds eight bytes of a secret: as they are, as the
// big-endian words of SHA-256, and either combined with the pads of HMAC.
func forms(x uint64) [6]uint64 {
	const inner, outer = 0x3636363636363636, 0x5c5c5c5c5c5c5c5c
	y := bits.RotateLeft64(bits.ReverseBytes64(x), 32)
	return [6]uint64{x, x ^ inner, x ^ outer, y, y ^ inner, y ^ outer}
}

// findSecrets counts the places of this process's memory that hold eight bytes of a secret.
func findSecrets(secrets []hidden) (map[string]int, error) {
	want := map[uint64]string{}
	for _, s := range secrets {
		for _, w := range s.words {
			for _, f := range forms(w) {
				want[f] = s.name
			}
		}
	}
	found := map[string]int{}
	err := testenv.SearchMemory(4, func(word uint64) {
		if name, ok := want[word^mask]; ok {
			found[name]++
		}
	})
	return found, err
}

// useKey does everything that a key is for, wipes it and says what to look for.
func useKey(t *testing.T, keep bool) (secrets []hidden, key *Key) {
	p, err := henc.Named("edge12-d1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := henc.NewContext(p)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := henc.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	secrets = append(secrets, hide("seed", (*[32]byte)(seed)))
	made, err := Generate(ctx, seed)
	if err != nil {
		t.Fatal(err)
	}
	seed.Wipe()
	secrets = append(secrets, hide("root", (*[32]byte)(&made.root)))
	for _, label := range []string{"hencedge secret key", "hencedge noise of public key",
		"hencedge noise of relinearisation key"} {
		var context []uint64
		if strings.Contains(label, "noise") {
			context = []uint64{0}
		}
		derived, err := made.root.Derive(label, context...)
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, hide(label, (*[32]byte)(derived)))
		derived.Wipe()
	}
	text, err := made.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Wipe(); err != nil {
		t.Fatal(err)
	}
	k, err := Unmarshal(ctx, text)
	if err != nil {
		t.Fatal(err)
	}
	clear(text)
	if _, err := k.EvaluationKeys([]int{1}, true); err != nil {
		t.Fatal(err)
	}
	ct, err := NewSeededEncryptor(ctx, k).EncryptReal([]float64{0.5}, 1, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewDecryptor(ctx, k).Decrypt(ct); err != nil {
		t.Fatal(err)
	}
	if keep {
		return secrets, k
	}
	if err := k.Wipe(); err != nil {
		t.Fatal(err)
	}
	return secrets, nil
}

// TestNoLeftovers looks through the whole memory of a process that made, wrote, read,
// used and wiped a key, for its root seed and for what the secret polynomials are drawn
// from. A key that is not wiped has to be found.
func TestNoLeftovers(t *testing.T) {
	if mode := os.Getenv("HENCEDGE_LEFTOVERS"); mode != "" {
		secrets, key := useKey(t, mode == "keep")
		found, err := findSecrets(secrets)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("FOUND %v\n", found)
		if err := key.Wipe(); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, mode := range []string{"wipe", "keep"} {
		for _, code := range []string{"", "generic"} {
			cmd := exec.Command(os.Args[0], "-test.run", "^TestNoLeftovers$", "-test.v")
			// A goroutine that Go's runtime interrupts leaves its registers on a stack, until
			// the next interruption.
			cmd.Env = append(os.Environ(), "HENCEDGE_LEFTOVERS="+mode, "GODEBUG=asyncpreemptoff=1",
				"CUTRANTT_CPU="+code)
			out, err := cmd.CombinedOutput()
			if errors.Is(err, syscall.ENOEXEC) {
				testenv.Missing(t, "native", "an emulated processor cannot start this binary again: ", err)
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			_, text, _ := strings.Cut(string(out), "FOUND ")
			text, _, _ = strings.Cut(text, "\n")
			switch {
			case mode == "keep" && !strings.Contains(text, "root:"):
				t.Errorf("a key that is not wiped is not found: %q", text)
			case mode == "wipe" && text != "map[]":
				t.Errorf("with code %q memory holds 8-byte parts of secrets: %s", code, text)
			}
		}
	}
}
