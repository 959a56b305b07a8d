package sensor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
)

// A chip that goes away and comes back under another number is found again, and
// is left alone in between.
func TestWatchedComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := inputtest.CopyTree(t, "../testdata/board")
		m := Machine{Root: root, Clock: testrig.NewClock(), Log: testrig.Quiet()}
		ch := config.Channel{Name: "t",
			Source: &config.Source{Type: config.SourceHwmon, Chip: "tmp451", Input: "temp1"}}
		s, err := m.openSensor("s", ch)
		if err != nil {
			t.Fatal(err)
		}
		read := func() error {
			t.Helper()
			v, _, err := s.Read(t.Context())
			if err == nil && v != 41.25 {
				t.Errorf("got %v", v)
			}
			return err
		}
		if err := read(); err != nil {
			t.Fatal(err)
		}
		class := filepath.Join(root, "sys/class/hwmon")
		if err := os.Rename(filepath.Join(class, "hwmon0"), filepath.Join(root, "away")); err != nil {
			t.Fatal(err)
		}
		if err := read(); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, input.ErrWaiting) {
			t.Errorf("the first failure: %v", err)
		}
		if err := read(); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, input.ErrWaiting) {
			t.Errorf("the second failure: %v", err)
		}
		if err := read(); !errors.Is(err, input.ErrWaiting) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the third: %v", err)
		}
		asked := 0
		for range 600 { // ten minutes
			time.Sleep(time.Second)
			if err := read(); !errors.Is(err, input.ErrWaiting) {
				asked++
				if !errors.Is(err, ErrNoSensor) || !strings.Contains(err.Error(), "ina3221") {
					t.Fatalf("got %v", err)
				}
			}
		}
		if asked < 12 || asked > 30 {
			t.Errorf("asked %d times in ten minutes", asked)
		}
		if err := os.Rename(filepath.Join(root, "away"), filepath.Join(class, "hwmon77")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(config.DefaultRetryMax)
		if err := read(); err != nil {
			t.Error(err)
		}
	})
}

// A sensor that hangs is left out of what is found, and the others are found.
func TestDiscoverHanging(t *testing.T) {
	t.Parallel() // it mostly waits
	root := inputtest.CopyTree(t, "../testdata/board")
	chip := filepath.Join(root, "sys/class/hwmon/hwmon21")
	fifo := filepath.Join(chip, "temp1_input")
	if err := errors.Join(os.Mkdir(chip, 0o700), os.WriteFile(filepath.Join(chip, "name"), []byte("stuck\n"), 0o600),
		unix.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // let the read end
		if f, err := os.OpenFile(fifo, os.O_RDWR, 0); err == nil {
			_, _ = f.WriteString("1\n")
			f.Close()
		}
	})
	names := map[string]bool{}
	for _, f := range (Machine{Root: root}).Discover() {
		names[f.Name] = true
	}
	if names["stuck_temp1"] || !names["sht4x_humidity1"] || !names["memory"] {
		t.Errorf("found %v", names)
	}
}
