package store

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// TestSpentNumbers compares them with a set that forgets nothing: whatever was used is
// used, the bound holds, and without need nothing else is.
func TestSpentNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int{1, 2, 5, 1000}).Draw(t, "limit")
		var n spentNumbers
		type number struct{ boot, n uint64 }
		used := map[number]bool{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			boot := rapid.SampledFrom([]uint64{0, 1, 2, 3, 7, 1 << 40, ^uint64(0) - 1, ^uint64(0)}).Draw(t, "boot")
			lo := rapid.Uint64Range(0, 20).Draw(t, "number")
			hi := lo + rapid.Uint64Range(0, 3).Draw(t, "more")
			n.use(boot, lo, hi, limit)
			for v := lo; v <= hi; v++ {
				used[number{boot, v}] = true
			}
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				n = reread(t, &n, limit)
			}
		}
		count := 0
		for _, e := range n.epochs {
			count += len(e.used)
		}
		if n.count != count || count > limit {
			t.Fatalf("%d intervals, %d are there, limit %d", n.count, count, limit)
		}
		for _, boot := range []uint64{0, 1, 2, 3, 4, 7, 1 << 40, ^uint64(0) - 1, ^uint64(0)} {
			for v := range uint64(25) {
				got, want := n.used(boot, v), used[number{boot, v}]
				if want && !got || got && !want && limit == 1000 {
					t.Fatalf("limit %d, boot %d, number %d: %v, want %v in %+v", limit, boot, v, got, want, n)
				}
			}
		}
	})
}

// reread is n as it is read from the ledger's records.
func reread(t *rapid.T, n *spentNumbers, limit int) spentNumbers {
	var out spentNumbers
	b := n.append(nil, [8]byte{1})
	for i := 0; i < len(b); i += recordSize {
		r, ok := parseRecord(b[i : i+recordSize-4])
		if !ok {
			t.Fatalf("record %x", b[i:i+recordSize])
		}
		if r.kind == recFloor {
			out.raise(r.boot)
		} else {
			out.use(r.boot, r.number, r.last(), limit)
		}
	}
	return out
}

// TestLedgerIsNotFilled: whatever one device sends (restarts without end, or numbers
// with gaps), what another sent is refused when it comes again, and the file stays small.
func TestLedgerIsNotFilled(t *testing.T) {
	path := t.TempDir()
	s, err := Open(&config.Store{Dir: path, Bytes: config.MiB, Remember: 8}, Options{Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	hostile := seriesKey{series: [8]byte{1}}
	s.ledger.mu.Lock()
	for boot := range uint64(1<<20 + 1) { // restarts
		s.ledger.use(seriesKey{hostile.series, boot}, 7, 7)
	}
	for n := range uint64(1 << 16) { // gaps
		s.ledger.use(seriesKey{hostile.series, 1 << 21}, 2*n, 2*n)
	}
	s.ledger.mu.Unlock()
	object := func(n uint64) *transport.Object {
		return &transport.Object{ID: id(n), Signer: [32]byte{2},
			Meta: transport.Meta{Kind: transport.KindReading, Device: "d", Stream: "s", BootEpoch: 5, Sequence: n}}
	}
	const objects = 40 // more than are remembered by id
	for n := range uint64(objects) {
		o := object(n)
		if err := s.Windows.Fresh(o); err != nil {
			t.Fatal(err)
		}
		if err := s.Windows.Keep(context.Background(), o, "t", []byte{byte(n)}, time.Unix(1000, 0)); err != nil {
			t.Fatal(err)
		}
		if err := s.Windows.Leave(o.ID); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string) {
		t.Helper()
		for n := range uint64(objects) {
			o := object(n)
			o.ID[0]++ // by number alone
			if err := s.Windows.Fresh(o); !errors.Is(err, transport.ErrReplayed) {
				t.Errorf("%s: object %d comes again: %v", when, n, err)
			}
		}
		for _, boot := range []uint64{0, 1, 1 << 19, 1 << 20} {
			if !s.ledger.used(seriesKey{hostile.series, boot}, 7) {
				t.Errorf("%s: boot epoch %d is forgotten", when, boot)
			}
		}
		if n := s.ledger.series[hostile.series].count; n > mostIntervals {
			t.Errorf("%s: %d intervals of one series", when, n)
		}
	}
	check("at once")
	if err := s.ledger.log.Compact(); err != nil {
		t.Fatal(err)
	}
	if s.ledger.log.Size() > recordSize*(mostIntervals+objects+100) {
		t.Errorf("the ledger has %d bytes", s.ledger.log.Size())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(&config.Store{Dir: path, Bytes: config.MiB, Remember: 8}, Options{Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	check("after a restart")
}

// TestLedgerRefusesWhenFull: a window of a stream that cannot be remembered is not
// taken, streams that are known go on, and health says so.
func TestLedgerRefusesWhenFull(t *testing.T) {
	defer func(n int) { maxSeries = n }(maxSeries)
	maxSeries = 2
	s, err := Open(&config.Store{Dir: t.TempDir(), Bytes: config.MiB, Remember: 8}, Options{Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	take := func(stream string, n uint64) error {
		o := &transport.Object{ID: id(n), Meta: transport.Meta{Kind: transport.KindReading, Device: "d", Stream: stream,
			BootEpoch: 1, Sequence: n}}
		return s.Windows.Keep(context.Background(), o, "t", []byte(stream), time.Unix(1000, 0))
	}
	for i, stream := range []string{"a", "b"} {
		if len(s.Health(time.Unix(1000, 0), Delivery{})) != 0 {
			t.Errorf("health before stream %s: %q", stream, s.Health(time.Unix(1000, 0), Delivery{}))
		}
		if err := take(stream, uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := take("c", 2); !errors.Is(err, ErrBusy) {
		t.Errorf("a third stream: %v", err)
	}
	if err := take("a", 3); err != nil {
		t.Errorf("a known stream: %v", err)
	}
	if h := s.Health(time.Unix(1000, 0), Delivery{}); len(h) != 1 ||
		!slices.ContainsFunc(h, func(s string) bool { return len(s) > 0 }) {
		t.Errorf("health %q", h)
	}
}
