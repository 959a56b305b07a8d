package modbus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	server "github.com/simonvetter/modbus"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
)

// plant is the data of a Modbus server of another library.
type plant struct {
	holding  [64]uint16
	analog   [64]uint16
	coils    [32]bool
	discrete [32]bool
	unit     uint8
	reads    atomic.Int64
	refuse   uint16 // an address that does not exist
}

func within[T any](p *plant, unit uint8, table []T, addr, n uint16) ([]T, error) {
	p.reads.Add(1)
	if unit != p.unit {
		return nil, server.ErrIllegalFunction
	}
	end := int(addr) + int(n)
	if end > len(table) || p.refuse != 0 && int(p.refuse) >= int(addr) && int(p.refuse) < end {
		return nil, server.ErrIllegalDataAddress
	}
	return table[addr:end], nil
}

func (p *plant) HandleCoils(r *server.CoilsRequest) ([]bool, error) {
	return within(p, r.UnitId, p.coils[:], r.Addr, r.Quantity)
}
func (p *plant) HandleDiscreteInputs(r *server.DiscreteInputsRequest) ([]bool, error) {
	return within(p, r.UnitId, p.discrete[:], r.Addr, r.Quantity)
}
func (p *plant) HandleHoldingRegisters(r *server.HoldingRegistersRequest) ([]uint16, error) {
	return within(p, r.UnitId, p.holding[:], r.Addr, r.Quantity)
}
func (p *plant) HandleInputRegisters(r *server.InputRegistersRequest) ([]uint16, error) {
	return within(p, r.UnitId, p.analog[:], r.Addr, r.Quantity)
}

func open(t *testing.T, url string) *Input {
	t.Helper()
	in := config.Input{Name: "plc", Every: 10 * time.Millisecond, Timeout: 5 * time.Second, MaxAge: time.Minute,
		Retry: 10 * time.Millisecond, RetryMax: 20 * time.Millisecond,
		Modbus: &config.Modbus{URL: url, Unit: new(7),
			Line: config.Line{Baud: 115200, DataBits: 8, Parity: "none", StopBits: 1}}}
	m, err := new(Lines).New(in, input.Env{Log: slog.New(slog.DiscardHandler), Count: new(input.Counters)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func source(table string, register int, data, order string) config.Source {
	return config.Source{Type: config.SourceModbus,
		Point: config.Point{Table: table, Register: &register, Data: data, Order: order}}
}

func sensor(t *testing.T, m *Input, src config.Source) input.Sensor {
	t.Helper()
	s, err := m.Sensor(src)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func equals(want float64) func(float64, error) bool {
	return func(v float64, err error) bool { return err == nil && v == want }
}

// fill puts known values into every table. The registers are written here by
// hand, in the byte orders that devices use.
func fill(p *plant) {
	p.unit = 7
	p.holding[0], p.holding[1] = 0x1234, 0xfffe
	f := math.Float32bits(-273.15)
	p.holding[2], p.holding[3] = uint16(f>>16), uint16(f) // high word first
	p.holding[4], p.holding[5] = uint16(f), uint16(f>>16) // low word first
	d := math.Float64bits(math.Pi)
	for i := range 4 {
		p.holding[10+i] = uint16(d >> (48 - 16*i))
	}
	p.analog[20] = 0b1010_1100_0000_0101
	p.coils[3], p.discrete[9] = true, true
}

type point1 struct {
	src  config.Source
	want float64
}

func points() []point1 {
	bits := source("input", 20, "int16", "big")
	bits.Start, bits.Length = new(10), new(4) // 1011: -5
	return []point1{
		{source("holding", 0, "uint16", "big"), 0x1234},
		{source("holding", 1, "int16", "big"), -2},
		{source("holding", 0, "uint16", "byte_swap"), 0x3412},
		{source("holding", 2, "float32", "big"), float64(float32(-273.15))},
		{source("holding", 4, "float32", "word_swap"), float64(float32(-273.15))},
		{source("holding", 10, "float64", "big"), math.Pi},
		{source("input", 20, "uint16", "big"), 0b1010_1100_0000_0101},
		{bits, -5},
		{source("coil", 3, "", ""), 1},
		{source("coil", 2, "", ""), 0},
		{source("discrete", 9, "", ""), 1},
	}
}

func check(t *testing.T, url string) {
	t.Helper()
	m := open(t, url)
	var list []input.Sensor
	for _, p := range points() {
		list = append(list, sensor(t, m, p.src))
	}
	for i, p := range points() {
		inputtest.Until(t, list[i], nil, func(v float64, err error) bool {
			if err == nil && v != p.want {
				t.Fatalf("point %d: got %v, want %v", i, v, p.want)
			}
			return err == nil
		})
	}
}

func TestTCP(t *testing.T) {
	p := &plant{}
	fill(p)
	check(t, "tcp://"+inputtest.ModbusServer(t, p))
}

// gateway passes serial frames to a Modbus TCP server, checking them as a
// device would.
func gateway(serial io.ReadWriter, tcp string) error {
	c, err := net.Dial("tcp", tcp)
	if err != nil {
		return err
	}
	defer c.Close()
	for n := uint16(1); ; n++ {
		req := make([]byte, 8)
		if _, err := io.ReadFull(serial, req); err != nil {
			return nil // the other side is gone
		}
		// The checksum of the whole frame with its CRC appended is 0.
		if crc16(req) != 0 {
			return fmt.Errorf("request % x has a wrong checksum", req)
		}
		head := binary.BigEndian.AppendUint16(nil, n)
		head = append(head, 0, 0, 0, 6)
		if _, err := c.Write(append(head, req[:6]...)); err != nil {
			return err
		}
		head = make([]byte, 6)
		if _, err := io.ReadFull(c, head); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint16(head[4:]))
		if _, err := io.ReadFull(c, body); err != nil {
			return err
		}
		crc := crc16(body)
		if _, err := serial.Write(append(body, byte(crc), byte(crc>>8))); err != nil {
			return nil
		}
	}
}

func TestRTU(t *testing.T) {
	p := &plant{}
	fill(p)
	addr := inputtest.ModbusServer(t, p)
	device, path := inputtest.PTY(t)
	done := make(chan error, 1)
	go func() { done <- gateway(device, addr) }()
	check(t, "rtu://"+path)
	device.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestRTUOverTCP(t *testing.T) {
	p := &plant{}
	fill(p)
	addr := inputtest.ModbusServer(t, p)
	check(t, "rtu+tcp://"+listen(t, func(c net.Conn) { _ = gateway(c, addr) }))
}

// listen is the address of a server whose connections serve has until it returns.
func listen(t *testing.T, serve func(c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); serve(c) }()
		}
	}()
	return l.Addr().String()
}

// A register that the device refuses is missing; the others go on.
func TestException(t *testing.T) {
	p := &plant{refuse: 30}
	fill(p)
	m := open(t, "tcp://"+inputtest.ModbusServer(t, p))
	good, bad := sensor(t, m, source("holding", 0, "uint16", "big")),
		sensor(t, m, source("holding", 30, "uint16", "big"))
	inputtest.Until(t, good, nil, equals(0x1234))
	inputtest.Until(t, bad, nil, func(v float64, err error) bool {
		return errors.Is(err, ErrException) && errors.Is(err, input.ErrReading) &&
			strings.Contains(err.Error(), "illegal data address")
	})
	inputtest.Until(t, good, nil, equals(0x1234))
}

// The input comes back by itself when the device does.
func TestReconnect(t *testing.T) {
	p := &plant{}
	fill(p)
	addr := inputtest.ModbusServer(t, p)
	var calls atomic.Int64
	proxy := listen(t, func(c net.Conn) { // it cuts the first connections in the middle of a frame
		if calls.Add(1) <= 3 {
			_, _ = io.ReadFull(c, make([]byte, 4))
			return
		}
		d, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		defer d.Close()
		go func() { _, _ = io.Copy(d, c); d.Close() }()
		_, _ = io.Copy(c, d)
	})
	m := open(t, "tcp://"+proxy)
	inputtest.Until(t, sensor(t, m, source("holding", 0, "uint16", "big")), nil, equals(0x1234))
	if m.count.Failures.Load() != 3 {
		t.Errorf("%d failures", m.count.Failures.Load())
	}
}

// A device may hang up between two requests, as many do with connections that are idle
// for some seconds: that is no failure, and no reading is lost.
func TestIdleConnection(t *testing.T) {
	p := &plant{}
	fill(p)
	addr := inputtest.ModbusServer(t, p)
	m := open(t, "tcp://"+listen(t, func(c net.Conn) { _ = oneAnswer(c, addr) }))
	one, two := sensor(t, m, source("holding", 0, "uint16", "big")), sensor(t, m, source("input", 20, "uint16", "big"))
	for range 5 {
		n := m.count.Values.Load() + 2
		more := func(want float64) func(float64, error) bool {
			return func(v float64, err error) bool { return err == nil && v == want && m.count.Values.Load() > n }
		}
		inputtest.Until(t, one, nil, more(0x1234))
		inputtest.Until(t, two, nil, more(0b1010_1100_0000_0101))
	}
	if n := m.count.Failures.Load(); n != 0 {
		t.Errorf("%d failures", n)
	}
}

// answers passes on the requests whose first register choose wants answered, and hangs up
// where it does not stay.
func answers(c net.Conn, addr string, choose func(at uint16) (answer, stay bool)) {
	for req := make([]byte, 12); ; {
		if _, err := io.ReadFull(c, req); err != nil {
			return
		}
		answer, stay := choose(binary.BigEndian.Uint16(req[8:]))
		if answer && oneAnswer(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(req), c}, addr) != nil || !stay {
			return
		}
	}
}

// oneAnswer passes one request on, and its answer back.
func oneAnswer(c io.ReadWriter, addr string) error {
	d, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer d.Close()
	if _, err := io.CopyN(d, c, 12); err != nil {
		return err
	}
	head := make([]byte, 6)
	if _, err := io.ReadFull(d, head); err != nil {
		return err
	}
	if _, err := c.Write(head); err != nil {
		return err
	}
	_, err = io.CopyN(c, d, int64(binary.BigEndian.Uint16(head[4:])))
	return err
}

// A device that answers nothing is not asked again and again within a poll.
func TestHangsUpAlways(t *testing.T) {
	var calls atomic.Int64
	m := open(t, "tcp://"+listen(t, func(c net.Conn) {
		calls.Add(1)
		_, _ = io.ReadFull(c, make([]byte, 12))
	}))
	sensor(t, m, source("holding", 0, "uint16", "big"))
	m.blocks, m.line = join(m.points, true), m.lines.join(m.url, m.cfg.Modbus.Line)
	defer m.lines.part(m.line)
	for n := range int64(3) {
		if err := m.turn(t.Context()); err == nil || calls.Load() != n+1 {
			t.Fatalf("%d connections for %d polls, %v", calls.Load(), n+1, err)
		}
	}
}

// Registers that touch are read in one request. Where the device refuses that, what it
// gives is found, and only what it refuses alone is missing.
func TestRefusedNeighbour(t *testing.T) {
	for refused := range uint16(10) {
		p := &plant{unit: 7, refuse: 20 + refused}
		m := unit(t, new(Lines), "tcp://"+inputtest.ModbusServer(t, p), 7, 20*time.Second, time.Hour)
		var list []input.Sensor
		for i := range 10 {
			p.holding[20+i] = uint16(100 + i)
			list = append(list, sensor(t, m, source("holding", 20+i, "uint16", "big")))
		}
		bits := source("holding", 23, "uint16", "big")
		bits.Start, bits.Length = new(0), new(1)
		list = append(list, sensor(t, m, bits), sensor(t, m, source("coil", 3, "", "")))
		for i, s := range list {
			inputtest.Until(t, s, nil, func(v float64, err error) bool {
				if i == int(refused) || i == 10 && refused == 3 {
					return errors.Is(err, ErrException)
				}
				return err == nil && (i >= 10 || v == float64(100+i))
			})
		}
		if n := m.count.Failures.Load(); n != 0 {
			t.Errorf("%d failures", n)
		}
	}
}

// A unit that is silent about registers that it does not have, which some are, gives the
// others, wherever in the order the silence is.
func TestSilentRegisters(t *testing.T) {
	for _, silent := range []uint16{0, 20, 40} {
		p := &plant{unit: 7}
		addr := inputtest.ModbusServer(t, p)
		device := listen(t, func(c net.Conn) {
			answers(c, addr, func(at uint16) (answer, stay bool) { return at != silent, true })
		})
		in := config.Input{Name: "plc", Every: 10 * time.Millisecond, Timeout: 50 * time.Millisecond,
			MaxAge: time.Minute, Retry: time.Millisecond, RetryMax: 2 * time.Millisecond,
			Modbus: &config.Modbus{URL: "tcp://" + device, Unit: new(7)}}
		m, err := new(Lines).New(in, input.Env{Log: slog.New(slog.DiscardHandler), Count: new(input.Counters)})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		list := map[uint16]input.Sensor{}
		for _, at := range []uint16{0, 20, 40} {
			p.holding[at] = 100 + at
			list[at] = sensor(t, m, source("holding", int(at), "uint16", "big"))
		}
		for at, s := range list {
			inputtest.Until(t, s, nil, func(v float64, err error) bool {
				if at == silent {
					return errors.Is(err, input.ErrReading) &&
						strings.Contains(err.Error(),
							fmt.Sprintf("address %d, count 1: unit 7 does not answer within 50ms", at))
				}
				return err == nil && v == float64(100+at)
			})
		}
	}
}

// However many registers a unit is silent about, it is not taken for one that is away.
func TestMostlySilent(t *testing.T) {
	addr := inputtest.ModbusServer(t, &plant{unit: 7})
	device := listen(t, func(c net.Conn) { // it hangs up instead of being silent, which takes no time
		answers(c, addr, func(at uint16) (answer, stay bool) { return at == 0, at == 0 })
	})
	m := unit(t, new(Lines), "tcp://"+device, 7, 20*time.Second, time.Nanosecond)
	for _, at := range []int{0, 20, 40, 60} {
		sensor(t, m, source("holding", at, "uint16", "big"))
	}
	m.blocks, m.line = m.patient(join(m.points, true)), m.lines.join(m.url, m.cfg.Modbus.Line)
	defer m.lines.part(m.line)
	for n := range uint64(10) {
		if err := m.turn(t.Context()); err != nil || m.count.Values.Load() != n+1 {
			t.Fatalf("turn %d: %d values, %v", n, m.count.Values.Load(), err)
		}
	}
	asked := map[uint16]int{}
	for _, b := range m.blocks {
		asked[b.address] = b.backoff.Failures()
	}
	if asked[0] != 0 || asked[20] < 3 || asked[40] < 3 || asked[60] < 3 {
		t.Errorf("failures by address: %v", asked)
	}
}

// Neighbours share a request; nothing else is read.
func TestJoin(t *testing.T) {
	m := open(t, "tcp://127.0.0.1:1")
	for _, s := range []config.Source{
		source("holding", 10, "float32", "big"), source("holding", 12, "uint16", "big"),
		source("holding", 11, "uint16", "big"),
		source("holding", 20, "uint16", "big"), source("input", 13, "uint16", "big"), source("coil", 5, "", ""),
		source("coil", 6, "", "")} {
		sensor(t, m, s)
	}
	got := ""
	for _, b := range join(m.points, true) {
		got += fmt.Sprintf("%d:%d+%d(%d) ", b.function, b.address, b.count, len(b.points))
	}
	if want := "1:5+2(2) 3:10+3(3) 3:20+1(1) 4:13+1(1) "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for i := range 300 {
		sensor(t, m, source("holding", 1000+i, "uint16", "big"))
	}
	covered := 0
	for _, b := range join(m.points, true) {
		if b.function == readHolding && b.count > maxRegisters {
			t.Errorf("a request for %d registers", b.count)
		}
		covered += len(b.points)
	}
	if covered != len(m.points) {
		t.Errorf("%d of %d points are read", covered, len(m.points))
	}
}

// The example of MODBUS over Serial Line V1.02, appendix B: the CRC of 02 07 is
// 41 12 on the line.
func TestCRC(t *testing.T) {
	if got := crc16([]byte{2, 7}); got != 0x1241 {
		t.Errorf("got %04x", got)
	}
}

// An answer is found behind what a line adds: bytes of a transceiver that turns around,
// the echo of the request, an answer of another unit. Nothing else is taken for one.
func TestRTUNoise(t *testing.T) {
	frame := func(b ...byte) string {
		crc := crc16(b)
		return string(append(b, byte(crc), byte(crc>>8)))
	}
	request7, answer := frame(7, readHolding, 0, 4, 0, 2), frame(7, readHolding, 4, 0x12, 0x34, 0x56, 0x78)
	damaged := answer[:4] + "?" + answer[5:]
	for name, c := range map[string]struct {
		line string
		ok   bool
	}{
		"clean": {answer, true}, "a zero": {"\x00" + answer, true}, "ones": {"\xff\xff" + answer, true},
		"what looks like the unit": {"\x07\x03" + answer, true},
		"what looks like a start":  {"\x07\x03\x04" + answer, true}, "the echo": {request7 + answer, true},
		"another unit":        {frame(8, readHolding, 4, 1, 2, 3, 4) + answer, true},
		"more than asked for": {frame(7, readHolding, 6, 1, 2, 3, 4, 5, 6), false},
		"another function":    {frame(7, readInput, 4, 1, 2, 3, 4), false},
		"damaged":             {damaged, false}, "damaged, then right": {damaged + answer, true},
		"cut":            {answer[:7], false},
		"the echo alone": {request7, false},
		"endless":        {strings.Repeat("\x07\x03\x04", 1000), false},
	} {
		pdu, err := (rtu{}).receive(strings.NewReader(c.line), 7, request{readHolding, 4, 2})
		if c.ok && (err != nil || string(pdu) != "\x03\x04\x12\x34\x56\x78") || !c.ok && !errors.Is(err, ErrFrame) {
			t.Errorf("%s: got % x, %v", name, pdu, err)
		}
	}
	if pdu, err := (rtu{}).receive(strings.NewReader("\x00"+frame(7, readHolding|exception, 2)), 7,
		request{readHolding, 4, 2}); err != nil || string(pdu) != "\x83\x02" {
		t.Errorf("a refusal: got % x, %v", pdu, err)
	}
	if _, err := (rtu{}).receive(strings.NewReader(""), 7, request{readHolding, 4, 2}); err != io.EOF {
		t.Errorf("silence: %v", err)
	}
}

// FuzzAnswer checks that no frame crashes the client and that what it accepts
// has the length that was asked for.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 0, 5, 7, 3, 2, 0x12, 0x34}, uint16(1))
	f.Add([]byte{7, 3, 2, 0x12, 0x34, 0xbc, 0xf3}, uint16(1))
	f.Add([]byte{7, 0x83, 2, 0x61, 0x31}, uint16(1))
	f.Fuzz(func(t *testing.T, frame []byte, count uint16) {
		for _, fn := range []byte{readCoils, readHolding} {
			r := request{fn, 0, count%125 + 1}
			m := &mbap{transaction: 1}
			if pdu, err := m.receive(strings.NewReader(string(frame)), 7); err == nil {
				if data, err := r.answer(pdu); err == nil && len(data) != r.payload() {
					t.Fatalf("%d bytes", len(data))
				}
			}
			// With the checksum that it needs too, so that the rest is reached.
			for _, frame := range [][]byte{frame, binary.LittleEndian.AppendUint16(slices.Clone(frame), crc16(frame))} {
				if pdu, err := (rtu{}).receive(strings.NewReader(string(frame)), 7, r); err == nil {
					if data, err := r.answer(pdu); err == nil && len(data) != r.payload() {
						t.Fatalf("%d bytes", len(data))
					}
				}
			}
		}
	})
}
