package benchmark

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/henc"
)

func named(t *testing.T, name string) henc.Parameters {
	t.Helper()
	p, err := henc.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRunEveryOperation runs each operation of a small set once: every check
// passes, and records are complete and in order.
func TestRunEveryOperation(t *testing.T) {
	for _, n2 := range []int{16, 1} {
		var got []string
		medians := map[string]float64{}
		err := Run(context.Background(), Options{
			Backend: cpu.New(), Params: []henc.Parameters{named(t, "edge12-d1")}, MinTime: 1, N2: n2,
			Workers: 1, Cached: true,
			Seed: 7,
		}, func(r Record) error {
			got = append(got, r.Op)
			medians[r.Op+"/"+r.Method] = r.MedianUS
			if r.Params != "edge12-d1" || r.LogN != 12 || r.Limbs != 2 || r.Dnum != 2 || r.Batch != 1 ||
				r.Backend != "cpu" ||
				r.Device == "" ||
				r.N2 != n2 || r.Workers != 1 || r.Resident != "cache" || r.Clock != ClockHost || r.Iters < 3 ||
				r.Bytes < 4*4096 || !(r.MinUS > 0) || r.MedianUS < r.MinUS || r.P95US < r.MedianUS {
				t.Errorf("n2=%d: incomplete record %+v", n2, r)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("n2=%d: %v", n2, err)
		}
		var distinct []string
		for _, op := range got {
			if !slices.Contains(distinct, op) {
				distinct = append(distinct, op)
			}
		}
		slices.Sort(distinct)
		want := slices.DeleteFunc(Ops(), func(op string) bool { return op == "bootstrap" }) // no levels for it
		slices.Sort(want)
		if !slices.Equal(distinct, want) {
			t.Errorf("n2=%d: operations %v, want %v", n2, distinct, want)
		}
		if n2 == 16 {
			for _, m := range []string{"schoolbook", "lazy", "karatsuba", "toomcook4"} {
				if medians["hadamard/"+m] == 0 {
					t.Errorf("no record of hadamard %s: %v", m, medians)
				}
			}
		}
	}
}

func TestRunFilters(t *testing.T) {
	run := func(o Options) (ops []string) {
		t.Helper()
		o.Backend, o.MinTime, o.MaxBytes = cpu.New(), time.Nanosecond, 1<<20
		if err := Run(context.Background(), o, func(r Record) error {
			ops = append(ops,
				r.Params+" "+r.Op+" "+r.Method)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return ops
	}
	add := []henc.Parameters{named(t, "edge12-add")}
	if got := run(Options{Params: add, Ops: []string{"hadd"}}); !slices.Equal(got,
		[]string{"edge12-add hadd limb by limb"}) {
		t.Errorf("got %q", got)
	}
	// edge12-add has no special primes and no level to drop.
	if got := run(Options{Params: add, Ops: []string{"hmult", "rescale", "hrotate"}}); len(got) != 0 {
		t.Errorf("got %q", got)
	}
	if got := run(Options{Params: add, Ops: []string{"ntt", "copy"}}); !slices.Equal(got,
		[]string{"edge12-add copy ntt", "edge12-add ntt n2=16"}) {
		t.Errorf("got %q", got)
	}
	err := Run(context.Background(), Options{Backend: cpu.New(), Ops: []string{"nttt"}}, nil)
	if err == nil || !strings.Contains(err.Error(), "nttt") {
		t.Errorf("unknown operation: %v", err)
	}
	if err := Run(context.Background(), Options{}, nil); err == nil {
		t.Error("no backend was accepted")
	}
}

func TestCheckEncodingFindsAWrongSlot(t *testing.T) {
	b, err := newBed(named(t, "edge13-d2p"), Options{Backend: cpu.New(), N2: 16, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	b.rng = rand.New(rand.NewPCG(1, 1))
	msg, pts, err := b.encoded(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.checkEncoding("encode", pts[0], msg); err != nil {
		t.Error(err)
	}
	msg[1] += 1e-3
	if b.checkEncoding("encode", pts[0], msg) == nil {
		t.Error("a wrong slot passed")
	}
}

// TestBootstrapTogether: a batch of bootstrappings is one row, which says so.
func TestBootstrapTogether(t *testing.T) {
	p, err := henc.NamedInsecure("boot10-insecure")
	if err != nil {
		t.Fatal(err)
	}
	for batch, method := range map[int]string{1: "all slots", 5: "all slots, together"} {
		var got []Record
		o := Options{
			Backend: cpu.New(), MinTime: time.Nanosecond, Cached: true, Params: []henc.Parameters{p},
			Ops: []string{"bootstrap"}, Batch: batch,
		}
		if err := Run(context.Background(), o, func(r Record) error { got = append(got, r); return nil }); err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0].Batch != batch || got[0].Method != method {
			t.Errorf("batch %d: %+v", batch, got)
		}
	}
}
