// Package bus reads registers of devices on I2C and SPI buses, as maps in the
// configuration describe them: address, register, data type, byte order, bits.
// The buses are periph.io's (sysfs drivers only, without cgo). Devices are read
// when a sample is due, a number in one transfer.
package bus

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"periph.io/x/conn/v3/i2c"
	"periph.io/x/conn/v3/physic"
	"periph.io/x/conn/v3/spi"
	"periph.io/x/host/v3/sysfs"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
)

// Input is one device.
type Input struct {
	cfg   config.Input
	guard *input.Guard
	count *input.Counters
	setup []config.Register
	dial  func() (device, error)

	// The guard keeps accesses to device apart, mu also from Close.
	mu     sync.Mutex
	device device
	closed atomic.Bool
}

// device reads and writes registers.
type device interface {
	// read fills b from register on; the device counts upwards.
	read(register byte, b []byte) error
	write(register, value byte) error
	io.Closer
}

// New makes the input; it opens no bus.
func New(in config.Input, env input.Env) (*Input, error) {
	d := &Input{cfg: in, guard: input.NewGuard(in, env), count: env.Counters()}
	switch {
	case in.I2C != nil:
		d.setup = in.I2C.Setup
		d.dial = func() (device, error) {
			b, err := sysfs.NewI2C(*in.I2C.Bus)
			if err != nil {
				return nil, err
			}
			return newI2C(b, uint16(in.I2C.Address)), nil
		}
	case in.SPI != nil:
		d.setup = in.SPI.Setup
		d.dial = func() (device, error) {
			p, err := sysfs.NewSPI(*in.SPI.Bus, in.SPI.ChipSelect)
			if err != nil {
				return nil, err
			}
			return newSPI(p, *in.SPI)
		}
	default:
		return nil, fmt.Errorf("%w: input %s is on no bus", input.ErrNoSensor, in.Name)
	}
	return d, nil
}

// Sensor makes the sensor of a source.
func (d *Input) Sensor(src config.Source) (input.Sensor, error) {
	r, err := input.NewRegister(src)
	if err != nil {
		return nil, err
	}
	if src.Register == nil || *src.Register < 0 || *src.Register+r.Size() > 256 {
		return nil, fmt.Errorf("%w: %s has no register", input.ErrNoSensor, src.Type)
	}
	return sensor{d, byte(*src.Register), r}, nil
}

// sensor is one number.
type sensor struct {
	in       *Input
	at       byte
	register input.Register
}

// Read takes one sample from the device.
func (s sensor) Read(ctx context.Context) (float64, time.Time, error) {
	if err := ctx.Err(); err != nil {
		return 0, time.Time{}, err
	}
	b := make([]byte, s.register.Size())
	if err := s.in.guard.Do(func() error { return s.in.read(s.at, b) }); err != nil {
		return 0, time.Time{}, err
	}
	v, err := s.register.Decode(b)
	if err != nil {
		s.in.count.Bad.Add(1)
	} else {
		s.in.count.Values.Add(1)
	}
	return v, time.Now().Round(0), err
}

// read opens and sets up the device where needed, and reads. After a failure
// the device is opened and set up anew: it may have lost its power.
func (d *Input) read(register byte, b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() {
		return input.ErrNoValue
	}
	err := d.ready()
	if err == nil {
		err = d.device.read(register, b)
	}
	if err != nil || d.closed.Load() { // Close does not wait for a device that hangs
		d.hangUp()
	}
	if err != nil {
		return fmt.Errorf("input %s: %w", d.cfg.Name, err)
	}
	return nil
}

func (d *Input) ready() error {
	if d.device != nil {
		return nil
	}
	dev, err := d.dial()
	if err != nil {
		return err
	}
	d.device = dev
	for _, r := range d.setup {
		if err := dev.write(byte(*r.Register), byte(*r.Value)); err != nil {
			return fmt.Errorf("set register 0x%02x: %w", *r.Register, err)
		}
	}
	return nil
}

func (d *Input) hangUp() {
	if d.device != nil {
		_ = d.device.Close()
		d.device = nil
	}
}

// Close closes the bus; when a read is under way, the read does as it ends.
func (d *Input) Close() error {
	d.closed.Store(true)
	if d.mu.TryLock() {
		defer d.mu.Unlock()
		d.hangUp()
	}
	return nil
}

var _ input.Input = (*Input)(nil)

// i2cDevice is a device with 8-bit register addresses: write the address, then
// read, with a repeated start between.
type i2cDevice struct {
	i2c.Dev
	io.Closer
}

func newI2C(b i2c.BusCloser, address uint16) device {
	return i2cDevice{i2c.Dev{Bus: b, Addr: address}, b}
}

func (d i2cDevice) read(register byte, b []byte) error { return d.Tx([]byte{register}, b) }
func (d i2cDevice) write(register, value byte) error   { return d.Tx([]byte{register, value}, nil) }

// spiDevice is a device that takes the register's address, with bits that say
// "read", and answers from the next byte on.
type spiDevice struct {
	spi.Conn
	io.Closer
	mask byte
}

func newSPI(p spi.PortCloser, c config.SPI) (device, error) {
	conn, err := p.Connect(physic.Frequency(c.Speed)*physic.Hertz, spi.Mode(c.Mode), 8)
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	return spiDevice{conn, p, byte(*c.ReadMask)}, nil
}

func (d spiDevice) read(register byte, b []byte) error {
	w, r := make([]byte, 1+len(b)), make([]byte, 1+len(b))
	w[0] = register | d.mask
	if err := d.Tx(w, r); err != nil {
		return err
	}
	copy(b, r[1:])
	return nil
}

func (d spiDevice) write(register, value byte) error {
	return d.Tx([]byte{register &^ d.mask, value}, make([]byte, 2))
}
