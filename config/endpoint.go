package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
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
