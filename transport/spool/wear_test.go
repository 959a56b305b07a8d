package spool

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/internal/testenv"
)

// sectors returns what a block device has been asked to write, in sectors of 512
// bytes (Documentation/block/stat.rst, field 7).
func sectors(t testing.TB, device string) int64 {
	t.Helper()
	b, err := os.ReadFile("/sys/block/" + filepath.Base(device) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(b))
	var n int64
	fmt.Sscan(fields[6], &n)
	return n
}

// TestWear measures what a real file system writes to its device per byte of
// objects: ext4 with its journal on a loop device. The bound is loose; the
// figures are logged and recorded in docs/benchmarks.md.
func TestWear(t *testing.T) {
	mkfs := testenv.Program(t, "mkfs.ext4", "mkfs.ext4")
	image, dir := filepath.Join(t.TempDir(), "disk"), t.TempDir()
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 256<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkfs, "-q", "-F", image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command("losetup", "--find", "--show", image).Output()
	if err != nil {
		testenv.Missing(t, "root", "no loop device: ", err)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = exec.Command("losetup", "-d", device).Run() })
	testenv.Mount(t, device, dir, "ext4", unix.MS_NOATIME, "")
	for _, size := range []int{8 << 10, 64 << 10, 256 << 10} {
		for _, cursor := range []bool{false, true} {
			const objects = 50
			s := open(t, Options{Dir: filepath.Join(dir, fmt.Sprint(size, cursor))})
			unix.Sync()
			before := sectors(t, device)
			for i := range objects {
				it := item("a", i, size)
				if cursor {
					it.Cursor = []byte("1234567890")
				}
				put(t, s, it)
				s.TryLease(Oldest, 0).Done()
			}
			unix.Sync()
			device := float64(sectors(t, device)-before) * 512
			st := s.Stats()
			factor := device / float64(objects*size)
			t.Logf("objects of %d KiB, cursor %v: file bytes x%.3f, device bytes x%.2f, %.1f flushes an object",
				size>>10, cursor,
				float64(st.Written)/float64(objects*size), factor, float64(st.Syncs)/objects)
			predicted := float64(DeviceBytes(FileSize("a", "t", 0, int64(size)), cursor))
			t.Logf("  an object: %.0f bytes on the device, predicted %.0f", device/objects, predicted)
			if off := predicted / (device / objects); off < 0.8 || off > 1.2 {
				t.Errorf("DeviceBytes is %.2f of what was measured", off)
			}
			if overhead := device/objects - float64(size); overhead > 200<<10 ||
				float64(st.Written) > 1.1*float64(objects*size)+objects*200 {
				t.Errorf("%.0f bytes more than the object are written for each", overhead)
			}
		}
	}
}
