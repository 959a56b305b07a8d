package can

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testenv"
)

func source(id, start, length int, data, order string) config.Source {
	return config.Source{Type: config.SourceCAN,
		Point: config.Point{ID: &id, Start: &start, Length: &length, Data: data, Order: order}}
}

func signal(t testing.TB, src config.Source) Signal {
	t.Helper()
	s, err := NewSignal(src)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A signal that is not complete, or that no frame can hold, is refused.
func TestNoSignal(t *testing.T) {
	for name, change := range map[string]func(src *config.Source){
		"":                         func(*config.Source) {},
		"no id":                    func(src *config.Source) { src.ID = nil },
		"no start":                 func(src *config.Source) { src.Start = nil },
		"no length":                func(src *config.Source) { src.Length = nil },
		"beyond the frame":         func(src *config.Source) { src.Start = new(512) },
		"a float32 of 16 bits":     func(src *config.Source) { src.Data = "float32" },
		"a float64 of 16 bits":     func(src *config.Source) { src.Data = "float64" },
		"a multiplexor, no start":  func(src *config.Source) { src.Mux, src.MuxLength = new(1), new(8) },
		"a multiplexor, no length": func(src *config.Source) { src.Mux, src.MuxStart = new(1), new(0) },
		"a multiplexor of no bits": func(src *config.Source) {
			src.Mux, src.MuxStart, src.MuxLength = new(1), new(0),
				new(0)
		},
		"a multiplexor of 513 bits": func(src *config.Source) {
			src.Mux, src.MuxStart, src.MuxLength = new(1), new(0),
				new(513)
		},
	} {
		src := source(1, 0, 16, "unsigned", "little")
		change(&src)
		if _, err := NewSignal(src); (err == nil) != (name == "") || err != nil && !errors.Is(err, input.ErrNoSensor) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Signals of public DBC files, with frames decoded by hand.
func TestDecode(t *testing.T) {
	for _, c := range []struct {
		name string
		src  config.Source
		data []byte
		want float64
	}{
		// SAE J1939 EEC1 (PGN 61444): SPN 190 engine speed, 16 bits from bit 24, 0.125 rpm.
		{"engine speed", source(0xcf00400, 24, 16, "unsigned", "little"),
			[]byte{0xff, 0xff, 0xff, 0x68, 0x13, 0xff, 0xff, 0xff}, 4968},
		// J1939 ET1: SPN 110 coolant temperature, byte 0, offset -40.
		{"coolant", source(0x18feee00, 0, 8, "unsigned", "little"), []byte{0x7d, 0, 0, 0, 0, 0, 0, 0}, 125},
		// Motorola order: start is the highest bit. 12 bits from bit 3 (low half of byte 0 and byte 1).
		{"big 12", source(1, 3, 12, "unsigned", "big"), []byte{0xfa, 0xbc}, 0xabc},
		{"big 16", source(1, 7, 16, "signed", "big"), []byte{0xff, 0xfe}, -2},
		{"big 10 across", source(1, 1, 10, "signed", "big"), []byte{0x02, 0x00}, -512},
		{"little 10 across", source(1, 6, 10, "signed", "little"), []byte{0x40, 0x80}, -511},
		{"flag", source(1, 13, 1, "unsigned", "little"), []byte{0, 0x20}, 1},
		{"float", source(1, 0, 32, "float32", "little"), []byte{0, 0, 0x28, 0x42}, 42},
		{"double", source(1, 7, 64, "float64", "big"), []byte{0x40, 0x45, 0, 0, 0, 0, 0, 0}, 42},
		{"byte 63 of FD", source(1, 504, 8, "unsigned", "little"), append(make([]byte, 63), 9), 9},
	} {
		if got, err := signal(t, c.src).Decode(c.data); err != nil || got != c.want {
			t.Errorf("%s: got %v, %v, want %v", c.name, got, err, c.want)
		}
	}
	if _, err := signal(t, source(1, 8, 16, "unsigned", "little")).Decode([]byte{1, 2}); !errors.Is(err,
		input.ErrReading) {
		t.Errorf("a short frame: %v", err)
	}
	if _, err := signal(t, source(1, 0, 32, "float32", "little")).Decode([]byte{0, 0, 0xc0, 0x7f}); !errors.Is(err,
		input.ErrReading) {
		t.Errorf("not a number: %v", err)
	}
}

// Decoding undoes an encoder that follows the definition bit by bit.
func TestDecodeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		big := rapid.Bool().Draw(t, "big")
		length := rapid.IntRange(1, 64).Draw(t, "length")
		start := rapid.IntRange(0, 511).Filter(func(start int) bool {
			_, inside := config.SignalEnd(start, length, big)
			return inside
		}).Draw(t, "start")
		n, _ := config.SignalEnd(start, length, big)
		u := rapid.Uint64().Draw(t, "u") & (1<<length - 1)
		data := rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "noise")
		bit := start
		for i := range length { // little: lowest bit first; big: highest first
			v := u >> i & 1
			if big {
				v = u >> (length - 1 - i) & 1
			}
			data[bit/8] = data[bit/8]&^(1<<(bit%8)) | byte(v<<(bit%8))
			switch {
			case !big:
				bit++
			case bit%8 == 0:
				bit += 15 // from bit 0 of a byte to bit 7 of the next
			default:
				bit--
			}
		}
		order := map[bool]string{false: "little", true: "big"}[big]
		s, err := NewSignal(source(1, start, length, "unsigned", order))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Decode(data); err != nil || got != float64(u) {
			t.Fatalf("got %v, %v, want %v", got, err, u)
		}
		s.data = "signed"
		want := float64(int64(u))
		if length < 64 && u>>(length-1) == 1 {
			want = float64(int64(u) - 1<<length)
		}
		if got, err := s.Decode(data); err != nil || got != want {
			t.Fatalf("signed: got %v, %v, want %v", got, err, want)
		}
	})
}

// raw is a frame as the kernel gives it.
func raw(id uint32, fd bool, data ...byte) []byte {
	b := make([]byte, map[bool]int{false: sizeClassic, true: sizeFD}[fd])
	binary.NativeEndian.PutUint32(b, id)
	b[4] = byte(len(data))
	copy(b[headerSize:], data)
	return b
}

// pair is a connected pair of sockets that keep frames apart, like a CAN socket.
func pair(t *testing.T) (near, far *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	near, far = os.NewFile(uintptr(fds[0]), "near"), os.NewFile(uintptr(fds[1]), "far")
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

func openInput(t *testing.T, name string) *Input {
	t.Helper()
	c, err := New(config.Input{Name: "bus", MaxAge: time.Minute, Retry: time.Millisecond,
		RetryMax: 2 * time.Millisecond, CAN: &config.CAN{Interface: name}},
		input.Env{Log: slog.New(slog.DiscardHandler), Count: new(input.Counters)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func sensor(t *testing.T, c *Input, src config.Source) input.Sensor {
	t.Helper()
	s, err := c.Sensor(src)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Frames in the kernel's form through the reader of the input.
func TestFrames(t *testing.T) {
	c := openInput(t, "can0")
	near, far := pair(t)
	dials := 0
	c.dial = func([]Signal) (socket, error) {
		if dials++; dials == 1 {
			return nil, unix.ENETDOWN
		}
		return near, nil
	}
	speed := sensor(t, c, source(0x100, 0, 16, "unsigned", "little"))
	group := source(0x200, 0, 8, "unsigned", "little")
	group.Mask = new(0x7f0)
	grouped := sensor(t, c, group)
	ext := source(0x100, 0, 8, "unsigned", "little")
	ext.Extended = true
	extended := sensor(t, c, ext)
	if _, _, err := speed.Read(t.Context()); !errors.Is(err, input.ErrNoValue) {
		t.Errorf("before the first frame: %v", err)
	}
	for _, b := range [][]byte{
		raw(0x100|flagRemote, false, 9, 9), raw(0x100|flagError, false, 9, 9), {1, 2, 3}, raw(0x101, false, 9, 9),
		raw(0x100, false, 0x34, 0x12), raw(0x20f, false, 5), raw(0x100|flagExtended, true, 7),
	} {
		if _, err := far.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	inputtest.Until(t, speed, nil, inputtest.Is(0x1234))
	inputtest.Until(t, grouped, nil, inputtest.Is(5))
	inputtest.Until(t, extended, nil, inputtest.Is(7))
	if _, err := far.Write(raw(0x100, false, 1)); err != nil {
		t.Fatal(err)
	}
	inputtest.Until(t, speed, nil, func(v float64, err error) bool { return errors.Is(err, input.ErrReading) })
	if n := c.count.Values.Load(); n != 3 {
		t.Errorf("%d values", n)
	}
}

// The kernel's virtual CAN bus.
func TestVCAN(t *testing.T) {
	const name = "hencecan0"
	if out, err := exec.Command("ip", "link", "add", "dev", name, "type", "vcan").CombinedOutput(); err != nil {
		testenv.Missing(t, "vcan", "no virtual CAN bus: ", strings.TrimSpace(string(out)), ": ", err)
	}
	defer func() { _ = exec.Command("ip", "link", "del", name).Run() }()
	if out, err := exec.Command("ip", "link", "set", name, "up").CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	c := openInput(t, name)
	speed := sensor(t, c, source(0x123, 7, 16, "signed", "big"))
	dev, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_CAN, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.CAN_RAW)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrCAN{Ifindex: dev.Index}); err != nil {
		t.Fatal(err)
	}
	inputtest.Until(t, speed, nil, func(v float64, err error) bool {
		if _, werr := unix.Write(fd, raw(0x123, false, 0xff, 0xfe)); werr != nil {
			t.Fatal(werr)
		}
		return err == nil && v == -2
	})
}

func TestNoInterface(t *testing.T) {
	if _, err := open("nocan99", nil); !errors.Is(err, input.ErrNoSensor) {
		t.Errorf("got %v", err)
	}
}

// FuzzFrame checks that no frame crashes, and that values are finite and within
// the signal's bits.
func FuzzFrame(f *testing.F) {
	f.Add(raw(0x100, false, 1, 2, 3, 4, 5, 6, 7, 8), 0, 16, uint8(0))
	f.Add(raw(0x100|flagExtended, true, 1, 2, 3), 7, 64, uint8(7))
	f.Fuzz(func(t *testing.T, b []byte, start, length int, kind uint8) {
		fr, ok := parse(b)
		if !ok {
			return
		}
		order := []string{"little", "big"}[kind&1]
		s, err := NewSignal(source(int(fr.id), start, length, config.CANDataTypes()[kind>>1&3], order))
		if err != nil {
			return
		}
		v, err := s.Decode(fr.data)
		if err != nil {
			if !errors.Is(err, input.ErrReading) {
				t.Fatal(err)
			}
			return
		}
		if math.IsNaN(v) || math.IsInf(v, 0) || s.data == "unsigned" && (v < 0 || v > math.Ldexp(1, length)) {
			t.Fatalf("%v", v)
		}
	})
}

// A multiplexed signal is taken from the frames that have it, in either order, and
// a frame that is too short for its multiplexor has it not.
func TestMux(t *testing.T) {
	for _, c := range []struct {
		order             string
		start, mux, place int
		frames            map[string]bool
		want              float64
	}{
		{"little", 24, 0x0f, 16,
			map[string]bool{"\x03\x41\x0f\x37": true, "\x03\x41\x0c\x37": false, "\x03\x41": false,
				"\x03\x41\x0f": true}, 0x37},
		{"big", 15, 5, 7, map[string]bool{"\x05\x37": true, "\x50\x37": false, "": false}, 0x37},
	} {
		src := source(0x7e8, c.start, 8, "unsigned", c.order)
		src.Mux, src.MuxStart, src.MuxLength = &c.mux, &c.place, new(8)
		s := signal(t, src)
		for data, has := range c.frames {
			f := frame{id: 0x7e8, data: []byte(data)}
			if s.matches(f) != has {
				t.Errorf("%s, % x: matches %v", c.order, data, !has)
			}
			if v, err := s.Decode(f.data); has && len(data) >= s.bytes && (v != c.want || err != nil) {
				t.Errorf("%s, % x: got %v, %v", c.order, data, v, err)
			}
		}
	}
	src := source(1, 0, 8, "unsigned", "little")
	src.Mux, src.MuxStart, src.MuxLength = new(1), new(511), new(8)
	if _, err := NewSignal(src); !errors.Is(err, input.ErrNoSensor) {
		t.Errorf("got %v", err)
	}
	src.MuxLength = nil
	if _, err := NewSignal(src); !errors.Is(err, input.ErrNoSensor) {
		t.Errorf("got %v", err)
	}
}
