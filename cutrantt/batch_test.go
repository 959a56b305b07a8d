package cutrantt

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

func TestDomain(t *testing.T) {
	for n2 := -3; n2 < 300; n2++ {
		want := slices.Contains([]int{1, 2, 4, 8, 16}, n2)
		if Coeffs(n2).Valid() != want || NTT(n2).Valid() != want {
			t.Errorf("n2 = %d: valid is not %v", n2, want)
		}
	}
	if Coeffs(4) == NTT(4) || Coeffs(4) == Coeffs(8) || (Domain{}).Valid() {
		t.Error("domains are not told apart")
	}
	if s := NTT(16).String() + " " + Coeffs(1).String(); s != "ntt/16 coeff/1" {
		t.Error(s)
	}
}

func TestSlice(t *testing.T) {
	limbs := []int{4, 2, 7}
	b := MakeBatch(Shape{Polys: 3, Limbs: limbs, Domain: NTT(8)}, 100, "memory")
	limbs[0] = 9
	if b.Limbs()[0] != 4 {
		t.Error("the batch shares the caller's limbs")
	}
	if b.Len() != 900 || b.N() != 100 || b.Mem() != "memory" {
		t.Errorf("%d residues of degree %d in %v", b.Len(), b.N(), b.Mem())
	}
	v, err := b.Slice(1, 3, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	w, err := v.Slice(1, 2, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		b       *Batch
		p, l    int
		want    int
		limb, n int
	}{{b, 0, 0, 0, 4, 900}, {b, 2, 1, 700, 2, 900}, {v, 0, 0, 400, 2, 400}, {v, 1, 1, 800, 7, 400},
		{w, 0, 0, 800, 7, 100}} {
		if got := c.b.Offset(c.p, c.l); got != c.want || c.b.Limbs()[c.l] != c.limb || c.b.Len() != c.n {
			t.Errorf("offset of (%d, %d) is %d, want %d; modulus %d, %d residues", c.p, c.l, got, c.want,
				c.b.Limbs()[c.l], c.b.Len())
		}
	}
	v.SetDomain(Coeffs(1))
	if b.Domain() != NTT(8) || v.Domain() != Coeffs(1) || w.Domain() != NTT(8) {
		t.Error("relabelling a view changes another label")
	}
	for _, c := range [][4]int{{-1, 1, 0, 1}, {0, 4, 0, 1}, {2, 1, 0, 1}, {0, 1, -1, 1}, {0, 1, 0, 4}, {0, 1, 2, 1}} {
		if _, err := b.Slice(c[0], c[1], c[2], c[3]); !errors.Is(err, ErrShape) {
			t.Errorf("slice %v: %v", c, err)
		}
	}
}

func TestMethods(t *testing.T) {
	names := make(map[string]bool)
	for m := MethodAuto; m <= MethodToomCook4+1; m++ {
		names[m.String()] = true
	}
	if len(names) != 6 || !names["toomcook4"] || !names["invalid"] {
		t.Errorf("method names %v", names)
	}
	if MethodAuto.Supports(3) || MethodToomCook4.Supports(2) || MethodKaratsuba.Supports(1) || Method(9).Supports(16) ||
		!MethodAuto.Supports(1) || !MethodToomCook4.Supports(4) || !MethodKaratsuba.Supports(2) ||
		MethodLazy.Supports(256+16) {
		t.Error("methods support the wrong n2")
	}
}

// TestEach: the views are those of Slice.
func TestEach(t *testing.T) {
	whole := MakeBatch(Shape{Polys: 12, Limbs: []int{4, 2, 7}, Domain: NTT(8)}, 100, "memory")
	b, err := whole.Slice(3, 9, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, polys := range []int{1, 2, 3, 6} {
		views, err := b.Each(polys)
		if err != nil || len(views) != 6/polys {
			t.Fatalf("%d views of %d: %v", len(views), polys, err)
		}
		for i, v := range views {
			want, err := b.Slice(i*polys, (i+1)*polys, 0, 2)
			if err != nil || !reflect.DeepEqual(v, want) {
				t.Errorf("view %d of %d polynomials: %+v, want %+v", i, polys, v, want)
			}
		}
	}
	for _, polys := range []int{-1, 0, 4, 12} {
		if _, err := b.Each(polys); !errors.Is(err, ErrShape) {
			t.Errorf("%d: %v", polys, err)
		}
	}
}

// TestApart compares what apart refuses with all pairs, on random views of few memories.
func TestApart(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	refused, accepted := 0, 0
	for range 20000 {
		count := 1 + rng.IntN(3)
		view := func() *Batch {
			b := MakeBatch(Shape{Polys: 8, Limbs: []int{0, 1, 2}}, 1, rng.IntN(3))
			p, l := rng.IntN(8), rng.IntN(3)
			v, err := b.Slice(p, min(p+rng.IntN(3), 8), l, min(l+rng.IntN(3), 3))
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		list := func(n int) (out []*Batch) {
			for range n {
				out = append(out, view())
			}
			return out
		}
		dst, x, y := list(count), list(count), list(rng.IntN(2)*count)
		shared := false
		for i, d := range dst {
			for _, o := range slices.Concat(dst[:i], x, y) {
				for p := range d.Polys() * len(d.Limbs()) {
					for q := range o.Polys() * len(o.Limbs()) {
						nd, no := len(d.Limbs()), len(o.Limbs())
						shared = shared || d.Mem() == o.Mem() && d.Offset(p/nd, p%nd) == o.Offset(q/no, q%no)
					}
				}
			}
		}
		err := apart("result", dst, x, y)
		if shared != errors.Is(err, ErrShape) {
			t.Fatalf("shared memory: %v; %v for %+v of %+v and %+v", shared, err, dst, x, y)
		}
		if shared {
			refused++
		} else {
			accepted++
		}
	}
	if refused < 1000 || accepted < 1000 {
		t.Errorf("%d refused, %d accepted: one side is hardly tested", refused, accepted)
	}
}
