// Package modbus reads holding and input registers, coils and discrete inputs of
// Modbus devices over TCP, over a serial line (RTU), and over TCP gateways that
// pass serial frames through. It only reads; there is no code that writes.
//
// All points of an input are read in one poll, neighbouring registers in one
// request. Inputs with the same address take turns on one connection (Lines). The client is our
// own: it is two framings of a few lines each, knows
// deadlines, and leaves retries to the input's back-off.
package modbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/backoff"
)

// Input is one unit.
type Input struct {
	cfg     config.Input
	worker  *input.Worker
	log     *slog.Logger
	count   *input.Counters
	lines   *Lines
	url     *url.URL
	framing framing
	points  []*point

	input.Background
	line   *line
	blocks []block
	heard  bool // something was answered in this turn
}

// point is one quantity.
type point struct {
	function byte
	address  int
	words    int // registers; 1 for a bit
	register input.Register
	cell     *input.Cell
}

// New makes an input that shares the connection of others with its address.
func (l *Lines) New(in config.Input, env input.Env) (*Input, error) {
	if in.Modbus == nil || in.Modbus.Unit == nil {
		return nil, fmt.Errorf("%w: input %s is no Modbus unit", input.ErrNoSensor, in.Name)
	}
	u, err := url.Parse(in.Modbus.URL)
	if err != nil {
		return nil, fmt.Errorf("input %s: %w", in.Name, err)
	}
	m := &Input{cfg: in, worker: input.NewWorker(in, env), log: env.Logger().With("input", in.Name),
		count: env.Counters(), lines: l, url: u}
	switch u.Scheme {
	case "tcp":
		m.framing = new(mbap)
	case "rtu", "rtu+tcp":
		// 11 bits a character, section 2.5.1 of the serial line guide.
		m.framing = rtu{gap: max(38500*time.Millisecond/time.Duration(max(in.Modbus.Baud, 1)), 1750*time.Microsecond)}
	default:
		return nil, fmt.Errorf("input %s: unknown scheme %q", in.Name, u.Scheme)
	}
	return m, nil
}

// Sensor adds a point.
func (m *Input) Sensor(src config.Source) (input.Sensor, error) {
	p := &point{words: 1, cell: input.NewCell(m.cfg.MaxAge)}
	p.function = map[string]byte{"coil": readCoils, "discrete": readDiscrete, "holding": readHolding,
		"input": readInput}[src.Table]
	if p.function == 0 || src.Register == nil {
		return nil, fmt.Errorf("%w: a Modbus source without table and register", input.ErrNoSensor)
	}
	p.address = *src.Register
	if p.function >= readHolding {
		var err error
		if p.register, err = input.NewRegister(src); err != nil {
			return nil, err
		}
		p.words = p.register.Size() / 2
	}
	if p.words < 1 || p.address < 0 || p.address+p.words > 1<<16 {
		return nil, fmt.Errorf("%w: %s at register %d", input.ErrNoSensor, src.Data, p.address)
	}
	m.points = append(m.points, p)
	return input.Started{Sensor: p.cell, Begin: func() { m.Start(m.run) }, Trouble: m.worker.Trouble}, nil
}

func (m *Input) run(ctx context.Context) {
	m.blocks = m.patient(join(m.points, true))
	m.line = m.lines.join(m.url, m.cfg.Modbus.Line)
	defer m.lines.part(m.line)
	m.worker.Poll(ctx, m.cfg.Every, noTimeout, m.turn)
}

// noTimeout is for Poll: the timeout begins with the turn, since other units may
// have the line.
const noTimeout = 24 * time.Hour

// turn polls when the line is free.
func (m *Input) turn(ctx context.Context) error {
	if err := m.line.take(ctx); err != nil {
		return err
	}
	defer m.line.give()
	once, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	m.heard = false
	for next := 0; ; {
		var err error
		if next, err = m.poll(ctx, once, next); !errors.Is(err, errLapsed) {
			return err
		}
	}
}

// block is a run of registers that one request reads.
type block struct {
	request
	points []*point

	// What the device refuses is asked for again after a while.
	backoff backoff.Waits
	until   time.Time
}

// patient gives blocks their back-off.
func (m *Input) patient(blocks []block) []block {
	for i := range blocks {
		blocks[i].backoff = backoff.Waits{First: m.cfg.Retry, Most: m.cfg.RetryMax}
	}
	return blocks
}

// join sorts the points and makes requests of those that overlap or, where touching
// counts, touch. Registers between points are not read: some devices refuse them.
func join(points []*point, touching bool) []block {
	points = slices.SortedFunc(slices.Values(points), func(a, b *point) int {
		return cmp.Or(cmp.Compare(a.function, b.function), cmp.Compare(a.address, b.address))
	})
	var out []block
	for _, p := range points {
		most := maxRegisters
		if p.function < readHolding {
			most = maxBits
		}
		if n := len(out); n > 0 {
			last := &out[n-1]
			end := int(last.address) + int(last.count)
			whole := max(end, p.address+p.words) - int(last.address)
			if last.function == p.function && (p.address < end || touching && p.address == end) && whole <= most {
				last.count = uint16(whole)
				last.points = append(last.points, p)
				continue
			}
		}
		out = append(out, block{request: request{p.function, uint16(p.address), uint16(p.words)}, points: []*point{p}})
	}
	return out
}

// halves divides a block between registers that touch and do not overlap, nil where
// there are none.
func (b block) halves() []block {
	parts := join(b.points, false)
	if len(parts) < 2 {
		return nil
	}
	at := 0
	for _, p := range parts[:len(parts)/2] {
		at += len(p.points)
	}
	return append(join(b.points[:at], true), join(b.points[at:], true)...)
}

// poll reads every block from one on that is due. A refusal concerns its block only,
// which is divided where the device may refuse a part of it or to give the parts
// together. Any other failure ends the poll, and the connection unless a gateway says
// that the unit does not answer; it is one of the unit only where nothing was answered in
// this turn, since some units are silent about what they do not have. The next poll goes
// on with the block behind, after the first one, whose answer says that the unit is there.
// With errLapsed next is the block to go on with. once is ctx with the timeout.
func (m *Input) poll(ctx, once context.Context, from int) (next int, err error) {
	l, err := m.line.connected(once)
	if err != nil {
		return 0, err
	}
	// A stop must not wait for the device. (Its deadline is the timeout's.)
	defer context.AfterFunc(ctx, func() { _ = l.SetDeadline(past) })()
	for i := from; i < len(m.blocks); i++ {
		b := &m.blocks[i]
		if time.Now().Before(b.until) {
			continue
		}
		pdu, err := m.framing.exchange(l, byte(*m.cfg.Modbus.Unit), b.request)
		var data []byte
		if err == nil {
			data, err = b.answer(pdu)
		}
		switch {
		case errors.Is(err, errGateway):
			m.line.answered()
			return 0, err
		case errors.Is(err, ErrException):
			m.line.answered()
			m.heard = true
			if parts := m.patient(b.halves()); errors.Is(err, errSpan) && parts != nil {
				m.log.Info("the device refuses to return these registers together; reading them in two requests",
					"address", b.address, "count", b.count, "error", err)
				m.blocks = slices.Replace(m.blocks, i, i+1, parts...)
				i--
				continue
			}
			m.refused(b, err)
		case err != nil:
			if m.line.failed(err) {
				return i, errLapsed
			}
			if errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, ErrFrame) {
				err = fmt.Errorf("unit %d does not answer within %s: %w", *m.cfg.Modbus.Unit, m.cfg.Timeout, err)
			}
			stay := 0
			if m.heard && ctx.Err() == nil {
				m.unanswered(b, err)
				stay, err = min(1, i), nil
			}
			m.blocks = slices.Concat(m.blocks[:stay], m.blocks[i+1:], m.blocks[stay:i+1])
			return 0, err
		default:
			m.line.answered()
			m.heard = true
			b.accepted(m.log)
			m.take(*b, data)
		}
	}
	return 0, nil
}

// refused notes that the device refuses a block.
func (m *Input) refused(b *block, err error) {
	m.leave(b, "the device refuses some registers; the others are read", err)
	m.fail(b, err)
}

// unanswered notes that the device answers other requests and not that for a block. Once
// may be noise on the line: then the values stand as long as they may.
func (m *Input) unanswered(b *block, err error) {
	if m.leave(b, "the device does not answer for some registers; the others are read", err) > 1 {
		m.fail(b, fmt.Errorf("address %d, count %d: %w", b.address, b.count, err))
	}
}

// leave leaves a block alone for a while, and gives how often that was so in a row.
func (m *Input) leave(b *block, what string, err error) int {
	wait := b.backoff.Next()
	b.until = time.Now().Add(wait)
	if b.backoff.Failures() == 1 {
		m.log.Warn(what, "address", b.address, "count", b.count, "error", err, "in", wait.Round(time.Millisecond))
	}
	return b.backoff.Failures()
}

// fail makes the values of a block missing.
func (m *Input) fail(b *block, err error) {
	m.count.Bad.Add(uint64(len(b.points)))
	for _, p := range b.points {
		p.cell.Fail(fmt.Errorf("%w: %w", input.ErrReading, err))
	}
}

// accepted ends a row of refusals.
func (b *block) accepted(log *slog.Logger) {
	if b.backoff.Failures() > 0 {
		log.Info("the device returns the registers again", "address", b.address, "count", b.count)
		b.backoff.Good()
		b.until = time.Time{}
	}
}

// take hands the data of a block to its points.
func (m *Input) take(b block, data []byte) {
	for _, p := range b.points {
		at := p.address - int(b.address)
		var v float64
		var err error
		if p.function < readHolding {
			v = float64(data[at/8] >> (at % 8) & 1)
		} else {
			v, err = p.register.Decode(data[2*at : 2*(at+p.words)])
		}
		if err != nil {
			m.count.Bad.Add(1)
			p.cell.Fail(err)
			continue
		}
		m.count.Values.Add(1)
		p.cell.Set(v)
	}
}

var _ input.Input = (*Input)(nil)
