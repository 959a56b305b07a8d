package sensor

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// lagging is a sensor that answers with the number of its reads, after a delay;
// without an end while hang is set.
type lagging struct {
	delay time.Duration
	hang  atomic.Pointer[chan struct{}]
	n     atomic.Int64
	busy  atomic.Int64 // reads under way
	most  atomic.Int64
}

func (s *lagging) Read(context.Context) (float64, time.Time, error) {
	defer s.busy.Add(-1)
	s.most.Store(max(s.most.Load(), s.busy.Add(1)))
	if c := s.hang.Load(); c != nil {
		<-*c
	}
	time.Sleep(s.delay)
	return float64(s.n.Add(1)), time.Time{}, nil
}

// quick is a sensor that answers at once.
type quick float64

func (s quick) Read(context.Context) (float64, time.Time, error) { return float64(s), time.Time{}, nil }

// round reads once and gives the values, NaN where there is none.
func round(t *testing.T, r *rounds) (values []float64, errs []error, took time.Duration) {
	t.Helper()
	values, errs = make([]float64, len(r.sensors)), make([]error, len(r.sensors))
	begun := time.Now()
	if err := r.read(t.Context(), func(i int, v float64, err error) {
		if values[i], errs[i] = v, err; err != nil {
			values[i] = math.NaN()
		}
	}); err != nil {
		t.Fatal(err)
	}
	return values, errs, time.Since(begun)
}

// A sensor that hangs costs the others its patience once; when it answers, its
// value counts again.
func TestRoundsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := &lagging{}
		free := make(chan struct{})
		stuck.hang.Store(&free)
		r := newRounds([]Sensor{quick(7), stuck, quick(9)}, 100*time.Millisecond)
		defer r.close()
		v, errs, took := round(t, r)
		if v[0] != 7 || v[2] != 9 || !errors.Is(errs[1], ErrSlow) || took != leastPatience {
			t.Fatalf("got %v, %v after %v", v, errs, took)
		}
		for range 5 {
			if v, errs, took = round(t, r); v[0] != 7 || v[2] != 9 || !errors.Is(errs[1], ErrSlow) || took != 0 {
				t.Fatalf("got %v, %v after %v", v, errs, took)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if !strings.Contains(errs[1].Error(), "asked 1.4s ago") {
			t.Errorf("the message is %q", errs[1])
		}
		stuck.hang.Store(nil)
		close(free)
		synctest.Wait()
		round(t, r) // the answer is too old by now
		time.Sleep(time.Second)
		for range 3 { // the read that this starts is quick, and it is waited for again
			v, errs, _ = round(t, r)
			synctest.Wait()
		}
		if v[1] < 3 || errs[1] != nil || r.slots[1].aside || stuck.most.Load() != 1 {
			t.Errorf("got %v, %v, %+v, %d reads at a time", v, errs, r.slots[1], stuck.most.Load())
		}
	})
}

// Sensors that are slow but answer do not delay the rounds either: of two that
// take three quarters of the interval each one is read aside.
func TestRoundsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &lagging{delay: 750 * time.Millisecond}, &lagging{delay: 740 * time.Millisecond}
		r := newRounds([]Sensor{a, quick(1), b}, time.Second)
		defer r.close()
		if v, _, took := round(t, r); took != 1490*time.Millisecond || v[0] != 1 || v[2] != 1 {
			t.Fatalf("got %v after %v", v, took)
		}
		for i := range 5 {
			v, errs, took := round(t, r)
			if took != 740*time.Millisecond || v[0] < float64(i) || v[2] != float64(i+2) || errs[0] != nil {
				t.Fatalf("got %v, %v after %v", v, errs, took)
			}
			time.Sleep(time.Second - took)
		}
	})
}

// A value that was read aside is used for so long and no longer.
func TestRoundsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lagging{delay: 3 * time.Second}
		r := newRounds([]Sensor{s}, time.Second)
		defer r.close()
		round(t, r)
		time.Sleep(2500 * time.Millisecond) // the first answer came
		if v, errs, _ := round(t, r); v[0] != 1 {
			t.Fatalf("got %v, %v", v, errs)
		}
		free := make(chan struct{})
		s.hang.Store(&free)
		time.Sleep(3 * time.Second)
		round(t, r)
		time.Sleep(r.maxAge)
		if v, errs, _ := round(t, r); !errors.Is(errs[0], ErrSlow) {
			t.Errorf("got %v, %v", v, errs)
		}
		s.hang.Store(nil)
		close(free)
		time.Sleep(s.delay)
	})
}

// A stop does not wait for a sensor.
func TestRoundsStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lagging{}
		free := make(chan struct{})
		s.hang.Store(&free)
		r := newRounds([]Sensor{s}, time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		begun := time.Now()
		if err := r.read(ctx, func(int, float64, error) { t.Error("a value") }); !errors.Is(err,
			context.DeadlineExceeded) || time.Since(begun) != 10*time.Millisecond {
			t.Errorf("got %v after %v", err, time.Since(begun))
		}
		r.close()
		close(free) // the goroutine ends, or the bubble fails
	})
}
