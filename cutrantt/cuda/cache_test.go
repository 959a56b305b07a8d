package cuda

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
)

var someGPU = Device{Name: "Some GPU", UUID: "GPU-00000000-0000-0000-0000-000000000001", Capability: 87, Driver: 12060}

// TestCache: measurements come back for the same GPU, driver and kernels, and
// whatever else lies in the file's place is an empty cache that is overwritten.
func TestCache(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", filepath.Join(t.TempDir(), "not", "there", "yet"))
	path := cachePath(someGPU)
	c := loadCache(path, someGPU)
	if len(c.Methods) != 0 {
		t.Fatalf("an empty directory holds %+v", c)
	}
	want := map[size]cutrantt.Method{{16, 16}: cutrantt.MethodToomCook4, {13, 1}: cutrantt.MethodLazy,
		{17, 4}: cutrantt.MethodKaratsuba}
	for s, m := range want {
		c.add(s, m)
	}
	if err := c.save(path); err != nil {
		t.Fatal(err)
	}
	got := loadCache(path, someGPU)
	for s, m := range want {
		if g, ok := got.method(s); !ok || g != m {
			t.Errorf("%v: %v, %v, want %v", s, g, ok, m)
		}
	}
	if _, ok := got.method(size{12, 16}); ok {
		t.Error("a size that was not measured has a method")
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := someGPU
	other.UUID = "GPU-00000000-0000-0000-0000-000000000002"
	newer := someGPU
	newer.Driver++
	if cachePath(other) == path || cachePath(newer) == path {
		t.Error("two GPUs or drivers share a file")
	}
	for what, d := range map[string]Device{"another GPU": other, "another driver": newer} {
		if c := loadCache(path, d); len(c.Methods) != 0 || c.Device != d.UUID {
			t.Errorf("%s takes over %+v", what, c)
		}
	}
	for what, content := range map[string]string{
		"nothing":            "",
		"half a file":        string(good[:len(good)/2]),
		"another version":    strings.Replace(string(good), `"version": 1`, `"version": 2`, 1),
		"other kernels":      strings.Replace(string(good), `"kernels": "`, `"kernels": "0`, 1),
		"an unknown method":  strings.Replace(string(good), "karatsuba", "fft", 1),
		"auto":               strings.Replace(string(good), "karatsuba", "auto", 1),
		"a key of no size":   strings.Replace(string(good), `"17/4"`, `"17/5"`, 1),
		"a key with a zero":  strings.Replace(string(good), `"17/4"`, `"017/4"`, 1),
		"a degree too large": strings.Replace(string(good), `"17/4"`, `"18/4"`, 1),
		"a method too small": strings.Replace(string(good), `"lazy"`, `"toomcook4"`, 1),
		"too much":           string(good) + strings.Repeat(" ", maxCache),
	} {
		if content == string(good) {
			t.Fatalf("%s: nothing was changed", what)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		c := loadCache(path, someGPU)
		if len(c.Methods) != 0 {
			t.Errorf("%s is read as %+v", what, c)
		}
		c.add(size{14, 8}, cutrantt.MethodLazy)
		if err := c.save(path); err != nil {
			t.Errorf("%s is not overwritten: %v", what, err)
		}
		if m, ok := loadCache(path, someGPU).method(size{14, 8}); !ok || m != cutrantt.MethodLazy {
			t.Errorf("after %s: %v, %v", what, m, ok)
		}
	}
}

// TestCacheWithoutHome: where nothing can be kept, nothing fails.
func TestCacheWithoutHome(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	path := cachePath(someGPU)
	if path != "" {
		t.Fatalf("without a home the cache is %q", path)
	}
	c := loadCache(path, someGPU)
	c.add(size{14, 8}, cutrantt.MethodLazy)
	if err := c.save(path); err != nil {
		t.Error(err)
	}
	// A file where the directory should be, which refuses even root.
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", blocked)
	if err := c.save(cachePath(someGPU)); err == nil {
		t.Error("a cache below a file was written")
	}
	if c := loadCache(cachePath(someGPU), someGPU); len(c.Methods) != 0 {
		t.Errorf("a cache below a file holds %+v", c)
	}
}

// FuzzCache: no file makes the parser panic or accept a method that a ring
// could not run.
func FuzzCache(f *testing.F) {
	f.Add([]byte(`{"version":1,"methods":{"16/16":"karatsuba"}}`))
	f.Add([]byte(`{"methods":{"1/1":""}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := parseCache(raw)
		if err != nil {
			return
		}
		for key := range c.Methods {
			found := false
			for logN := cutrantt.MinLogN; logN <= cutrantt.MaxLogN; logN++ {
				for _, n2 := range []int{1, 2, 4, 8, 16} {
					if m, ok := c.method(size{logN, n2}); ok && key == (size{logN, n2}).String() && m.Supports(n2) {
						found = true
					}
				}
			}
			if !found {
				t.Errorf("%q of %s was accepted", key, raw)
			}
		}
	})
}
