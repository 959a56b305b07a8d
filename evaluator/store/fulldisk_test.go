package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// Windows that fill the disk leave room for the results without which none of them could
// leave again.
func TestFullDiskIsEmptied(t *testing.T) {
	now := time.Unix(1000, 0)
	s, err := Open(&config.Store{Dir: testenv.Disk(t, "3m"), Bytes: 64 << 20, Remember: 1024}, Options{
		Topics: map[string]string{"mean": "hencedge/v2/result/mean"}, Name: "cloud", State: "state",
		Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sealed := make([]byte, 57_000)
	keep := func(n uint64) error {
		obj := &transport.Object{ID: id(n), Meta: transport.Meta{Device: "d1", Stream: "count", BootEpoch: 1,
			Sequence: n}}
		sealed[0], sealed[1] = byte(n), byte(n>>8)
		return s.Windows.Keep(t.Context(), obj, "hencedge/v2/up/d1/count", sealed, now)
	}
	var kept uint64
	for err == nil {
		if kept++; kept > 100 {
			t.Fatal("the disk of 3 MiB takes everything")
		}
		err = keep(kept)
	}
	kept--
	if !errors.Is(err, ErrBusy) || kept < 30 || !s.Windows.Busy(len(sealed), now) {
		t.Fatalf("after %d windows: %v", kept, err)
	}
	if h := s.Health(now, Delivery{}); len(h) != 1 || !strings.Contains(h[0], "are kept for what empties the queue") {
		t.Errorf("health: %q", h)
	}
	for n := range kept {
		inputs := [][32]byte{id(n + 1)}
		s.Windows.Need(inputs)
		if err := errors.Join(s.Windows.Leave(inputs[0]),
			s.Results.Put(t.Context(), "mean", inputs, "hencedge/v2/result/mean", sealed[:16_000]),
			s.Windows.Settle(inputs)); err != nil {
			t.Fatalf("result %d of %d: %v", n+1, kept, err)
		}
	}
	if err := keep(kept + 1); err != nil || s.Windows.Busy(len(sealed), now) {
		t.Errorf("a window after %d results: %v", kept, err)
	}
}
