package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
)

// Source gives the samples of a stream. Next, Resume and Close are called by one
// goroutine; the other methods are safe for concurrent use.
type Source interface {
	// Next blocks until a sample is due. It fails with the context's error, with io.EOF at
	// the end, or for good.
	Next(ctx context.Context) (Row, error)
	// Cursor returns what the next start needs to go on after a position. It is nil where
	// nothing can be read again.
	Cursor(at Position) []byte
	// Resume goes on after the position of a cursor that an earlier start kept.
	Resume(cursor []byte) error
	// Gap returns how long there were no samples between the last window of an earlier
	// start and the first sample of this one. It is 0 where none are missing.
	Gap(last, first time.Time) time.Duration
	// Trouble says why no sample can come, and since when. It is nil when one can.
	Trouble() (since time.Time, why error)
	// Periodic reports whether a sample is due at every interval.
	Periodic() bool
	// Close lets go of what the source has open.
	Close() error
}

// Row is one sample of every channel of a stream.
type Row struct {
	At     time.Time
	Values []float64 // in the channels' units; NaN where missing

	errs     []error  // why a value is missing; may be nil
	position Position // in a replay, after this row; zero for sensors
	lost     int64    // ticks before this one at which no sample was taken
	// tick says that this is no sample, only the time: windows that have ended may go.
	tick bool
	// stepped says that the wall clock has moved against the monotonic one
	// since the last row: it was set, or the machine slept.
	stepped bool
}

// newRow returns a row in which every value is missing.
func newRow(at time.Time, channels int) Row {
	r := Row{At: at, Values: make([]float64, channels), errs: make([]error, channels)}
	for i := range r.Values {
		r.Values[i] = math.NaN()
	}
	return r
}

func (r *Row) miss(i int, err error) { r.Values[i], r.errs[i] = math.NaN(), err }

// set converts a reading to the channel's unit.
func (r *Row) set(i int, src config.Source, reading float64) {
	scale := src.Scale
	if scale == 0 {
		scale = 1
	}
	v := reading*scale + src.Offset
	if math.IsNaN(v) || math.IsInf(v, 0) {
		r.miss(i, fmt.Errorf("%w: the value is not finite", sensor.ErrReading))
		return
	}
	r.Values[i], r.errs[i] = v, nil
}

// IsEnd reports whether err is the regular end of a source.
func IsEnd(err error) bool { return errors.Is(err, io.EOF) }

// unrepeatable is the part of a Source whose samples cannot be taken again later.
type unrepeatable struct{ interval time.Duration }

// Cursor returns nil.
func (unrepeatable) Cursor(Position) []byte { return nil }

// Resume does nothing.
func (unrepeatable) Resume([]byte) error { return nil }

// Gap returns the time between the two where it is longer than samples are apart. A clock
// that was set back in between makes it unknown.
func (u unrepeatable) Gap(last, first time.Time) time.Duration {
	away := first.Sub(last)
	if last.IsZero() || away <= 2*u.interval {
		return 0
	}
	return away
}

// bucketOf returns the number of the interval of Unix time that t lies in.
func bucketOf(t time.Time, every time.Duration) int64 {
	ns, e := t.UnixNano(), int64(every)
	b := ns / e
	if ns%e < 0 {
		b--
	}
	return b
}
