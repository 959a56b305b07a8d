package daemon

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercentOf(t *testing.T) {
	for _, c := range []struct {
		most, used int64
		want       int
	}{
		{0, 1 << 20, 100},
		{1 << 20, 1 << 20, 100},
		{1 << 20, 1 << 30, 100}, // what is in use counts
		{1 << 30, 1 << 28, 384}, // 400, rounded down
		{7 << 20, 1 << 20, 640},
		{1 << 62, 1 << 20, 7 << 28}, // the largest percentage
	} {
		if got := percentOf(c.most, c.used); got != c.want {
			t.Errorf("%d of %d bytes: %d %%, want %d", c.most, c.used, got, c.want)
		}
	}
	for used := int64(1 << 10); used < 1<<40; used += used / 3 {
		for most := int64(1 << 10); most < 1<<40; most += most / 3 {
			p := percentOf(most, used)
			if garbage := float64(used) * float64(p) / 100; garbage > 1.0001*float64(max(most, used)) {
				t.Fatalf("%d bytes in use, %d allowed: %d %% are %g", used, most, p, garbage)
			} else if most <= 1<<20*used && garbage < 0.75*float64(most) {
				t.Fatalf("%d bytes in use: only %g of %d are allowed", used, garbage, most)
			}
		}
	}
}

// kept is live memory of TestAllowGarbage.
var kept []byte

func TestAllowGarbage(t *testing.T) {
	t.Setenv("GOGC", "")
	const most = 64 << 20
	end := AllowGarbage(most)
	defer end()
	goal := func() (goal, used int64) {
		s := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64()), inUse()
	}
	// until collects garbage until the goal is good; the percentage is set by a cleanup, at its own time.
	until := func(what string, good func(goal, used int64) bool) {
		t.Helper()
		for range 2000 {
			runtime.GC()
			if good(goal()) {
				return
			}
			time.Sleep(time.Millisecond)
		}
		at, used := goal()
		t.Errorf("%s: the next collection comes at %d bytes, %d are in use", what, at, used)
	}
	allowed := func(goal, used int64) bool { return goal > used+most/2 && goal <= used+most+1<<20 }
	until("little in use", allowed)
	kept = make([]byte, most/2)
	until("half of it in use", allowed)
	kept = make([]byte, 2*most)
	until("twice as much in use", func(goal, used int64) bool { return goal > 2*most && goal <= 2*used+1<<20 })
	kept = nil
	until("little again", allowed)
	end()
	until("after the end", func(goal, used int64) bool { return goal <= 2*used+1<<20 })
}

func TestAllowGarbageYields(t *testing.T) {
	t.Setenv("GOGC", "50")
	before := garbage.most
	defer AllowGarbage(1 << 40)()
	if garbage.most != before {
		t.Error("GOGC in the environment does not win")
	}
}
