package alert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyholder/outlet"
)

// plain computes the events of "value > 80, for: n, clear: value < 75" of one device from
// plain values, as "firing 3" for the alarm that window 3 raises. A window that is not after
// all before it does not count.
func plain(windows []*Result, n int) (out []string) {
	var run []int
	firing, newest := false, -1
	for _, w := range windows {
		at := int(w.Start.Sub(noon).Minutes())
		if at <= newest {
			continue
		}
		newest = at
		lo, hi := w.Values[0]-w.Bound, w.Values[0]+w.Bound
		switch {
		case firing && hi < 75:
			firing = false
			out = append(out, fmt.Sprintf("resolved %d", at))
		case firing:
		case lo > 80:
			if run = append(run, at); len(run) == n {
				out = append(out, fmt.Sprintf("firing %d", at))
				run, firing = nil, true
			}
		case hi <= 80:
			run = nil
		}
	}
	return out
}

// mortal is a receiver whose sender is killed now and then, before or after it has taken an
// event, or which refuses one or is away.
type mortal struct {
	mu    sync.Mutex
	draw  func() int
	got   []Event
	kills chan struct{} // has room for one
}

func (m *mortal) send(ctx context.Context, e *Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.draw() {
	case 0:
		return errors.New("away")
	case 1:
		return outlet.ErrRefused
	case 2:
		m.got = append(m.got, *e) // and then the sender dies
		fallthrough
	case 3:
		select {
		case m.kills <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return ctx.Err()
	}
	m.got = append(m.got, *e)
	return nil
}

func (m *mortal) close() {}

// However often the process is killed, receivers get exactly the events that the plain values
// raise: none is lost, each has one id, and those of an alarm come in order.
func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t, ruled(t, "name: hot, program: mean, when: value > 80, for: 2, clear: value < 75"))
		b.Close()
		devices := []string{"a", "b", "c"}
		results := history(rt, devices)
		draws := rapid.SliceOfN(rapid.IntRange(0, 9), 0, 64).Draw(rt, "fates")
		m := &mortal{kills: make(chan struct{}, 1)}
		m.draw = func() int {
			if len(draws) == 0 {
				return 9
			}
			d := draws[0]
			draws = draws[1:]
			return d
		}
		for next := 0; ; {
			b.cfg.Receivers = b.cfg.Receivers[:1]
			reopenWith(t, b, m)
			ctx, kill := context.WithCancel(testrig.Context(t))
			done := make(chan error, 1)
			go func() { done <- b.Run(ctx) }()
			killed := false
			most := rapid.IntRange(1, 40).Draw(rt, "results of this life")
			for n := 0; n < most && next < len(results) && !killed; n++ {
				b.take(t, results[next])
				next++
				select {
				case <-m.kills:
					killed = true
				default:
				}
			}
			ended := !killed && next == len(results) && drained(ctx, b, m.kills)
			kill()
			if err := <-done; err != nil {
				rt.Fatal(err)
			}
			b.Close() // which writes nothing
			if ended {
				break
			}
			if next > 0 && rapid.Bool().Draw(rt, "the last result was not acknowledged") {
				next--
			}
			tear(t, b.file+StateSuffix, rapid.IntRange(0, recordSize-1).Draw(rt, "torn"))
		}
		compareEvents(rt, m.got, results, devices)
	})
}

// history returns results of devices. Most windows of a device follow each other; some come
// late, or again.
func history(t *rapid.T, devices []string) (out []*Result) {
	newest := map[string]int{}
	for range rapid.IntRange(20, 120).Draw(t, "results") {
		device := rapid.SampledFrom(devices).Draw(t, "device")
		at := max(newest[device]+rapid.SampledFrom([]int{1, 1, 1, 1, 1, 2, 0, -1}).Draw(t, "step"), 0)
		newest[device] = max(newest[device], at)
		out = append(out, window(device, at, rapid.SampledFrom([]float64{0, 0, 0.5}).Draw(t, "bound"),
			rapid.SampledFrom([]float64{60, 70, 74.8, 78, 80.2, 90, 95, 99}).Draw(t, "value")))
	}
	return out
}

// drained waits until nothing waits, or there is a kill. Nothing of it runs on afterwards.
func drained(ctx context.Context, b *bench, kills <-chan struct{}) bool {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	empty := make(chan int, 1)
	go func() { empty <- b.Drain(ctx) }()
	select {
	case n := <-empty:
		return n == 0
	case <-kills:
		stop()
		<-empty
		return false
	}
}

func reopenWith(t testing.TB, b *bench, s sender) {
	b.reopen(t)
	for _, l := range b.lanes {
		l.to = s
	}
}

// tear leaves the start of a record at the end of the journal, as a crash does.
func tear(t testing.TB, path string, n int) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(slices.Repeat([]byte{7}, n)); err != nil {
		t.Fatal(err)
	}
}

// compareEvents compares what a receiver got with what the plain values raise.
func compareEvents(t *rapid.T, got []Event, results []*Result, devices []string) {
	for _, device := range devices {
		var mine []*Result
		for _, r := range results {
			if r.Device == device {
				mine = append(mine, r)
			}
		}
		var told []string
		ids, numbers := map[string]uint64{}, uint64(0)
		for _, e := range got {
			if e.Device != device {
				continue
			}
			if n, again := ids[e.ID]; again {
				if n != e.Number {
					t.Fatalf("one id for two events: %+v", e)
				}
				if n != numbers {
					t.Fatalf("event %d came again after event %d", n, numbers)
				}
				continue
			}
			if numbers++; e.Number != numbers {
				t.Fatalf("event %d comes in place of %d", e.Number, numbers)
			}
			ids[e.ID] = e.Number
			told = append(told, fmt.Sprintf("%s %.0f", e.State, e.End.Sub(noon).Minutes()-1))
		}
		if want := plain(mine, 2); !slices.Equal(told, want) {
			t.Fatalf("%s: got %q, want %q", device, told, want)
		}
	}
}
