package input

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func TestShape(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		" 23.5\n":                   "9.9",
		"-23,5 °C":                  "9,9 °a",
		"+.5":                       ".9",
		"1e-7":                      "9a9",
		"2026-01-31T15:04:05Z":      "9-9-9a9:9:9a",
		"ERROR":                     "a",
		`{"temp": 21.5`:             `{"a": 9.9`,
		"$GPGGA,123519,4807.038,N*": "$a,9,9.9,a*",
		"#####-----":                "#-",
		"12 34":                     "9 9",
		"\x00\xff":                  "\x00\uFFFD", // %q makes them visible
		strings.Repeat(",a", 100):   strings.Repeat(",a", 20) + "...",
	} {
		if got := Shape(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// Texts that differ in their numbers and words alone have the same shape, and no
// message about a reading tells one from the other.
func TestMessagesTellNoReading(t *testing.T) {
	number := rapid.Custom(func(t *rapid.T) string {
		s := fmt.Sprintf("%d%s%d", rapid.IntRange(0, 1<<40).Draw(t, "whole"),
			rapid.SampledFrom([]string{".", ","}).Draw(t, "point"), rapid.IntRange(0, 1<<20).Draw(t, "fraction"))
		return rapid.SampledFrom([]string{"", "-", "+"}).Draw(t, "sign") + s
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		b = strings.Map(func(r rune) rune { // the same point: that is form
			if r == '.' || r == ',' {
				return rune(a[strings.IndexAny(a, ".,")])
			}
			return r
		}, b)
		for _, form := range []string{"%s", "%s °C", "T=%s;", `{"t": %s`, "$GPGGA,%s,N*47", "on %s"} {
			x, y := fmt.Sprintf(form, a), fmt.Sprintf(form, b)
			if Shape(x) != Shape(y) {
				t.Fatalf("%q and %q: %q, %q", x, y, Shape(x), Shape(y))
			}
		}
	})
	for _, read := range []func(string) error{
		func(s string) error { _, err := ParseNumber(s); return err },
		func(s string) error { _, err := Text{path: "a"}.Number(s); return err },
		func(s string) error { _, err := Text{path: "a"}.Number(`{"a": "` + s + `"}`); return err },
	} {
		err := read("31337 °C 271828")
		if err == nil {
			t.Fatal("accepted")
		}
		if i := strings.IndexFunc(err.Error(), func(r rune) bool { return unicode.IsDigit(r) && r != '9' }); i >= 0 {
			t.Errorf("the message tells the reading: %v", err)
		}
	}
}
