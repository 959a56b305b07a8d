package cli

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// told runs eight pieces of work of the given time each.
func told(p *Progress, each time.Duration) string {
	var out strings.Builder
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p.What, p.Out, p.Now = "keys", &out, func() time.Time { return at }
	for done := range int64(9) {
		p.Update(done, 8)
		at = at.Add(each)
	}
	p.Done()
	return out.String()
}

func TestProgressOnATerminal(t *testing.T) {
	out := told(&Progress{Terminal: true}, 3*time.Second)
	for _, want := range []string{"\r[....................] 0 of 8 keys",
		"\r[##..................] 1 of 8 keys, about 21s left", "] 7 of 8 keys, about 3s left",
		"\r[####################] 8 of 8 keys "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q lacks %q", out, want)
		}
	}
	if strings.Contains(out, "\n") || !strings.HasSuffix(out, " \r") {
		t.Errorf("%q leaves its line", out)
	}
	// A bar does not spend its time on the terminal.
	if n := strings.Count(told(&Progress{Terminal: true}, time.Millisecond), " of 8 keys"); n != 2 {
		t.Errorf("%d updates in 8 ms", n)
	}
}

func TestProgressElsewhere(t *testing.T) {
	if out := told(&Progress{}, time.Second); out != "" {
		t.Errorf("short work says %q", out)
	}
	const want = "hencedge: 3 of 8 keys, about 20s left\nhencedge: 6 of 8 keys, about 8s left\n"
	if out := told(&Progress{}, 4*time.Second); out != want {
		t.Errorf("%q, want %q", out, want)
	}
	if out := told(&Progress{Form: ProgressNone, Terminal: true}, 4*time.Second); out != "" {
		t.Errorf("none says %q", out)
	}
}

func TestProgressEvents(t *testing.T) {
	out := strings.Split(strings.TrimSpace(told(&Progress{Form: ProgressJSON, Terminal: true}, 400*time.Millisecond)),
		"\n")
	want := []string{`{"event":"progress","what":"keys","done":0,"total":8,"seconds":0}`,
		`{"event":"progress","what":"keys","done":3,"total":8,"seconds":1.2,"left":2}`,
		`{"event":"progress","what":"keys","done":6,"total":8,"seconds":2.4,"left":0.8}`,
		`{"event":"progress","what":"keys","done":8,"total":8,"seconds":3.2}`}
	if strings.Join(out, "\n") != strings.Join(want, "\n") {
		t.Errorf("events\n%s\nwant\n%s", strings.Join(out, "\n"), strings.Join(want, "\n"))
	}
}

// TestProgressOfBytes: bytes have a unit, and work whose end is not known has no bar.
func TestProgressOfBytes(t *testing.T) {
	var out strings.Builder
	p := &Progress{What: "bytes", Out: &out, Terminal: true}
	p.Update(512<<10, 1<<20)
	p.Done()
	p.Update(3<<20, 0)
	const want = "\r[##########..........] 512.0 KiB of 1.0 MiB\r"
	if got := out.String(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "\r3.0 MiB") {
		t.Errorf("%q", got)
	}
}

// TestProgressWithoutTotal: programs learn how much was done at the end, although nobody knew before.
func TestProgressWithoutTotal(t *testing.T) {
	var out strings.Builder
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := &Progress{What: "results", Out: &out, Form: ProgressJSON, Now: func() time.Time { return at }}
	for done := range int64(4) {
		p.Update(done+1, 0)
		at = at.Add(400 * time.Millisecond)
	}
	p.Done()
	p.Done()
	const want = `{"event":"progress","what":"results","done":1,"seconds":0}` + "\n" +
		`{"event":"progress","what":"results","done":4,"seconds":1.2}` + "\n"
	if out.String() != want {
		t.Errorf("events\n%s\nwant\n%s", out.String(), want)
	}
}

func TestProgressFlag(t *testing.T) {
	for _, form := range []string{"", "auto", "json", "none"} {
		if err := (&App{ProgressForm: form}).CheckProgress(); err != nil {
			t.Errorf("%q: %v", form, err)
		}
	}
	var usage *UsageError
	if err := (&App{ProgressForm: "bar"}).CheckProgress(); !errors.As(err, &usage) {
		t.Errorf("bar: %v", err)
	}
}
