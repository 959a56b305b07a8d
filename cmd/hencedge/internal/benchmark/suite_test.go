package benchmark

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/meter"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/henc"
)

// device is the CPU backend under another name, with what a GPU offers besides,
// so that the paths for devices run everywhere. wrong spoils one residue of
// every product.
type device struct {
	cutrantt.Backend
	wrong bool
}

func (device) Name() string      { return "device" }
func (device) CacheBytes() int64 { return 1 << 16 }
func (device) Kernels() ([]meter.Kernel, error) {
	return []meter.Kernel{{Name: "forward", Registers: 64, Threads: 256, Blocks: 4, Occupancy: 0.5, Launches: 3}}, nil
}
func (device) Choices() []cutrantt.Choice {
	return []cutrantt.Choice{{LogN: 12, N2: 16, Method: cutrantt.MethodLazy, Source: cutrantt.ChoiceMeasured}}
}

func (d device) NewRing(logN int, m []cutrantt.Modulus, o cutrantt.Options) (cutrantt.Ring, error) {
	r, err := d.Backend.NewRing(logN, m, o)
	return &deviceRing{Ring: r, wrong: d.wrong}, err
}

type deviceRing struct {
	cutrantt.Ring
	wrong bool
	n     uint64
}

func (r *deviceRing) Launches() uint64 { return r.n }
func (r *deviceRing) Time(f func() error) (time.Duration, error) {
	start := time.Now()
	err := f()
	return time.Since(start), err
}

func (r *deviceRing) TimeRun(lead, run func() error) (time.Duration, int, error) {
	if err := lead(); err != nil {
		return 0, 0, err
	}
	d, err := r.Time(run)
	return d, 1, err
}

func (r *deviceRing) Forward(dst, src *cutrantt.Batch) error { r.n++; return r.Ring.Forward(dst, src) }

func (r *deviceRing) Mul(dst, a, b *cutrantt.Batch) error {
	r.n++
	err := r.Ring.Mul(dst, a, b)
	if err == nil && r.wrong {
		host := make([]uint32, dst.Len())
		if err = r.Download(host, dst); err == nil {
			host[7] ^= 1 // in range: the prime is odd
			err = r.Upload(dst, host)
		}
	}
	return err
}

var smallTable = []Case{
	{Ops: []string{"ntt", "intt"}, LogN: 11, Limbs: 2, N2: 4},
	{Ops: []string{"hadamard"}, LogN: 10, Limbs: 2, N2: 16},
	{Ops: []string{"henc_pk", "henc_seeded"}, Params: "edge12-d1", N2: 16},
	{Ops: []string{"hmult", "hmult_rescale", "hrotate", "rescale"}, Params: "edge12-d1"},
	{Ops: []string{"hmult", "hmult_rescale", "hrotate", "rescale"}, Params: "edge12-d1", Batch: 3},
	{Ops: []string{"henc"}, Params: "edge12-d1", N2: 16, Batch: 2},
}

// fused is a device whose rings encrypt whole batches.
type fused struct{ device }

func (d fused) NewRing(logN int, m []cutrantt.Modulus, o cutrantt.Options) (cutrantt.Ring, error) {
	r, err := d.device.NewRing(logN, m, o)
	if err != nil {
		return nil, err
	}
	return &fusedRing{r.(*deviceRing)}, nil
}

type fusedRing struct{ *deviceRing }

// encrypt takes the steps that the benchmark compares with, on this ring.
func (r *fusedRing) encrypt(limbs []int, d cutrantt.Domain, l cutrantt.EncryptionLabels, jobs []cutrantt.Encryption,
	last func(out, m, v, e *cutrantt.Batch, j cutrantt.Encryption) error) (all []*cutrantt.Batch, err error) {
	for _, j := range jobs {
		var x [4]*cutrantt.Batch // out, m, v, e
		for i, polys := range []int{2, 1, 1, 2} {
			domain := cutrantt.Coeffs(int(d.N2))
			if i == 0 {
				domain = d
			}
			if x[i], err = r.NewBatch(polys, limbs, domain); err != nil {
				return nil, err
			}
		}
		if err = r.SetFloats(x[1], j.Message); err != nil {
			return nil, err
		}
		if err = last(x[0], x[1], x[2], x[3], j); err != nil {
			return nil, err
		}
		all = append(all, x[0])
	}
	return all, nil
}

func (r *fusedRing) EncryptPublic(key cutrantt.Operand, limbs []int, l cutrantt.EncryptionLabels,
	jobs []cutrantt.Encryption) ([]*cutrantt.Batch, error) {
	d := key.Shape().Domain
	return r.encrypt(limbs, d, l, jobs, func(out, m, v, e *cutrantt.Batch, j cutrantt.Encryption) error {
		s := stepwise{message: m, v: v, e: e, out: out}
		return s.public(r, cutrantt.Coeffs(int(d.N2)), key, j.Seed)
	})
}

func (r *fusedRing) EncryptSeeded(key *cutrantt.Batch, limbs []int, l cutrantt.EncryptionLabels,
	jobs []cutrantt.Encryption) ([]*cutrantt.Batch, error) {
	d := key.Domain()
	return r.encrypt(limbs, d, l, jobs, func(out, m, v, e *cutrantt.Batch, j cutrantt.Encryption) error {
		if r.wrong {
			j.Mask = j.Seed
		}
		s := stepwise{message: m, v: v, e: e, out: out}
		return s.seeded(r, cutrantt.Coeffs(int(d.N2)), key, j.Seed, j.Mask)
	})
}

// metering is a device whose rings queue encryptions again and again besides.
type metering struct {
	device
	last *meteringRing // that was made
}

func (d *metering) NewRing(logN int, m []cutrantt.Modulus, o cutrantt.Options) (cutrantt.Ring, error) {
	r, err := fused{d.device}.NewRing(logN, m, o)
	if err != nil {
		return nil, err
	}
	d.last = &meteringRing{fusedRing: r.(*fusedRing)}
	return d.last, nil
}

// meteringRing has one wrong residue in what is queued, or fails at the third; open
// counts what was not released.
type meteringRing struct {
	*fusedRing
	made, open    int
	spoils, fails bool
}

func (r *meteringRing) MeterPublic(key cutrantt.Operand, limbs []int, l cutrantt.EncryptionLabels,
	jobs []cutrantt.Encryption) (meter.MeteredEncryptions, error) {
	return r.metered(func(j ...cutrantt.Encryption) ([]*cutrantt.Batch,
		error) {
		return r.EncryptPublic(key, limbs, l, j)
	}, jobs)
}

func (r *meteringRing) MeterSeeded(s *cutrantt.Batch, limbs []int, l cutrantt.EncryptionLabels,
	jobs []cutrantt.Encryption) (meter.MeteredEncryptions, error) {
	return r.metered(func(j ...cutrantt.Encryption) ([]*cutrantt.Batch,
		error) {
		return r.EncryptSeeded(s, limbs, l, j)
	}, jobs)
}

func (r *meteringRing) metered(f func(...cutrantt.Encryption) ([]*cutrantt.Batch, error),
	jobs []cutrantt.Encryption) (meter.MeteredEncryptions, error) {
	r.made++
	r.open++
	return &meteredJobs{r: r, f: f, jobs: jobs, out: make([]*cutrantt.Batch, len(jobs))}, nil
}

type meteredJobs struct {
	r    *meteringRing
	f    func(...cutrantt.Encryption) ([]*cutrantt.Batch, error)
	jobs []cutrantt.Encryption
	out  []*cutrantt.Batch
	n    int
}

var errMetered = errors.New("not queued")

func (m *meteredJobs) Queue(i int) error {
	if m.n++; m.r.fails && m.n == 3 {
		return errMetered
	}
	out, err := m.f(m.jobs[i])
	if err != nil {
		return err
	}
	m.out[i] = out[0]
	if !m.r.spoils {
		return nil
	}
	host := make([]uint32, out[0].Len())
	if err := m.r.Download(host, out[0]); err != nil {
		return err
	}
	host[len(host)-3] ^= 1 // in range: the prime is odd
	return m.r.Upload(out[0], host)
}

func (m *meteredJobs) Results() []*cutrantt.Batch { return m.out }
func (m *meteredJobs) Release() error             { m.r.open--; return nil }

// TestTableInRuns: where the ring can queue an encryption of one message again and
// again, a second row has its time in runs; its result is compared, and what stays on
// the device is released whatever happens.
func TestTableInRuns(t *testing.T) {
	one := []Case{{Ops: []string{"henc_pk", "henc_seeded"}, Params: "edge12-d1", N2: 16}}
	o := Options{MinTime: 1, Workers: 1, MaxBytes: 1 << 20, Ops: []string{"copy", "henc_pk", "henc_seeded"}}
	rows := func(d *metering, cases []Case, op string) (got []string, err error) {
		o := o
		o.Backend = d
		if op != "" {
			o.Ops = []string{op}
		}
		err = RunTable(context.Background(), o, cases, func(r Record) error {
			if r.Op == "copy" {
				return nil
			}
			got = append(got, r.Op+", "+r.Method)
			runs := strings.HasSuffix(r.Method, "in runs")
			if r.Clock != ClockDevice || (r.GraphCalls > 1) != runs ||
				op == "" && (!(r.CopyUS > 0) || !(r.OfCopy > 0)) ||
				!(r.WallUS > 0) || r.Params != "edge12-d1" || r.N2 != 16 || r.Batch != max(cases[0].Batch, 1) {
				t.Errorf("%+v", r)
			}
			return nil
		})
		return got, err
	}
	d := &metering{device: device{Backend: cpu.New()}}
	want := []string{
		"henc_pk, message on the device", "henc_pk, message on the device, in runs",
		"henc_seeded, message on the device", "henc_seeded, message on the device, in runs",
	}
	if got, err := rows(d, one, ""); err != nil || !slices.Equal(got, want) || d.last.made != 2 || d.last.open != 0 {
		t.Errorf("%q, %v; %d of %d are not released", got, err, d.last.open, d.last.made)
	}
	three := slices.Clone(one)
	three[0].Batch = 3
	if got, err := rows(d, three, ""); err != nil || !slices.Equal(got, []string{want[0], want[2]}) ||
		d.last.made != 0 {
		t.Errorf("%q, %v", got, err)
	}
	for op, spoil := range map[string]func(*meteringRing){"wrong": func(r *meteringRing) { r.spoils = true },
		"fails": func(r *meteringRing) { r.fails = true }} {
		d := &metering{device: device{Backend: cpu.New()}}
		b, err := (&suite{o: Options{Backend: d, MinTime: 1, Workers: 1, MaxBytes: 1 << 20},
			beds: map[string]*bed{}}).bed(one[0])
		if err != nil {
			t.Fatal(err)
		}
		spoil(d.last)
		for _, public := range []bool{true, false} {
			_, err := b.time(context.Background(), b.encryptInRuns(d.last, public))
			if err == nil || op == "wrong" != strings.Contains(err.Error(), "wrong result") ||
				op == "fails" != errors.Is(err, errMetered) {
				t.Errorf("%s, public %v: %v", op, public, err)
			}
		}
		if d.last.made != 2 || d.last.open != 0 {
			t.Errorf("%s: %d of %d are not released", op, d.last.open, d.last.made)
		}
	}
}

// TestTableFused: encryptions in few kernels are timed as such, and compared.
func TestTableFused(t *testing.T) {
	cases := []Case{{Ops: []string{"henc_pk", "henc_seeded"}, Params: "edge12-d1", N2: 16, Batch: 3}}
	o := Options{Backend: fused{device{Backend: cpu.New()}}, MinTime: 1, Workers: 1, MaxBytes: 1 << 20,
		Ops: []string{"henc_pk", "henc_seeded"}}
	n := 0
	err := RunTable(context.Background(), o, cases, func(r Record) error {
		n++
		if r.Batch != 3 || r.Clock != ClockDevice || r.GraphCalls != 0 || r.Method != "message on the device" {
			t.Errorf("%+v", r)
		}
		return nil
	})
	if err != nil || n != 2 {
		t.Errorf("%d records, %v", n, err)
	}
	o.Backend = fused{device{cpu.New(), true}}
	if err := RunTable(context.Background(), o, cases, func(Record) error { return nil }); err == nil ||
		!strings.Contains(err.Error(), "wrong result") {
		t.Errorf("%v", err)
	}
}

// TestTable: every case of a table gives records with a copy, both clocks and
// launches, and every result is compared with the CPU's.
func TestTable(t *testing.T) {
	var got []string
	o := Options{Backend: device{Backend: cpu.New()}, MinTime: 1, Workers: 1, Seed: 3, MaxBytes: 4 << 20}
	err := RunTable(context.Background(), o, smallTable, func(r Record) error {
		if (r.GraphCalls > 0) != (r.Clock == ClockDevice) {
			t.Errorf("%s on the %s's clock in graphs of %d calls", r.Op, r.Clock, r.GraphCalls)
		}
		if r.Op == "copy" {
			return nil
		}
		got = append(got, fmt.Sprintf("%s %s n2=%d batch=%d", r.Op, r.Params, r.N2, r.Batch))
		device := r.Op != "henc"
		if (r.Clock == ClockDevice) != device || device && (!(r.WallUS > 0) || !(r.CopyUS > 0) || !(r.OfCopy > 0)) ||
			!(r.MedianUS > 0) || r.Bytes <= 0 {
			t.Errorf("incomplete record %+v", r)
		}
		if r.Op == "ntt" && (r.Launches != 1 || r.Params != "ring-2^11-2" || r.Limbs != 2 || r.LogN != 11) {
			t.Errorf("transform %+v", r)
		}
		if r.Op == "henc" && (len(r.Split) != 2 || !(r.Split["encrypt"] > 0)) {
			t.Errorf("whole encryption %+v", r)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"ntt ring-2^11-2 n2=4 batch=1", "intt ring-2^11-2 n2=4 batch=1",
		"hadamard ring-2^10-2 n2=16 batch=1", "henc_pk edge12-d1 n2=16 batch=1", "henc_seeded edge12-d1 n2=16 batch=1",
		"hmult edge12-d1 n2=16 batch=1", "hmult_rescale edge12-d1 n2=16 batch=1", "hrotate edge12-d1 n2=16 batch=1",
		"rescale edge12-d1 n2=16 batch=1",
		"hmult edge12-d1 n2=16 batch=3", "hmult_rescale edge12-d1 n2=16 batch=3", "hrotate edge12-d1 n2=16 batch=3",
		"rescale edge12-d1 n2=16 batch=3", "henc edge12-d1 n2=16 batch=2",
	}
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("records %q, want %q", got, want)
	}
	ks, cs, err := Kernels(o.Backend)
	if err != nil || len(ks) != 1 || ks[0].Method != "forward" || len(cs) != 1 || cs[0].Method != "lazy" ||
		cs[0].Source != "measured" {
		t.Errorf("%+v, %+v, %v", ks, cs, err)
	}
}

// TestTableSelects: operations and parameters restrict a table.
func TestTableSelects(t *testing.T) {
	p := named(t, "edge12-d1")
	for _, c := range []struct {
		o    Options
		want []string
	}{
		{Options{Ops: []string{"rescale"}}, []string{"edge12-d1 rescale", "edge12-d1 rescale"}},
		{Options{Ops: []string{"ntt", "rescale"}, Params: []henc.Parameters{p}},
			[]string{"edge12-d1 rescale", "edge12-d1 rescale"}},
		{Options{Ops: []string{"ntt", "copy"}}, []string{"ring-2^11-2 copy", "ring-2^11-2 ntt"}},
	} {
		var got []string
		c.o.Backend, c.o.MinTime, c.o.MaxBytes, c.o.Workers = cpu.New(), 1, 1<<20, 1
		if err := RunTable(context.Background(), c.o, smallTable,
			func(r Record) error { got = append(got, r.Params+" "+r.Op); return nil }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestTableFindsAWrongResult: one wrong residue of a device ends the run.
func TestTableFindsAWrongResult(t *testing.T) {
	o := Options{Backend: device{cpu.New(), true}, MinTime: 1, Workers: 1, MaxBytes: 1 << 20}
	for _, c := range smallTable[1:3] {
		err := RunTable(context.Background(), o, []Case{c}, func(Record) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "wrong result") {
			t.Errorf("%v: %v", c.Ops, err)
		}
	}
}

// TestTableIsWhole: the table has every row of the record, in sets that exist.
func TestTableIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Table() {
		for _, op := range c.Ops {
			if !slices.Contains(Ops(), op) {
				t.Errorf("no operation %q", op)
			}
			seen[fmt.Sprintf("%s %s/%d/%d n2=%d x%d", op, c.Params, c.LogN, c.Limbs, c.N2, c.Batch)] = true
		}
		if c.Params == "" {
			if len(primes(c.LogN, c.Limbs)) != c.Limbs {
				t.Errorf("2^%d has no %d primes", c.LogN, c.Limbs)
			}
		} else if _, err := henc.NamedInsecure(c.Params); err != nil {
			t.Error(err)
		}
	}
	for _, want := range []string{
		"ntt /16/66 n2=16 x0", "intt /16/66 n2=1 x0", "ntt /16/1 n2=16 x0", "ntt /13/16 n2=16 x0",
		"hadamard /16/66 n2=16 x0",
		"henc_pk bench-paper16-insecure/0/0 n2=16 x0", "henc_seeded edge13-d3/0/0 n2=16 x0",
		"hmult bench-paper16-insecure/0/0 n2=0 x0",
		"hmult_rescale bench-paper16-insecure/0/0 n2=0 x0", "hmult std14-d5/0/0 n2=0 x64",
		"henc edge13-d2p/0/0 n2=16 x64",
	} {
		if !seen[want] {
			t.Errorf("the table lacks %q", want)
		}
	}
}
