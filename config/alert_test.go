package config

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestConditions(t *testing.T) {
	for text, want := range map[string]Condition{
		"value > 80":            {-1, ">", 80, 0},
		"value>=80.5":           {-1, ">=", 80.5, 0},
		"  value   <  -1.5e3  ": {-1, "<", -1500, 0},
		"value <= +.5":          {-1, "<=", 0.5, 0},
		"value[0] > 1.":         {0, ">", 1, 0},
		"value[4095] < 0":       {4095, "<", 0, 0},
		"age > 10m":             {-1, "", 0, 10 * time.Minute},
		"age>1h30m":             {-1, "", 0, 90 * time.Minute},
	} {
		if got, err := ParseCondition(text); err != nil || got != want {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "value", "value > ", "value == 1", "value > 1 2", "value > 0x10", "value > 1e",
		"value > inf",
		"value > nan", "value[] > 1", "value[-1] > 1", "value[100000] > 1", "value > 1_000", "80 < value", "age",
		"age < 5m",
		"age > 5", "age > -5m", "age > 500ms", "age > 9000h", "age > 10d", "Value > 1", "value > 1e999",
		"value > " + strings.Repeat("9", 65)} {
		if got, err := ParseCondition(text); err == nil {
			t.Errorf("%q is taken as %+v", text, got)
		}
	}
}

func TestSilenceCovers(t *testing.T) {
	at := func(text string) time.Time {
		v, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	s := Silence{Rule: "hot", Device: "a", From: "2026-11-23T22:00:00+01:00", To: "2026-11-23T23:00:00+01:00"}
	for _, c := range []struct {
		rule, device, now string
		want              bool
	}{
		{"hot", "a", "2026-11-23T21:00:00Z", true}, {"hot", "a", "2026-11-23T21:59:59Z", true},
		{"hot", "a", "2026-11-23T22:00:00Z", false}, {"hot", "a", "2026-11-23T20:59:59Z", false},
		{"cold", "a", "2026-11-23T21:30:00Z", false}, {"hot", "b", "2026-11-23T21:30:00Z", false},
	} {
		if got := s.Covers(c.rule, c.device, at(c.now)); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if all := (Silence{To: "2026-11-23T23:00:00Z"}); !all.Covers("hot", "", at("2020-01-01T00:00:00Z")) {
		t.Error("a silence of everything does not cover an alarm")
	}
}

// What is read as a condition is finite, and means the same when it is written anew.
func FuzzCondition(f *testing.F) {
	for _, s := range []string{"value > 80", "value[12] <= -1.5e-3", "age > 1h30m", " value<.5 ", "age > 10"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCondition(text)
		if err != nil {
			return
		}
		if cause, _ := conditionRule.Problem(text); cause != "" {
			t.Fatalf("%q is a condition, but the rule says %s", text, cause)
		}
		again := "age > " + c.Age.String()
		if c.Age == 0 {
			again = "value"
			if c.Index >= 0 {
				again += fmt.Sprintf("[%d]", c.Index)
			}
			again += c.Op + strconv.FormatFloat(c.Threshold, 'g', -1, 64)
		} else if c.Age < time.Second || c.Age%time.Millisecond != 0 {
			return // 1.0001s is written in microseconds
		}
		if got, err := ParseCondition(again); err != nil || got != c {
			t.Fatalf("%q is %+v, but %q is %+v, %v", text, c, again, got, err)
		}
	})
}
