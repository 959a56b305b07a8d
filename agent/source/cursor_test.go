package source

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
)

// A file that is cut or exchanged while it is read says so at its end.
func TestReplayFileChangesMeanwhile(t *testing.T) {
	open := func() (*replay, string) {
		s := inputtest.ReplayStream(t, "x.csv", "t,a,b.c\n"+"1000,0,0\n1001,1,0\n1002,2,0\n",
			func(r *config.Replay) { r.TimeFormat, r.Speed = "unix", "fast" })
		r, err := openReplay(s, testrig.NewClock(), new(Counters), testrig.Quiet())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		if _, err := r.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		return r, s.Replay.File
	}
	end := func(r *replay) error {
		for {
			if _, err := r.Next(t.Context()); err != nil {
				return err
			}
		}
	}
	r, file := open()
	if err := os.Truncate(file, 12); err != nil {
		t.Fatal(err)
	}
	if err := end(r); !errors.Is(err, ErrReplay) ||
		!strings.Contains(err.Error(), "was cut to 12 bytes while it was read") {
		t.Error(err)
	}
	r, file = open()
	if err := errors.Join(os.WriteFile(file+".new", []byte("t,a,b.c\n"), 0o600),
		os.Rename(file+".new", file)); err != nil {
		t.Fatal(err)
	}
	var log testrig.Log
	r.log = log.Logger()
	if err := end(r); !IsEnd(err) || !strings.Contains(log.String(), "replaced or removed while it was being read") {
		t.Errorf("%v, told %q", err, log.String())
	}
}

// A cursor is what docs/delivery.md says, and no other bytes are taken for one.
func TestCursorFormat(t *testing.T) {
	c := cursor{name: nameHash("x.csv"), dev: 1, ino: 2, head: span{30, [32]byte{3}},
		at: Position{rows: 4, offset: 50, sum: [32]byte{6}}}
	b := c.encode()
	if len(b) != 113 || b[0] != 1 || !bytes.Equal(b[9:17], []byte{0, 0, 0, 0, 0, 0, 0, 1}) || b[24] != 2 ||
		b[32] != 30 || b[33] != 3 || b[72] != 4 || b[80] != 50 || b[81] != 6 {
		t.Errorf("%x", b)
	}
	if got, err := decodeCursor(b); err != nil || *got != c {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range [][]byte{nil, b[:16], b[:112], append(slices.Clone(b), 0), append([]byte{2}, b[1:]...)} {
		if _, err := decodeCursor(bad); !errors.Is(err, ErrCursor) {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
}
