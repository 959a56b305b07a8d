package evaluator

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/transport"
)

// FuzzState: no state file makes the evaluator panic or reuse a boot epoch.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"version": 1, "name": "cloud", "boot_epoch": 7}`))
	f.Add([]byte(`{"version": 1, "name": "cloud", "boot_epoch": 18446744073709551615}`))
	f.Add([]byte(`{"version": 1, "name": "cloud", "boot_epoch": 7, "replay": "gwEAgA=="}`))
	path := filepath.Join(testenv.QuickDir(f), "state")
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		s := &state{guard: transport.NewReplayGuard(0), next: map[string]uint64{}}
		if err := s.load(path, "cloud", epoch); err == nil && s.boot() < uint64(epoch.Unix()) {
			t.Fatal("the boot epoch did not grow")
		}
	})
}
