package power

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
)

func rail(name, field string) config.Source {
	return config.Source{Type: config.SourcePower, Field: field, Point: config.Point{Rail: name}}
}

func gpu(chip, field string) config.Source {
	return config.Source{Type: config.SourceGPU, Chip: chip, Field: field}
}

func open(root string, src config.Source) (input.Sensor, error) {
	if src.Type == config.SourceGPU {
		return OpenGPU(root, src)
	}
	return OpenRail(root, src)
}

func TestRead(t *testing.T) {
	orin, xavier := inputtest.Tree(t, "testdata/orin.txtar"), inputtest.Tree(t, "testdata/xavier.txtar")
	for _, c := range []struct {
		root string
		src  config.Source
		want float64
	}{
		{orin, rail("VDD_GPU_SOC", "power"), 19.512 * 0.216},
		{orin, rail("VDD_GPU_SOC", "voltage"), 19.512},
		{orin, rail("VDD_CPU_CV", "current"), 0.08},
		{orin, rail("VIN", "power"), 12.345678},
		{orin, gpu("", "load"), 34.7},
		{orin, gpu("17000000.gpu", "clock"), 612},
		{xavier, rail("GPU", "power"), 1.543},
		{xavier, rail("GPU", "current"), 0.081},
		{xavier, rail("CV", "power"), 0},
		{xavier, gpu("", "load"), 100},
		{xavier, gpu("", "clock"), 1377},
	} {
		s, err := open(c.root, c.src)
		if err != nil {
			t.Errorf("%s: %v", c.src.YAML(), err)
			continue
		}
		if v, _, err := s.Read(t.Context()); err != nil || math.Abs(v-c.want) > 1e-9 {
			t.Errorf("%s: got %v, %v, want %v", c.src.YAML(), v, err, c.want)
		}
	}
}

func TestOpenFailures(t *testing.T) {
	orin := inputtest.Tree(t, "testdata/orin.txtar")
	for _, c := range []struct {
		src  config.Source
		want string
	}{
		{rail("VDD_GPU", "power"), "VDD_GPU_SOC"},
		{rail("VIN", "voltage"), "power"},
		{gpu("gpu.0", "load"), "17000000.gpu load"},
	} {
		if _, err := open(orin, c.src); !errors.Is(err, input.ErrNoSensor) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want it to name %q", c.src.YAML(), err, c.want)
		}
	}
	if _, err := open(t.TempDir(), gpu("", "load")); !errors.Is(err, input.ErrNoSensor) {
		t.Errorf("got %v", err)
	}
}

func TestLists(t *testing.T) {
	var got []string
	for _, root := range []string{inputtest.Tree(t, "testdata/orin.txtar"),
		inputtest.Tree(t, "testdata/xavier.txtar")} {
		for _, r := range Rails(root) {
			got = append(got, r.Name+":"+strings.Join(r.Fields(), "+"))
		}
		for _, g := range GPUs(root) {
			got = append(got, g.Chip+":"+g.Field)
		}
	}
	const want = "VDD_GPU_SOC:power+voltage+current VDD_CPU_CV:power+voltage+current VIN:power 17000000.gpu:load " +
		"17000000.gpu:clock " +
		"GPU:power+voltage+current CPU:power CV:power gpu.0:load 17000000.gv11b:clock"
	if strings.Join(got, " ") != want {
		t.Errorf("got %s", strings.Join(got, " "))
	}
}
