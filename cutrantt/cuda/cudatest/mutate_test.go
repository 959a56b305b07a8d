package cudatest

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/cutrantt/internal/fault"
)

const sources = "../../../kernels"

// TestMutations shows that the suites notice single faults in the kernels: for each
// one it builds an emulated driver of the kernels with one place changed, and runs
// the tests of cutrantt/conformance named by the fault, which have to fail. It takes
// more than an hour of processor time, over all processors at once, so it runs only with
// HENCEDGE_MUTATE=1 (make mutate). Any other value is a regular expression that selects
// faults by their "file: what".
func TestMutations(t *testing.T) {
	wanted := fault.Wanted(t)
	dir := t.TempDir()
	objects := filepath.Join(dir, "objects")
	if err := os.Mkdir(objects, 0o700); err != nil {
		t.Fatal(err)
	}
	suite := filepath.Join(dir, "suite")
	if out, err := exec.Command("go", "test", "-c", "-o", suite, "../../conformance").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	check := func(t *testing.T, m mutation) (string, error) {
		t.Helper()
		kernels := copyKernels(t, m)
		library := filepath.Join(kernels, "libcuda.so.1")
		build := exec.Command("emulator/build.sh", library, "90")
		build.Env = append(os.Environ(), "KERNELS="+kernels, "OBJECTS="+objects)
		if m.what != "" { // other faults are built and run beside it
			build.Env = append(build.Env, "JOBS=1")
		}
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("does not build: %v\n%s", err, out)
		}
		run := exec.Command(suite, "-test.short", "-test.failfast", "-test.timeout=10m",
			"-test.run=^Test(Required|"+m.run+")")
		run.Dir = "../../conformance"
		run.Env = append(os.Environ(), "HENCEDGE_MUTATE=", "CUTRANTT_CUDA_LIBRARY="+library,
			"CUTRANTT_TEST_REQUIRE=cuda", "CUTRANTT_AUTOTUNE=off", "EMULATE_STREAMS=late")
		run.Args[len(run.Args)-1] += "/^cuda$"
		if m.file == "basis.cu" { // what GPUs without mma of bytes run
			run.Env = append(run.Env, "EMULATE_CAPABILITY=72")
		}
		out, err := run.CombinedOutput()
		return string(out), err
	}
	if out, err := check(t, mutation{run: "Elementwise|Transform|Extend|SwitchKeys|MulOperand|Sample"}); err != nil {
		t.Fatalf("the unchanged kernels fail: %v\n%s", err, out)
	}
	for _, m := range mutations {
		if !wanted.MatchString(m.fault().String()) {
			continue
		}
		t.Run(m.what, func(t *testing.T) {
			t.Parallel()
			out, err := check(t, m)
			switch {
			case err == nil:
				t.Errorf("not noticed: %s: %q instead of %q", m.file, m.new, m.old)
			case !strings.Contains(out, "--- FAIL"):
				t.Errorf("does not run: %v\n%s", err, out)
			default:
				_, reason, _ := strings.Cut(out, "emulator: ")
				reason, _, _ = strings.Cut(reason, "\n")
				t.Log(cmp.Or(reason, "wrong residues"))
			}
		})
	}
}

// copyKernels copies the sources with one fault to a new directory.
func copyKernels(t *testing.T, m mutation) string {
	t.Helper()
	dir := t.TempDir()
	names, err := filepath.Glob(filepath.Join(sources, "*.cu*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, filepath.Join(sources, "zkernels.go")) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(name) == m.file {
			if data, err = m.fault().Apply(data); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestFaultList keeps the list of faults in step with the sources.
func TestFaultList(t *testing.T) {
	var faults []fault.Fault
	for _, m := range mutations {
		faults = append(faults, m.fault())
	}
	fault.CheckList(t, sources, faults)
}
