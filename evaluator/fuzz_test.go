package evaluator

import (
	"testing"

	"github.com/hencedge/hencedge/transport"
)

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
