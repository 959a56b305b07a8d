package benchmark

import (
	"context"
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/internal/meter"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// Case is one line, or a few, of a table: operations on one shape.
type Case struct {
	Ops    []string
	Params string // named set, insecure ones included, or "" for a bare ring
	LogN   int    // of a bare ring
	Limbs  int    // of a bare ring
	N2     int    // 0: the layout that the backend prefers for products
	Batch  int    // 0 means 1
}

// wide is the set with the shape of the cuTraNTT paper's figures: N = 2^16, 66
// primes (log Q = 1692) and 22 special ones in 3 digits.
const wide = "bench-paper16-insecure"

// Table is what docs/benchmarks.md shows of a GPU: transforms, products,
// encryption and key switching in the shapes that other libraries are measured
// in, and whole encryptions of the sets that boards use.
func Table() []Case {
	var t []Case
	for _, n2 := range []int{16, 8, 4, 2, 1} {
		t = append(t, Case{Ops: []string{"ntt", "intt"}, LogN: 16, Limbs: 66, N2: n2})
	}
	t = append(t, Case{Ops: []string{"ntt", "intt"}, LogN: 16, Limbs: 1, N2: 16})
	for _, logN := range []int{13, 14, 15} {
		t = append(t, Case{Ops: []string{"ntt", "intt"}, LogN: logN, Limbs: 16, N2: 16})
	}
	for _, n2 := range []int{16, 4, 1} {
		t = append(t, Case{Ops: []string{"hadamard"}, LogN: 16, Limbs: 66, N2: n2})
	}
	for _, p := range []string{wide, "edge13-d3", "edge13-d2p"} {
		t = append(t, Case{Ops: []string{"henc_pk", "henc_seeded"}, Params: p, N2: 16})
	}
	t = append(t, Case{Ops: []string{"henc_pk", "henc_seeded"}, Params: "edge13-d2p", N2: 16, Batch: 64})
	return append(t,
		Case{Ops: []string{"hmult", "hmult_rescale", "hrotate", "rescale"}, Params: wide},
		Case{Ops: []string{"hmult"}, Params: "std14-d5"},
		Case{Ops: []string{"hmult"}, Params: "std14-d5", Batch: 64},
		Case{Ops: []string{"henc"}, Params: "edge13-d2p", N2: 16},
		Case{Ops: []string{"henc"}, Params: "edge13-d2p", N2: 16, Batch: 64},
	)
}

// RunTable measures the cases of a table whose operation and parameters o
// selects (Params is compared by name; both default to all), each after a copy
// with its traffic.
func RunTable(ctx context.Context, o Options, table []Case, emit func(Record) error) error {
	only := make([]string, len(o.Params))
	for i, p := range o.Params {
		only[i] = p.Name()
	}
	if err := o.setDefaults(); err != nil {
		return err
	}
	done, total := 0, 0
	for _, c := range table {
		total += len(c.Ops)
	}
	s := suite{o: o, beds: map[string]*bed{}, copies: map[string]Record{}}
	for _, c := range table {
		if len(only) > 0 && !slices.Contains(only, c.Params) {
			done += len(c.Ops)
			continue
		}
		for _, op := range c.Ops {
			o.tell(done, total)
			done++
			if !slices.Contains(o.Ops, op) {
				continue
			}
			if err := s.run(ctx, c, op, emit); err != nil {
				return err
			}
		}
	}
	o.tell(total, total)
	return nil
}

// suite keeps what the cases of a table share.
type suite struct {
	o      Options
	beds   map[string]*bed
	copies map[string]Record
}

// bed is the bed of a case.
func (s *suite) bed(c Case) (*bed, error) {
	o := s.o
	o.N2 = c.N2
	key := fmt.Sprintf("%s/%d/%d/%d", c.Params, c.LogN, c.Limbs, c.N2)
	if b := s.beds[key]; b != nil {
		return b, nil
	}
	var b *bed
	var err error
	if c.Params == "" {
		b, err = newRingBed(c.LogN, c.Limbs, o)
	} else {
		var p henc.Parameters
		if p, err = henc.NamedInsecure(c.Params); err == nil {
			if o.N2 == 0 {
				o.N2 = henc.FastestN2(p, o.Backend)
			}
			b, err = newBed(p, o)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("benchmark %s: %w", key, err)
	}
	s.beds[key] = b
	return b, nil
}

// run measures one operation of a case.
func (s *suite) run(ctx context.Context, c Case, op string, emit func(Record) error) error {
	b, err := s.bed(c)
	if err != nil {
		return err
	}
	jobs := b.tableJobs(op, max(c.Batch, 1))
	for _, j := range jobs {
		copied, err := s.copied(ctx, b, op, j, emit)
		if err != nil {
			return err
		}
		r, err := b.time(ctx, j)
		if err != nil {
			return fmt.Errorf("benchmark %s %s %s: %w", b.name, j.op, j.method, err)
		}
		r.limit(copied)
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

// copied is the copy with the traffic of j, measured once for each size.
func (s *suite) copied(ctx context.Context, b *bed, op string, j job, emit func(Record) error) (Record, error) {
	if j.host || !slices.Contains(s.o.Ops, "copy") {
		return Record{}, nil
	}
	key := fmt.Sprintf("%d/%d", b.ring.LogN(), j.bytes)
	if r, ok := s.copies[key]; ok {
		return r, nil
	}
	r, err := b.time(ctx, b.copyJob(op, j))
	if err != nil {
		return r, fmt.Errorf("benchmark %s copy %s: %w", b.name, op, err)
	}
	s.copies[key] = r
	return r, emit(r)
}

// tableJobs are the cases of an operation in a table: on a device, encryption
// starts from a message that is there.
func (b *bed) tableJobs(op string, batch int) []job {
	switch {
	case op == "henc":
		return []job{b.encryptWhole(batch)}
	case (op == "henc_pk" || op == "henc_seeded") && b.onDevice():
		if _, ok := b.ring.(cutrantt.Encrypting); ok {
			jobs := []job{b.encryptFused(op == "henc_pk", batch)}
			if m, ok := b.ring.(meter.EncryptionMeter); ok && batch == 1 {
				jobs = append(jobs, b.encryptInRuns(m, op == "henc_pk"))
			}
			return jobs
		}
		return []job{b.encryptResident(op == "henc_pk")}
	}
	return b.batches(b.jobs(op), batch)
}
