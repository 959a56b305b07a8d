package keyholder

import (
	"strings"
	"testing"
	"time"
)

// The parts of an interval in which a device was reloaded begin alike, and are no repetition;
// more samples than fit into it are.
func TestOrderOfParts(t *testing.T) {
	for name, c := range map[string]struct {
		samples []uint32 // of results that begin alike
		odd     int
	}{
		"two parts":       {[]uint32{9, 7}, 0},
		"three parts":     {[]uint32{9, 3, 4}, 0},
		"the whole again": {[]uint32{16, 16}, 1},
		"a part again":    {[]uint32{9, 9}, 1},
	} {
		var tally Tally
		tally.Result(&Result{Program: "p", Start: time.Unix(0, 0), End: time.Unix(10, 0), Samples: 16})
		odd := 0
		for _, n := range c.samples {
			if tally.Result(&Result{Program: "p", Start: time.Unix(10, 0), End: time.Unix(20, 0), Samples: n}) != "" {
				odd++
			}
		}
		if odd != c.odd {
			t.Errorf("%s: %d are odd, want %d", name, odd, c.odd)
		}
	}
}

// Gaps and repetitions in the times of a program's results are told; windows that follow
// each other, at any distance, are not.
func TestOrder(t *testing.T) {
	for name, c := range map[string]struct {
		starts []int // seconds; each window takes 10
		say    string
		odd    int
	}{
		"in order":      {[]int{0, 10, 20, 30}, "", 0},
		"far apart":     {[]int{0, 60, 120, 180}, "", 0},
		"overlapping":   {[]int{0, 5, 10, 15}, "", 0},
		"a little late": {[]int{0, 10, 24, 34}, "", 0},
		"one is missing": {[]int{0, 10, 30, 40, 50},
			"nothing from 1970-01-01T00:00:20Z to 1970-01-01T00:00:30Z, 10s", 1},
		"read again":        {[]int{0, 10, 20, 0, 10, 20, 30}, "begins at 1970-01-01T00:00:20Z", 3},
		"one came later":    {[]int{0, 10, 30, 20, 40}, "begins at 1970-01-01T00:00:20Z", 2},
		"the one as before": {[]int{0, 10, 10}, "begins at 1970-01-01T00:00:10Z", 1},
	} {
		var tally Tally
		odd, last := 0, ""
		for _, s := range c.starts {
			if text := tally.Result(&Result{Program: "p", Start: time.Unix(int64(s), 0),
				End: time.Unix(int64(s+10), 0)}); text != "" {
				odd, last = odd+1, text
			}
		}
		if odd != c.odd || !strings.Contains(last, c.say) {
			t.Errorf("%s: %d, %q", name, odd, last)
		}
	}
}

// The results of each device of a class have times of their own; counts are by program.
func TestTimesByDevice(t *testing.T) {
	var tally Tally
	at := func(device string, minute int) string {
		start := time.Unix(0, 0).Add(time.Duration(minute) * time.Minute)
		return tally.Result(&Result{Program: "each", Device: device, Start: start, End: start.Add(time.Minute),
			Samples: 60})
	}
	for minute := range 3 {
		for _, device := range []string{"p1", "p2"} {
			if odd := at(device, minute); odd != "" {
				t.Errorf("%s, minute %d: %s", device, minute, odd)
			}
		}
	}
	if at("p1", 9) == "" || at("p2", 1) == "" {
		t.Error("a gap or a repetition is not told")
	}
	sum := tally.byProgram()
	if read, _ := tally.Counts(); read["each"] != 8 || len(sum) != 1 || sum["each"].gaps != 1 ||
		sum["each"].backward != 1 {
		t.Errorf("%v, %+v", read, sum["each"])
	}
}
