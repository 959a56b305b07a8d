package cuda

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/kernels"
)

// cacheFile is what is kept of measurements between processes, one file for
// each GPU, driver and set of kernels. It holds nothing secret, and a wrong one
// costs time only.
type cacheFile struct {
	Version int               `json:"version"`
	Device  string            `json:"device"` // UUID
	Name    string            `json:"name"`
	Driver  int               `json:"driver"`
	Kernels string            `json:"kernels"` // hash of the images
	Methods map[string]string `json:"methods"` // "logN/n2" to the method's name
}

const (
	cacheVersion = 1
	maxCache     = 64 << 10 // bytes that are read
)

func newCache(d Device) cacheFile {
	return cacheFile{
		Version: cacheVersion, Device: d.UUID, Name: d.Name, Driver: d.Driver, Kernels: kernels.ImageHash,
		Methods: map[string]string{},
	}
}

// cachePath is where the measurements on d are kept; "" where a process has no
// cache directory.
func cachePath(d Device) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d\n%s", d.UUID, d.Name, d.Driver, kernels.ImageHash))
	return filepath.Join(dir, "hencedge", "cuda-"+hex.EncodeToString(sum[:8])+".json")
}

// loadCache reads a cache; a file that is missing, damaged or of something else
// is an empty one.
func loadCache(path string, d Device) cacheFile {
	fresh := newCache(d)
	if path == "" {
		return fresh
	}
	f, err := os.Open(path)
	if err != nil {
		return fresh
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxCache+1))
	if err != nil || len(raw) > maxCache {
		return fresh
	}
	c, err := parseCache(raw)
	if err != nil || c.Version != fresh.Version || c.Device != fresh.Device || c.Name != fresh.Name ||
		c.Driver != fresh.Driver || c.Kernels != fresh.Kernels {
		return fresh
	}
	return c
}

var errCache = errors.New("not a cache of measurements")

// parseCache reads the file and refuses what no process would have written.
func parseCache(raw []byte) (cacheFile, error) {
	var c cacheFile
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("%w: %w", errCache, err)
	}
	for key, name := range c.Methods {
		var s size
		if n, err := fmt.Sscanf(key, "%d/%d", &s.logN, &s.n2); n != 2 || err != nil || key != s.String() {
			return c, fmt.Errorf("%w: key %q", errCache, key)
		}
		m, ok := methodNamed(name)
		if !ok || !m.Supports(s.n2) || s.logN < cutrantt.MinLogN || s.logN > cutrantt.MaxLogN {
			return c, fmt.Errorf("%w: %s for %s", errCache, name, key)
		}
	}
	if c.Methods == nil {
		c.Methods = map[string]string{}
	}
	return c, nil
}

func (s size) String() string { return fmt.Sprintf("%d/%d", s.logN, s.n2) }

func methodNamed(name string) (cutrantt.Method, bool) {
	for _, m := range cutrantt.Methods() {
		if m.String() == name {
			return m, true
		}
	}
	return 0, false
}

func (c cacheFile) method(s size) (cutrantt.Method, bool) { return methodNamed(c.Methods[s.String()]) }

func (c cacheFile) add(s size, m cutrantt.Method) { c.Methods[s.String()] = m.String() }

// save writes the file in one step, so that no process reads half of one. It does not use
// internal/durable, which needs Linux: this package compiles on every platform.
func (c cacheFile) save(path string) error {
	if path == "" {
		return nil
	}
	raw, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return renameio.WriteFile(path, append(raw, '\n'), 0o600)
}
