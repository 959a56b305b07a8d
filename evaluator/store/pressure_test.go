package store

import (
	"testing"
	"time"
)

func TestPressure(t *testing.T) {
	var p pressure
	now := time.Unix(1000, 0)
	check := func(what string, want bool) {
		t.Helper()
		if got := p.busy(now); got != want {
			t.Errorf("%s: busy %v", what, got)
		}
	}
	check("at first", false)
	p.failed(now)
	check("at once", true)
	now = now.Add(firstProbe)
	check("the first to ask later", false)
	check("the second", true)
	for range 10 {
		p.failed(now)
	}
	now = now.Add(lastProbe - time.Second)
	check("after many failures", true)
	now = now.Add(time.Second)
	check("later", false)
	now = now.Add(-time.Hour)
	check("the clock was set back", false)
	check("and then", true)
	p.worked()
	check("it works", false)
}
