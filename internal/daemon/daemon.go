// Package daemon holds what the long-running roles share: broker options from a
// configuration, the metrics page, the control socket, the service manager, reloads
// and logs. It imports config and transport only.
package daemon

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport/mqtt"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

func tlsFiles(b config.Broker) tlsutil.Files {
	return tlsutil.Files{CA: b.CA, Cert: b.Cert, Key: b.Key, ServerName: b.ServerName}
}

// certificateSoon is how long before its end a client certificate counts as a health
// problem. Automatic renewal has then failed more than once.
const certificateSoon = 7 * 24 * time.Hour

// CertificateHealth returns what is wrong with the client certificate for b: it ends
// soon, has ended, or cannot be read. It returns "" if nothing is.
func CertificateHealth(b config.Broker, now time.Time) string {
	end, err := tlsFiles(b).CertificateEnd()
	switch {
	case err != nil:
		return err.Error()
	case end.IsZero() || end.Sub(now) > certificateSoon:
		return ""
	case !end.After(now):
		return fmt.Sprintf("the client certificate %s ended at %s: renew it", b.Cert, end.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("the client certificate %s ends at %s: renew it", b.Cert, end.UTC().Format(time.RFC3339))
}

// BrokerOptions returns the connection options that b describes. The caller adds its
// birth message, last will and callbacks. The largest accepted message is one chunk
// of b's size with its header. BrokerOptions fails when a certificate or key cannot be read.
func BrokerOptions(b config.Broker, log *slog.Logger) (mqtt.Options, error) {
	tls, err := tlsFiles(b).Source(func(err error) {
		if log != nil {
			log.Error("cannot use the new TLS files", "error", err)
		}
	})
	if err != nil {
		return mqtt.Options{}, err
	}
	o := mqtt.Options{
		URL: b.URL, Insecure: b.Insecure, ClientID: b.ClientID, Username: b.Username,
		TLSSource: tls.Config, ALPN: b.ALPN,
		KeepAlive: b.KeepAlive, MaxReconnect: b.ReconnectMax,
		MaxInbound: max(mqtt.DefaultMaxInbound, int(b.ChunkSize)+4096), Logger: log,
	}
	if b.Password != "" {
		o.Password = func() (string, error) {
			secret, err := b.Password.Resolve()
			return string(secret), err
		}
	}
	return o, nil
}
