package main

import (
	"errors"
	"math"
	"testing"
	"time"
)

// TestShapes: both chains of a shape have its modulus (within 2 %) and digits.
func TestShapes(t *testing.T) {
	for _, s := range shapes {
		o, err := s.parameters()
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.lattigo()
		if err != nil {
			t.Fatal(err)
		}
		top := o.MaxLevel()
		for side, logQ := range map[string]float64{"ours": o.LogQ(top), "lattigo": l.LogQ()} {
			if math.Abs(logQ/float64(s.logQ)-1) > 0.02 {
				t.Errorf("%s, %s: logQ %.1f, want %d", s.name, side, logQ, s.logQ)
			}
		}
		if d := l.BaseRNSDecompositionVectorSize(l.MaxLevel(), l.MaxLevelP()); d != s.dnum || o.Dnum(top) != s.dnum {
			t.Errorf("%s: dnum %d and %d, want %d", s.name, o.Dnum(top), d, s.dnum)
		}
		if o.LogN() != s.logN || l.LogN() != s.logN {
			t.Errorf("%s: degree 2^%d and 2^%d", s.name, o.LogN(), l.LogN())
		}
	}
}

// TestOperations runs every operation of the smallest shape once on both sides.
func TestOperations(t *testing.T) {
	values := make([]complex128, 1<<(shapes[0].logN-1))
	f, _, err := ours(shapes[0], 0, values)
	if err != nil {
		t.Fatal(err)
	}
	g, _, err := theirs(shapes[0], values)
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range operations {
		if f[op] == nil || g[op] == nil {
			t.Fatalf("%s is missing on one side", op)
		}
		r, err := compare(f[op], g[op], 3, time.Microsecond)
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		if r.Rounds != 3 || r.OursMin <= 0 || r.OursMin > r.OursMedian || r.LattigoMin > r.Lattigo {
			t.Errorf("%s: %+v", op, r)
		}
	}
	broken := errors.New("broken")
	if _, err := compare(func() error { return nil }, func() error { return broken }, 1, 1); !errors.Is(err, broken) {
		t.Errorf("an error is lost: %v", err)
	}
}
