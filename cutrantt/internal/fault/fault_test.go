package fault

import (
	"strings"
	"testing"
)

const (
	inGo = `package p

const step = 4

func (a one) add(x, y int) int {
	return a.corr(x + // wraps
		y)
}

func corr(x, y int) int { return x + y }
`
	inCUDA = `KERNEL(Args, 256, add) {
  dst[i] = add(a[i],   // from [0, q)
               b[i]);
}
DEV u32 add(u32 x, u32 y) const { return x + y; }
DEV u32 sub(u32 x, u32 y) { return corr(x - y); }
struct Shape : Site {
  DEV Shape(u32 n) : n(n) { half = n >> 1; }
};
#define TWICE(x) \
  2 * (x)
#define THRICE(x) 3 * (x)
`
)

// TestApply: a fault is found by its function and its tokens, once or not at all.
func TestApply(t *testing.T) {
	for _, c := range []struct {
		what, source string
		f            Fault
		want         string // what only the changed source has; empty: refused
	}{
		{"across lines and comments", inGo, Fault{File: "a.go", In: "add", Old: "x+y", New: "x-y"}, "x-y)"},
		{"the other function", inGo, Fault{File: "a.go", In: "corr", Old: "x + y", New: "x - y"}, "x - y }"},
		{"a constant", inGo, Fault{File: "a.go", In: "step", Old: "4", New: "5"}, "5\n"},
		{"part of a name", inGo, Fault{File: "a.go", In: "add", Old: "orr(x", New: "orr(y"}, ""},
		{"of another function", inGo, Fault{File: "a.go", In: "corr", Old: "a.corr", New: "corr"}, ""},
		{"no such function", inGo, Fault{File: "a.go", In: "sub", Old: "x + y", New: "x"}, ""},
		{"no function named", inGo, Fault{File: "a.go", Old: "4", New: "5"}, ""},
		{"two places", inGo, Fault{File: "a.go", In: "corr", Old: "x", New: "y"}, ""},
		{"no change", inGo, Fault{File: "a.go", In: "corr", Old: "x + y", New: "x+y"}, ""},
		{"nothing", inGo, Fault{File: "a.go", In: "corr", New: "y"}, ""},
		{"a kernel", inCUDA, Fault{File: "a.cu", In: "add", Old: "add(a[i], b[i])", New: "a[i]"}, "a[i];"},
		{"a function", inCUDA, Fault{File: "a.cu", In: "sub", Old: "corr(x-y)", New: "x - y"}, "x - y;"},
		{"overloads", inCUDA, Fault{File: "a.cu", In: "add", Old: "x + y", New: "x"}, "x; }"},
		{"what is only called", inCUDA, Fault{File: "a.cu", In: "corr", Old: "x - y", New: "x"}, ""},
		{"a structure, not once more its constructor", inCUDA,
			Fault{File: "a.cu", In: "Shape", Old: "n >> 1", New: "n >> 2"}, "n >> 2;"},
		{"a macro", inCUDA, Fault{File: "a.cu", In: "TWICE", Old: "2", New: "4"}, "4 * (x)"},
		{"of the next macro", inCUDA, Fault{File: "a.cu", In: "TWICE", Old: "3", New: "4"}, ""},
		{"assembly", "DATA a<>+2(SB)/1, $0x1f\n", Fault{File: "a.s", Old: "$0x1f", New: "$0x0f"}, "$0x0f\n"},
	} {
		got, err := c.f.Apply([]byte(c.source))
		switch {
		case c.want == "":
			if err == nil {
				t.Errorf("%s: accepted: %s", c.what, got)
			}
		case err != nil:
			t.Errorf("%s: %v", c.what, err)
		default:
			if strings.Contains(c.source, c.want) || !strings.Contains(string(got), c.want) {
				t.Errorf("%s: %s", c.what, got)
			}
		}
	}
}
