package bus

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"periph.io/x/conn/v3/conntest"
	"periph.io/x/conn/v3/i2c/i2ctest"
	"periph.io/x/conn/v3/spi/spitest"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
)

func open(t *testing.T, in config.Input) *Input {
	t.Helper()
	in.Name, in.Retry, in.RetryMax = "dev", time.Second, time.Minute
	d, err := New(in, input.Env{Log: slog.New(slog.DiscardHandler), Count: new(input.Counters)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func source(typ config.SourceType, register int, data, order string) config.Source {
	return config.Source{Type: typ, Point: config.Point{Register: &register, Data: data, Order: order}}
}

func sensorOf(t *testing.T, d *Input, src config.Source) input.Sensor {
	t.Helper()
	s, err := d.Sensor(src)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// imu is an MPU-6050: wake it up and set its range, then read.
func imu() config.Input {
	return config.Input{I2C: &config.I2C{Bus: new(1), Address: 0x68,
		Setup: []config.Register{{Register: new(0x6b), Value: new(0)}, {Register: new(0x1c), Value: new(8)}}}}
}

// The transfers on the bus are those of the device's data sheet, recorded for
// periph's playback bus, which fails at any other.
func TestI2C(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, imu())
		b := &i2ctest.Playback{DontPanic: true, Ops: []i2ctest.IO{
			{Addr: 0x68, W: []byte{0x6b, 0}},
			{Addr: 0x68, W: []byte{0x1c, 8}},
			{Addr: 0x68, W: []byte{0x3b}, R: []byte{0xfe, 0x0c}}, // acceleration x: -500
			{Addr: 0x68, W: []byte{0x41}, R: []byte{0xf2, 0x10}}, // temperature: -3568
		}}
		d.dial = func() (device, error) { return newI2C(b, 0x68), nil }
		x, temp := sensorOf(t, d, source(config.SourceI2C, 0x3b, "int16", "big")),
			sensorOf(t, d, source(config.SourceI2C, 0x41, "int16", "big"))
		if v, at, err := x.Read(t.Context()); v != -500 || err != nil || at.IsZero() {
			t.Errorf("got %v, %v, %v", v, at, err)
		}
		if v, _, err := temp.Read(t.Context()); v != -3568 || err != nil {
			t.Errorf("got %v, %v", v, err)
		}
		// The bus has nothing more to say: that is a failure, and the device is
		// left alone for a while.
		if _, _, err := x.Read(t.Context()); err == nil || errors.Is(err, input.ErrWaiting) {
			t.Errorf("got %v", err)
		}
		if _, _, err := temp.Read(t.Context()); !errors.Is(err, input.ErrWaiting) {
			t.Errorf("got %v", err)
		}
		// Then it is opened and set up again.
		time.Sleep(time.Second)
		b2 := &i2ctest.Playback{DontPanic: true, Ops: []i2ctest.IO{
			{Addr: 0x68, W: []byte{0x6b, 0}}, {Addr: 0x68, W: []byte{0x1c, 8}},
			{Addr: 0x68, W: []byte{0x41}, R: []byte{1, 0}}}}
		d.dial = func() (device, error) { return newI2C(b2, 0x68), nil }
		if v, _, err := temp.Read(t.Context()); v != 256 || err != nil {
			t.Errorf("got %v, %v", v, err)
		}
		if err := d.Close(); err != nil || b2.Count != 3 {
			t.Errorf("%v, %d transfers", err, b2.Count)
		}
		if _, _, err := temp.Read(t.Context()); err == nil {
			t.Error("reads after Close")
		}
	})
}

// A MAX31855-like converter behind an accelerometer's register rules: reads set
// the highest bit, writes clear it.
func TestSPI(t *testing.T) {
	d := open(t, config.Input{SPI: &config.SPI{Bus: new(0), Speed: 1_000_000, Mode: 3, ReadMask: new(0xc0),
		Setup: []config.Register{{Register: new(0x2d), Value: new(8)}}}})
	port := &spitest.Playback{Playback: conntest.Playback{DontPanic: true, Ops: []conntest.IO{
		{W: []byte{0x2d, 8}, R: []byte{0, 0}},
		{W: []byte{0x32 | 0xc0, 0, 0}, R: []byte{0xaa, 0x0c, 0xfe}}, // little endian: -500
		{W: []byte{0x20 | 0xc0, 0, 0, 0, 0}, R: []byte{0, 0x42, 0x28, 0, 0}},
	}}}
	d.dial = func() (device, error) { return newSPI(port, *d.cfg.SPI) }
	if v, _, err := sensorOf(t, d, source(config.SourceSPI, 0x32, "int16", "little")).Read(t.Context()); v != -500 ||
		err != nil {
		t.Errorf("got %v, %v", v, err)
	}
	if v, _, err := sensorOf(t, d, source(config.SourceSPI, 0x20, "float32", "big")).Read(t.Context()); v != 42 ||
		err != nil {
		t.Errorf("got %v, %v", v, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err) // the playback says so when a transfer is missing
	}
}

// Bits of a TMP102: twelve at the top of a word, 0.0625 degrees each.
func TestBits(t *testing.T) {
	d := open(t, config.Input{I2C: &config.I2C{Bus: new(1), Address: 0x48}})
	b := &i2ctest.Playback{DontPanic: true, Ops: []i2ctest.IO{
		{Addr: 0x48, W: []byte{0}, R: []byte{0xe7, 0}}, {Addr: 0x48, W: []byte{4}, R: []byte{0x7f, 0xc0, 0, 0}}}}
	d.dial = func() (device, error) { return newI2C(b, 0x48), nil }
	src := source(config.SourceI2C, 0, "int16", "big")
	src.Start, src.Length = new(4), new(12)
	if v, _, err := sensorOf(t, d, src).Read(t.Context()); v*0.0625 != -25 || err != nil {
		t.Errorf("got %v, %v", v, err)
	}
	// A value that cannot be used is no failure of the device.
	bad := sensorOf(t, d, source(config.SourceI2C, 4, "float32", "big"))
	if v, _, err := bad.Read(t.Context()); !errors.Is(err, input.ErrReading) {
		t.Errorf("got %v, %v", v, err)
	}
	if d.guard.Do(func() error { return nil }) != nil || d.count.Bad.Load() != 1 {
		t.Error("the device is left alone")
	}
}

// The kernel's simulator of a bus (i2c-stub) knows SMBus transfers only, not the
// combined ones that periph uses; so of real buses only the absence is tested.
func TestNoBus(t *testing.T) {
	for _, in := range []config.Input{
		{I2C: &config.I2C{Bus: new(250), Address: 0x48}},
		{SPI: &config.SPI{Bus: new(250), ReadMask: new(0x80), Speed: 1000}},
	} {
		d := open(t, in)
		_, _, err := sensorOf(t, d, source(in.Types()[0], 0, "uint8", "big")).Read(t.Context())
		if err == nil || !strings.Contains(err.Error(), "250") {
			t.Errorf("got %v", err)
		}
		d.Close()
	}
}

func TestSensorFailures(t *testing.T) {
	d := open(t, imu())
	for _, src := range []config.Source{source(config.SourceI2C, 255, "int16", "big"),
		source(config.SourceI2C, 0, "int17", "big"), {Type: config.SourceI2C, Point: config.Point{Data: "int8"}}} {
		if _, err := d.Sensor(src); !errors.Is(err, input.ErrNoSensor) {
			t.Errorf("%s: %v", src.YAML(), err)
		}
	}
}

// hung is a device whose reads do not end before free is closed.
type hung struct {
	free   chan struct{}
	closed atomic.Bool
}

func (h *hung) read(byte, []byte) error { <-h.free; return nil }
func (h *hung) write(byte, byte) error  { return nil }
func (h *hung) Close() error            { h.closed.Store(true); return nil }

// Close does not wait for a device that hangs; the device is closed when it ends.
func TestCloseWhileHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, dev := open(t, imu()), &hung{free: make(chan struct{})}
		d.dial = func() (device, error) { return dev, nil }
		s := sensorOf(t, d, source(config.SourceI2C, 0, "uint8", "big"))
		go func() { _, _, _ = s.Read(t.Context()) }()
		synctest.Wait()
		if err := d.Close(); err != nil || dev.closed.Load() {
			t.Fatalf("%v, closed %v", err, dev.closed.Load())
		}
		close(dev.free)
		synctest.Wait()
		if _, _, err := s.Read(t.Context()); !dev.closed.Load() || !errors.Is(err, input.ErrNoValue) {
			t.Errorf("closed %v, then %v", dev.closed.Load(), err)
		}
	})
}
