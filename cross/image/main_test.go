package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/internal/testenv"
)

// program writes an ELF file with the given program headers, and nothing that could run.
func program(t *testing.T, machine elf.Machine, headers ...elf.ProgType) string {
	t.Helper()
	var b bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Phoff: 64, Ehsize: 64,
		Phentsize: 56, Phnum: uint16(len(headers)), Shentsize: 64}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	h.Ident[elf.EI_VERSION] = byte(elf.EV_CURRENT)
	if err := binary.Write(&b, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	for _, kind := range headers {
		if err := binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(kind)}); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// unpack returns the files of an archive and their headers.
func unpack(t *testing.T, r io.Reader) (files map[string][]byte, headers map[string]*tar.Header) {
	t.Helper()
	files, headers = map[string][]byte{}, map[string]*tar.Header{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
		headers[h.Name] = h
	}
}

// read returns the blob of a descriptor, checked.
func read(t *testing.T, files map[string][]byte, d descriptor, into any) []byte {
	t.Helper()
	data, ok := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
	if sum := sha256.Sum256(data); !ok || len(data) != d.Size || "sha256:"+hex.EncodeToString(sum[:]) != d.Digest {
		t.Fatalf("%+v: %d bytes with digest %x", d, len(data), sum)
	}
	if into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

// TestImage reads an archive back: every digest and size holds, both architectures have their
// program, and what the services need is there and theirs.
func TestImage(t *testing.T) {
	amd, arm := program(t, elf.EM_X86_64), program(t, elf.EM_AARCH64)
	licence := filepath.Join(t.TempDir(), "LICENSE")
	if err := os.WriteFile(licence, []byte("words"), 0o600); err != nil {
		t.Fatal(err)
	}
	var archives [][]byte
	out := filepath.Join(t.TempDir(), "image.tar")
	for range 2 {
		if err := run([]string{"-out", out, "-version", "v1.2.3", "-created", "1700000000", "-revision", "abc",
			"-file", "/licenses/LICENSE=" + licence, "amd64=" + amd, "arm64=" + arm}); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, b)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("the same files give different archives")
	}
	files, _ := unpack(t, bytes.NewReader(archives[0]))
	if string(files["oci-layout"]) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout: %s", files["oci-layout"])
	}
	var top, index manifest
	if err := json.Unmarshal(files["index.json"], &top); err != nil || len(top.Manifests) != 1 ||
		top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "1.2.3" {
		t.Fatalf("index.json: %v %+v", err, top)
	}
	read(t, files, top.Manifests[0], &index)
	if len(index.Manifests) != 2 {
		t.Fatalf("%d architectures", len(index.Manifests))
	}
	for i, want := range []struct{ arch, file string }{{"amd64", amd}, {"arm64", arm}} {
		d := index.Manifests[i]
		if d.Platform == nil || *d.Platform != (platform{want.arch, "linux"}) {
			t.Errorf("platform %+v", d.Platform)
		}
		checkManifest(t, files, d, want.arch, want.file)
	}
}

func checkManifest(t *testing.T, files map[string][]byte, d descriptor, arch, file string) {
	t.Helper()
	var m manifest
	var c config
	read(t, files, d, &m)
	read(t, files, *m.Config, &c)
	if c.Architecture != arch || c.Config.User != "65532:65532" || len(c.RootFS.DiffIDs) != 2 || len(m.Layers) != 2 ||
		c.Config.Labels["org.opencontainers.image.revision"] != "abc" {
		t.Errorf("%s: %+v", arch, c)
	}
	all := map[string][]byte{}
	owner := map[string]int{}
	for i, l := range m.Layers {
		zip, err := gzip.NewReader(bytes.NewReader(read(t, files, l, nil)))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(zip)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(plain); c.RootFS.DiffIDs[i] != "sha256:"+hex.EncodeToString(sum[:]) {
			t.Errorf("%s: layer %d has digest %x, not %s", arch, i, sum, c.RootFS.DiffIDs[i])
		}
		in, headers := unpack(t, bytes.NewReader(plain))
		for name, data := range in {
			all[name], owner[name] = data, headers[name].Uid
		}
	}
	if own, err := os.ReadFile(file); err != nil || !bytes.Equal(all["usr/bin/hencedge"], own) {
		t.Errorf("%s: another program, or none: %v", arch, err)
	}
	if string(all["licenses/LICENSE"]) != "words" || owner["var/lib/hencedge/"] != user ||
		owner["etc/hencedge/"] != 0 || !strings.Contains(string(all["etc/passwd"]), "hencedge:x:65532:") {
		t.Errorf("%s: %v, owners %v", arch, all, owner)
	}
}

// TestRefused: what could not run, and arguments that are missing.
func TestRefused(t *testing.T) {
	out := filepath.Join(t.TempDir(), "image.tar")
	with := func(args ...string) []string { return append([]string{"-out", out, "-version", "v1"}, args...) }
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{with("amd64=" + program(t, elf.EM_AARCH64)), "a program for EM_AARCH64"},
		{with("riscv64=" + program(t, elf.EM_RISCV)), "amd64 or arm64"},
		{with("amd64=" + program(t, elf.EM_X86_64, elf.PT_LOAD, elf.PT_INTERP)), "dynamic linker"},
		{with("amd64=" + text), "not a program"},
		{with("amd64=" + text + ".none"), "no such file"},
		{with("amd64"), "is not NAME=PATH"},
		{with("-file", "x=", "amd64=x"), "is not NAME=PATH"},
		{with("-file", "x="+text+".none", "amd64="+text), "no such file"},
		{with(), "at least one"},
		{[]string{"-version", "v1", "amd64=x"}, "-out"},
	} {
		if err := run(c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an archive is left: %v", err)
	}
}

// TestSkopeo: another program reads the archive.
func TestSkopeo(t *testing.T) {
	skopeo, err := exec.LookPath("skopeo")
	if err != nil {
		testenv.Missing(t, "skopeo", "skopeo is not there (apt install skopeo)")
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "image.tar")
	if err := run([]string{"-out", out, "-version", "v1.2.3", "amd64=" + program(t, elf.EM_X86_64),
		"arm64=" + program(t, elf.EM_AARCH64)}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(skopeo, "--insecure-policy", "copy", "--all", "oci-archive:"+out+":1.2.3",
		"dir:"+filepath.Join(dir, "copy"))
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}
