package keyholder

import (
	"bytes"
	"testing"
)

// FuzzCutProof: a file is cut after an object, or not at all, and nothing of it is lost.
func FuzzCutProof(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte{0x82, 0x41, 'a', 0x41, 'b'})
	f.Add([]byte{0x82, 0x41, 'a', 0x41, 'b', 0x82, 0x41, 'c', 0x41, 'd'})
	f.Add([]byte{0x82, 0x41, 'a'})
	f.Fuzz(func(t *testing.T, file []byte) {
		p := CutProof(file)
		if !bytes.Equal(p.File(), file) {
			t.Errorf("%d and %d bytes of %d", len(p.Sealed), len(p.Receipt), len(file))
		}
		if again := CutProof(p.Sealed); len(again.Receipt) != 0 {
			t.Errorf("%x has two objects", p.Sealed)
		}
	})
}
