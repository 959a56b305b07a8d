package plan

import (
	"runtime"
	"testing"

	"github.com/hencedge/hencedge/agent/input/inputtest"
)

// TestTuneProcessors: workers bounds the whole process, and a configuration without
// it gives back what the machine has.
func TestTuneProcessors(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	cfg := inputtest.Config(t)
	defer runtime.SetDefaultGOMAXPROCS()
	runtime.SetDefaultGOMAXPROCS()
	all := runtime.GOMAXPROCS(0)
	for _, workers := range []int{1, all + 1, 0} {
		cfg.Workers = workers
		if err := cfg.Check(); err != nil {
			t.Fatal(err)
		}
		TuneProcessors(cfg)
		want := workers
		if workers == 0 {
			want = all
		}
		if got := runtime.GOMAXPROCS(0); got != want {
			t.Errorf("workers: %d gives %d processors, want %d", workers, got, want)
		}
	}
	t.Setenv("GOMAXPROCS", "2")
	runtime.GOMAXPROCS(2)
	cfg.Workers = 1
	if TuneProcessors(cfg); runtime.GOMAXPROCS(0) != 2 {
		t.Error("GOMAXPROCS in the environment does not win")
	}
}
