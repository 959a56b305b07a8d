package keyset

import (
	"errors"
	"strings"
	"testing"
)

// TestManifestOfDevices: devices are complete, and in the order of their names.
func TestManifestOfDevices(t *testing.T) {
	const id = "20bc4ede8f91536f5d43f2bf4ad2fb6c"
	parse := func(compact string) error {
		_, err := ParseManifest([]byte(`{"version":1,"params_hash":"` + strings.Repeat("0f", 32) +
			`","epochs":[{"epoch":1,"key_id":"` + id + `","compact":` + compact + `}]}`))
		return err
	}
	device := func(name, board, sum string) string {
		return `{"name":"` + name + `","board":"` + board + `","sha256":"` + sum + `"}`
	}
	set := func(devices ...string) string {
		return `{"set":"compact12","devices":[` + strings.Join(devices, ",") + `]}`
	}
	sum := strings.Repeat("0f", 32)
	for name, good := range map[string]string{"none": "null", "no devices": set(), "one": set(device("a", id, sum)),
		"without a file": set(device("a", id, "")), "two": set(device("a", id, sum), device("b", id, sum))} {
		if err := parse(good); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, bad := range map[string]string{
		"no set":          `{"devices":[]}`,
		"an insecure set": `{"set":"compact10-insecure","devices":[]}`,
		"a path":          set(device("../a", id, sum)),
		"no name":         set(device("", id, sum)),
		"descending":      set(device("b", id, sum), device("a", id, sum)),
		"twice":           set(device("a", id, sum), device("a", id, sum)),
		"a short board":   set(device("a", id[2:], sum)),
		"a short digest":  set(device("a", id, sum[2:])),
		"another field":   `{"set":"compact12","devices":[],"ring":12}`,
	} {
		if err := parse(bad); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
