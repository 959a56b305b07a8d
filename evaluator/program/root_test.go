package program

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestBoundAt: the bound of a root, taken from the decrypted value, holds for every
// error that the argument may have; away from 0 it is about e/(2 sqrt(v)), and never
// above the one that holds everywhere.
func TestBoundAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := math.Ldexp(1, rapid.IntRange(-60, 10).Draw(t, "log e"))
		v := e * math.Ldexp(rapid.Float64Range(0, 1).Draw(t, "v"), rapid.IntRange(-5, 60).Draw(t, "log v"))
		o := Output{Sqrt: true, Root: e, Bound: rootError(e, 0)}
		root := math.Sqrt(max(v+e*rapid.Float64Range(-1, 1).Draw(t, "error"), 0))
		bound := o.BoundAt(root)
		if got := math.Abs(root - math.Sqrt(v)); got > bound || bound > o.Bound {
			t.Fatalf("sqrt(%g) is read as %g, error %g, promised %g, anywhere %g", v, root, got, bound, o.Bound)
		}
		if v > 100*e && bound > 0.6*e/math.Sqrt(v)+0x1p-40*root {
			t.Fatalf("sqrt(%g) with an error of %g promises %g", v, e, bound)
		}
	})
	if o := (Output{Bound: 3}); o.BoundAt(1e9) != 3 {
		t.Error("without a root the bound does not follow the value")
	}
}
