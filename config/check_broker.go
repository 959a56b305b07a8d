package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// Endpoint is a broker's address taken apart.
type Endpoint struct {
	TLS  bool
	Host string
	Port int
}

// Address is "host:port", with brackets around an IPv6 host.
func (e Endpoint) Address() string { return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) }

// Loopback reports whether the host is this machine.
func (e Endpoint) Loopback() bool {
	if e.Host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(e.Host)
	return err == nil && ip.IsLoopback()
}

// Endpoint takes the URL apart. The port defaults to 8883 with TLS and 1883
// without; for a WebSocket to 443 and 80.
func (b Broker) Endpoint() (Endpoint, error) {
	u, err := url.Parse(b.URL)
	if err != nil {
		return Endpoint{}, fmt.Errorf("%w: the broker's URL cannot be read", ErrInvalid)
	}
	var e Endpoint
	switch u.Scheme {
	case "tls", "mqtts", "ssl":
		e = Endpoint{TLS: true, Port: 8883}
	case "tcp", "mqtt":
		e = Endpoint{Port: 1883}
	case "wss":
		e = Endpoint{TLS: true, Port: 443}
	case "ws":
		e = Endpoint{Port: 80}
	default:
		if !strings.Contains(b.URL, "://") {
			return Endpoint{}, fmt.Errorf("%w: the broker's URL has no scheme such as tls://", ErrInvalid)
		}
		return Endpoint{}, fmt.Errorf("%w: unknown scheme %q in the broker's URL", ErrInvalid, u.Scheme)
	}
	if e.Host = u.Hostname(); e.Host == "" {
		return Endpoint{}, fmt.Errorf("%w: the broker's URL names no host", ErrInvalid)
	}
	if p := u.Port(); p != "" {
		if e.Port, err = strconv.Atoi(p); err != nil || e.Port < 1 || e.Port > 65535 {
			return Endpoint{}, fmt.Errorf("%w: invalid port %q in the broker's URL", ErrInvalid, p)
		}
	}
	if u.User != nil {
		return Endpoint{}, fmt.Errorf("%w: the broker's URL contains credentials", ErrInvalid)
	}
	web := u.Scheme == "ws" || u.Scheme == "wss"
	if (u.Path != "" && u.Path != "/" && !web) || u.RawQuery != "" || u.Fragment != "" {
		return Endpoint{}, fmt.Errorf("%w: the broker's URL has a path or a query", ErrInvalid)
	}
	return e, nil
}

const (
	maxPrefixLevels = 8 // names in the topic prefix
)

func (c *checker) broker(b Broker) {
	const p = "broker"
	if c.sound(p+".url", p+".insecure") {
		c.endpoint(b)
	}
	if b.Cert != "" && b.Key == "" {
		c.failKey(p+".cert", "a client certificate without its key", "add \"key: FILE\", the private key that belongs to it")
	}
	if b.Key != "" && b.Cert == "" {
		c.failKey(p+".key", "a private key without its certificate", "add \"cert: FILE\", the certificate that belongs to it")
	}
	if b.Password != "" {
		if why := b.Password.problem(); why != "" {
			c.doc.Hide(string(b.Password))
			c.fail(p+".password", why, b.Password.remedy())
		}
		if b.Username == "" && c.sound(p+".username") {
			c.failKey(p+".password", "a password without a user name", "add \"username\", or remove the password")
		}
	}
	if !c.given(p + ".client_id") {
		// The default is made from the name, which is checked on its own.
	} else if len(b.ClientID) > 128 || strings.ContainsFunc(b.ClientID, func(r rune) bool { return r <= ' ' || r > '~' }) {
		c.fail(p+".client_id", "not a usable client id", "use up to 128 printable ASCII characters without spaces")
	}
	c.alpn(b.ALPN)
	c.topic(p+".topic_prefix", b.TopicPrefix, 128)
	if strings.Count(b.TopicPrefix, "/") >= maxPrefixLevels {
		c.fail(p+".topic_prefix", fmt.Sprintf("more than %d levels", maxPrefixLevels), "use a shorter prefix, such as "+DefaultTopicPrefix)
	}
	between(c, p+".chunk_size", b.ChunkSize, KiB, 16*MiB)
	between(c, p+".keep_alive", b.KeepAlive, time.Second, 65535*time.Second)
	between(c, p+".reconnect_max", b.ReconnectMax, time.Second, time.Hour)
}

func (c *checker) endpoint(b Broker) {
	const p = "broker"
	e, err := b.Endpoint()
	if err != nil {
		cause := strings.TrimPrefix(err.Error(), ErrInvalid.Error()+": ")
		remedy := urlRemedy(b.URL)
		if u, err := url.Parse(b.URL); err == nil && u.User != nil {
			if pw, ok := u.User.Password(); ok {
				c.doc.Hide(pw)
			}
			remedy = "use \"username\" and \"password: file:...\""
		}
		c.errs = append(c.errs, c.doc.Problem(p+".url", cause, remedy))
		return
	}
	if e.TLS {
		if b.Insecure {
			c.failKey(p+".insecure", "the URL asks for TLS and insecure for none", "remove \"insecure\", or use tcp:// for a broker without TLS")
		}
		return
	}
	if !b.Insecure && !e.Loopback() {
		c.fail(p+".url", fmt.Sprintf("no TLS to %s", e.Host), "use tls://; or, in a network that you trust, add \"insecure: true\"")
	}
	alpn := strings.Join(b.ALPN, " ")
	for key, v := range map[string]string{"ca": b.CA, "cert": b.Cert, "server_name": b.ServerName, "alpn": alpn} {
		if v != "" {
			c.failKey(p+"."+key, fmt.Sprintf("%q is used only with TLS", key), "use tls:// in the URL, or remove it")
		}
	}
}

// urlRemedy writes a broker's URL as it was probably meant.
func urlRemedy(text string) string {
	_, rest, ok := strings.Cut(text, "://")
	if !ok {
		rest = text
	}
	host, port, err := net.SplitHostPort(strings.Trim(strings.SplitN(rest, "/", 2)[0], "/"))
	if n, perr := strconv.Atoi(port); err != nil {
		host, port = strings.SplitN(rest, "/", 2)[0], "8883"
	} else if perr != nil || n < 1 || n > 65535 || n == 80 || n == 443 || n == 1883 {
		port = "8883"
	}
	if host == "" || strings.ContainsAny(host, "@?#: ") {
		host = "host"
	}
	return "write tls://" + host + ":" + port
}

// topic checks a topic to publish on: no wildcards, no empty level.
func (c *checker) topic(path, t string, limit int) {
	bad := func(why string) {
		c.fail(path, fmt.Sprintf("invalid topic %s: %s", yamlx.Quote(t), why), "use names of letters, digits, '_', '.' and '-' with '/' between them, such as "+DefaultTopicPrefix)
	}
	switch {
	case len(t) > limit:
		bad(fmt.Sprintf("longer than %d bytes", limit))
	case strings.ContainsAny(t, "+#"):
		bad("it has a wildcard")
	case strings.HasPrefix(t, "$"):
		bad("topics that start with '$' belong to the broker")
	default:
		for level := range strings.SplitSeq(t, "/") {
			if !ValidName(level) {
				bad(emptyOr(level))
				return
			}
		}
	}
}

// emptyOr says what is wrong with a level of a topic.
func emptyOr(level string) string {
	if level == "" {
		return "a '/' at an end, or two together"
	}
	return fmt.Sprintf("the level %s is no name", yamlx.Quote(level))
}

func (c *checker) log(l Log) {
	oneOf(c, "log.level", l.Level, "debug", "info", "warn", "error")
	oneOf(c, "log.format", l.Format, "text", "json")
}

func (c *checker) metrics(m Metrics) {
	if m.Listen == "" {
		return
	}
	if path, local := strings.CutPrefix(m.Listen, "unix:"); local {
		c.socket("metrics.listen", path)
		return
	}
	_, port, err := net.SplitHostPort(m.Listen)
	if n, e := strconv.Atoi(port); err != nil || e != nil || n < 0 || n > 65535 {
		c.fail("metrics.listen", fmt.Sprintf("invalid address %q", m.Listen), "write host:port, such as 127.0.0.1:9464, or unix:/run/hencedge/agent/metrics.sock")
	}
}

// maxSocketPath is what a socket address holds, less its final zero, bytes.
const maxSocketPath = 107

// socket checks the path of a local socket.
func (c *checker) socket(path, file string) {
	switch {
	case !filepath.IsAbs(file) && path == "metrics.listen":
		c.fail(path, fmt.Sprintf("%q is no absolute path", file), "write unix: and an absolute path, such as unix:/run/hencedge/agent/metrics.sock")
	case len(file) > maxSocketPath:
		c.fail(path, fmt.Sprintf("the path of a socket has at most %d bytes, this one %d", maxSocketPath, len(file)), "use a shorter path, such as one below /run/hencedge")
	}
}

// control checks the control socket.
func (c *checker) control(k Control) {
	if k.Socket != "" {
		c.socket("control.socket", k.Socket)
	}
}

// alpn checks the protocol names.
func (c *checker) alpn(names []string) {
	for i, n := range names {
		if len(n) > 255 || strings.ContainsFunc(n, func(r rune) bool { return r <= ' ' || r > '~' }) {
			c.fail(fmt.Sprintf("broker.alpn[%d]", i), fmt.Sprintf("%q is no protocol name", n), "write up to 255 printable ASCII characters, such as x-amzn-mqtt-ca")
		}
	}
	c.distinct("broker.alpn", "protocol", names)
}

func (c *checker) limits(l Limits) {
	between(c, "limits.object", l.Object, 4*KiB, 256*MiB)
	between(c, "limits.pending", l.Pending, 1, 1<<20)
	between(c, "limits.memory", l.Memory, MiB, 1024*GiB)
	between(c, "limits.reassembly", l.Reassembly, time.Second, 24*time.Hour)
	if c.sound("limits.memory", "limits.object") && l.Memory < l.Object {
		c.fail("limits.memory", fmt.Sprintf("%s cannot hold one object of %s", l.Memory, l.Object), fmt.Sprintf("use %s or more, or lower limits.object", l.Object))
	}
}
