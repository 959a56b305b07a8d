package cuda

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/hencedge/hencedge/internal/meter"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cuda/cudatest"
	"github.com/hencedge/hencedge/cutrantt/cuda/internal/driver"
)

// meterings are a key and jobs for metered encryptions.
type meterings struct {
	r    *ring
	op   cutrantt.Operand
	s    *cutrantt.Batch
	jobs []cutrantt.Encryption
}

var meterLabels = cutrantt.EncryptionLabels{V: 1, E0: 2, E1: 3, Mask: 4}

func newMeterings(t *testing.T, b *backend, logN, limbs, n2 int) *meterings {
	t.Helper()
	r, err := b.newRing(logN, benchModuli(t, logN, limbs), cutrantt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := &meterings{r: r}
	key, err := r.NewBatch(2, upTo(limbs), cutrantt.NTT(n2))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		half, err := key.Slice(i, i+1, 0, limbs)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.SampleUniform(half, &[32]byte{1}, uint32(i)); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			m.s = half
		}
	}
	if m.op, err = r.Precompute(key); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 3 {
		j := cutrantt.Encryption{Message: make([]float64, r.n), Bound: 1 << 40, Seed: &[32]byte{byte(i), 9, 31: 1},
			Mask: &[32]byte{byte(i), 8}}
		for k := range j.Message {
			j.Message[k] = float64(rng.IntN(1<<40) + 1)
		}
		m.jobs = append(m.jobs, j)
	}
	return m
}

// encrypt is the call itself.
func (m *meterings) encrypt(public bool, jobs []cutrantt.Encryption) ([]*cutrantt.Batch, error) {
	limbs := m.s.Limbs()
	if public {
		return m.r.EncryptPublic(m.op, limbs, meterLabels, jobs)
	}
	return m.r.EncryptSeeded(m.s, limbs, meterLabels, jobs)
}

func (m *meterings) metered(public bool) (*metered, error) {
	var x meter.MeteredEncryptions
	var err error
	if public {
		x, err = m.r.MeterPublic(m.op, m.s.Limbs(), meterLabels, m.jobs)
	} else {
		x, err = m.r.MeterSeeded(m.s, m.s.Limbs(), meterLabels, m.jobs)
	}
	if err != nil {
		return nil, err
	}
	return x.(*metered), nil
}

// words reads device memory.
func (m *meterings) words(t *testing.T, at pointer, n int) []uint32 {
	t.Helper()
	got := make([]uint32, n)
	err := m.r.exec(func() error {
		if err := m.r.backend.drv.CopyOut(bytesOf(got), at, m.r.pool.stream); err != nil {
			return err
		}
		return m.r.backend.drv.Wait(m.r.pool.stream)
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func isZero(w []uint32) bool { return !slices.ContainsFunc(w, func(x uint32) bool { return x != 0 }) }

// TestMetered: queued again and again, alone and in runs, encryptions launch the same
// kernels as the call and make the same residues, and wipe what they make of message
// and seed. These stay, until all is wiped with the release.
func TestMetered(t *testing.T) {
	b := gpu(t).(*backend)
	for _, c := range []struct{ logN, limbs, n2 int }{{13, 3, 16}, {12, 2, 4}} {
		m := newMeterings(t, b, c.logN, c.limbs, c.n2)
		r := m.r
		for _, public := range []bool{true, false} {
			what := fmt.Sprintf("2^%d, public %v", c.logN, public)
			do := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			if _, err := m.encrypt(public, m.jobs[:1]); err != nil { // tables
				t.Fatal(err)
			}
			before := r.Launches()
			var want [][]uint32
			for i := range m.jobs {
				out, err := m.encrypt(public, m.jobs[i:i+1])
				do(err)
				w := make([]uint32, out[0].Len())
				do(r.Download(w, out[0]))
				want = append(want, w)
			}
			launches := r.Launches() - before
			x, err := m.metered(public)
			do(err)
			for _, buf := range b.staging.free {
				used := 2*int(unsafe.Sizeof(job{})) + 8*r.n
				if slices.ContainsFunc(buf.bytes[:used], func(x byte) bool { return x != 0 }) {
					t.Errorf("%s: a staging buffer holds something", what)
				}
			}
			same := func(how string) {
				t.Helper()
				for i, out := range x.Results() {
					w := make([]uint32, out.Len())
					do(r.Download(w, out))
					if !slices.Equal(w, want[i]) {
						t.Errorf("%s: other residues of job %d %s", what, i, how)
					}
					do(r.Upload(out, make([]uint32, out.Len()))) // so that the next ones are new
				}
				if !isZero(m.words(t, x.small.at, x.small.words)) || !isZero(m.words(t, x.mid.at, x.mid.words)) {
					t.Errorf("%s: an encryption %s leaves something", what, how)
				}
			}
			all := func(rounds int) func() error {
				return func() error {
					for i := range rounds * len(m.jobs) {
						if err := x.Queue(i % len(m.jobs)); err != nil {
							return err
						}
					}
					return nil
				}
			}
			before = r.Launches()
			do(all(1)())
			if n := r.Launches() - before; n != launches {
				t.Errorf("%s: %d kernels, the calls have %d", what, n, launches)
			}
			same("queued alone")
			_, parts, err := r.TimeRun(all(2), all(2))
			do(err)
			if parts != 1 && b.drv.Graphs() == nil && b.graphs != graphsOff {
				t.Errorf("%s: a run of %d parts", what, parts)
			}
			same("queued in a run")
			for _, i := range []int{-1, len(m.jobs)} {
				if err := x.Queue(i); !errors.Is(err, cutrantt.ErrRange) {
					t.Errorf("%s: job %d: %v", what, i, err)
				}
			}
			held := slices.Clone(x.held)
			// the first message: the others come behind small and mid
			if isZero(m.words(t, held[2].at, held[2].words)) {
				t.Errorf("%s: the message is gone before the release", what)
			}
			do(x.Release())
			do(x.Release()) // nothing more to do
			if err := x.Queue(0); !errors.Is(err, cutrantt.ErrRange) {
				t.Errorf("%s: queued after the release: %v", what, err)
			}
			for i, h := range held {
				if !isZero(m.words(t, h.at, h.words)) {
					t.Errorf("%s: block %d of %d holds something after the release", what, i, len(held))
				}
			}
			out, err := m.encrypt(public, m.jobs[2:]) // with the memory that came back
			do(err)
			w := make([]uint32, out[0].Len())
			do(r.Download(w, out[0]))
			if !slices.Equal(w, want[2]) {
				t.Errorf("%s: other residues after the release", what)
			}
		}
	}
}

// TestMeteredKey: a key or a result that was given back is no address any more.
func TestMeteredKey(t *testing.T) {
	b := gpu(t).(*backend)
	for name, back := range map[string]func(m *meterings, x *metered){
		"key":    func(m *meterings, _ *metered) { m.op.Release() },
		"result": func(m *meterings, x *metered) { m.r.Free(x.Results()[1]) },
		"secret": func(m *meterings, _ *metered) { m.r.Free(m.s) },
	} {
		m := newMeterings(t, b, 12, 2, 16)
		x, err := m.metered(name != "secret")
		if err != nil {
			t.Fatal(err)
		}
		back(m, x)
		if err := x.Queue(1); !errors.Is(err, cutrantt.ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
		if err := x.Release(); err != nil {
			t.Error(err)
		}
	}
}

// TestMeteredFails: whichever call of the driver fails, all memory comes back, and
// nothing secret in it, nor in the staging buffers: what cannot be wiped is kept until
// the next release. The driver is one for tests, whose kernels do nothing.
func TestMeteredFails(t *testing.T) {
	for _, mode := range []string{"device", "mapped"} {
		t.Run(mode, func(t *testing.T) {
			t.Setenv(MemoryVariable, mode)
			d := cudatest.WithGraphs(t)
			b := faulty(t, d)
			for _, public := range []bool{true, false} {
				failures := 0
				for skip := 0; ; skip++ {
					m := newMeterings(t, b, 12, 2, 16)
					pool := m.r.pool
					warm, err := m.encrypt(public, m.jobs)
					if err != nil { // tables
						t.Fatal(err)
					}
					for _, x := range warm {
						m.r.Free(x)
					}
					before := pool.out
					d.Set(fmt.Sprintf("fail * 2 %d 1 # %d", skip, skip))
					x, err := m.metered(public)
					var held []holding
					if err == nil {
						held = x.held
						run := func() error { return errors.Join(x.Queue(0), x.Queue(2)) }
						err = run()
						if _, _, e := m.r.TimeRun(run, run); err == nil {
							err = e
						}
						e := x.Release()
						d.Set()
						if err == nil {
							err = e
						}
						if e := x.Release(); e != nil || len(x.held) > 0 {
							t.Fatalf("failure after %d calls: %v at the second release, %d blocks are held", skip,
								e, len(x.held))
						}
						for _, out := range x.Results() {
							m.r.Free(out)
						}
					}
					d.Set()
					for _, h := range held {
						if !isZero(h.at.Words(h.words)) {
							t.Fatalf("failure after %d calls (%v): a block of %d words holds something",
								skip, err, h.words)
						}
					}
					for _, buf := range b.staging.free {
						if slices.ContainsFunc(buf.bytes, func(x byte) bool { return x != 0 }) {
							t.Fatalf("failure after %d calls (%v): a staging buffer holds something", skip, err)
						}
					}
					if pool.out != before {
						t.Fatalf("failure after %d calls (%v): %d bytes are out, %d before", skip, err,
							pool.out, before)
					}
					for k, free := range pool.free { // also what a set-up that failed has used
						for _, at := range free {
							if k.size == class(8*m.r.n) && !isZero(driver.Pointer(at).Words(2*m.r.n)) {
								t.Fatalf("failure after %d calls (%v): a message in the pool", skip, err)
							}
						}
					}
					runtime.KeepAlive(m)
					if err != nil {
						failures++
					} else if skip > failures+20 {
						break
					}
				}
				t.Logf("public %v: %d calls failed", public, failures)
				if failures < 30 {
					t.Errorf("%d calls failed", failures)
				}
			}
		})
	}
}
