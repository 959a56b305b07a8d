package daemon

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of repeated log lines. Of lines with the same level and message, at most logBurst
// in logWindow are written. The next line that is written says how many were dropped.
const (
	logBurst    = 10
	logWindow   = time.Minute
	logMessages = 1024 // different messages that are remembered
)

// NewLogger returns the logger of a role on w. format is "text" or "json". Repeated
// messages are limited. On the journal, text carries the journal's level and no time,
// which the journal adds itself.
func NewLogger(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(&limited{next: slog.NewJSONHandler(w, opts), seen: newSeen(time.Now)})
	}
	if !journal(w, os.Getenv("JOURNAL_STREAM")) {
		return slog.New(&limited{next: slog.NewTextHandler(w, opts), seen: newSeen(time.Now)})
	}
	opts.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
			return slog.Attr{}
		}
		return a
	}
	out := &prefixed{w: w}
	return slog.New(&limited{next: &journaled{Handler: slog.NewTextHandler(out, opts), out: out},
		seen: newSeen(time.Now)})
}

// journal reports whether w is the stream that stream ("device:inode", from
// $JOURNAL_STREAM) names.
func journal(w io.Writer, stream string) bool {
	f, ok := w.(*os.File)
	if !ok || stream == "" {
		return false
	}
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return false
	}
	return stream == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// prefixed puts "<N>", the syslog level, before a line; see sd-daemon(3).
type prefixed struct {
	w     io.Writer
	mu    sync.Mutex
	level int
}

func (p *prefixed) Write(b []byte) (int, error) {
	line := append(fmt.Appendf(make([]byte, 0, len(b)+4), "<%d>", p.level), b...)
	if _, err := p.w.Write(line); err != nil {
		return 0, err
	}
	return len(b), nil
}

// journaled passes each record to the text handler and sets the level of its line.
type journaled struct {
	slog.Handler
	out *prefixed
}

func (j *journaled) Handle(ctx context.Context, r slog.Record) error {
	j.out.mu.Lock()
	defer j.out.mu.Unlock()
	j.out.level = syslogLevel(r.Level)
	return j.Handler.Handle(ctx, r)
}

func (j *journaled) WithAttrs(a []slog.Attr) slog.Handler {
	return &journaled{j.Handler.WithAttrs(a), j.out}
}

func (j *journaled) WithGroup(name string) slog.Handler {
	return &journaled{j.Handler.WithGroup(name), j.out}
}

func syslogLevel(l slog.Level) int {
	switch {
	case l >= slog.LevelError:
		return 3
	case l >= slog.LevelWarn:
		return 4
	case l >= slog.LevelInfo:
		return 6
	}
	return 7
}

// limited drops messages that repeat too often. Debug lines always pass.
type limited struct {
	next slog.Handler
	seen *seen
	with []byte // attributes of WithAttrs, so that streams are counted apart
}

func (l *limited) Enabled(ctx context.Context, level slog.Level) bool {
	return l.next.Enabled(ctx, level)
}

func (l *limited) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo {
		return l.next.Handle(ctx, r)
	}
	write, held := l.seen.count(fmt.Sprintf("%d %s %s", r.Level, l.with, r.Message))
	if !write {
		return nil
	}
	if held > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Uint64("suppressed", held))
	}
	return l.next.Handle(ctx, r)
}

func (l *limited) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b bytes.Buffer
	b.Write(l.with)
	for _, a := range attrs {
		fmt.Fprintf(&b, " %s", a)
	}
	return &limited{l.next.WithAttrs(attrs), l.seen, b.Bytes()}
}

func (l *limited) WithGroup(name string) slog.Handler {
	return &limited{l.next.WithGroup(name), l.seen, l.with}
}

// seen counts messages by their key.
type seen struct {
	now func() time.Time

	mu  sync.Mutex
	all map[string]*times
}

type times struct {
	start         time.Time // of the window
	written, held uint64
}

func newSeen(now func() time.Time) *seen { return &seen{now: now, all: map[string]*times{}} }

// count reports whether a message is to be written, and how many like it were dropped since
// the last one that was.
func (s *seen) count(key string) (write bool, held uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	t := s.all[key]
	if t == nil {
		if len(s.all) >= logMessages {
			s.forget(now)
		}
		t = &times{start: now}
		s.all[key] = t
	}
	if now.Sub(t.start) >= logWindow || now.Before(t.start) {
		t.start, t.written = now, 0
	}
	if t.written >= logBurst {
		t.held++
		return false, 0
	}
	t.written++
	held, t.held = t.held, 0
	return true, held
}

// forget drops the windows that are over, or all when none is.
func (s *seen) forget(now time.Time) {
	for key, t := range s.all {
		if now.Sub(t.start) >= logWindow {
			delete(s.all, key)
		}
	}
	if len(s.all) >= logMessages {
		clear(s.all)
	}
}
