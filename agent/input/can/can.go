// Package can reads signals of frames on a CAN bus through SocketCAN raw
// sockets (Documentation/networking/can.rst). The kernel filters the frames that
// no source asked for. It only receives.
package can

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
)

// Input is one interface.
type Input struct {
	cfg    config.Input
	worker *input.Worker
	count  *input.Counters
	points []point
	dial   func(signals []Signal) (socket, error)

	input.Background
}

type point struct {
	signal Signal
	cell   *input.Cell
}

// socket gives one frame a read.
type socket interface {
	io.ReadCloser
	SetDeadline(t time.Time) error
}

// New makes the input; it opens no socket.
func New(in config.Input, env input.Env) (*Input, error) {
	if in.CAN == nil {
		return nil, fmt.Errorf("%w: input %s is no CAN interface", input.ErrNoSensor, in.Name)
	}
	return &Input{cfg: in, worker: input.NewWorker(in, env), count: env.Counters(),
		dial: func(s []Signal) (socket, error) { return open(in.CAN.Interface, s) }}, nil
}

// Sensor adds a signal.
func (c *Input) Sensor(src config.Source) (input.Sensor, error) {
	s, err := NewSignal(src)
	if err != nil {
		return nil, err
	}
	p := point{s, input.NewCell(c.cfg.MaxAge)}
	c.points = append(c.points, p)
	return input.Started{Sensor: p.cell, Begin: func() { c.Start(c.run) }, Trouble: c.worker.Trouble}, nil
}

func (c *Input) run(ctx context.Context) { c.worker.Receive(ctx, c.receive) }

// receive takes frames until the socket fails or ctx ends.
func (c *Input) receive(ctx context.Context) error {
	signals := make([]Signal, len(c.points))
	for i, p := range c.points {
		signals[i] = p.signal
	}
	s, err := c.dial(signals)
	if err != nil {
		return err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { _ = s.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, sizeFD)
	for working := false; ; {
		n, err := s.Read(buf)
		if err != nil {
			return fmt.Errorf("receive from %s: %w", c.cfg.CAN.Interface, err)
		}
		f, ok := parse(buf[:n])
		if !ok {
			continue
		}
		if !working {
			c.worker.Working()
			working = true
		}
		for _, p := range c.points {
			if p.signal.matches(f) {
				c.take(p, f)
			}
		}
	}
}

func (c *Input) take(p point, f frame) {
	v, err := p.signal.Decode(f.data)
	if err != nil {
		c.count.Bad.Add(1)
		p.cell.Fail(err)
		return
	}
	c.count.Values.Add(1)
	p.cell.Set(v)
}

// open makes a raw socket that receives the frames of the signals.
func open(name string, signals []Signal) (socket, error) {
	// From /sys, since a service need not be allowed netlink sockets.
	index, err := input.ReadNumber(input.Under("", "sys/class/net", name, "ifindex"))
	if err != nil {
		return nil, input.Missing("CAN interface", name, Interfaces(""))
	}
	fd, err := unix.Socket(unix.AF_CAN, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.CAN_RAW)
	if err != nil {
		return nil, fmt.Errorf("open a CAN socket: %w", err)
	}
	fail := func(what string, err error) (socket, error) {
		unix.Close(fd)
		return nil, fmt.Errorf("%s of %s: %w", what, name, err)
	}
	filters := make([]unix.CanFilter, len(signals))
	for i, s := range signals {
		filters[i] = unix.CanFilter{Id: s.id, Mask: s.mask&maskExtended | flagExtended | flagRemote}
		if s.extended {
			filters[i].Id |= flagExtended
		} else {
			filters[i].Mask &^= maskExtended &^ maskStandard
		}
	}
	// The kernel takes at most CAN_RAW_FILTER_MAX filters; with more, all
	// frames are received and matched here.
	if len(filters) <= 512 {
		if err := unix.SetsockoptCanRawFilter(fd, unix.SOL_CAN_RAW, unix.CAN_RAW_FILTER, filters); err != nil {
			return fail("filter the frames", err)
		}
	}
	// Kernels without CAN FD refuse this, and then there are no such frames.
	_ = unix.SetsockoptInt(fd, unix.SOL_CAN_RAW, unix.CAN_RAW_FD_FRAMES, 1)
	if err := unix.Bind(fd, &unix.SockaddrCAN{Ifindex: int(index)}); err != nil {
		return fail("take the frames", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// arphrdCAN is the hardware type of CAN interfaces (linux/if_arp.h).
const arphrdCAN = "280"

// Interfaces lists the CAN interfaces under root ("" is this machine).
func Interfaces(root string) []string {
	var out []string
	dir := input.Under(root, "sys/class/net")
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if t, err := input.ReadText(input.Under(root, "sys/class/net", e.Name(), "type")); err == nil &&
			strings.TrimSpace(t) == arphrdCAN {
			out = append(out, e.Name())
		}
	}
	return out
}

var _ input.Input = (*Input)(nil)
