// Package vectors compares what the code makes with the test vectors in
// docs/vectors, and rewrites them where HENCEDGE_UPDATE_VECTORS=1 is set. Only tests
// import it.
package vectors

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

const updateVariable = "HENCEDGE_UPDATE_VECTORS"

// Check fails unless the file docs/vectors/name holds made, as JSON.
func Check(t testing.TB, name string, made any) {
	t.Helper()
	want, err := encode(made)
	if err != nil {
		t.Fatal(err)
	}
	path := Path(t, name)
	if os.Getenv(updateVariable) != "" {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the code does not make what docs/vectors/%s holds: %s; a new format needs a new version, then run "+
			"the test with %s=1",
			name, difference(got, want), updateVariable)
	}
}

// Seed returns the seed 00 01 ... 1f, from which the vectors are made.
func Seed() *[32]byte {
	s := new([32]byte)
	for i := range s {
		s[i] = byte(i)
	}
	return s
}

// Read decodes docs/vectors/name.
func Read(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(Path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("docs/vectors/%s: %v", name, err)
	}
}

// Path returns the path of docs/vectors/name, seen from the package under test.
func Path(t testing.TB, name string) string {
	t.Helper()
	dir := "."
	for range 8 {
		if info, err := os.Stat(filepath.Join(dir, "docs", "vectors")); err == nil && info.IsDir() {
			return filepath.Join(dir, "docs", "vectors", name)
		}
		dir = filepath.Join(dir, "..")
	}
	t.Fatal("docs/vectors is in no directory above this one")
	return ""
}

var (
	numbers = regexp.MustCompile(`\[\s+-?[0-9][-+0-9.eE,\s]*\]`)
	space   = regexp.MustCompile(`\s+`)
)

// encode writes indented JSON with lists of numbers on one line each.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return numbers.ReplaceAllFunc(b.Bytes(), func(list []byte) []byte {
		list = space.ReplaceAll(list, []byte(" "))
		list = bytes.Replace(list, []byte("[ "), []byte("["), 1)
		return bytes.Replace(list, []byte(" ]"), []byte("]"), 1)
	}), nil
}

// difference returns the first line that differs.
func difference(got, want []byte) string {
	g, w := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(g), len(w)) {
		if !bytes.Equal(g[i], w[i]) {
			return "it has " + cut(g[i]) + ", the code makes " + cut(w[i])
		}
	}
	return "one ends earlier"
}

func cut(line []byte) string {
	line = bytes.TrimSpace(line)
	if len(line) > 120 {
		return string(line[:120]) + "..."
	}
	return string(line)
}
