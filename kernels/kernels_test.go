//go:build linux && (amd64 || arm64) && !nogpu

package kernels

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestSources: kernels.bin was made from the sources that lie here. Headers come
// first, in build.sh's order.
func TestSources(t *testing.T) {
	var sources []string
	for _, pattern := range []string{"*.cuh", "*.cu"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		sources = append(sources, names...)
	}
	h := sha256.New()
	for _, name := range sources {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(b)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != SourceHash {
		t.Errorf("the sources have the hash %s, kernels.bin was made from %s: run kernels/build.sh", got, SourceHash)
	}
	if sum := sha256.Sum256(images); hex.EncodeToString(sum[:]) != ImageHash {
		t.Errorf("kernels.bin is not the one that zkernels.go describes")
	}
}

// TestModules: the images fill kernels.bin, and each starts as a fatbin does.
func TestModules(t *testing.T) {
	at := 0
	seen := make(map[string]bool)
	for _, m := range Modules {
		if m.Offset != at || len(m.Image()) != m.Size || m.Size < 64 {
			t.Fatalf("%s: %d bytes at %d, want them at %d", m.Name, m.Size, m.Offset, at)
		}
		if magic := m.Image()[:4]; !slices.Equal(magic, []byte{0x50, 0xed, 0x55, 0xba}) {
			t.Errorf("%s starts with %x", m.Name, magic)
		}
		for _, e := range m.Entries {
			if seen[e] {
				t.Errorf("two kernels are called %s", e)
			}
			seen[e] = true
		}
		at += m.Size
	}
	if at != len(images) || at > 6<<20+80<<10 { // more is to be weighed against what it brings
		t.Errorf("the modules have %d bytes of %d, at most 6 MiB and 80 KiB", at, len(images))
	}
}
