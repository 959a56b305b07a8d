package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Broker says how to reach the MQTT broker.
type Broker struct {
	// URL is tls://host:port or mqtts://host:port, or wss://host:port/path over a
	// WebSocket; tcp://, mqtt:// and ws:// only to a loopback address or with Insecure.
	URL string `yaml:"url" cfg:"required"`
	// Insecure allows traffic without TLS. Ciphertexts stay unreadable and
	// signed; topics, sizes and the password do not.
	Insecure bool `yaml:"insecure"`
	// ClientID is the MQTT client id; by default the role and its name.
	ClientID string `yaml:"client_id"`
	// CA is a PEM file of roots to trust instead of the system's. Cert and Key
	// are the PEM files of the client's certificate.
	CA   string `yaml:"ca" cfg:"path"`
	Cert string `yaml:"cert" cfg:"path"`
	Key  string `yaml:"key" cfg:"path"`
	// ServerName overrides the host name that the broker's certificate must
	// carry.
	ServerName string `yaml:"server_name"`
	// ALPN are the protocol names offered in the TLS handshake, for brokers
	// that share port 443, such as "x-amzn-mqtt-ca".
	ALPN     []string `yaml:"alpn"`
	Username string   `yaml:"username"`
	Password Secret   `yaml:"password"`
	// TopicPrefix starts every topic.
	TopicPrefix string `yaml:"topic_prefix"`
	// ChunkSize is the largest MQTT payload that is sent.
	ChunkSize Size     `yaml:"chunk_size"`
	KeepAlive Duration `yaml:"keep_alive"`
	// ReconnectMax is the longest delay between attempts to connect.
	ReconnectMax Duration `yaml:"reconnect_max"`
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

// Endpoint is a broker's address taken apart.
type Endpoint struct {
	TLS  bool
	Host string
	Port int
}

// Loopback reports whether the host is this machine.
func (e Endpoint) Loopback() bool { return loopback(e.Host) }

// loopback reports whether host is this machine.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
