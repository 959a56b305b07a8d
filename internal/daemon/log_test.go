package daemon

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestRepeatedMessagesAreLimited(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1_000_000, 0)
	log := slog.New(&limited{next: slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}),
		seen: newSeen(func() time.Time { return now })})
	for range 100 {
		log.Warn("no broker")
		log.With("stream", "a").Warn("no broker")
		log.Debug("detail")
	}
	log.Error("no broker") // another level
	if n := strings.Count(out.String(), "level=WARN"); n != 2*logBurst {
		t.Errorf("%d warnings, want %d", n, 2*logBurst)
	}
	if n := strings.Count(out.String(), "level=DEBUG"); n != 100 {
		t.Errorf("%d debug lines, want 100", n)
	}
	if !strings.Contains(out.String(), "level=ERROR") {
		t.Error("the error is lost")
	}
	out.Reset()
	now = now.Add(logWindow)
	log.Warn("no broker")
	if !strings.Contains(out.String(), fmt.Sprintf("suppressed=%d", 100-logBurst)) {
		t.Errorf("%q does not say how many were held back", out.String())
	}
	out.Reset()
	log.Warn("no broker")
	if strings.Contains(out.String(), "suppressed") {
		t.Errorf("%q counts them twice", out.String())
	}
}

func TestLimitIsBounded(t *testing.T) {
	s := newSeen(time.Now)
	for i := range 10 * logMessages {
		s.count(fmt.Sprint(i))
	}
	if len(s.all) > logMessages {
		t.Errorf("%d messages are remembered, at most %d are allowed", len(s.all), logMessages)
	}
}

func TestJournal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(w.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", st.Dev, st.Ino))
	log := NewLogger(w, "text", slog.LevelInfo).With("device", "b")
	log.Error("one", "n", 1)
	log.Info("two")
	w.Close()
	b, err := io.ReadAll(r)
	if want := "<3>msg=one device=b n=1\n<6>msg=two device=b\n"; err != nil || string(b) != want {
		t.Errorf("%v: got %q, want %q", err, b, want)
	}
	var plain bytes.Buffer
	NewLogger(&plain, "text", slog.LevelInfo).Info("three")
	if !strings.HasPrefix(plain.String(), "time=") {
		t.Errorf("%q: what is not the journal gets time and level", plain.String())
	}
}
