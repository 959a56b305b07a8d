//go:build linux && amd64 && !nogpu

package cudatest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/kernels"
)

// arguments mirrors struct FaultArgs of testdata/faults.
type arguments struct {
	dst, a, b driver.Pointer
	host      uintptr
	count     uint32
}

// device is a context of the emulator with three buffers of 64 words, the first
// two of them written.
type device struct {
	*testing.T
	drv    *driver.Driver
	module driver.Module
	stream driver.Stream
	args   arguments
}

func (d *device) ok(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func (d *device) start() {
	d.Helper()
	drv := d.drv
	d.ok(drv.Init())
	dev, err := drv.Device(0)
	d.ok(err)
	c, err := drv.PrimaryContext(dev)
	d.ok(err)
	d.ok(drv.SetCurrent(c))
	d.module, err = drv.LoadModule(kernels.Modules[0].Image())
	d.ok(err)
	d.stream, err = drv.NewStream()
	d.ok(err)
	d.args = arguments{count: 64}
	for i, p := range []*driver.Pointer{&d.args.dst, &d.args.a, &d.args.b} {
		*p, err = drv.Alloc(256)
		d.ok(err)
		if i < 2 {
			d.ok(drv.Fill(*p, 7, 64, d.stream))
		}
	}
	d.ok(drv.Wait(d.stream))
}

// run launches kernels with 64 threads in blocks and gives what the last wait says.
func (d *device) run(early bool, blocks, threads int, names ...string) error {
	l := d.drv.NewLauncher(d.stream, early)
	for _, name := range names {
		f, err := d.drv.Function(d.module, name)
		d.ok(err)
		if err := l.Launch(f, blocks, 1, threads, 256, unsafe.Pointer(&d.args),
			int(unsafe.Sizeof(d.args))); err != nil {
			return err
		}
	}
	return d.drv.Wait(d.stream)
}

// words downloads dst.
func (d *device) words() []uint32 {
	d.Helper()
	host, err := d.drv.AllocHost(256)
	d.ok(err)
	d.ok(d.drv.CopyOut(host, d.args.dst, d.stream))
	d.ok(d.drv.Wait(d.stream))
	return unsafe.Slice((*uint32)(unsafe.Pointer(&host[0])), 64)
}

// TestEmulator: each fault of testdata/faults is found, by name and place, and
// kernels in order run and compute what they should, in every order of threads.
func TestEmulator(t *testing.T) {
	source, err := os.ReadFile("testdata/faults/faults.cu")
	if err != nil {
		t.Fatal(err)
	}
	var entries []string
	for _, m := range regexp.MustCompile(`(good|bad)_[a-z_]+`).FindAllString(string(source), -1) {
		if !slices.Contains(entries, m) {
			entries = append(entries, m)
		}
	}
	library := emulator(t, 90, "testdata/faults/faults.cu", entries)
	t.Setenv(driver.LibraryVariable, library)
	t.Setenv("EMULATE_ORDER", "backward")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	drv, err := driver.Open()
	if err != nil {
		t.Fatal(err)
	}
	d := &device{T: t, drv: drv}
	d.start()
	if name, err := drv.Name(0); err != nil || !strings.HasPrefix(name, "emulated") {
		t.Errorf("the device calls itself %q, %v", name, err)
	}
	for name, want := range map[string]func(i uint32) uint32{
		"good_exchange": func(uint32) uint32 { return 7 },
		"good_warp":     func(uint32) uint32 { return 7 },
		"good_shuffle":  func(i uint32) uint32 { return 31*16 + i/32*1024 },
		"good_count":    func(uint32) uint32 { return 63 * 32 },
		"good_bulk":     func(uint32) uint32 { return 14 },

		"good_bulk_barrier": func(uint32) uint32 { return 7 },
	} {
		d.ok(d.run(true, 1, 64, name))
		for i, w := range d.words() {
			if w != want(uint32(i)) {
				t.Errorf("%s: word %d is %d, want %d", name, i, w, want(uint32(i)))
				break
			}
		}
	}
	d.ok(d.run(false, 2, 32, "good_blocks"))
	tested := make(map[string]bool)
	for _, c := range []struct {
		name, want string
		setup      func()
	}{
		{name: "bad_store", want: `store of 4 bytes at 256 of an allocation of 256 bytes at faults.cu:`},
		{name: "bad_load", want: `load of 4 bytes at .* of `},
		{name: "bad_fresh", want: `load of memory that nothing was written to`},
		{name: "bad_shared", want: `store of 4 bytes at 256 of 256 bytes of shared memory`},
		{name: "bad_shared_fresh", want: `load of shared memory that no thread of the block has written`},
		{name: "bad_exchange", want: `shared memory`},
		{name: "bad_warp", want: `shared memory`},
		{name: "bad_reuse", want: `of shared memory with a (load|store) by thread`},
		{name: "bad_place", want: `store of a word with a load by thread|load of a word with a store by thread`},
		{name: "bad_blocks", want: `store of a word with a store by another block`},
		{name: "bad_return", want: `63 threads wait at __syncthreads, 1 have ended`},
		{name: "bad_lane", want: `__syncwarp, but lane 5 has ended|wait for each other for ever`},
		{name: "bad_meeting", want: `__syncwarp, but lane [0-9]+ is at __syncthreads|wait for each other for ever`},
		{name: "bad_vector", want: `a misaligned vector|of 16 bytes at`},
		{name: "bad_ldg", want: `load by the read-only path of a word that this kernel writes`},
		{name: "bad_bulk_hurry", want: `load of shared memory that a bulk copy writes, without a wait for it`},
		{name: "bad_bulk_end", want: `ends while a bulk copy to its shared memory is under way`},
		{name: "bad_bulk_reuse", want: `store of shared memory with a load by`},
		{name: "bad_bulk_parity", want: `wait for each other for ever`},
		{name: "bad_bulk_size", want: `a bulk copy of 100 bytes`},
		{name: "bad_bulk_init",
			want: `an mbarrier that nothing initialised|of shared memory with a store by thread 0` +
				`|no thread of the block has written`},
		{name: "bad_range", want: `x is 17, not below 17`},
		{name: "bad_factor", want: `not below 17`},
		{name: "bad_shift", want: `a shift by more than the width`},
		{name: "bad_index", want: `an index outside of its array`},
		{name: "bad_pointer", want: `which is no memory of the device`,
			setup: func() { d.args.host = uintptr(unsafe.Pointer(&d.args)) }},
		{name: "bad_store", want: `of memory given back`, setup: func() { d.ok(drv.Free(d.args.dst)) }},
		{name: "bad_early", want: `load, before settle, of a word with a store by a kernel that may still run`,
			setup: func() { d.args.dst, d.args.a = d.args.a, d.args.dst }},
		{name: "bad_hurry", want: `ends without having waited for the kernels before`},
	} {
		tested[c.name] = true
		d.ok(drv.ResetContext(0))
		d.start()
		if c.setup != nil {
			c.setup()
		}
		var err error
		switch c.name {
		case "bad_early": // after one that stores
			if err = d.run(true, 1, 64, "good_count"); err == nil {
				d.args.dst, d.args.a = d.args.a, d.args.dst
				l := drv.NewLauncher(d.stream, true)
				for _, name := range []string{"good_shuffle", "bad_early"} {
					f, e := drv.Function(d.module, name)
					d.ok(e)
					if err = l.Launch(f, 1, 1, 64, 256, unsafe.Pointer(&d.args),
						int(unsafe.Sizeof(d.args))); err != nil {
						break
					}
					d.args.dst, d.args.a = d.args.a, d.args.dst
				}
				err = drv.Wait(d.stream)
			}
		case "bad_hurry":
			err = d.run(true, 1, 64, c.name)
		case "bad_blocks":
			err = d.run(false, 2, 64, c.name)
		default:
			err = d.run(false, 1, 64, c.name)
		}
		if err == nil || !regexp.MustCompile(c.want).MatchString(err.Error()) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	for _, name := range entries {
		if strings.HasPrefix(name, "bad_") && !tested[name] {
			t.Errorf("nothing tests %s", name)
		}
	}
	d.ok(drv.ResetContext(0))
	d.start()
	if err := d.run(false, 1, 128, "good_blocks"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("128 threads of a kernel for 64: %v", err)
	}
}

// emulator builds a driver that runs kernels on the processor (emulator/README.md):
// those of source with the entries named. It needs g++.
// `make test-emulated` runs the tests of the CUDA backend on one with the kernels of the product.
func emulator(t testing.TB, capability int, source string, entries []string) (library string) {
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
	library = filepath.Join(dir, "libcuda.so.1")
	cmd := exec.Command("emulator/build.sh", library, fmt.Sprint(capability))
	cmd.Env = append(os.Environ(), "KERNELS="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return library
}
