// Package modbus reads holding and input registers, coils and discrete inputs of
// Modbus devices over TCP, over a serial line (RTU), and over TCP gateways that
// pass serial frames through. It only reads; there is no code that writes.
//
// All points of an input are read in one poll, neighbouring registers in one
// request. The client is our own: it is two framings of a few lines each, knows
// deadlines, and leaves retries to the input's back-off.
package modbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/tty"
	"github.com/hencedge/hencedge/config"
)

// Input is one unit.
type Input struct {
	cfg     config.Input
	worker  *input.Worker
	count   *input.Counters
	url     *url.URL
	framing framing
	points  []*point

	input.Background
	link   link
	blocks []block
}

// point is one quantity.
type point struct {
	function byte
	address  int
	words    int // registers; 1 for a bit
	register input.Register
	cell     *input.Cell
}

// New makes the input; it does not connect.
func New(in config.Input, env input.Env) (*Input, error) {
	u, err := url.Parse(in.Modbus.URL)
	if err != nil {
		return nil, fmt.Errorf("input %s: %w", in.Name, err)
	}
	m := &Input{cfg: in, worker: input.NewWorker(in, env), count: env.Counters(), url: u}
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
	p.function = map[string]byte{"coil": readCoils, "discrete": readDiscrete, "holding": readHolding, "input": readInput}[src.Table]
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
	return input.Started{Sensor: p.cell, Begin: func() { m.Start(m.run) }}, nil
}

func (m *Input) run(ctx context.Context) {
	m.blocks = join(m.points)
	defer m.hangUp()
	m.worker.Poll(ctx, m.cfg.Every, m.cfg.Timeout, m.poll)
}

// block is a run of registers that one request reads.
type block struct {
	request
	points []*point
}

// join sorts the points and makes requests of those that touch or overlap.
// Registers between points are not read: some devices refuse them.
func join(points []*point) []block {
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
			end := max(int(last.address)+int(last.count), p.address+p.words)
			if last.function == p.function && p.address <= int(last.address)+int(last.count) && end-int(last.address) <= most {
				last.count = uint16(end - int(last.address))
				last.points = append(last.points, p)
				continue
			}
		}
		out = append(out, block{request{p.function, uint16(p.address), uint16(p.words)}, []*point{p}})
	}
	return out
}

// poll reads every block. A refusal concerns its block only; any other failure
// ends the connection.
func (m *Input) poll(ctx context.Context) error {
	if m.link == nil {
		l, err := m.dial(ctx)
		if err != nil {
			return err
		}
		m.link = l
	}
	l := m.link
	if deadline, ok := ctx.Deadline(); ok {
		if err := l.SetDeadline(deadline); err != nil {
			m.hangUp()
			return err
		}
	}
	// A stop must not wait for the device.
	stop := context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var refused error
	for _, b := range m.blocks {
		pdu, err := m.framing.exchange(l, byte(*m.cfg.Modbus.Unit), b.request)
		var data []byte
		if err == nil {
			data, err = b.answer(pdu)
		}
		if errors.Is(err, ErrException) {
			refused = err
			m.count.Bad.Add(uint64(len(b.points)))
			for _, p := range b.points {
				p.cell.Fail(fmt.Errorf("%w: %w", input.ErrReading, err))
			}
			continue
		}
		if err != nil {
			m.hangUp() // what is still on the way must not be taken for the next answer
			return err
		}
		m.take(b, data)
	}
	return refused
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

// dial opens the connection.
func (m *Input) dial(ctx context.Context) (link, error) {
	if m.url.Scheme == "rtu" {
		return tty.Open(m.url.Path, m.cfg.Modbus.Line)
	}
	host := m.url.Host
	if m.url.Port() == "" {
		host = net.JoinHostPort(m.url.Hostname(), "502")
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", host)
}

func (m *Input) hangUp() {
	if m.link != nil {
		_ = m.link.Close()
		m.link = nil
	}
}

var _ input.Input = (*Input)(nil)
