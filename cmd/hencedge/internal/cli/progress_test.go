package cli

import (
	"strings"
	"testing"
	"time"
)

// told runs eight pieces of work of the given time each.
func told(terminal bool, each time.Duration) string {
	var out strings.Builder
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := &Progress{What: "keys", Out: &out, Terminal: terminal, Now: func() time.Time { return at }}
	for done := range 9 {
		p.Update(done, 8)
		at = at.Add(each)
	}
	p.Done()
	return out.String()
}

func TestProgressOnATerminal(t *testing.T) {
	out := told(true, 3*time.Second)
	for _, want := range []string{"\r0 of 8 keys", "\r1 of 8 keys, about 21s left", "\r7 of 8 keys, about 3s left",
		"\r8 of 8 keys "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q lacks %q", out, want)
		}
	}
	if strings.Contains(out, "\n") || !strings.HasSuffix(out, " \r") {
		t.Errorf("%q leaves its line", out)
	}
}

func TestProgressElsewhere(t *testing.T) {
	if out := told(false, time.Second); out != "" {
		t.Errorf("short work says %q", out)
	}
	const want = "hencedge: 3 of 8 keys, about 20s left\nhencedge: 6 of 8 keys, about 8s left\n"
	if out := told(false, 4*time.Second); out != want {
		t.Errorf("%q, want %q", out, want)
	}
}
