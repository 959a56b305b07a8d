package cudatest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/internal/testenv"
)

// Emulator builds a driver that runs kernels on the processor (emulator/README.md):
// the one in the directory sources with the entries named. It needs g++.
// `make test-emulated` runs the tests of the CUDA backend on one with the kernels of the product.
func Emulator(t testing.TB, capability int, source string, entries []string) (library string) {
	t.Helper()
	testenv.Program(t, "g++", "g++")
	dir := t.TempDir()
	name := strings.TrimSuffix(filepath.Base(source), ".cu")
	code, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	list := fmt.Sprintf("\t{Name: %q, Entries: []string{\n\t\t%q,\n\t}},\n", name, entries)
	list = strings.NewReplacer("[\"", "\"", "\"]", "\"", "\" \"", "\",\n\t\t\"").Replace(list)
	for file, content := range map[string][]byte{name + ".cu": code, "zkernels.go": []byte(list)} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, here, _, _ := runtime.Caller(0)
	library = filepath.Join(dir, "libcuda.so.1")
	cmd := exec.Command(filepath.Join(filepath.Dir(here), "emulator", "build.sh"), library, fmt.Sprint(capability))
	cmd.Env = append(os.Environ(), "KERNELS="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return library
}
