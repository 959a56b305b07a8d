package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// agentInputs checks the list of inputs of an agent.
func (c *checker) agentInputs(list []Input) {
	names := make([]string, len(list))
	for i, in := range list {
		names[i] = in.Name
		c.input(fmt.Sprintf("inputs[%d]", i), in)
	}
	c.unique("inputs", "input", names)
	c.ports(list)
}

// ports checks that every serial port has one user, but for Modbus units that
// share a bus and so its settings.
func (c *checker) ports(list []Input) {
	type user struct {
		name string
		line *Line // of Modbus
	}
	users := map[string]user{}
	for i, in := range list {
		device, key, line := "", "", (*Line)(nil)
		if in.Serial != nil {
			device, key = in.Serial.Device, "serial.device"
		} else if in.Modbus != nil {
			var rtu bool
			if device, rtu = strings.CutPrefix(in.Modbus.URL, "rtu://"); !rtu {
				continue
			}
			key, line = "modbus.url", &in.Modbus.Line
		}
		other, taken := users[device]
		path := fmt.Sprintf("inputs[%d].%s", i, key)
		switch {
		case device == "" || !c.sound(path):
		case !taken:
			users[device] = user{in.Name, line}
		case line == nil || other.line == nil:
			c.fail(path, fmt.Sprintf("the input %q reads %s already", other.name, device), "let the channels of both read one input; only Modbus units can share a port")
		case *line != *other.line:
			c.fail(path, fmt.Sprintf("the input %q uses %s with other settings", other.name, device), "units on one bus have the same baud, data_bits, parity and stop_bits")
		}
	}
}

const inputTypes = "i2c, spi, modbus, can, serial, exec, http or mqtt"

func (c *checker) input(path string, in Input) {
	c.name(path+".name", in.Name)
	switch types := in.Types(); {
	case len(types) == 0 && c.undamaged(path, "i2c", "spi", "modbus", "can", "serial", "exec", "http", "mqtt") && !c.misspelt(path):
		c.fail(path, "the input has no type", "add one block: "+inputTypes)
		return
	case len(types) > 1:
		c.failKey(path+"."+string(types[1]), fmt.Sprintf("both %q and %q are given", types[0], types[1]), "an input is one device or connection: make two entries of \"inputs\"")
		return
	}
	c.inputTimes(path, in)
	switch p := path + "." + string(in.Type()); in.Type() {
	case SourceI2C:
		c.bus(p, in.I2C.Bus, in.I2C.Setup)
		if in.I2C.Address < 0x08 || in.I2C.Address > 0x77 {
			c.fail(p+".address", fmt.Sprintf("0x%02x is not an address", in.I2C.Address), "use a 7-bit address from 0x08 to 0x77, as `i2cdetect` shows it")
		}
	case SourceSPI:
		c.bus(p, in.SPI.Bus, in.SPI.Setup)
		between(c, p+".chip_select", in.SPI.ChipSelect, 0, 255)
		between(c, p+".speed", in.SPI.Speed, 1000, 100_000_000)
		between(c, p+".mode", in.SPI.Mode, 0, 3)
		if in.SPI.ReadMask != nil {
			between(c, p+".read_mask", *in.SPI.ReadMask, 0, 255)
		}
	case SourceModbus:
		c.modbus(p, *in.Modbus)
	case SourceCAN:
		if n := in.CAN.Interface; len(n) > 15 || strings.ContainsAny(n, "/ \t") {
			c.fail(p+".interface", fmt.Sprintf("invalid interface %q", n), "write its name as `ip link` shows it, such as can0")
		}
	case SourceSerial:
		c.serial(p, *in.Serial)
	case SourceExec:
		if len(in.Exec.Command) == 0 {
			if c.sound(p + ".command") { // built in code
				c.fail(p, "\"command\" is missing", "add "+examples["command"])
			}
		} else if prog := in.Exec.Command[0]; !filepath.IsAbs(prog) {
			c.fail(p+".command[0]", fmt.Sprintf("%q is not an absolute path", prog), "write the whole path of the program, such as /usr/bin/sensors; a shell line needs [/bin/sh, -c, ...]")
		}
	case SourceHTTP:
		c.http(p, *in.HTTP)
	case SourceMQTT:
		c.mqtt(p, *in.MQTT)
	}
}

// undamaged reports whether none of the keys below path failed to decode.
func (c *checker) undamaged(path string, keys ...string) bool {
	for _, k := range keys {
		if !c.sound(path + "." + k) {
			return false
		}
	}
	return true
}

// misspelt reports whether an unknown key was found at path.
func (c *checker) misspelt(path string) bool {
	return slices.ContainsFunc(c.errs, func(e *Error) bool { return e.Path == path && strings.HasPrefix(e.Cause, "unknown key") })
}

func (c *checker) inputTimes(path string, in Input) {
	t := in.Type()
	for _, f := range []struct {
		key  string
		v    Duration
		used bool
		lo   Duration
	}{
		{"every", in.Every, in.Asked(), 10 * time.Millisecond},
		{"timeout", in.Timeout, in.Polled(), 10 * time.Millisecond},
		{"max_age", in.MaxAge, in.Polled() || in.Pushed(), 10 * time.Millisecond},
		{"retry", in.Retry, true, 10 * time.Millisecond},
		{"retry_max", in.RetryMax, true, 10 * time.Millisecond},
	} {
		switch {
		case f.v != 0 && !f.used:
			c.failKey(path+"."+f.key, fmt.Sprintf("a %s input has no %q", t, f.key), "remove it")
		case f.v != 0 && c.given(path+"."+f.key):
			between(c, path+"."+f.key, f.v, f.lo, 24*time.Hour)
		}
	}
	if c.sound(path+".retry", path+".retry_max") && in.RetryMax < in.Retry {
		c.fail(path+".retry_max", fmt.Sprintf("%s is shorter than \"retry\", %s", yamlx.ShowDuration(in.RetryMax), yamlx.ShowDuration(in.Retry)), fmt.Sprintf("use %s or more, or a shorter \"retry\"", yamlx.ShowDuration(in.Retry)))
	}
	if in.Asked() && c.sound(path+".every", path+".max_age") && in.MaxAge < in.Every {
		c.fail(path+".max_age", fmt.Sprintf("values come every %s and would be missing after %s", yamlx.ShowDuration(in.Every), yamlx.ShowDuration(in.MaxAge)), fmt.Sprintf("use %s or more, or a shorter \"every\"", yamlx.ShowDuration(in.Every)))
	}
}

func (c *checker) bus(path string, bus *int, setup []Register) {
	if bus != nil {
		between(c, path+".bus", *bus, 0, 255)
	}
	for i, r := range setup {
		p := fmt.Sprintf("%s.setup[%d]", path, i)
		if r.Register != nil {
			between(c, p+".register", *r.Register, 0, 255)
		}
		if r.Value != nil {
			between(c, p+".value", *r.Value, 0, 255)
		}
	}
}

func (c *checker) modbus(path string, m Modbus) {
	u, err := url.Parse(m.URL)
	switch {
	case err != nil || !slices.Contains([]string{"tcp", "rtu", "rtu+tcp"}, u.Scheme):
		c.fail(path+".url", "not a Modbus address", "write tcp://host:502, rtu:///dev/ttyUSB0 or rtu+tcp://host:port")
	case u.Scheme == "rtu" && (u.Host != "" || u.Path == ""):
		c.fail(path+".url", "no device in the address", "write rtu:// and the path of the device: rtu:///dev/ttyUSB0")
	case u.Scheme != "rtu" && (u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.User != nil):
		c.fail(path+".url", "not host and port", "write "+u.Scheme+"://host:502")
	default:
		c.port(path+".url", u)
	}
	if m.Unit != nil {
		between(c, path+".unit", *m.Unit, 0, 247)
		if *m.Unit == 0 && err == nil && u.Scheme != "tcp" {
			c.fail(path+".unit", "units on a serial line do not answer to 0, which is for all of them", "use the unit's own address, 1 to 247")
		}
	}
	c.line(path, m.Line)
}

// port reports a port that does not exist.
func (c *checker) port(path string, u *url.URL) (bad bool) {
	n, err := strconv.Atoi(u.Port())
	if bad = u.Port() != "" && (err != nil || n < 1 || n > 65535); bad {
		c.fail(path, fmt.Sprintf("there is no port %s", u.Port()), "use a port from 1 to 65535, or leave it out for the usual one")
	}
	return bad
}

func (c *checker) line(path string, l Line) {
	if !slices.Contains(Bauds(), l.Baud) {
		c.fail(path+".baud", fmt.Sprintf("%d is not a usual rate", l.Baud), "use one of "+strings.ReplaceAll(strings.Trim(fmt.Sprint(Bauds()), "[]"), " ", ", "))
	}
	between(c, path+".data_bits", l.DataBits, 7, 8)
	between(c, path+".stop_bits", l.StopBits, 1, 2)
	oneOf(c, path+".parity", l.Parity, "none", "even", "odd")
}

// Bauds lists the rates of serial lines.
func Bauds() []int {
	return []int{1200, 2400, 4800, 9600, 19200, 38400, 57600, 115200, 230400, 460800, 921600}
}

func (c *checker) serial(path string, s Serial) {
	if !filepath.IsAbs(s.Device) {
		c.fail(path+".device", fmt.Sprintf("%q is not an absolute path", s.Device), "write the whole path, such as /dev/ttyUSB0; those in /dev/serial/by-id stay the same")
	}
	oneOf(c, path+".format", s.Format, "csv", "json", "nmea", "text")
	if d, n := utf8.DecodeRuneInString(s.Delimiter); s.Delimiter != "" && s.Delimiter != "tab" && (n != len(s.Delimiter) || d == utf8.RuneError || d < ' ') {
		c.fail(path+".delimiter", fmt.Sprintf("invalid delimiter %q", s.Delimiter), "use one character, such as \",\" or \";\", or \"tab\"")
	} else if s.Delimiter != "" && s.Format != "csv" && c.sound(path+".format") {
		c.failKey(path+".delimiter", fmt.Sprintf("%s lines have no delimiter", s.Format), "remove it")
	}
	if len(s.Request) > 256 {
		c.fail(path+".request", fmt.Sprintf("the request has %d bytes", len(s.Request)), "use at most 256 bytes")
	}
	c.line(path, s.Line)
}

func (c *checker) http(path string, h HTTP) {
	u, err := url.Parse(h.URL)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		c.fail(path+".url", "not a web address", "write https://host/path")
	case u.User != nil:
		if pw, ok := u.User.Password(); ok {
			c.doc.Hide(pw)
		}
		c.fail(path+".url", "the address contains credentials", "use \"username\" and \"password: file:...\"")
	case c.port(path+".url", u):
	case u.Scheme == "https":
		if h.Insecure {
			c.failKey(path+".insecure", "the address asks for TLS and insecure for none", "remove \"insecure\", or use http://")
		}
	case !h.Insecure && !loopback(u.Hostname()):
		c.fail(path+".url", fmt.Sprintf("no TLS to %s", u.Hostname()), "use https://; or, in a network that you trust, add \"insecure: true\"")
	}
	c.secretAt(path+".password", h.Password)
	c.secretAt(path+".token", h.Token)
	switch {
	case h.Password != "" && h.Username == "" && c.sound(path+".username"):
		c.failKey(path+".password", "a password without a user name", "add \"username\", or remove the password")
	case h.Username != "" && h.Token != "" && h.Header == "":
		c.failKey(path+".token", "both \"username\" and \"token\" are given", "keep one of them; or add \"header\", the header that the token goes into")
	case h.Header != "" && h.Token == "" && c.sound(path+".token"):
		c.failKey(path+".header", "a header without its value", "add \"token: file:...\"")
	}
	if h.Header != "" && !identHeader(h.Header) {
		c.fail(path+".header", fmt.Sprintf("invalid header name %q", h.Header), "use letters, digits and '-', such as X-API-Key")
	}
	c.pairOf(path, h.Cert, h.Key)
}

func identHeader(s string) bool {
	return len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	})
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (c *checker) mqtt(path string, m MQTT) {
	e, err := m.Broker().Endpoint()
	switch {
	case err != nil:
		if u, perr := url.Parse(m.URL); perr == nil && u.User != nil {
			if pw, ok := u.User.Password(); ok {
				c.doc.Hide(pw)
			}
		}
		c.fail(path+".url", strings.TrimPrefix(err.Error(), ErrInvalid.Error()+": "), urlRemedy(m.URL))
	case e.TLS && m.Insecure:
		c.failKey(path+".insecure", "the URL asks for TLS and insecure for none", "remove \"insecure\", or use tcp://")
	case !e.TLS && !m.Insecure && !e.Loopback():
		c.fail(path+".url", fmt.Sprintf("no TLS to %s", e.Host), "use tls://; or, in a network that you trust, add \"insecure: true\"")
	}
	c.secretAt(path+".password", m.Password)
	if m.Password != "" && m.Username == "" && c.sound(path+".username") {
		c.failKey(path+".password", "a password without a user name", "add \"username\", or remove the password")
	}
	c.pairOf(path, m.Cert, m.Key)
}

func (c *checker) secretAt(path string, s Secret) {
	if s == "" {
		return
	}
	if why := s.problem(); why != "" {
		c.doc.Hide(string(s))
		c.fail(path, why, s.remedy())
	}
}

func (c *checker) pairOf(path, cert, key string) {
	if cert != "" && key == "" {
		c.failKey(path+".cert", "a client certificate without its key", "add \"key: FILE\", the private key that belongs to it")
	}
	if key != "" && cert == "" {
		c.failKey(path+".key", "a private key without its certificate", "add \"cert: FILE\", the certificate that belongs to it")
	}
}
