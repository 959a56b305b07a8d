// Package daemon holds what the long-running roles share: how a configuration
// says to reach the broker, the metrics page and the control socket, the talk
// with the service manager, reloading, and logs. It imports config and transport
// only.
package daemon

import (
	"log/slog"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// BrokerOptions are the connection options that b describes; the caller adds its
// birth message, last will and callbacks. Messages are taken up to one chunk of
// b's size with its header. It fails when a certificate or key cannot be read.
func BrokerOptions(b config.Broker, log *slog.Logger) (transport.Options, error) {
	tls, err := tlsutil.Files{CA: b.CA, Cert: b.Cert, Key: b.Key, ServerName: b.ServerName}.Source()
	if err != nil {
		return transport.Options{}, err
	}
	o := transport.Options{
		URL: b.URL, Insecure: b.Insecure, ClientID: b.ClientID, Username: b.Username, TLSSource: tls.Config, ALPN: b.ALPN, KeepAlive: b.KeepAlive, MaxReconnect: b.ReconnectMax,
		MaxInbound: max(transport.DefaultMaxInbound, int(b.ChunkSize)+4096), Logger: log,
	}
	if b.Password != "" {
		o.Password = func() (string, error) {
			secret, err := b.Password.Resolve()
			return string(secret), err
		}
	}
	return o, nil
}
