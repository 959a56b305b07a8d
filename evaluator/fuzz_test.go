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
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := &state{guard: transport.NewReplayGuard(0), next: map[string]uint64{}}
		if err := s.parse(raw, "cloud"); err == nil && s.boot() == 0 {
			t.Fatal("the boot epoch did not grow")
		}
	})
}

// FuzzStoreMark: no file makes the evaluator panic, or take a store for that of another.
func FuzzStoreMark(f *testing.F) {
	const good = `{"version": 1, "name": "cloud", "id": "00112233445566778899aabbccddeeff", "starts": 3}`
	f.Add([]byte(good))
	f.Add([]byte(`{"version": 1, "name": "cloud2", "id": "00", "starts": -1}`))
	f.Add([]byte(nil))
	path := filepath.Join(testenv.QuickDir(f), storeFile)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := readMark(path, "cloud")
		if err == nil && (m == nil || len(m.ID) != 32) {
			t.Fatalf("%+v", m)
		}
	})
}
