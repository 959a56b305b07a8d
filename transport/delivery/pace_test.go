package delivery

import (
	"context"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/internal/testrig"
)

// However the messages are sized, the bytes of any time are at most the rate
// plus one burst and one message.
func TestBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(100, 1e6).Draw(t, "rate")
		burst := rapid.Float64Range(1, 2e6).Draw(t, "burst")
		c := &testrig.Clock{}
		b := newBucket(rate, burst, c)
		total, largest := 0, 0
		for range rapid.IntRange(1, 60).Draw(t, "messages") {
			n := rapid.IntRange(1, 200_000).Draw(t, "bytes")
			if err := b.take(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			total, largest = total+n, max(largest, n)
			if most := rate*c.Mono().Seconds() + burst + float64(largest); float64(total) > most+1 {
				t.Fatalf("%d bytes in %v, at most %.0f", total, c.Mono(), most)
			}
		}
		// And it is not slower than it must be.
		if least := max((float64(total)-burst)/rate, 0) + float64(largest)/rate; c.Mono().Seconds() > least+60*0.002 {
			t.Fatalf("%d bytes took %v, %.3f s would do", total, c.Mono(), least)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newBucket(1, 1, &testrig.Clock{}).take(ctx, 10); err == nil {
		t.Error("went on after the end")
	}
}

func TestHours(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	days := func(list ...time.Weekday) (d [7]bool) {
		for _, x := range list {
			d[x] = true
		}
		return d
	}
	night := []Hours{{From: 22 * time.Hour, To: 6 * time.Hour, Days: days(time.Monday, time.Tuesday, time.Wednesday,
		time.Thursday, time.Friday), Zone: berlin},
		{From: 0, To: 24 * time.Hour, Days: days(time.Sunday), Zone: berlin}}
	for text, want := range map[string]bool{
		"2026-03-02T21:59:59+01:00": false, // Monday
		"2026-03-02T22:00:00+01:00": true,
		"2026-03-03T05:59:59+01:00": true, // began on Monday
		"2026-03-03T06:00:00+01:00": false,
		"2026-03-02T05:00:00+01:00": false, // would have begun on Sunday
		"2026-03-07T05:00:00+01:00": true,  // Saturday, began on Friday
		"2026-03-07T23:00:00+01:00": false,
		"2026-03-08T12:00:00+01:00": true,
		"2026-03-08T23:59:59+01:00": true,
		"2026-07-06T20:30:00Z":      true,  // Monday 22:30 in summer
		"2026-07-06T19:30:00Z":      false, // 21:30
	} {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		if got := open(night, at); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if share := OpenShare(night); math.Abs(share-(5*8+24-0)/168.0) > 1e-9 {
		t.Errorf("open %v of the week", share*168)
	}
	if !open(nil, time.Now()) {
		t.Error("without hours nothing goes")
	}
}
