package store

import (
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// Samples that are sent again under new numbers, by a replay whose spool is an old copy, are
// told by their times; backlogs, late windows and the parts of an interval are not.
func TestContinuityOfTimes(t *testing.T) {
	type w struct {
		boot, seq uint64
		start     int64
	}
	for name, c := range map[string]struct {
		list []w
		told bool
	}{
		"in order":             {[]w{{5, 0, 10}, {5, 1, 20}, {6, 384, 30}, {6, 385, 40}}, false},
		"read again":           {[]w{{5, 0, 10}, {5, 1, 20}, {6, 384, 10}, {6, 385, 20}}, true},
		"not the first":        {[]w{{5, 0, 10}, {5, 1, 20}, {6, 385, 30}, {6, 384, 10}}, true},
		"late":                 {[]w{{5, 0, 10}, {5, 2, 30}, {5, 1, 20}}, false},
		"a backlog":            {[]w{{5, 0, 10}, {6, 384, 30}, {5, 1, 20}, {6, 385, 40}}, false},
		"parts of an interval": {[]w{{5, 0, 10}, {5, 1, 20}, {6, 384, 20}, {6, 385, 30}}, false},
	} {
		var k continuity
		now := time.Unix(1e6, 0)
		for _, x := range c.list {
			obj := &transport.Object{Meta: transport.Meta{Device: "d", Stream: "s", BootEpoch: x.boot, Sequence: x.seq,
				Start: x.start * 1e9}}
			k.first(obj, func([8]byte) (uint64, uint64, bool) { return 0, 0, false })
			k.note(obj, now)
		}
		if h := strings.Join(k.health(now.Add(time.Second)), "; "); strings.Contains(h,
			"samples are sent again") != c.told {
			t.Errorf("%s: %q", name, h)
		}
		if h := k.health(now.Add(toldFor)); len(h) != 0 {
			t.Errorf("%s: still %q", name, h)
		}
	}
}

// Numbers that do not come, begin in the middle, or go back are told for a while; what
// comes late, restarts and reserved numbers are not.
func TestContinuity(t *testing.T) {
	type w struct{ boot, seq uint64 }
	type past struct {
		boot, high uint64
		known      bool
	}
	for name, c := range map[string]struct {
		before past
		list   []w
		say    []string // health after untilTold
		gaps   int
	}{
		"from the beginning":   {list: []w{{5, 0}, {5, 1}, {5, 2}}},
		"after a restart":      {before: past{5, 7, true}, list: []w{{5, 8}, {5, 9}}},
		"reserved numbers":     {list: []w{{5, 0}, {6, 384}, {6, 385}}},
		"a backlog after that": {list: []w{{5, 0}, {6, 384}, {5, 1}, {6, 385}}},
		"dropped": {before: past{5, 7, true}, list: []w{{5, 9}, {5, 12}},
			say: []string{"windows 8 to 8 of", "windows 10 to 11 of boot epoch 5"}, gaps: 2},
		"late": {list: []w{{5, 0}, {5, 4}, {5, 2}, {5, 1}, {5, 3}}},
		"late in part": {list: []w{{5, 0}, {5, 4}, {5, 2}}, say: []string{"windows 1 to 1", "windows 3 to 3"},
			gaps: 2},
		"a new store": {list: []w{{5, 20}, {5, 21}}, say: []string{"first window here has number 20"}, gaps: 1},
		"an old copy of a state": {before: past{5, 180, true}, list: []w{{6, 100}, {6, 101}},
			say: []string{"went back from 180 to 100"}},
	} {
		var k continuity
		now := time.Unix(1e6, 0)
		for _, x := range c.list {
			obj := &transport.Object{Signer: [32]byte{1},
				Meta: transport.Meta{Device: "d", Stream: "s", BootEpoch: x.boot,
					Sequence: x.seq}}
			k.first(obj, func([8]byte) (uint64, uint64, bool) { return c.before.boot, c.before.high, c.before.known })
			k.note(obj, now)
		}
		h := k.health(now.Add(untilTold))
		if len(h) != len(c.say) || len(k.gaps()) != c.gaps {
			t.Errorf("%s: %q, %+v", name, h, k.gaps())
			continue
		}
		for i, s := range c.say {
			if !strings.Contains(h[i], s) || !strings.HasPrefix(h[i], "device d, stream s: ") {
				t.Errorf("%s: %q does not say %q", name, h[i], s)
			}
		}
		if h := k.health(now.Add(toldFor)); len(h) != 0 {
			t.Errorf("%s: still %q", name, h)
		}
	}
}
