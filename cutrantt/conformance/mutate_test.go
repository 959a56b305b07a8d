package conformance

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/cutrantt/internal/fault"
	"github.com/hencedge/hencedge/internal/testenv"
)

// TestMutations shows that the suite notices single faults: for each one it
// copies the module, changes one place of one kernel, and runs the tests named
// by the fault, which have to fail. It takes some minutes, so it runs only with
// HENCEDGE_MUTATE=1 (make mutate). Any other value is a regular expression that
// selects faults by their "file: what".
func TestMutations(t *testing.T) {
	wanted := fault.Wanted(t)
	dir := copyModule(t)
	var faults []mutation
	unchanged := make(map[mutationRun]bool)
	for _, m := range allMutations() {
		if !wanted.MatchString(m.fault().String()) {
			continue
		}
		if m.run.pattern == "" {
			m.run = suite
		}
		faults = append(faults, m)
		if unchanged[m.run] {
			continue
		}
		unchanged[m.run] = true
		if out, err := runTests(t, dir, m.run); err != nil {
			t.Fatalf("the unchanged copy fails %v: %v\n%s", m.run, err, out)
		}
	}
	for _, m := range faults {
		t.Run(m.what, func(t *testing.T) {
			if m.variant != "" {
				needVariant(t, m.variant)
			}
			path := filepath.Join(dir, "cutrantt", filepath.FromSlash(m.file))
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			changed, err := m.fault().Apply(source)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, changed, 0o600); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := os.WriteFile(path, source, 0o600); err != nil {
					t.Error(err)
				}
			}()
			out, err := runTests(t, dir, m.run)
			switch {
			case err == nil:
				t.Errorf("not noticed: %s: %q instead of %q", m.file, m.new, m.old)
			case !noticed(out):
				t.Errorf("does not build: %v\n%s", err, out)
			}
		})
	}
}

// noticed reports whether tests that ran found a fault, by what they printed:
// a failed test, a panic, or an end by a bad address.
func noticed(out string) bool {
	for _, sign := range []string{"--- FAIL", "panic:", "signal: segmentation fault"} {
		if strings.Contains(out, sign) {
			return true
		}
	}
	return false
}

// suite is the conformance suite on the CPU backend.
var suite = mutationRun{pkg: "./cutrantt/conformance", pattern: "Test/cpu"}

func allMutations() []mutation { return slices.Concat(mutations, codecMutations) }

// TestFaultList keeps the list of faults in step with the sources.
func TestFaultList(t *testing.T) {
	var faults []fault.Fault
	for _, m := range allMutations() {
		faults = append(faults, m.fault())
	}
	fault.CheckList(t, "..", faults)
}

// copyModule copies what the arithmetic needs of the module to a new directory.
func copyModule(t *testing.T) string {
	t.Helper()
	root, dir := filepath.Join("..", ".."), t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []string{"cutrantt", "henc/internal", "internal/meter", "internal/taint", "internal/testenv",
		"kernels"} {
		if _, err := os.Stat(filepath.Join(root, part)); err == nil {
			copyTree(t, root, dir, part)
		}
	}
	return dir
}

// copyTree copies directory part of root to dir.
func copyTree(t *testing.T, root, dir, part string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, part), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(dir, rel), 0o700)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, rel), data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// needVariant skips the test on a processor that cannot run a variant of the CPU's code.
func needVariant(t *testing.T, name string) {
	t.Helper()
	for _, c := range candidates {
		if _, err := c.open(); err == nil && c.need() == name {
			return
		}
	}
	testenv.Missing(t, name, "only ", name, " code runs the line, which this processor cannot run")
}

// A mutationRun is tests of a package; with arm64 the generator of the NEON code runs
// before, and the tests under qemu-user.
type mutationRun struct {
	pkg, pattern string
	arm64        bool
}

func runTests(t *testing.T, dir string, r mutationRun) (string, error) {
	t.Helper()
	args := []string{"test", "-count=1", "-failfast", "-timeout=5m", "-vet=off", "-run", r.pattern, "-skip",
		"TestFaultList"}
	env := append(os.Environ(), "HENCEDGE_MUTATE=")
	if r.arm64 {
		to := filepath.Join(dir, strings.TrimPrefix(r.pkg, "./"), "zvector_arm64")
		generate := exec.CommandContext(t.Context(), "go", "run", "./arm64", "-out", to+".s", "-stubs", to+".go",
			"-pkg", filepath.Base(r.pkg))
		generate.Dir = filepath.Join(dir, "cutrantt", "cpu", "_asm")
		if out, err := generate.CombinedOutput(); err != nil {
			return string(out), err
		}
		args = append(args, "-tags", "nogpu", "-exec", "qemu-aarch64-static")
		env = append(env, "GOARCH=arm64", "CGO_ENABLED=0")
	}
	cmd := exec.CommandContext(t.Context(), "go", append(args, r.pkg)...)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	return string(out), err
}
