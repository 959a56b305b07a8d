package keyset

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParseManifest: whatever parses is complete, and survives being written.
func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(`{"version":1,"params":"edge12-d1"` +
		`,"params_hash":"44ebc3e182a7654b044c8a1ac2e97fedc388cf55f4e5095cd4e2c8aae17b6a05"` +
		`,"signer":"ed25519:7pR6r34mZzEWSerxeBGrgkGjo+mGr0+TllMo5s7gIkQ="` +
		`,"created":"2026-11-21T11:49:04Z","epochs":[{"epoch":1,"key_id":"20bc4ede8f91536f5d43f2bf4ad2fb6c"` +
		`,"created":"2026-11-21T11:49:04Z","accept_until":"2026-12-21T11:49:04Z","rotations":[1,2]` +
		`,"conjugation":false,"relinearise":false,"public_bytes":44126,"evaluation_bytes":176272` +
		`,"files":{"public.key":"40ebd351"}}]}`))
	f.Add([]byte(`{"version":1,"epochs":[{"epoch":1,"key_id":"20bc4ede8f91536f5d43f2bf4ad2fb6c","bootstrap":"fast"}]}`))
	f.Add([]byte(`{"version":1,"params_hash":"44ebc3e182a7654b044c8a1ac2e97fedc388cf55f4e5095cd4e2c8aae17b6a05",` +
		`"epochs":[{"epoch":1,"key_id":"20bc4ede8f91536f5d43f2bf4ad2fb6c","compact":{"set":"compact12","devices":[` +
		`{"name":"a","board":"00112233445566778899aabbccddeeff"},{"name":"b","board":"` +
		`00112233445566778899aabbccddeeff","sha256":"` + strings.Repeat("0f", 32) + `"}]}}]}`))
	f.Add([]byte(`{"version":1,"epochs":[]}`))
	f.Add([]byte(`{"version": 1, "params": "bench-paper16-insecure", "epochs": [{}]}`))
	f.Add([]byte(`{}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseManifest(b)
		if err != nil {
			return
		}
		if p, err := m.Parameters(); err == nil && (p.N() == 0 || p.Insecure()) {
			t.Fatalf("accepted parameters %q", p.Name())
		}
		if m.Current().Epoch == 0 {
			t.Fatal("an epoch 0 was accepted")
		}
		for _, e := range m.Epochs {
			id, err := e.ID()
			if err != nil {
				t.Fatal(err)
			}
			if e.Bootstrap != BootstrapNone && e.Bootstrap != BootstrapFast && e.Bootstrap != BootstrapSmall {
				t.Fatalf("epoch %d bootstraps %q", e.Epoch, e.Bootstrap)
			}
			for i, name := range e.CompactDevices() {
				if d, ok := e.Compact.Device(name); !ok || d != e.Compact.Devices[i] || filepath.Base(name) != name {
					t.Fatalf("device %q is found as %+v, %v", name, d, ok)
				}
			}
			if got, ok := m.ByID(id); !ok || got.Epoch != e.Epoch {
				t.Fatalf("epoch %d is found as %d, %v", e.Epoch, got.Epoch, ok)
			}
		}
		first, err := m.Encode()
		if err != nil {
			return // a time that JSON cannot write
		}
		again, err := ParseManifest(first)
		if err != nil {
			t.Fatalf("what was written does not parse: %v\n%s", err, first)
		}
		second, err := again.Encode()
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("written differently: %v\n%s\n%s", err, first, second)
		}
	})
}
