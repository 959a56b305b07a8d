// Package serial takes values from lines of text that a serial port sends:
// columns, JSON, patterns, or NMEA 0183 sentences. It sends nothing but requests, where the
// configuration has one.
package serial

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/tty"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
)

// maxLine bounds a line, in bytes; longer ones are left out.
const maxLine = 4096

// Input is one port.
type Input struct {
	cfg       config.Input
	worker    *input.Worker
	count     *input.Counters
	texts     *input.Texts // json and text
	columns   []column
	sentences []field
	taps      []func(line string)
	heard     atomic.Bool // a line was received
	unfit     atomic.Pointer[error]

	input.Background
}

// column is a quantity of a csv line.
type column struct {
	index int // from 0
	cell  *input.Cell
}

// field is a quantity of an NMEA sentence.
type field struct {
	kind, name string
	cell       *input.Cell
}

// New makes the input; it opens no port.
func New(in config.Input, env input.Env) (*Input, error) {
	if in.Serial == nil {
		return nil, fmt.Errorf("%w: input %s is no serial port", input.ErrNoSensor, in.Name)
	}
	count := env.Counters()
	return &Input{cfg: in, worker: input.NewWorker(in, env), count: count, texts: input.NewTexts(count)}, nil
}

// Sensor adds a quantity.
func (s *Input) Sensor(src config.Source) (input.Sensor, error) {
	cell := input.NewCell(s.cfg.MaxAge)
	switch s.cfg.Serial.Format {
	case "csv":
		n, err := strconv.Atoi(src.Column)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%w: column %q", input.ErrNoSensor, src.Column)
		}
		s.columns = append(s.columns, column{n - 1, cell})
	case "nmea":
		if err := checkNMEA(src); err != nil {
			return nil, err
		}
		s.sentences = append(s.sentences, field{src.Sentence, src.Field, cell})
	default:
		var err error
		if cell, err = s.texts.Add(src, s.cfg); err != nil {
			return nil, err
		}
	}
	return input.Started{Sensor: cell, Begin: func() { s.Start(s.run) }, Trouble: s.trouble}, nil
}

// trouble says what is wrong with the port, or with what it sends: a wrong rate
// shows as lines that are none.
func (s *Input) trouble() error {
	if err := s.worker.Trouble(); err != nil {
		return err
	}
	if err := s.unfit.Load(); err != nil {
		return *err
	}
	if !s.heard.Load() {
		return errSilent
	}
	return nil
}

// Trouble says why the port gives no lines. That it is silent is none: who sends
// messages may have nothing to say.
func (s *Input) Trouble() error { return s.worker.Trouble() }

var errSilent = errors.New("the port has sent no line")

// Messages calls f with every line.
func (s *Input) Messages(_ string, f func(text string)) (begin func(), err error) {
	s.taps = append(s.taps, f)
	return func() { s.Start(s.run) }, nil
}

func (s *Input) run(ctx context.Context) { s.worker.Receive(ctx, s.receive) }

// receive takes lines until the port fails or ctx ends.
func (s *Input) receive(ctx context.Context) error {
	port, err := tty.Open(s.cfg.Serial.Device, s.cfg.Serial.Line)
	if err != nil {
		return err
	}
	defer port.Close()
	stop := context.AfterFunc(ctx, func() { _ = port.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if s.cfg.Serial.Request != "" {
		ctx, cancel := context.WithCancel(ctx)
		var asking sync.WaitGroup
		asking.Go(func() { s.ask(ctx, port) })
		defer asking.Wait()
		defer cancel()
	}
	err = lines(port, s.cfg.Serial.Request != "", func(line string) {
		s.worker.Working()
		s.heard.Store(true)
		s.take(line)
	})
	return fmt.Errorf("read %s: %w", s.cfg.Serial.Device, err)
}

// ask sends the request again and again. A port that does not take it is given up.
func (s *Input) ask(ctx context.Context, port *os.File) {
	for {
		_ = port.SetWriteDeadline(time.Now().Add(max(s.cfg.Every, time.Second)))
		if ctx.Err() != nil {
			return
		}
		if _, err := port.WriteString(s.cfg.Serial.Request); err != nil {
			s.worker.Log().Debug("the port does not take the request", "error", err)
			_ = port.SetReadDeadline(time.Unix(1, 0))
			return
		}
		if role.Sleep(ctx, s.cfg.Every) != nil {
			return
		}
	}
}

// lines calls f with every complete line, without its end: LF, CR or both. What
// comes before the first line end may be the rest of a line that began before the
// port was opened; it is left out unless whole says that nothing comes unasked. So
// are lines of more than maxLine bytes and empty ones. It returns why reading ended.
func lines(r io.Reader, whole bool, f func(line string)) error {
	in, line, skip := bufio.NewReaderSize(r, maxLine), make([]byte, 0, maxLine), !whole
	for {
		c, err := in.ReadByte()
		switch {
		case err != nil:
			return err
		case c != '\n' && c != '\r':
			if len(line) < maxLine {
				line = append(line, c)
			} else {
				skip = true
			}
			continue
		case !skip && len(line) > 0:
			f(string(line))
		}
		line, skip = line[:0], false
	}
}

// take takes every quantity out of a line.
func (s *Input) take(line string) {
	for _, f := range s.taps {
		f(line)
	}
	switch s.cfg.Serial.Format {
	case "csv":
		cells := strings.Split(line, s.delimiter())
		for _, c := range s.columns {
			if c.index >= len(cells) {
				s.texts.Put(c.cell, 0, fmt.Errorf("%w: the line has %d columns", input.ErrReading, len(cells)))
				continue
			}
			v, err := input.ParseNumber(strings.Trim(cells[c.index], " \""))
			s.texts.Put(c.cell, v, err)
		}
	case "nmea":
		n, err := parseNMEA(line)
		if err != nil {
			s.count.Bad.Add(1) // it is not known whose value was lost
			s.unfit.Store(&err)
			return
		}
		s.unfit.Store(nil)
		for _, f := range s.sentences {
			if f.kind == n.kind {
				v, err := n.number(f.name)
				s.texts.Put(f.cell, v, err)
			}
		}
	case "text":
		s.texts.TakeMatching(line) // ports send lines of several kinds
	default:
		s.texts.Take(line)
	}
}

func (s *Input) delimiter() string {
	if s.cfg.Serial.Delimiter == "tab" {
		return "\t"
	}
	return s.cfg.Serial.Delimiter
}

var _ input.Messenger = (*Input)(nil)
