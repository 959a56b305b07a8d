package pieces

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestPieces: however bytes are cut, length, whole and sections are those of the bytes, and sections cannot be
// appended to what follows.
func TestPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		whole := make([]byte, rng.IntN(40))
		for i := range whole {
			whole[i] = byte(rng.Uint32())
		}
		var all [][]byte
		for rest := whole; len(rest) > 0 || rng.IntN(2) == 0; {
			n := rng.IntN(len(rest) + 1)
			all, rest = append(all, rest[:n]), rest[n:]
		}
		if Len(all) != len(whole) || !bytes.Equal(Join(all), whole) {
			t.Fatalf("%d pieces of %d bytes: %d bytes, %x of %x", len(all), len(whole), Len(all), Join(all), whole)
		}
		from := rng.IntN(len(whole) + 1)
		to := from + rng.IntN(len(whole)-from+5)
		got, want := Section(all, from, to), whole[from:min(to, len(whole))]
		if !bytes.Equal(bytes.Join(got, nil), want) {
			t.Fatalf("%d to %d of %x: %x", from, to, whole, got)
		}
		for _, p := range got {
			if len(p) == 0 || cap(p) != len(p) {
				t.Fatalf("%d to %d: a piece of %d bytes with room for %d", from, to, len(p), cap(p))
			}
		}
	}
}

// TestJoinOne: one piece is not copied.
func TestJoinOne(t *testing.T) {
	b := []byte{1, 2}
	if got := Join([][]byte{b}); &got[0] != &b[0] {
		t.Error("one piece was copied")
	}
	if got := Join([][]byte{b, b}); !bytes.Equal(got, []byte{1, 2, 1, 2}) {
		t.Errorf("two pieces: %x", got)
	}
}
