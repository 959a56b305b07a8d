package source

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
)

// A file whose rows are out of order within the lateness gives the same windows
// as the sorted one, from the beginning or from any row on.
func TestReplayOutOfOrder(t *testing.T) {
	rows := []string{"0,1", "2,3", "1,2", "11,12", "3,4", "12,13", "9,10", "21,22", "2,99", "20,21"}
	s := config.Stream{Name: "s", Lateness: 9 * time.Second,
		Window: config.Window{Every: 10 * time.Second, Samples: 10},
		Replay: &config.Replay{File: "x.csv", Time: "t", TimeFormat: "unix", Speed: "fast"},
		Channels: []config.Channel{
			{Name: "v", Range: [2]float64{0, 100}, Source: &config.Source{Type: config.SourceReplay, Column: "v"}}}}
	s.SetDefaults()
	sorted := []float64{1, 2, 3, 4, 10, 12, 13, 21, 22}
	places := []Position{{}}
	for skip := range len(sorted) + 1 {
		r, err := newReplay(io.NopCloser(strings.NewReader("t,v\n"+strings.Join(rows, "\n")+"\n")), s,
			testrig.NewClock(), new(Counters), testrig.Quiet())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.skip(places[skip], 0); err != nil {
			t.Fatal(err)
		}
		c, _ := collect(s)
		var got [][]float64
		cursor := uint64(skip)
		for {
			row, err := r.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if cursor++; err != nil || row.position.rows != cursor || skip > 0 && row.position != places[cursor] {
				t.Fatalf("row %d: %v, cursor %+v", cursor, err, row.position)
			}
			if skip == 0 {
				places = append(places, row.position)
			}
			for _, w := range c.Add(row) {
				got = append(got, w.Values[0])
			}
		}
		if w := c.Flush(); w != nil {
			got = append(got, w.Values[0])
		}
		if want := sorted[min(skip, len(sorted)):]; !slices.Equal(slices.Concat(got...), want) {
			t.Errorf("from row %d: got %v, want %v", skip, got, want)
		}
		if skip == 0 && (len(got) != 3 || r.counters.Stats().Late != 1) {
			t.Errorf("got %v, %+v", got, r.counters.Stats())
		}
	}
}
