package mqtt

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// What holds for a client unless its options say otherwise.
const (
	DefaultMaxInbound = 1 << 20          // largest inbound payload, bytes
	DefaultKeepAlive  = 60 * time.Second // between pings on an idle connection
	maxInflight       = 1024             // inbound messages whose handlers have not returned
	maxInflightBytes  = 64 << 20         // their payloads, bytes
	patience          = 10 * time.Second // without room for what comes in
	pingTimeout       = 30 * time.Second // for the answer to a ping
	writeTimeout      = 30 * time.Second // for one chunk to leave: links below 4 KB/s need smaller chunks
	connectTimeout    = 30 * time.Second // for TCP, TLS and MQTT handshakes
	maxReconnect      = 60 * time.Second // between attempts
	settled           = 10 * time.Second // a connection that ends sooner counts as short
	manyShort         = 5                // short connections in a row that are told apart
	maxPending        = 64               // messages published and not yet acknowledged
	defaultPath       = "/mqtt"          // of a broker's WebSocket
)

// Options of Dial. URL and ClientID are required; the rest has defaults.
type Options struct {
	// URL of the broker: tls://, mqtts:// or ssl:// host[:8883], or tcp:// or
	// mqtt:// host[:1883]; wss:// host[:443][/path] and ws:// host[:80][/path] are
	// MQTT over a WebSocket, by default at /mqtt. Without TLS only a loopback address
	// is taken, unless Insecure is set.
	URL      string
	Insecure bool

	// ClientID names the session at the broker. It must stay the same across
	// restarts and be used by one client at a time.
	ClientID string

	Username string
	Password func() (string, error) // asked on every connection; may be nil

	// TLS is cloned. nil means the system's roots. Certificates rotate when
	// GetClientCertificate is set (see package tlsutil). ALPN adds protocol
	// names, for brokers that share port 443.
	TLS  *tls.Config
	ALPN []string
	// TLSSource, where set, is asked for the configuration of every connection
	// instead of TLS, so that roots can change while the client runs.
	TLSSource func() *tls.Config

	// Will makes the last will, anew for every connection; Birth is published
	// on every connection. Either may be nil.
	Will  func() (transport.Message, error)
	Birth func() (transport.Message, error)

	// Live asks for what is published now, in order, and for nothing that was
	// missed: the broker keeps no session, and handlers are called one at a
	// time and must not block.
	Live bool

	// Filters, if any, are all that the client will ever subscribe to. A message on any
	// other topic belongs to a subscription of an earlier process, and is dropped at once
	// instead of after a minute: brokers hold others back while it is unacknowledged.
	Filters []string

	MaxInbound int           // largest payload to take, bytes; 0: DefaultMaxInbound
	KeepAlive  time.Duration // 0: DefaultKeepAlive

	// MaxInflight and MaxInflightBytes bound the inbound messages whose handlers have not
	// returned, and their payloads; 0: 1024 messages, 64 MiB. Each subscription may have
	// one besides. Without room the client does not read from the broker. A client that is not
	// Live drops what comes with QoS 0.
	MaxInflight, MaxInflightBytes int
	// Patience is how long the client stops reading from the broker for want of room; 0: 10 s.
	// Then handlers count as stuck. Until there is room again it reads on, and drops what does
	// not fit. The broker delivers that once more on the next connection.
	Patience time.Duration

	// MaxPending bounds the messages that are published and not yet acknowledged, over
	// lost connections too and whoever has given one up; 0: 64.
	MaxPending int

	// MaxReconnect is the longest delay between attempts to connect; 0: 60 s.
	MaxReconnect time.Duration

	// Background makes Dial return at once and connect in the background, for
	// a service that must start while the broker is away.
	Background bool

	Logger    *slog.Logger        // nil: slog.Default
	Counters  *transport.Counters // counts oversized and unroutable messages; may be nil
	OnConnect func()              // after every connection, on its own goroutine
	OnLost    func(error)         // after every loss, on its own goroutine
	// OnRefused is told of inbound messages that were dropped before any
	// handler saw them, such as oversized ones.
	OnRefused func(topic string, err error)

	// Dialer opens the TCP connection; nil: net.Dialer. Tests and tunnels set it.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)

	writeTimeout time.Duration // 0: the constant of that name
	pingTimeout  time.Duration // 0: the constant of that name
	manyShort    int           // 0: the constant of that name
	strayWait    time.Duration // 0: the constant of that name
}

func (o *Options) endpoint() (endpoint, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" {
		return endpoint{}, fmt.Errorf("%w: broker URL %q, want for example tls://broker.example:8883",
			transport.ErrOptions, o.URL)
	}
	web := u.Scheme == "ws" || u.Scheme == "wss"
	if u.User != nil || (u.Path != "" && u.Path != "/" && !web) || u.RawQuery != "" || u.Fragment != "" {
		return endpoint{}, fmt.Errorf("%w: broker URL of host %q carries more than scheme, host and port",
			transport.ErrOptions, u.Host)
	}
	e := endpoint{host: u.Hostname()}
	if web {
		e.authority, e.path = u.Host, u.EscapedPath()
		if e.path == "" || e.path == "/" {
			e.path = defaultPath
		}
	}
	port := u.Port()
	switch u.Scheme {
	case "tls", "mqtts", "ssl":
		e.secure = true
		port = cmp.Or(port, "8883")
	case "wss":
		e.secure = true
		port = cmp.Or(port, "443")
	case "tcp", "mqtt", "ws":
		plain := "1883"
		if web {
			plain = "80"
		}
		port = cmp.Or(port, plain)
		if !o.Insecure && !isLoopback(e.host) {
			return endpoint{}, fmt.Errorf("%w: %q is not encrypted: use tls:// or wss://, or allow it with insecure",
				transport.ErrOptions, o.URL)
		}
	default:
		return endpoint{}, fmt.Errorf("%w: broker URL scheme %q, want tls, mqtts, tcp, mqtt, wss or ws",
			transport.ErrOptions, u.Scheme)
	}
	e.address = net.JoinHostPort(e.host, port)
	return e, nil
}

// endpoint is a checked Options.URL.
type endpoint struct {
	address string // host:port
	host    string
	secure  bool

	// Of a WebSocket: host and port as they stand in the URL, and the path; "" without.
	authority, path string
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// check fills in defaults and refuses what cannot work.
func (o *Options) check() error {
	if o.ClientID == "" || len(o.ClientID) > 128 {
		return fmt.Errorf("%w: client id of %d bytes, want 1 to 128", transport.ErrOptions, len(o.ClientID))
	}
	if o.MaxInbound == 0 {
		o.MaxInbound = DefaultMaxInbound
	}
	if o.MaxInbound < transport.MinChunkSize || o.MaxInbound > transport.MaxChunkSize {
		return fmt.Errorf("%w: largest inbound message %d, want %d to %d bytes", transport.ErrOptions, o.MaxInbound,
			transport.MinChunkSize, transport.MaxChunkSize)
	}
	o.MaxInflight, o.MaxInflightBytes = cmp.Or(o.MaxInflight, maxInflight), cmp.Or(o.MaxInflightBytes, maxInflightBytes)
	if o.MaxInflight < 1 || o.MaxInflightBytes < 1 {
		return fmt.Errorf("%w: %d inbound messages of %d bytes, want at least 1", transport.ErrOptions, o.MaxInflight,
			o.MaxInflightBytes)
	}
	o.Patience = cmp.Or(o.Patience, patience)
	if o.MaxPending == 0 {
		o.MaxPending = maxPending
	}
	if o.MaxPending < 2 {
		return fmt.Errorf("%w: at most %d messages unacknowledged, want at least 2", transport.ErrOptions, o.MaxPending)
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = DefaultKeepAlive
	}
	if o.KeepAlive < time.Second {
		return fmt.Errorf("%w: keep-alive %v, want at least 1s", transport.ErrOptions, o.KeepAlive)
	}
	if o.MaxReconnect == 0 {
		o.MaxReconnect = maxReconnect
	}
	if o.MaxReconnect < time.Second {
		return fmt.Errorf("%w: longest delay between connections %v, want at least 1s", transport.ErrOptions,
			o.MaxReconnect)
	}
	if o.writeTimeout == 0 {
		o.writeTimeout = writeTimeout
	}
	if o.manyShort == 0 {
		o.manyShort = manyShort
	}
	if o.strayWait == 0 {
		o.strayWait = strayWait
	}
	if o.pingTimeout == 0 {
		o.pingTimeout = pingTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Dialer == nil {
		o.Dialer = (&net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	return nil
}

// tlsConfig returns the configuration for one connection to e.
func (o *Options) tlsConfig(e endpoint) *tls.Config {
	c := &tls.Config{}
	switch {
	case o.TLSSource != nil:
		c = o.TLSSource().Clone()
	case o.TLS != nil:
		c = o.TLS.Clone()
	}
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	if c.ServerName == "" {
		c.ServerName = e.host
	}
	c.NextProtos = append(append([]string(nil), c.NextProtos...), o.ALPN...)
	return c
}

// Bounds on messages that arrive before their subscription is made, within the bounds of
// Options. After a restart the broker delivers at once what it kept for the session.
const (
	maxStashed      = 256
	maxStashedBytes = 16 << 20
	subscribeWait   = 30 * time.Second
	strayWait       = 2 * subscribeWait // for a subscription to a message that none covers
	maxGone         = 256               // filters that were given up, remembered
)
