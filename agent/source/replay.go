package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
)

// replay reads rows from a file, with the timestamps of the file.
type replay struct {
	cfg     config.Replay
	file    io.Closer
	records recordReader
	track   *tracker // of what records reads
	head    span
	// dev and ino name the file, however it is called; 0: unknown.
	dev, ino uint64
	sources  []config.Source
	clock    role.Clock
	factor   float64 // 0: do not wait
	// order puts rows that come late into their place; nil: they must not.
	order *reorder
	ready []Row // in order, to be given next
	stamp timestamp

	counters *Counters
	log      *slog.Logger
	quiet    bool // rows are neither counted nor logged: they were, or will be
	told     bool // of a bad cell

	count   uint64 // records read; in order, rows given
	rows    uint64 // records read, for messages
	line    int    // of the last record
	spans   bool   // records do not follow each other line by line
	last    time.Time
	started bool
	first   time.Time
	at      time.Duration // monotonic time of the first row
	said    time.Duration // monotonic time of the last line in the log
	given   uint64        // rows since the start
	through bool          // the end was logged
}

// tellEvery is the time between two lines in the log of how far a replay is.
const tellEvery = time.Minute

// tell says how far the replay is, from time to time.
func (r *replay) tell(at time.Time) {
	now := r.clock.Mono()
	if r.given++; r.given == 1 {
		r.said = now
	}
	if now-r.said < tellEvery {
		return
	}
	r.said = now
	r.log.Info("the replay goes on", "file", r.cfg.File, "rows", r.given, "at", at.UTC().Format(time.RFC3339),
		"bytes", r.track.done, "of", r.size())
}

// OpenReplay opens a stream's replay file and finds its columns.
func OpenReplay(s config.Stream, clock role.Clock, counters *Counters, log *slog.Logger) (Source, error) {
	r, err := openReplay(s, clock, counters, log)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func openReplay(s config.Stream, clock role.Clock, counters *Counters, log *slog.Logger) (*replay, error) {
	// Not a pipe, which opening would wait for, nor a device: files are read again
	// after a restart.
	info, err := os.Stat(s.Replay.File)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", s.Replay.File)
	}
	if err != nil {
		return nil, fmt.Errorf("open replay file: %w", err)
	}
	f, err := os.Open(s.Replay.File)
	if err != nil {
		return nil, fmt.Errorf("open replay file: %w", err)
	}
	r, err := newReplay(f, s, clock, counters, log)
	if err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

// newReplay reads rows from in, which it closes.
func newReplay(in io.ReadCloser, s config.Stream, clock role.Clock, counters *Counters, log *slog.Logger) (*replay,
	error) {
	factor, err := s.Replay.ReplayFactor()
	if err != nil {
		return nil, err
	}
	r := &replay{cfg: *s.Replay, file: in, track: newTracker(in), clock: clock, factor: factor, counters: counters,
		log: log}
	r.dev, r.ino = fileID(in)
	if r.stamp, err = newTimestamp(*s.Replay); err != nil {
		return nil, err
	}
	if s.Lateness > 0 {
		r.order = &reorder{lateness: s.Lateness}
	}
	names := []string{}
	for _, ch := range s.Channels {
		r.sources = append(r.sources, *ch.Source)
		names = append(names, ch.Source.Column)
	}
	if s.Replay.Format == "csv" {
		r.records, err = newCSV(r.track, *s.Replay, names)
	} else {
		r.records = newNDJSON(r.track, *s.Replay, names)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// skip passes over the rows up to a position, which were given by an earlier process, and
// a line break of that many bytes that has been added to the last of them.
func (r *replay) skip(to Position, newline uint64) error {
	r.quiet = true
	defer func() { r.quiet, r.started = false, false }()
	for r.count < to.rows {
		if r.order != nil && len(r.ready) == 0 && r.track.done >= to.offset {
			r.ready = r.order.drain() // as the earlier process did at the end of the file
		}
		var err error
		if r.order != nil { // which row is which is known only in order
			_, err = r.sorted(context.Background(), false)
		} else if _, err = r.record(); errors.As(err, new(badCell)) && r.cfg.BadCells != config.BadFail {
			err = nil
		}
		if IsEnd(err) {
			break
		} else if err != nil {
			return err
		}
	}
	if extra := r.track.done - to.offset; r.count != to.rows || extra > newline {
		return fmt.Errorf("%w: row %d of %s ended at byte %d when it was replayed, but ends at byte %d now: the row "+
			"was read before it was complete, or the stream's lateness or format has changed; to replay the whole "+
			"file, give it another name",
			ErrReplay, to.rows, r.cfg.File, to.offset, r.track.done)
	}
	return nil
}

// record reads the next record of the file.
func (r *replay) record() (record, error) {
	rec, err := r.records.next()
	var bad badCell
	if err != nil && !errors.As(err, &bad) {
		return rec, err
	}
	r.rows++
	if err == nil {
		r.spans = r.spans || r.line > 0 && rec.line != r.line+1
		r.line = rec.line
	}
	if r.order == nil {
		r.count++
	}
	r.track.advance(r.records.offset())
	if r.head.length == 0 {
		r.head = r.track.span()
	}
	if err != nil {
		err = badCell{fmt.Errorf("%w (row %d)", err, r.rows)}
	}
	return rec, err
}

// place returns the position after the row that was given last.
func (r *replay) place() Position {
	s := r.track.span()
	return Position{r.count, s.length, s.sum}
}

// Gap returns 0: the file has the samples.
func (r *replay) Gap(time.Time, time.Time) time.Duration { return 0 }

// Trouble returns nil: a file that cannot be read ends the stream.
func (r *replay) Trouble() (time.Time, error) { return time.Time{}, nil }

// Periodic returns false: rows come as their times say.
func (r *replay) Periodic() bool { return false }

// Close closes the file.
func (r *replay) Close() error { return r.file.Close() }

// ended looks at a file that was read to its end: whether it was cut while it was read,
// and whether another one has its name by now.
func (r *replay) ended() error {
	size := r.size()
	if size < 0 {
		return nil
	}
	if read := r.track.done + uint64(len(r.track.ahead)); uint64(size) < read {
		return fmt.Errorf("%w: %s was cut to %d bytes while it was read, after %d; rows may be missing", ErrReplay,
			r.cfg.File, size, read)
	}
	var st unix.Stat_t
	if err := unix.Stat(r.cfg.File, &st); err != nil || uint64(st.Dev) != r.dev || st.Ino != r.ino {
		r.log.Warn("the replay file was replaced or removed while it was being read; the file that now has its name "+
			"is read at the next start", "file", r.cfg.File)
	}
	return nil
}

// size returns that of the open file, or -1.
func (r *replay) size() int64 {
	f, ok := r.file.(*os.File)
	if !ok {
		return -1
	}
	info, err := f.Stat()
	if err != nil {
		return -1
	}
	return info.Size()
}

// Next waits until the row's time has come, at the speed of the configuration.
// It is io.EOF after the last row.
func (r *replay) Next(ctx context.Context) (Row, error) {
	if r.order != nil {
		return r.sorted(ctx, true)
	}
	out, err := r.read(ctx, true)
	if err == nil {
		out.position = r.place()
	}
	return out, err
}

// sorted returns the next row in the order of time. Its cursor counts rows in that
// order, which is the same whenever the file is read from its beginning.
func (r *replay) sorted(ctx context.Context, wait bool) (Row, error) {
	for len(r.ready) == 0 {
		in, err := r.read(ctx, wait)
		switch {
		case IsEnd(err):
			if r.ready = r.order.drain(); len(r.ready) == 0 {
				return Row{}, err
			}
		case err != nil:
			return Row{}, err
		default:
			var late int
			r.ready, late = r.order.add(in)
			if !r.quiet {
				r.counters.late.Add(uint64(late))
			}
		}
	}
	out := r.ready[0]
	r.ready = r.ready[1:]
	r.count++
	out.position = r.place()
	return out, nil
}

// read returns the next row of the file, when its time has come or at once. Rows that the
// policy leaves out it passes over.
func (r *replay) read(ctx context.Context, wait bool) (Row, error) {
	out, err := r.sound(ctx)
	if err != nil {
		return Row{}, err
	}
	if !r.started {
		r.started, r.first, r.at = true, out.At, r.clock.Mono()
	} else if wait && r.factor > 0 {
		due := r.at + time.Duration(min(float64(out.At.Sub(r.first))/r.factor, math.MaxInt64/2))
		if err := r.clock.Sleep(ctx, due-r.clock.Mono()); err != nil {
			return Row{}, err
		}
	}
	if wait {
		r.tell(out.At)
	}
	return out, nil
}

// sound returns the next row of the file that is not left out.
func (r *replay) sound(ctx context.Context) (Row, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Row{}, err
		}
		rec, err := r.record()
		if IsEnd(err) {
			if !r.quiet && !r.through {
				r.through = true
				r.log.Info("the replay is through", "file", r.cfg.File, "rows", r.given)
			}
			return Row{}, cmp.Or(r.ended(), err)
		}
		var out Row
		if err == nil {
			out, err = r.row(rec)
		}
		var bad badCell
		if err == nil || !errors.As(err, &bad) || r.cfg.BadCells == config.BadFail {
			return out, err
		}
		r.pass(err, true)
	}
}

// pass counts a cell that is not what it should be, and that the policy lets pass. left
// says that its row is left out.
func (r *replay) pass(err error, left bool) {
	switch {
	case r.quiet:
		return
	case left:
		r.counters.badRows.Add(1)
	default:
		r.counters.badCells.Add(1)
	}
	if !r.told {
		r.told = true
		r.log.Warn("the replay file has a bad cell; later ones are counted but not logged", "policy", r.cfg.BadCells,
			"error", err)
	}
}

// cellError says which row and cell is at fault; column is an index into the channels or
// timeColumn.
func (r *replay) cellError(rec record, column int, format string, args ...any) error {
	name := r.cfg.Time
	if column != timeColumn {
		name = r.sources[column].Column
	}
	if cell := r.records.cell(rec.line, column); cell != "" {
		name += " (cell " + cell + ")"
	}
	return badCell{replayError(r.cfg.File, rec.line, "row %d, %s: %s", r.rows, name, fmt.Sprintf(format, args...))}
}

const passBad = "; bad_cells: skip or missing lets such rows pass"

func (r *replay) row(rec record) (Row, error) {
	t, err := r.stamp.parse(rec.time, r.last, r.order == nil && r.started)
	if err != nil {
		return Row{}, r.cellError(rec, timeColumn, "%v", err)
	}
	if r.started && t.Before(r.last) && r.order == nil {
		return Row{}, replayError(r.cfg.File, rec.line,
			"row %d: the time %s is before that of the previous sample, %s; sort the file by time, or set lateness",
			r.rows, t.Format(time.RFC3339Nano), r.last.Format(time.RFC3339Nano))
	}
	out := newRow(t, len(r.sources))
	for i, text := range rec.values {
		text = trimCell(text)
		if text == "" || strings.EqualFold(text, "nan") || text == "null" {
			out.miss(i, errEmptyCell)
			continue
		}
		v, err := r.number(text)
		if err != nil {
			err = r.cellError(rec, i, "%v", err)
			if r.cfg.BadCells != config.BadMissing {
				return Row{}, err
			}
			r.pass(err, false)
			out.miss(i, errBadCell)
			continue
		}
		out.set(i, r.sources[i], v)
	}
	r.last = t
	return out, nil
}

// number reads a cell.
func (r *replay) number(text string) (float64, error) {
	plain := text
	if r.cfg.Decimal == "," {
		if strings.Contains(text, ".") {
			return 0, fmt.Errorf("text of the form %q is not a number with a decimal comma", input.Shape(text))
		}
		plain = strings.Replace(text, ",", ".", 1)
	}
	v, err := strconv.ParseFloat(plain, 64)
	if err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) {
		return v, nil
	}
	hint := ""
	if r.cfg.BadCells == config.BadFail {
		hint = passBad
	}
	if _, err := strconv.ParseFloat(strings.Replace(text, ",", ".", 1), 64); err == nil && r.cfg.Decimal == "." {
		hint = `; for a decimal comma set decimal: ","`
	}
	return 0, fmt.Errorf("text of the form %q is not a finite number%s", input.Shape(text), hint)
}

var errBadCell = fmt.Errorf("%w: the file has no number there", sensor.ErrReading)

var errEmptyCell = fmt.Errorf("%w: no value in the file", sensor.ErrReading)
