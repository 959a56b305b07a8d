package config

import (
	"strings"
	"testing"
	"time"
)

// Layouts of strftime and of Go read what other programs write, and what does not tell a
// date is refused.
func TestTimeLayouts(t *testing.T) {
	for _, tt := range []struct {
		format, text, want string
		zoned              bool
	}{
		{"%Y-%m-%d %H:%M:%S", "2026-01-31 15:04:05", "2026-01-31T15:04:05Z", false},
		{"%Y-%m-%d %H:%M:%S", "2026-01-31 15:04:05.123456789", "2026-01-31T15:04:05.123456789Z", false},
		{"%Y-%m-%d %H:%M:%S.%f", "2026-01-31 15:04:05.25", "2026-01-31T15:04:05.25Z", false},
		{"%d.%m.%Y %H:%M:%S,%f", "31.01.2026 15:04:05,250", "2026-01-31T15:04:05.25Z", false},
		{"%d/%m/%y %I:%M %p", "31/1/26 3:04 PM", "2026-01-31T15:04:00Z", false},
		{"%Y%m%dT%H%M%S%z", "20260131T150405+0130", "2026-01-31T15:04:05+01:30", true},
		{"%FT%T%z", "2026-01-31T15:04:05+01:30", "2026-01-31T15:04:05+01:30", true},
		{"%FT%T%z", "2026-01-31T15:04:05Z", "2026-01-31T15:04:05Z", true},
		{"%FT%T%z", "2026-01-31T15:04:05+01", "2026-01-31T15:04:05+01:00", true},
		{"%Y-%j", "2026-031", "2026-01-31T00:00:00Z", false},
		{"%a %e %b %Y %R", "Sat 31 Jan 2026 15:04", "2026-01-31T15:04:00Z", false},
		{"%Y%%%m%%%d", "2026%01%31", "2026-01-31T00:00:00Z", false},
		{"2006-01-02 15:04:05", "2026-01-31 15:04:05.5", "2026-01-31T15:04:05.5Z", false},
		{"Jan 2, 2006 3:04 PM", "Jan 31, 2026 3:04 PM", "2026-01-31T15:04:00Z", false},
		{"2006-01-02 15:04:05 -0700", "2026-01-31 15:04:05 -0130", "2026-01-31T15:04:05-01:30", true},
	} {
		layouts, zoned, err := TimeLayouts(tt.format)
		if err != nil || zoned != tt.zoned {
			t.Errorf("%s: %q, zoned %v, %v", tt.format, layouts, zoned, err)
			continue
		}
		read := ""
		for _, l := range layouts {
			if at, err := time.Parse(l, tt.text); err == nil {
				read = at.Format(time.RFC3339Nano)
			}
		}
		if read != tt.want {
			t.Errorf("%s: %s reads as %q, want %s", tt.format, tt.text, read, tt.want)
		}
		bad := strings.NewReplacer("31", "32", "031", "400").Replace(tt.text)
		for _, l := range layouts {
			if at, err := time.Parse(l, bad); err == nil {
				t.Errorf("%s: %s reads as %v", tt.format, bad, at)
			}
		}
	}
	for _, bad := range []string{"", "iso", "%H:%M:%S", "15:04", "%Y-%m", "%m-%d", "%Y-%m-%d %I:%M", "%Y-%m-%d %q",
		"%Y-%m-%d %", "%Y-%m-%d %f", "%Y-%m-%dJan%H", "%Y-%m-%d1%H",
		"2006-01-02 03:04:05", "%Y-%m-%d %Z"} {
		if layouts, _, err := TimeLayouts(bad); err == nil {
			t.Errorf("%q is taken as %q", bad, layouts)
		}
	}
}

func TestReplayLocation(t *testing.T) {
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for zone, want := range map[string]int{"": 0, "UTC": 0, "Europe/Berlin": 7200, "+01:30": 5400, "-02:00": -7200} {
		l, err := Replay{Timezone: zone}.Location()
		if err != nil {
			t.Error(err)
			continue
		}
		if _, offset := at.In(l).Zone(); offset != want {
			t.Errorf("%q: %d s", zone, offset)
		}
	}
	if _, err := (Replay{Timezone: "Mars/Base"}).Location(); err == nil {
		t.Error("an unknown zone is taken")
	}
}

// FuzzTimeLayouts: a layout that is taken reads back what it writes, where day and month
// have two digits: without any mark between them, shorter ones can be read in two ways.
func FuzzTimeLayouts(f *testing.F) {
	for _, s := range []string{"%Y-%m-%d %H:%M:%S.%f", "%d/%m/%y %I:%M %p", "%FT%T%z", "2006-01-02 15:04:05", "%Y%j",
		"06-07-02d1", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, format string) {
		layouts, _, err := TimeLayouts(format)
		if err != nil {
			return
		}
		at := time.Date(2032, 10, 28, 11, 59, 58, 0, time.UTC)
		for _, l := range layouts {
			got, err := time.Parse(l, at.Format(l))
			if err != nil || !got.Truncate(24*time.Hour).Equal(at.Truncate(24*time.Hour)) {
				t.Fatalf("%q reads %q as %v: %v", l, at.Format(l), got, err)
			}
		}
	})
}
