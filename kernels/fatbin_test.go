package kernels

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/internal/testenv"
)

// architectures lists what a fatbin holds: "sm_87" for machine code, "ptx_80" for
// PTX. A fatbin is a header (magic, version, its size, the size of the rest) and
// entries, each with its kind, the size of its own header, the size of what
// follows, and at byte 28 the architecture.
func architectures(image []byte) (out []string, err error) {
	if len(image) < 16 || binary.LittleEndian.Uint32(image) != 0xba55ed50 {
		return nil, fmt.Errorf("no fatbin")
	}
	head, size := int(binary.LittleEndian.Uint16(image[6:])), binary.LittleEndian.Uint64(image[8:])
	if head < 16 || size > uint64(len(image)-head) {
		return nil, fmt.Errorf("a fatbin of %d bytes in %d", size, len(image))
	}
	for rest := image[head : head+int(size)]; len(rest) >= 64; {
		kind, head, size := binary.LittleEndian.Uint16(rest), uint64(binary.LittleEndian.Uint32(rest[4:])),
			binary.LittleEndian.Uint64(rest[8:])
		if head < 32 || head+size > uint64(len(rest)) {
			return nil, fmt.Errorf("an entry of %d bytes, %d are left", head+size, len(rest))
		}
		prefix, ok := map[uint16]string{1: "ptx", 2: "sm"}[kind]
		if !ok {
			return nil, fmt.Errorf("an entry of kind %d", kind)
		}
		out = append(out, fmt.Sprintf("%s_%d", prefix, binary.LittleEndian.Uint32(rest[28:])))
		rest = rest[head+size:]
	}
	return out, nil
}

// complete fails unless every module in images has machine code for every
// architecture of the record, and PTX for later ones.
func complete(t *testing.T, images []byte) {
	t.Helper()
	var want []string
	for a := range strings.FieldsSeq(Architectures) {
		want = append(want, "sm_"+a)
	}
	for _, board := range []string{"sm_72", "sm_87"} { // Jetson Xavier and Orin
		if !slices.Contains(want, board) {
			t.Errorf("no machine code for %s", board)
		}
	}
	want = append(want, "ptx_80")
	for _, m := range Modules {
		got, err := architectures(images[m.Offset : m.Offset+m.Size])
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s holds %v, want %v", m.Name, got, want)
		}
	}
}

// TestArchitectures: kernels.bin has machine code for every architecture.
func TestArchitectures(t *testing.T) {
	raw, err := os.ReadFile("kernels.bin")
	if err != nil {
		t.Fatal(err)
	}
	complete(t, raw)
	for _, bad := range [][]byte{nil, raw[:12], raw[1:100], raw[:70]} {
		if got, err := architectures(bad); err == nil {
			t.Errorf("%d bytes hold %v", len(bad), got)
		}
	}
}

// TestBinaries looks into the binaries of a cross build, in the directory that
// HENCEDGE_TEST_BINARIES names (cross/build.sh runs it): those with GPU support
// hold the images with all their architectures, the static ones hold none and
// are smaller by nearly as much (on arm64 segments fill multiples of 64 KiB).
func TestBinaries(t *testing.T) {
	dir := os.Getenv("HENCEDGE_TEST_BINARIES")
	if dir == "" {
		testenv.Missing(t, "binaries", "HENCEDGE_TEST_BINARIES is not set")
	}
	raw, err := os.ReadFile("kernels.bin")
	if err != nil {
		t.Fatal(err)
	}
	magic := raw[:16] // of the first module, with its size
	for _, arch := range []string{"amd64", "arm64"} {
		gpu, err := os.ReadFile(filepath.Join(dir, "hencedge-linux-"+arch))
		if err != nil {
			t.Fatal(err)
		}
		static, err := os.ReadFile(filepath.Join(dir, "hencedge-linux-"+arch+"-static"))
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(gpu, magic)
		if at < 0 || len(gpu)-at < len(raw) {
			t.Errorf("%s: the images are not in the binary", arch)
			continue
		}
		complete(t, gpu[at:at+len(raw)])
		if bytes.Contains(static, magic) || bytes.Contains(static, raw[64:256]) {
			t.Errorf("%s: the binary without GPU support holds the images", arch)
		}
		if len(static) > len(gpu)-len(raw)*9/10 {
			t.Errorf("%s: %d bytes without GPU support, %d with; the images have %d", arch, len(static),
				len(gpu), len(raw))
		}
	}
}
