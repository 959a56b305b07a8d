package program

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// FuzzCompile: no text makes the compiler panic, run long or give a plan that
// contradicts itself.
func FuzzCompile(f *testing.F) {
	for _, s := range samplePrograms {
		f.Add(s)
	}
	for _, s := range []string{
		"", "(", "x;", "x[", "lag(x,", "x ?: y", "a.b.c", "{a: x}", "poly(x, [1,2,3,4,5,6,7,8,9,10,11,12,13,14])",
		"x^64",
		"1e308*1e308*x",
		"dot(s, [1,1,1,1,1e-300])", strings.Repeat("-", 3000) + "x", strings.Repeat("x+", 2000) + "x",
		strings.Repeat("(x)*", 70) + "x",
		"let a = x; let b = a*a; let c = b*b; let d = c*c; d",
		strings.Repeat("lag(", 70) + "x" + strings.Repeat(",1)", 70),
		"sum(x, # > 1)", "x in [1,2]", "x..y", "`x`", "x /* y", "0x1p3*x", "std(x)^2", "not in x",
		"x|mean", "::mean(x)",
		"count(h > 5)", "fraction(1 < h <= 9.5)", "quantile(last(h, 7), 0.99)", "count(h > 5 and h < 3)",
		"max(prev(k))",
		"count(h >= 0.5) - count(prev(h) >= 0.5)", "count(h > 5) * mean(x)", "count(h > 1e400)", "count(-1 < k)",
		"count(h > 2.5000001)", "count(h > k)", "median(h) + 1", "max(last(last(h, 9), 9))",
		"count(last(h, 64) == 10)", "count(1 < 2)",
		"let q = lag(k, 2); min(q)", "count(h > 5 and k > 0)", "quantile(h, 0/0)", "count(not (h > 5))", "last(h, 2)",
		"fraction(h > 1 and h > 2 and 9 > h)", "h + x", "mean(h)", "count()", "count(h, h)", "fleet.count(h > 5)",
	} {
		f.Add(s)
	}
	sets := []string{"edge12-d1", "edge13-d2p"}
	f.Fuzz(func(t *testing.T, expr string) {
		if len(expr) > 4096 {
			return
		}
		for _, set := range sets {
			c, err := Compile(Source{Name: "p", Expr: expr, Vars: histogramVars(set, testSamples)}, mustParams(t, set))
			if err != nil {
				var e *Error
				if !errors.As(err, &e) || e.Kind == nil || e.Hint == "" {
					t.Fatalf("error %v of an unexpected kind, or without a hint", err)
				}
				_, _ = e.Error(), e.part()
				continue
			}
			if text := c.Explain().Text(); !strings.Contains(text, "promise") {
				t.Fatalf("explanation %q", text)
			}
			if len(c.steps) < 200 {
				slots, samples := plainInputs(c, rand.New(rand.NewPCG(1, 1)))
				simulate(t, c, slots)
				if _, err := c.Reference(samples); err != nil {
					t.Fatalf("%q: reference: %v", expr, err)
				}
			}
		}
	})
}

// FuzzDecide: no comparison makes the compiler panic, run long or promise what is not a number.
func FuzzDecide(f *testing.F) {
	for _, d := range decisions {
		f.Add(d.expr, d.resolution)
	}
	for _, s := range []string{
		"not (not (x > 0))", "x > 0 and x > 0", "x > 0 or not (x > 0)", "count(1 > 2)", "any(x)", "all(any(x > 0))",
		"step(step(x))", "abs(abs(x) - 0.5)", "max(max(x), min(x))", "where(x > 0, where(y > 25, 1, 2), 3)", "step(h)",
		"clip(x, -1, 1)", "clip(mean(x), 0, 0.5)", "count(h > 5) + count(x > 0)", "count(x > 0 and h > 5)", "max(s, t)",
		"let c = x > 0; let d = c; count(c and d)", "let c = c; count(c)", "prev(x) < x", "count(lag(x, 3) > x)",
		"max(3)", "min(x - x)", "abs(1e308*x)", "step(x*1e-300)", "fleet.sum(x > 0)", "step()", "where(x > 0)",
		"x == 1", "x != y", "1 < x < 2 < y", "step(x) > 0.5", "count(step(x))", "x > 1e400", "where(x > 0, sqrt(x), 1)",
	} {
		f.Add(s, 0.25)
	}
	f.Fuzz(func(t *testing.T, expr string, resolution float64) {
		if len(expr) > 512 {
			return
		}
		for _, set := range []string{"edge13-d2p", "std15-d11"} {
			c, err := compile(Source{Name: "p", Expr: expr, Vars: histogramVars(set, testSamples),
				Resolution: resolution}, mustParams(t, set))
			if err != nil {
				var e *Error
				if !errors.As(err, &e) || e.Kind == nil {
					t.Fatalf("error %v of an unexpected kind", err)
				}
				_, _ = e.Error(), e.part()
				continue
			}
			if low, high := c.Range(); !(c.out.Bound >= 0) || !finite(c.out.Bound) || !finite(low) || !finite(high) {
				t.Fatalf("%q: error at most %g, values from %g to %g", expr, c.out.Bound, low, high)
			}
			if text := c.resultInfo().Exact + c.out.Promise(); text == "" {
				t.Fatalf("%q promises nothing", expr)
			}
		}
	})
}
