// Package tty opens serial ports. It sets the line with termios (termios(3)) and
// needs no library: reads and writes go through the runtime's poller, so that
// deadlines and Close work as with a network connection.
package tty

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/durable"
)

// ErrBusy: another process, or another input, holds the port.
var ErrBusy = errors.New("the port is in use, by another process or input")

var bauds = map[int]uint32{
	1200: unix.B1200, 2400: unix.B2400, 4800: unix.B4800, 9600: unix.B9600, 19200: unix.B19200, 38400: unix.B38400,
	57600:  unix.B57600,
	115200: unix.B115200, 230400: unix.B230400, 460800: unix.B460800, 921600: unix.B921600,
}

// Open opens a port raw (no echo, no line editing, no flow control) with the
// given line, and throws away what was received before. The port is locked
// against others that lock it.
func Open(path string, l config.Line) (*os.File, error) {
	baud, ok := bauds[l.Baud]
	if !ok {
		return nil, fmt.Errorf("serial port %s: %d baud is not supported", path, l.Baud)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	if err := set(fd, l, baud); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("serial port %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

func set(fd int, l config.Line, baud uint32) error {
	if err := durable.TryLock(fd); err != nil {
		if errors.Is(err, durable.ErrLocked) {
			return ErrBusy
		}
		return fmt.Errorf("lock: %w", err)
	}
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return fmt.Errorf("not a serial port: %w", err)
	}
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR |
		unix.IGNCR | unix.ICRNL | unix.IXON | unix.IXOFF | unix.IXANY | unix.INPCK
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag &^= unix.CSIZE | unix.PARENB | unix.PARODD | unix.CSTOPB | unix.CRTSCTS | unix.CBAUD
	t.Cflag |= unix.CREAD | unix.CLOCAL | unix.CS8 | baud
	if l.DataBits == 7 {
		t.Cflag = t.Cflag&^unix.CSIZE | unix.CS7
	}
	if l.StopBits == 2 {
		t.Cflag |= unix.CSTOPB
	}
	switch l.Parity {
	case "even":
		t.Cflag |= unix.PARENB
		t.Iflag |= unix.INPCK
	case "odd":
		t.Cflag |= unix.PARENB | unix.PARODD
		t.Iflag |= unix.INPCK
	}
	t.Ispeed, t.Ospeed = baud, baud
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, t); err != nil {
		return fmt.Errorf("set the line: %w", err)
	}
	return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH)
}

// Discard throws away what a port has received and nobody has read.
func Discard(port *os.File) error {
	c, err := port.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := c.Control(func(fd uintptr) {
		failed = unix.IoctlSetInt(int(fd), unix.TCFLSH,
			unix.TCIFLUSH)
	}); err != nil {
		return err
	}
	if failed != nil {
		return &os.PathError{Op: "flush", Path: port.Name(), Err: failed}
	}
	return nil
}
