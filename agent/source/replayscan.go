package source

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
)

// scanRows is how many rows of each end of a replay file a check reads.
const scanRows = 1000

// countable is how many bytes a check reads to number the lines at the end of a file.
const countable = 1 << 30

// Scan reads the first and the last rows of a replay file as the replay will, and returns
// the first mistake. A file that holds nothing usable there is one too.
func Scan(s config.Stream, clock role.Clock) error {
	head, err := openReplay(s, clock, new(Counters), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer head.Close()
	usable := make([]bool, len(s.Channels))
	if err := head.scan(scanRows, usable); err != nil {
		return err
	}
	if err := head.unusable(usable); err != nil {
		return err
	}
	read, size := int64(head.track.done), head.size()
	if head.rows < scanRows || size <= read || head.spans {
		return nil
	}
	// Twice the room that these rows take, which are not all of one length.
	from := max(size-2*read, read)
	tail, err := openTail(s, clock, from)
	if err != nil {
		return err
	}
	defer tail.Close()
	if err = tail.scan(-1, nil); err != nil && from > countable {
		err = fmt.Errorf("at the end of the file, lines and rows counted from byte %d: %w", from, err)
	}
	return err
}

// scan reads up to n rows, or all with -1, and notes which channels have a value.
func (r *replay) scan(n int, usable []bool) error {
	for i := 0; n < 0 || i < n; i++ {
		out, err := r.sound(context.Background())
		if IsEnd(err) {
			return nil
		}
		if err != nil {
			return err
		}
		r.started = true
		for k := range usable {
			usable[k] = usable[k] || out.errs[k] == nil
		}
	}
	return nil
}

// unusable says that all that was scanned was left out, or a column had no number.
func (r *replay) unusable(usable []bool) error {
	if r.rows == 0 || r.cfg.BadCells == config.BadFail {
		return nil // an empty file is a short one; mistakes were found
	}
	for k, ok := range usable {
		if !ok {
			return fmt.Errorf("%s: %w: none of the first %d rows has a number for column %s", r.cfg.File, ErrReplay,
				r.rows, r.sources[k].Column)
		}
	}
	return nil
}

// openTail opens a replay file at the first line that begins at an offset or after it, as
// if the header came before it.
func openTail(s config.Stream, clock role.Clock, from int64) (r *replay, err error) {
	f, err := os.Open(s.Replay.File)
	if err != nil {
		return nil, fmt.Errorf("open replay file: %w", err)
	}
	defer func() {
		if r == nil {
			f.Close()
		}
	}()
	fail := func(err error) (*replay, error) { return nil, fmt.Errorf("read %s: %w", s.Replay.File, err) }
	var header []byte
	if s.Replay.Format == "csv" {
		if header, err = bufio.NewReader(io.NewSectionReader(f, 0, from)).ReadBytes('\n'); err != nil {
			return fail(err)
		}
	}
	before := 0 // lines
	if from <= countable {
		if before, err = countLines(io.NewSectionReader(f, 0, from-1)); err != nil {
			return fail(err)
		}
	}
	in := bufio.NewReader(io.NewSectionReader(f, from-1, math.MaxInt64-from))
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); { // the line before
		_, err = in.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fail(err)
	}
	if r, err = newReplay(tailFile{io.MultiReader(bytes.NewReader(header), in), f}, s, clock, new(Counters),
		slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	if before++; header != nil {
		before--
	}
	r.rows = uint64(before)
	r.records.shift(before)
	return r, nil
}

type tailFile struct {
	io.Reader
	io.Closer
}

// countLines counts the line ends of r.
func countLines(r io.Reader) (n int, err error) {
	b := make([]byte, 1<<16)
	for {
		k, err := r.Read(b)
		n += bytes.Count(b[:k], []byte("\n"))
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
