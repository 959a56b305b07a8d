package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hencedge/hencedge/internal/testenv"
)

// FuzzStoreMark: no file makes the evaluator panic, or take a store for that of another.
func FuzzStoreMark(f *testing.F) {
	const good = `{"version": 1, "name": "cloud", "id": "00112233445566778899aabbccddeeff", "starts": 3}`
	f.Add([]byte(good))
	f.Add([]byte(`{"version": 1, "name": "cloud2", "id": "00", "starts": -1}`))
	f.Add([]byte(nil))
	path := filepath.Join(testenv.QuickDir(f), MarkFile)
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
