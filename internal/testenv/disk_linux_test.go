package testenv

import (
	"os"
	"testing"
)

// TestDisk: what is asked for is what the test gets, full when it is filled.
func TestDisk(t *testing.T) {
	dir := Disk(t, "64k")
	Fill(t, dir+"/ballast")
	if info, err := os.Stat(dir + "/ballast"); err != nil || info.Size() > 64<<10 || info.Size() < 48<<10 {
		t.Errorf("%+v, %v", info, err)
	}
	if err := os.WriteFile(dir+"/more", []byte("x"), 0o600); err == nil {
		t.Error("there is room")
	}
}
