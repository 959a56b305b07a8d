package serial

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/agent/input/tty"
	"github.com/hencedge/hencedge/config"
)

var usual = config.Line{Baud: 115200, DataBits: 8, Parity: "none", StopBits: 1}

func open(t *testing.T, s config.Serial) *Input {
	t.Helper()
	s.Line = usual
	in, err := New(config.Input{Name: "port", Every: 10 * time.Millisecond, MaxAge: time.Minute,
		Retry: time.Millisecond, RetryMax: 2 * time.Millisecond, Serial: &s},
		input.Env{Log: slog.New(slog.DiscardHandler), Count: new(input.Counters)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	return in
}

func sensor(t *testing.T, in *Input, src config.Source) input.Sensor {
	t.Helper()
	src.Type = config.SourceSerial
	s, err := in.Sensor(src)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// until sends text again and again, since what came before the port was opened is
// gone, until want accepts what comes.
func until(t *testing.T, port *os.File, text string, s input.Sensor, want func(v float64, err error) bool) {
	t.Helper()
	inputtest.Until(t, s, func() {
		if _, err := port.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}, want)
}

func TestCSV(t *testing.T) {
	port, path := inputtest.PTY(t)
	in := open(t, config.Serial{Device: path, Format: "csv", Delimiter: ";"})
	first, third := sensor(t, in, config.Source{Column: "1"}), sensor(t, in, config.Source{Column: "3"})
	until(t, port, "1.5; on ;\" -7e1 \"\r\n", third, inputtest.Is(-70))
	until(t, port, "", first, inputtest.Is(1.5))
	until(t, port, "2;on\n", third, func(_ float64, err error) bool { return errors.Is(err, input.ErrReading) })
	until(t, port, "", first, inputtest.Is(2))
}

func TestJSONAndText(t *testing.T) {
	port, path := inputtest.PTY(t)
	in := open(t, config.Serial{Device: path, Format: "json"})
	until(t, port, `{"t": {"v": 4.25}}`+"\n", sensor(t, in, config.Source{Point: config.Point{Path: "t.v"}}),
		inputtest.Is(4.25))
	port, path = inputtest.PTY(t)
	in = open(t, config.Serial{Device: path, Format: "text"})
	temp := sensor(t, in, config.Source{Point: config.Point{Pattern: `T=([-0-9.]+)`}})
	humidity := sensor(t, in, config.Source{Point: config.Point{Pattern: `H=([-0-9.]+)`}})
	// Lines of several kinds: each keeps its value.
	const text = "T=21.5\nH=40\nhello\n"
	until(t, port, text, humidity, inputtest.Is(40))
	until(t, port, text, temp, inputtest.Is(21.5))
}

// Sentences of public receivers' manuals, with their checksums.
const (
	gga = "$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47"
	rmc = "$GPRMC,123519,A,4807.038,S,01131.000,W,022.4,084.4,230394,003.1,W*65"
	vtg = "$GPVTG,054.7,T,034.4,M,005.5,N,010.2,K*48"
	off = "$GPGGA,123519,,,,,0,00,,,M,,M,,*6B"
)

func TestNMEA(t *testing.T) {
	port, path := inputtest.PTY(t)
	in := open(t, config.Serial{Device: path, Format: "nmea"})
	of := func(kind, name string) input.Sensor {
		return sensor(t, in, config.Source{Field: name, Point: config.Point{Sentence: kind}})
	}
	lat, lon, alt, sats := of("GGA", "lat"), of("GGA", "lon"), of("GGA", "altitude"), of("GGA", "7")
	south, west, speed := of("RMC", "lat"), of("RMC", "lon"), of("VTG", "speed")
	bad := strings.Replace(gga, "08", "09", 1)
	all := rmc + "\r\n" + gga + "\r\n" + bad + "\r\n" + vtg + "\r\n"
	until(t, port, all, speed, inputtest.Is(5.5))
	for _, c := range []struct {
		s    input.Sensor
		want float64
	}{{lat, 48 + 7.038/60}, {lon, 11 + 31.0/60}, {alt, 545.4}, {sats, 8}, {south, -(48 + 7.038/60)},
		{west, -(11 + 31.0/60)}} {
		until(t, port, all, c.s, inputtest.Is(c.want))
	}
	if in.count.Bad.Load() == 0 {
		t.Error("a wrong checksum is not counted")
	}
	until(t, port, off+"\r\n", lat, func(_ float64, err error) bool { return errors.Is(err, input.ErrReading) })
}

// parsed are sentences whose checksum was computed with another tool.
func TestParseNMEA(t *testing.T) {
	for line, ok := range map[string]bool{
		gga: true, rmc: true, vtg: true, off: true, "$GPGSV,3,1,11*4F": false, "$GPGGA,1": false, "GPGGA,1*00": false,
		"$*00": false, "": false,
		"$GPTXT,a*1": false, "$PUBX,00*33": true, strings.TrimSuffix(gga, "47") + "4z": false,
	} {
		if _, err := parseNMEA(line); (err == nil) != ok {
			t.Errorf("%q: %v", line, err)
		}
	}
	for text, want := range map[string]float64{"4807.038": 48.1173, "0000.000": 0, "9000.000": 90,
		"9000.001": math.NaN(), "4860.0": math.NaN(), "48": math.NaN(), "": math.NaN(), "48-7.0": math.NaN()} {
		v, err := degrees(text, "N", false)
		if math.IsNaN(want) != (err != nil) || err == nil && math.Abs(v-want) > 1e-9 {
			t.Errorf("%q: %v, %v", text, v, err)
		}
	}
	for _, c := range []struct {
		text, hemisphere string
		lon              bool
		want             float64
	}{
		{"01131.000", "E", true, 11 + 31.0/60}, {"01131.000", "W", true, -(11 + 31.0/60)},
		{"18000.000", "E", true, 180}, {"18000.001", "E", true, math.NaN()},
		{"4807.038", "S", false, -(48 + 7.038/60)}, {"4807.038", "E", false, math.NaN()},
		{"4807.038", "W", false, math.NaN()}, {"4807.038", "", false, math.NaN()},
		{"01131.000", "N", true, math.NaN()}, {"01131.000", "S", true, math.NaN()}, {"0113", "E", true, math.NaN()},
	} {
		v, err := degrees(c.text, c.hemisphere, c.lon)
		if math.IsNaN(c.want) != (err != nil) || err == nil && math.Abs(v-c.want) > 1e-9 {
			t.Errorf("%+v: %v, %v", c, v, err)
		}
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", maxLine+10)
	var got []string
	err := lines(strings.NewReader("3.5\n1\r\n\n"+long+"\n2\n5\r6\r\n4"), false,
		func(l string) { got = append(got, l) })
	// The first may be the end of 123.5, the last is not complete.
	if !errors.Is(err, io.EOF) || strings.Join(got, " ") != "1 2 5 6" {
		t.Errorf("got %q, %v", got, err)
	}
	got = nil
	most := strings.Repeat("x", maxLine)
	if _ = lines(strings.NewReader(most+"\n"+most+"y\n1\n"), true,
		func(l string) { got = append(got, l) }); len(got) != 2 || got[0] != most || got[1] != "1" {
		t.Errorf("%d lines", len(got))
	}
}

// Why there is no value: nothing is received, or what is received is not what the
// configuration says, as with a wrong rate.
func TestTrouble(t *testing.T) {
	port, path := inputtest.PTY(t)
	s := sensor(t, open(t, config.Serial{Device: path, Format: "nmea"}),
		config.Source{Field: "lat", Point: config.Point{Sentence: "GGA"}})
	inputtest.Until(t, s, nil, func(_ float64, err error) bool {
		return errors.Is(err, input.ErrNoValue) &&
			errors.Is(err, errSilent)
	})
	until(t, port, "\x81\xf0\xff\r\n", s, func(_ float64, err error) bool {
		return errors.Is(err, input.ErrNoValue) && errors.Is(err, input.ErrReading)
	})
	until(t, port, rmc+"\r\n", s,
		func(_ float64, err error) bool { return err != nil && err.Error() == input.ErrNoValue.Error() })
}

// A device that speaks when it is asked, with lines that end with CR, and that is
// plugged in again.
func TestRequest(t *testing.T) {
	link := t.TempDir() + "/port"
	in := open(t, config.Serial{Device: link, Format: "text", Request: "MEAS?\r"})
	s := sensor(t, in, config.Source{Point: config.Point{Pattern: `MEAS ([0-9]+)`}})
	for plugged := range 2 {
		port, path := inputtest.PTY(t)
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		n := 0
		inputtest.Until(t, s, func() {
			b := make([]byte, 64)
			_ = port.SetReadDeadline(time.Now().Add(time.Millisecond))
			k, _ := port.Read(b)
			for range strings.Count(string(b[:k]), "MEAS?\r") {
				n++
				_ = port.SetWriteDeadline(time.Now().Add(time.Second))
				_, _ = fmt.Fprintf(port, "MEAS %d\r", 1000*plugged+n)
			}
		}, func(v float64, err error) bool {
			return err == nil && v > float64(1000*plugged+3) && v <= float64(1000*plugged+n)
		})
		os.Remove(link)
		port.Close()
	}
}

// Of a device that speaks when it is asked the first answer counts: it is whole.
func TestFirstAnswer(t *testing.T) {
	port, path := inputtest.PTY(t)
	s := sensor(t, open(t, config.Serial{Device: path, Format: "text", Request: "?"}),
		config.Source{Point: config.Point{Pattern: `([0-9]+)`}})
	answered := false
	inputtest.Until(t, s, func() {
		b := make([]byte, 1)
		_ = port.SetReadDeadline(time.Now().Add(time.Millisecond))
		if n, _ := port.Read(b); n == 1 && !answered {
			answered = true
			if _, err := port.WriteString("7\n"); err != nil {
				t.Fatal(err)
			}
		}
	}, inputtest.Is(7))
}

// A port that goes away and comes back, as USB adapters do.
func TestReconnect(t *testing.T) {
	link := t.TempDir() + "/port"
	in := open(t, config.Serial{Device: link, Format: "csv", Delimiter: ","})
	s := sensor(t, in, config.Source{Column: "1"})
	if _, _, err := s.Read(t.Context()); !errors.Is(err, input.ErrNoValue) {
		t.Errorf("got %v", err)
	}
	for i := range 2 {
		port, path := inputtest.PTY(t)
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		until(t, port, fmt.Sprintf("%d\n", i+10), s, inputtest.Is(float64(i+10)))
		os.Remove(link)
		port.Close()
	}
	if in.count.Failures.Load() == 0 {
		t.Error("the loss is not counted")
	}
}

// A port has one reader.
func TestBusy(t *testing.T) {
	_, path := inputtest.PTY(t)
	f, err := tty.Open(path, usual)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := tty.Open(path, usual); !errors.Is(err, tty.ErrBusy) {
		t.Errorf("got %v", err)
	}
	if _, err := tty.Open("/dev/null", usual); err == nil {
		t.Error("/dev/null opens as a serial port")
	}
	if _, err := tty.Open(path, config.Line{Baud: 7}); err == nil {
		t.Error("7 baud")
	}
}

func TestSensorFailures(t *testing.T) {
	in := open(t, config.Serial{Device: "/dev/ttyS0", Format: "nmea"})
	if _, err := in.Sensor(config.Source{Field: "speed", Point: config.Point{Sentence: "GGA"}}); !errors.Is(err,
		input.ErrNoSensor) {
		t.Errorf("got %v", err)
	}
}

// FuzzNMEA checks that no line crashes and that coordinates stay on the globe.
func FuzzNMEA(f *testing.F) {
	for _, s := range []string{gga, rmc, vtg, off} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		// Give the line the checksum that it needs, so that the rest is reached.
		body, _, _ := strings.Cut(strings.TrimLeft(line, "$!"), "*")
		var sum byte
		for i := range len(body) {
			sum ^= body[i]
		}
		for _, l := range []string{line, fmt.Sprintf("$%s*%02X", body, sum)} {
			s, err := parseNMEA(l)
			if err != nil {
				if !errors.Is(err, input.ErrReading) {
					t.Fatal(err)
				}
				continue
			}
			for _, name := range []string{"lat", "lon", "altitude", "speed", "course", "satellites", "hdop", "1",
				"99"} {
				v, err := s.number(name)
				if err == nil && (math.IsNaN(v) || name == "lat" && math.Abs(v) > 90 || name == "lon" &&
					math.Abs(v) > 180) {
					t.Fatalf("%s of %q is %v", name, l, v)
				}
			}
		}
	})
}

// FuzzLines checks that whatever a port sends, complete lines within the bound
// come out, and no value that is not finite.
func FuzzLines(f *testing.F) {
	f.Add([]byte("\n1;2;3\r\n{\"a\": 1}\nT=5\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cells := []*input.Cell{input.NewCell(time.Hour), input.NewCell(time.Hour)}
		count := new(input.Counters)
		in := &Input{cfg: config.Input{Serial: &config.Serial{Format: "csv", Delimiter: ";"}}, count: count,
			texts:   input.NewTexts(count),
			columns: []column{{0, cells[0]}, {2, cells[1]}}}
		_ = lines(strings.NewReader(string(data)), len(data)%2 == 0, func(line string) {
			if len(line) > maxLine || line == "" || strings.ContainsAny(line, "\r\n") {
				t.Fatalf("line of %d bytes", len(line))
			}
			in.take(line)
		})
		for _, c := range cells {
			if v, _, err := c.Read(t.Context()); err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
				t.Fatalf("%v", v)
			}
		}
	})
}

// What a configuration may name, the sentences have, and nothing else.
func TestNamedFields(t *testing.T) {
	for kind, fields := range named {
		if have, want := slices.Sorted(maps.Keys(fields)),
			slices.Sorted(slices.Values(config.NMEAFields[kind])); !slices.Equal(have, want) {
			t.Errorf("%s: %v, a configuration may name %v", kind, have, want)
		}
	}
	if len(named) != len(config.NMEAFields) {
		t.Errorf("%d sentences, a configuration may name fields of %d", len(named), len(config.NMEAFields))
	}
}
