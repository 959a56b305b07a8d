// Package cudatest makes CUDA drivers for tests: shared objects, built from C,
// that fail where a test wants it. Everything above the driver's interface, the
// loading of the library included, runs as it does on a GPU; only the kernels do
// nothing, unless a real driver is put behind (see Driver.Real). It is no part of
// the product.
package cudatest

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
	"github.com/hencedge/hencedge/cutrantt/cuda/internal/selftest"
	"github.com/hencedge/hencedge/internal/testenv"
)

//go:embed testdata/fakecuda.c
var source string

// Driver is one driver. Its settings take effect at the next call into it.
type Driver struct {
	t       testing.TB
	Library string // the shared object
	dir     string
	lines   []string
}

// Attributes of the device that only these drivers have: how many of each there are,
// bytes that were copied to the device, launches of kernels (but for those in graphs) and
// of graphs, and those between the events whose time was asked for last.
const (
	Contexts     = 1000 + iota
	DeviceBlocks // of memory
	HostBlocks
	Streams
	Events
	Graphs
	ExecutableGraphs
	CopiedBytes
	KernelLaunches
	GraphLaunches
	Timed
)

// New builds a driver without the named entry points, and without graphs; it needs gcc.
func New(t testing.TB, without ...string) *Driver {
	t.Helper()
	var defines []string
	for _, name := range without {
		defines = append(defines, "-D"+name+"=absent_"+name)
	}
	return build(t, defines...)
}

// WithGraphs is New for a driver that has graphs.
func WithGraphs(t testing.TB) *Driver {
	t.Helper()
	return build(t, "-DWITH_GRAPHS")
}

func build(t testing.TB, defines ...string) *Driver {
	t.Helper()
	if _, err := driver.Open(); errors.Is(err, driver.ErrNotBuilt) {
		testenv.Missing(t, "cuda-built", err)
	}
	compiler := testenv.Program(t, "gcc", "gcc")
	d := &Driver{t: t, dir: t.TempDir()}
	d.Library = filepath.Join(d.dir, "libfake.so")
	var stubs strings.Builder
	for _, name := range driver.Symbols() {
		if !strings.Contains(source, "FN("+name+")") {
			fmt.Fprintf(&stubs, "STUB(%s)\n", name)
		}
	}
	d.write("fakecuda.c", source)
	d.write("stubs.h", stubs.String())
	args := []string{"-shared", "-fPIC", "-O1", "-Wall", "-o", d.Library, filepath.Join(d.dir, "fakecuda.c"),
		"-ldl", "-lpthread",
		fmt.Sprintf("-DCONTROL=%q", filepath.Join(d.dir, "control")),
		fmt.Sprintf("-DSTUBS=%q", filepath.Join(d.dir, "stubs.h"))}
	args = append(args, defines...)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", compiler, err, out)
	}
	d.Set()
	return d
}

func (d *Driver) write(name, content string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(content), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// Set replaces the settings of earlier calls of Set; testdata/fakecuda.c
// describes the lines.
func (d *Driver) Set(lines ...string) {
	d.t.Helper()
	all := append(slices.Clone(d.lines), lines...)
	d.write("next", strings.Join(append(all, ""), "\n"))
	if err := os.Rename(filepath.Join(d.dir, "next"), filepath.Join(d.dir, "control")); err != nil {
		d.t.Fatal(err)
	}
}

// named is the driver that the environment names for the whole run.
var named = os.Getenv(driver.LibraryVariable)

// Working makes the driver pass the self-test: it gives the residues that the
// test expects. What it computes later is wrong. Its tests are skipped where the
// environment names a driver, because they are the same whatever that is.
func (d *Driver) Working() {
	d.t.Helper()
	if named != "" {
		d.t.Skipf("uses no kernel, and this run is for the kernels of %s", named)
	}
	want, err := selftest.Product(cpu.New())
	if err != nil {
		d.t.Fatal(err)
	}
	raw := make([]byte, 0, 4*len(want))
	for _, x := range want {
		raw = append(raw, byte(x), byte(x>>8), byte(x>>16), byte(x>>24)) // as both platforms with a GPU store words
	}
	d.write("answer", string(raw))
	d.lines = append(d.lines, fmt.Sprintf("answer %d %s", len(raw), filepath.Join(d.dir, "answer")))
	d.Set()
}

// Real puts this machine's driver behind, or the one that the environment names, such
// as an emulated one: what this one does not fail, that one does, kernels included.
// Call it before Use.
func (d *Driver) Real() {
	d.t.Helper()
	d.lines = append(d.lines, "real "+cmp.Or(os.Getenv(driver.LibraryVariable), "libcuda.so.1"))
	d.Set()
}

// Use makes package cuda open this driver in the rest of the test.
func (d *Driver) Use() {
	d.t.(interface{ Setenv(key, value string) }).Setenv(driver.LibraryVariable, d.Library)
}
