package config

import "testing"

func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"a/b", "a/b", true}, {"a/b", "a/c", false}, {"a/+", "a/b", true}, {"a/+", "+/b", true},
		{"a/+/c", "a/b", false},
		{"a/#", "a", true},
		{"a/#", "a/b/c", true}, {"#", "x/y", true}, {"a/+/#", "a/b", true}, {"a/b/#", "a/+/c/d", true},
		{"a/b", "a/b/c", false}, {"b/#", "a/+", false},
	} {
		if overlap(c.a, c.b) != c.want || overlap(c.b, c.a) != c.want {
			t.Errorf("%q and %q: want %v", c.a, c.b, c.want)
		}
	}
}
