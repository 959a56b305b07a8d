// Package broker is an MQTT broker inside the process, for the demo and for
// tests. It keeps everything in memory; a deployment uses a real broker.
package broker

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"sync"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
)

// Options of Start. The zero value listens without TLS on a free loopback port.
type Options struct {
	Address   string       // host:port; empty: 127.0.0.1:0
	TLS       *tls.Config  // nil: plain TCP, on loopback addresses only
	MaxPacket int          // largest packet in bytes; 0: no limit
	Logger    *slog.Logger // nil: silent

	// Users maps user names to passwords; nil lets everybody in.
	Users map[string]string
}

// Broker is a running broker.
type Broker struct {
	server   *mqtt.Server
	listener *listener
	addr     string
	secure   bool
	once     sync.Once
	err      error
}

// Start runs a broker and returns it with the address that it listens on. The
// caller closes it.
func Start(o Options) (b *Broker, addr string, err error) {
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return nil, "", fmt.Errorf("start broker: address %q: %w", o.Address, err)
	}
	if ip := net.ParseIP(host); o.TLS == nil && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, "", fmt.Errorf("start broker: %q is not a loopback address; give it a TLS configuration", o.Address)
	}
	if o.MaxPacket < 0 || o.MaxPacket > 1<<28 {
		return nil, "", fmt.Errorf("start broker: largest packet of %d bytes, want at most %d", o.MaxPacket, 1<<28)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	caps := mqtt.NewDefaultServerCapabilities()
	caps.MaximumPacketSize = uint32(o.MaxPacket)
	s := mqtt.New(&mqtt.Options{Capabilities: caps, Logger: o.Logger, SysTopicResendInterval: 60})
	if err := s.AddHook(&gate{server: s, users: o.Users}, nil); err != nil {
		s.Close()
		return nil, "", fmt.Errorf("start broker: %w", err)
	}
	tcp, err := net.Listen("tcp", o.Address)
	if err != nil {
		s.Close()
		return nil, "", fmt.Errorf("start broker: listen on %s: %w", o.Address, err)
	}
	own := newListener(tcp)
	var ln net.Listener = own
	if o.TLS != nil {
		ln = tls.NewListener(ln, o.TLS)
	}
	l := listeners.NewNet("mqtt", ln)
	if err := s.AddListener(l); err != nil {
		s.Close()
		ln.Close()
		return nil, "", fmt.Errorf("start broker: listen on %s: %w", o.Address, err)
	}
	if err := s.Serve(); err != nil {
		s.Close()
		return nil, "", fmt.Errorf("start broker: %w", err)
	}
	return &Broker{server: s, listener: own, addr: l.Address(), secure: o.TLS != nil}, l.Address(), nil
}

// URL returns the address as clients take it.
func (b *Broker) URL() string {
	if b.secure {
		return "tls://" + b.addr
	}
	return "tcp://" + b.addr
}

// Close stops the broker and cuts all connections. It may be called twice.
func (b *Broker) Close() error {
	b.once.Do(func() {
		b.listener.stop()
		b.err = b.server.Close()
	})
	return b.err
}
