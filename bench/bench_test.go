package main

import (
	"errors"
	"math"
	"slices"
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
	if err := errors.Join(ourIntegers(shapes[0], 0, f), theirIntegers(shapes[0], g)); err != nil {
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

// TestBootShapes: both sides of a bootstrapping have one ring degree and a modulus of one size, and Lattigo's has a
// dense secret.
func TestBootShapes(t *testing.T) {
	for _, s := range bootShapes {
		o, err := s.parameters()
		if err != nil {
			t.Fatal(err)
		}
		_, b, err := s.lattigo()
		if err != nil {
			t.Fatal(err)
		}
		l := b.BootstrappingParameters
		if o.LogN() != l.LogN() || math.Abs(l.LogQP()/o.LogQP()-1) > 0.02 {
			t.Errorf("%s: N = 2^%d and 2^%d, log2 QP %.1f and %.1f", s.name, o.LogN(), l.LogN(), o.LogQP(), l.LogQP())
		}
		if h := l.XsHammingWeight(); h != l.N()/2 {
			t.Errorf("%s: Lattigo's secret has weight %d", s.name, h)
		}
	}
}

// TestBootstraps runs both sides once in a small ring, and refuses a result that is wrong.
func TestBootstraps(t *testing.T) {
	s := bootShapes[0]
	s.name, s.logN = "boot15-10", 10
	var records []record
	err := bootstrapOne(s, 1, time.Microsecond, 0, func(r record) error { records = append(records, r); return nil })
	if err != nil || len(records) != 1 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	r := records[0]
	if r.LogN != 10 || r.OursLevels != 3 || r.TheirsLevels != 4 || r.OursMin <= 0 || r.LattigoMin <= 0 {
		t.Errorf("%+v", r)
	}
	if len(r.Precision) != 2 || slices.ContainsFunc(r.Precision, func(p precision) bool {
		return p.Ours < 14.5 || p.Theirs < 13 || p.OursLeast > p.Ours || p.TheirsLeast > p.Theirs
	}) {
		t.Errorf("precision %+v", r.Precision)
	}
	good := bootSide{errors: func([]complex128) (float64, float64, error) { return 0x1p-15, 0x1p-12, nil }}
	bad := bootSide{errors: func([]complex128) (float64, float64, error) { return 0x1p-15, math.NaN(), nil }}
	if _, err := precisionOf(good, good, "random", 4); err != nil {
		t.Error(err)
	}
	if _, err := precisionOf(good, bad, "random", 4); err == nil {
		t.Error("a wrong result is not refused")
	}
	if err := bootstraps([]string{"boot99"}, 1, 1, 0, nil); err == nil {
		t.Error("an unknown name is not refused")
	}
}
