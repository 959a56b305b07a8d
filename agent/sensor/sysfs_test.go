package sensor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
)

// Of two chips with one name each is found by its place, whatever number it has
// after the next start; discover names them so.
func TestChipsByPlace(t *testing.T) {
	root := t.TempDir()
	board := func(numbers [2]int) Machine {
		class, bus := filepath.Join(root, "sys/class/hwmon"), filepath.Join(root, "sys/bus/iio/devices")
		if err := errors.Join(os.RemoveAll(filepath.Join(root, "sys")), os.MkdirAll(class, 0o700),
			os.MkdirAll(bus, 0o700)); err != nil {
			t.Fatal(err)
		}
		for i, at := range []string{"1-0048", "1-0049"} {
			// As in Linux: the class has links to the device's own directories.
			dir := filepath.Join(root, "sys/devices/i2c-1", at)
			hwmon, iio := fmt.Sprintf("hwmon%d", numbers[i]), fmt.Sprintf("iio:device%d", numbers[i])
			temp := fmt.Sprintf("%d\n", 20000+1000*i)
			for name, text := range map[string]string{"hwmon/" + hwmon + "/name": "lm75\n",
				"hwmon/" + hwmon + "/temp1_input": temp,
				iio + "/name":                     "bme280\n", iio + "/in_temp_input": temp} {
				file := filepath.Join(dir, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700),
					os.WriteFile(file, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(os.Symlink("../../../"+at, filepath.Join(dir, "hwmon", hwmon, "device")),
				os.Symlink("../../devices/i2c-1/"+at+"/hwmon/"+hwmon, filepath.Join(class, hwmon)),
				os.Symlink("../../../devices/i2c-1/"+at+"/"+iio, filepath.Join(bus, iio))); err != nil {
				t.Fatal(err)
			}
		}
		return Machine{Root: root, Clock: testrig.NewClock()}
	}
	for _, numbers := range [][2]int{{0, 1}, {1, 0}, {5, 2}} {
		m := board(numbers)
		found := map[string]float64{}
		for _, f := range m.Discover() {
			found[string(f.Source.Type)+" "+f.Source.Chip] = f.Value
		}
		for i, at := range []string{"1-0048", "1-0049"} {
			for _, src := range []config.Source{{Type: "hwmon", Chip: at, Input: "temp1"},
				{Type: "iio", Chip: at, Input: "temp"}} {
				s, err := m.Open(src)
				if err != nil {
					t.Fatal(err)
				}
				if v, _, err := s.Read(t.Context()); v != float64(20+i) || err != nil {
					t.Errorf("%s at %s: got %v, %v", src.Type, at, v, err)
				}
				if v, ok := found[string(src.Type)+" "+at]; !ok || v != float64(20+i) {
					t.Errorf("%s at %s: found %v", src.Type, at, found)
				}
			}
		}
		for _, src := range []config.Source{{Type: "hwmon", Chip: "lm75", Input: "temp1"},
			{Type: "iio", Chip: "bme280", Input: "temp"}} {
			if _, err := m.Open(src); !errors.Is(err, ErrNoSensor) {
				t.Errorf("%s: an ambiguous name opens: %v", src.Type, err)
			}
		}
	}
}
