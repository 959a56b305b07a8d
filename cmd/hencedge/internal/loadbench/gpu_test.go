package loadbench

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestGPUBusy: of what nvidia-smi says, the readings in the measured intervals count.
func TestGPUBusy(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(`#!/bin/sh
test "$5 $6" = "-i GPU-1,GPU-2" || exit 1
while :; do echo 25; echo 75; echo "[N/A]"; sleep 0.01; done
`), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	start := time.Now()
	u, err := watchGPUs(context.Background(), []string{"GPU-1", "GPU-2"})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		u.mu.Lock()
		n := len(u.all)
		u.mu.Unlock()
		if n >= 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no readings")
		}
	}
	u.stop()
	u.all = u.all[:2]
	all := &segment{from: snapshot{at: start}, to: snapshot{at: time.Now()}}
	if busy := u.between([]*segment{all}); busy == nil || *busy != 0.5 {
		t.Errorf("busy %v, want 0.5", busy)
	}
	before := &segment{from: snapshot{at: start.Add(-time.Hour)}, to: snapshot{at: start}}
	if busy := u.between([]*segment{before}); busy != nil {
		t.Errorf("busy %v before there was a reading", *busy)
	}
	var none *utilisation
	if none.between([]*segment{all}) != nil {
		t.Error("a utilisation without a GPU")
	}
}
