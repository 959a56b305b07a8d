package modbus

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
)

// unit is an input on a shared line.
func unit(t *testing.T, lines *Lines, url string, unit int, timeout, retry time.Duration) *Input {
	t.Helper()
	in := config.Input{Name: "unit", Every: 10 * time.Millisecond, Timeout: timeout, MaxAge: time.Minute, Retry: retry,
		RetryMax: retry,
		Modbus: &config.Modbus{URL: url, Unit: &unit,
			Line: config.Line{Baud: 115200, DataBits: 8, Parity: "none", StopBits: 1}}}
	m, err := lines.New(in, input.Env{Log: slog.New(slog.DiscardHandler), Count: new(input.Counters)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// Units on one serial bus take turns; one that does not answer costs the others
// its timeout.
func TestSharedBus(t *testing.T) {
	units := map[byte]string{}
	for _, n := range []byte{7, 8} {
		p := &plant{unit: n}
		p.holding[0] = 1000 * uint16(n)
		units[n] = inputtest.ModbusServer(t, p)
	}
	device, path := inputtest.PTY(t)
	done := make(chan error, 1)
	go func() { done <- inputtest.ModbusBus(device, units) }()
	lines := new(Lines)
	url := "rtu://" + path
	a, b := unit(t, lines, url, 7, 20*time.Second, time.Millisecond),
		unit(t, lines, url, 8, 20*time.Second, time.Millisecond)
	dead := unit(t, lines, url, 9, 50*time.Millisecond, time.Millisecond)
	one, two, none := sensor(t, a, source("holding", 0, "uint16", "big")),
		sensor(t, b, source("holding", 0, "uint16", "big")), sensor(t, dead, source("holding", 0, "uint16", "big"))
	for range 3 {
		before := dead.count.Failures.Load()
		inputtest.Until(t, none, nil, func(_ float64, err error) bool {
			return errors.Is(err, input.ErrNoValue) && dead.count.Failures.Load() > before
		})
		values := a.count.Values.Load()
		inputtest.Until(t, one, nil, func(v float64, err error) bool {
			return err == nil && v == 7000 &&
				a.count.Values.Load() > values
		})
		values = b.count.Values.Load()
		inputtest.Until(t, two, nil, func(v float64, err error) bool {
			return err == nil && v == 8000 &&
				b.count.Values.Load() > values
		})
	}
	if n := a.count.Failures.Load() + b.count.Failures.Load(); n != 0 {
		t.Errorf("%d failures of units that answer", n)
	}
	for _, m := range []*Input{a, b, dead} {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(lines.lines) != 0 {
		t.Error("the line stays open")
	}
	device.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestSilentUnit(t *testing.T) {
	device, path := inputtest.PTY(t)
	defer device.Close()
	m := unit(t, new(Lines), "rtu://"+path, 3, 20*time.Millisecond, time.Hour)
	sensor(t, m, source("holding", 0, "uint16", "big"))
	m.blocks, m.line = join(m.points, true), m.lines.join(m.url, m.cfg.Modbus.Line)
	defer m.lines.part(m.line)
	for i := 1; i <= 2*mostMute; i++ { // the port is not closed each time
		if err := m.turn(t.Context()); !errors.Is(err, os.ErrDeadlineExceeded) ||
			!strings.Contains(err.Error(), "unit 3 does not answer within 20ms") {
			t.Errorf("got %v", err)
		}
		if open := m.line.link != nil; open != (i%mostMute != 0) {
			t.Errorf("after %d: open %v", i, open)
		}
	}
}

// An answer that comes after its time is not taken for the answer to the next
// request.
func TestLateAnswer(t *testing.T) {
	device, path := inputtest.PTY(t)
	m := unit(t, new(Lines), "rtu://"+path, 3, 50*time.Millisecond, time.Hour)
	s := sensor(t, m, source("holding", 0, "uint16", "big"))
	m.blocks, m.line = join(m.points, true), m.lines.join(m.url, m.cfg.Modbus.Line)
	defer m.lines.part(m.line)
	answer := func(value byte) {
		req := make([]byte, 8)
		if _, err := io.ReadFull(device, req); err != nil {
			t.Error(err)
		}
		b := []byte{3, readHolding, 2, 0, value}
		crc := crc16(b)
		if _, err := device.Write(append(b, byte(crc), byte(crc>>8))); err != nil {
			t.Error(err)
		}
	}
	if err := m.turn(t.Context()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	answer(1) // too late
	m.cfg.Timeout = 20 * time.Second
	done := make(chan struct{})
	go func() { defer close(done); answer(2) }()
	if err := m.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	if v, _, err := s.(input.Started).Sensor.Read(t.Context()); v != 2 || err != nil {
		t.Errorf("got %v, %v", v, err)
	}
}

// What a device refuses delays nothing else, and is not asked for at each poll.
func TestRefusalIsApart(t *testing.T) {
	p := &plant{refuse: 30}
	fill(p)
	m := unit(t, new(Lines), "tcp://"+inputtest.ModbusServer(t, p), 7, 20*time.Second, time.Hour)
	good, bad := sensor(t, m, source("holding", 0, "uint16", "big")),
		sensor(t, m, source("holding", 30, "uint16", "big"))
	inputtest.Until(t, bad, nil, func(_ float64, err error) bool { return errors.Is(err, ErrException) })
	for range 5 {
		n := m.count.Values.Load()
		inputtest.Until(t, good, nil,
			func(_ float64, err error) bool { return err == nil && m.count.Values.Load() > n })
	}
	if bad, failures := m.count.Bad.Load(), m.count.Failures.Load(); bad != 1 || failures != 0 {
		t.Errorf("%d refusals, %d failures", bad, failures)
	}
}

// A gateway that says that the unit does not answer is no refusal.
func TestGatewayTarget(t *testing.T) {
	r := request{readHolding, 0, 1}
	for code, gateway := range map[byte]bool{2: false, 6: false, 10: true, 11: true} {
		if _, err := r.answer([]byte{0x83, code}); !errors.Is(err, ErrException) ||
			errors.Is(err, errGateway) != gateway {
			t.Errorf("%d: %v", code, err)
		}
	}
}
