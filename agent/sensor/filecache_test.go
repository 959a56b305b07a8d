package sensor

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
)

// Channels of one file see one instant of it, and the next sample another.
func TestOneInstant(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "proc/loadavg")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1.5 2.5 3.5 1/2 3\n")
	l, errs := Machine{Root: root,
		Clock: testrig.NewClock()}.OpenChannels(config.Stream{Interval: time.Second, Channels: []config.Channel{
		{Source: &config.Source{Type: config.SourceLoad, Field: "1m"}},
		{Source: &config.Source{Type: config.SourceLoad, Field: "15m"}}}})
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	// A third sensor changes the file between the two.
	l.sensors = []Sensor{l.sensors[0], writing{func() {}}, l.sensors[1]}
	read := func() (values []float64, err error) {
		values = make([]float64, len(l.sensors))
		err = l.Read(t.Context(), func(i int, v float64, err error) { values[i] = v })
		return values, err
	}
	write("7 8 9 1/2 3\n")
	if r, err := read(); err != nil || r[0] != 7 || r[2] != 9 {
		t.Fatalf("got %v, %v", r, err)
	}
	l.sensors[1] = writing{func() { write("100 200 300 1/2 3\n") }}
	if r, err := read(); err != nil || r[0] != 7 || r[2] != 9 {
		t.Errorf("the two channels differ in time: %v, %v", r, err)
	}
	if r, err := read(); err != nil || r[0] != 100 {
		t.Errorf("an old value stays: %v, %v", r, err)
	}
}

// writing is a sensor that does something when it is read.
type writing struct{ f func() }

func (w writing) Read(ctx context.Context) (float64, time.Time, error) {
	w.f()
	return 0, time.Time{}, nil
}
