package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestExitCode(t *testing.T) {
	cases := []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("broken"), 1},
		{Usagef("no such flag"), 2},
		{fmt.Errorf("agent: %w", Usage(errors.New("bad file"))), 2},
		{Usage(nil), 0},
		{fmt.Errorf("x: %w", ErrQuiet), 1},
	}
	for _, c := range cases {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("ExitCode(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	tab := NewTable(&b, Column{Title: "name", Width: 6}, Column{Title: "v", Width: 5, Right: true})
	if err := tab.Header(); err != nil {
		t.Fatal(err)
	}
	if err := tab.Row("a", "1.5"); err != nil {
		t.Fatal(err)
	}
	if err := tab.Row("evil\x1b[2J", "µ"); err != nil {
		t.Fatal(err)
	}
	want := "name        v\n------  -----\na         1.5\nevil?[2J      µ\n"
	if b.String() != want {
		t.Errorf("got\n%q\nwant\n%q", b.String(), want)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 28672: "28.0 KiB",
		5 << 20: "5.0 MiB", 3 << 50: "3072.0 TiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestJSONLine(t *testing.T) {
	var b strings.Builder
	if err := JSONLine(&b, map[string]int{"a": 1}); err != nil || b.String() != "{\"a\":1}\n" {
		t.Fatalf("%q, %v", b.String(), err)
	}
	if err := JSONLine(&b, func() {}); err == nil {
		t.Fatal("a function was encoded")
	}
}
