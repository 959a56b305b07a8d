package agent

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/testrig"
)

// The names of all parameter sets tell their slots, and a window that fills
// them is the largest that fits.
func TestFill(t *testing.T) {
	for _, name := range henc.Names() {
		p, err := henc.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		if config.SlotsOf(name) != p.Slots() {
			t.Errorf("%s: %d slots by its name, %d in fact", name, config.SlotsOf(name), p.Slots())
		}
		for _, channels := range []int{1, 3, 32, p.Slots()} {
			s := config.Stream{Params: name, Window: config.Window{Fill: true}, Channels: make([]config.Channel, channels)}
			s.SetDefaults()
			if s.Slots() > p.Slots() || 2*s.Slots() <= p.Slots() {
				t.Errorf("%s, %d channels: %d samples take %d of %d slots", name, channels, s.Window.Samples, s.Slots(), p.Slots())
			}
		}
	}
	agent, evaluator := config.Stream{Name: "s", Params: "edge12-d1", Interval: time.Second, Window: config.Window{Fill: true}, Channels: make([]config.Channel, 3)},
		config.Stream{Name: "s", Params: "edge12-d1", Window: config.Window{Samples: 512}, Channels: make([]config.Channel, 3)}
	agent.SetDefaults()
	if agent.LayoutHash() != evaluator.LayoutHash() {
		t.Error("a filled window is not the window of its samples")
	}
}

// A file whose rows are out of order within the lateness gives the same windows
// as the sorted one, from the beginning or from any row on.
func TestReplayOutOfOrder(t *testing.T) {
	rows := []string{"0,1", "2,3", "1,2", "11,12", "3,4", "12,13", "9,10", "21,22", "2,99", "20,21"}
	s := config.Stream{Name: "s", Lateness: 9 * time.Second, Window: config.Window{Every: 10 * time.Second, Samples: 10},
		Replay:   &config.Replay{File: "x.csv", Time: "t", TimeFormat: "unix", Speed: "fast"},
		Channels: []config.Channel{{Name: "v", Range: [2]float64{0, 100}, Source: &config.Source{Type: config.SourceReplay, Column: "v"}}}}
	s.SetDefaults()
	sorted := []float64{1, 2, 3, 4, 10, 12, 13, 21, 22}
	places := []position{{}}
	for skip := range len(sorted) + 1 {
		r, err := newReplay(io.NopCloser(strings.NewReader("t,v\n"+strings.Join(rows, "\n")+"\n")), s, testrig.NewClock())
		if err != nil {
			t.Fatal(err)
		}
		late := 0
		r.late = func() { late++ }
		if err := r.skip(places[skip], 0); err != nil {
			t.Fatal(err)
		}
		c, _ := collect(s)
		var got [][]float64
		cursor := uint64(skip)
		for {
			row, err := r.next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if cursor++; err != nil || row.cursor.rows != cursor || skip > 0 && row.cursor != places[cursor] {
				t.Fatalf("row %d: %v, cursor %+v", cursor, err, row.cursor)
			}
			if skip == 0 {
				places = append(places, row.cursor)
			}
			for _, w := range c.add(row) {
				got = append(got, w.values[0])
			}
		}
		if w := c.flush(); w != nil {
			got = append(got, w.values[0])
		}
		if want := sorted[min(skip, len(sorted)):]; !slices.Equal(slices.Concat(got...), want) {
			t.Errorf("from row %d: got %v, want %v", skip, got, want)
		}
		if skip == 0 && (len(got) != 3 || late != 1) {
			t.Errorf("got %v, %d late", got, late)
		}
	}
}
