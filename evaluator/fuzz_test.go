package evaluator

import (
	"testing"

	"github.com/hencedge/hencedge/transport"
)

// FuzzManifest: no keyset.json makes the evaluator panic or name parameters that
// do not exist.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"version": 1, "params": "edge12-d1", "params_hash": "00", "signer": "ed25519:", "epochs": [{"epoch": 1, "key_id": "00", "accept_until": "2026-01-01T00:00:00Z", "files": {"evaluation.key": "00"}}]}`))
	f.Add([]byte(`{"version": 1, "params": "bench-paper16-insecure", "epochs": [{}]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, p, err := parseManifest(raw)
		if err == nil && (p.N() == 0 || p.Insecure() || len(m.Epochs) == 0) {
			t.Fatalf("accepted %+v for %q", m, p.Name())
		}
	})
}

// FuzzState: no state file makes the evaluator panic or reuse a boot epoch.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"version": 1, "name": "cloud", "boot_epoch": 7}`))
	f.Add([]byte(`{"version": 1, "name": "cloud", "boot_epoch": 18446744073709551615}`))
	f.Add([]byte(`{"version": 1, "name": "cloud", "boot_epoch": 7, "replay": "gwEAgA=="}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := &state{guard: transport.NewReplayGuard(0), next: map[string]uint64{}}
		if err := s.parse(raw, "cloud"); err == nil && s.boot() == 0 {
			t.Fatal("the boot epoch did not grow")
		}
	})
}
