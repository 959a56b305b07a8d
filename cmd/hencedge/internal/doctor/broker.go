package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// brokerChecks tries the credentials and the connection of a role.
func brokerChecks(ctx context.Context, role string, b config.Broker, o Options) []Check {
	var out []Check
	noPassword := false
	if b.Password != "" {
		c := Check{Name: role + " broker password", Status: OK, Detail: "resolves"}
		if o.Offline && strings.HasPrefix(string(b.Password), "cred:") && os.Getenv("CREDENTIALS_DIRECTORY") == "" {
			c.Status, c.Detail = Info, "systemd hands it to the service; --credentials looks for it"
		} else if secret, err := b.Password.Resolve(); err != nil {
			noPassword = true
			c.Status, c.Detail, c.Remedy = Fail, err.Error(), "see broker.password in the configuration"
		} else {
			clear(secret)
		}
		out = append(out, c)
	}
	if b.Key != "" {
		out = append(out, privateFile(role+" TLS key", b.Key), certificate(role+" certificate", b.Cert, time.Now()))
	}
	switch {
	case o.Offline:
		return append(out, Check{Name: role + " broker", Status: Info, Detail: "not tried"})
	case noPassword: // the broker's refusal would only hide why
		return append(out, Check{Name: role + " broker", Status: Info, Detail: "not tried without its password"})
	}
	return append(out, reach(ctx, role, b, o.Timeout))
}

// reach connects once. It uses a client id of its own, so that it does not take over the
// session of a running service.
func reach(ctx context.Context, role string, b config.Broker, timeout time.Duration) Check {
	c := Check{Name: role + " broker", Status: OK}
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	b.ClientID += "-doctor"
	start := time.Now()
	client, err := keyholder.Dial(ctx, b, slog.New(slog.DiscardHandler))
	if err != nil {
		c.Status, c.Detail = Fail, err.Error()
		c.Remedy = unreachable(err, b.ClientID)
		return c
	}
	defer client.Close(ctx)
	c.Detail = fmt.Sprintf("%s answers in %v", b.URL, time.Since(start).Round(time.Millisecond))
	secured(ctx, b, time.Now(), &c)
	return c
}

// unreachable returns what to do about a connection that failed with err.
func unreachable(err error, id string) string {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority):
		return "give the authority that signed the broker's certificate as broker.ca"
	case errors.As(err, &name) && len(name.Certificate.DNSNames) == 0 && len(name.Certificate.IPAddresses) == 0:
		return "have the broker's certificate made anew, with the host of broker.url as subjectAltName"
	case errors.As(err, &name):
		return "write a name of the broker's certificate into broker.url or broker.server_name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "set this machine's clock, or renew the broker's certificate"
	case errors.Is(err, transport.ErrRefused):
		return fmt.Sprintf("check broker.username, broker.password, broker.cert and key, and whether the broker "+
			"allows the client id %s, which only doctor uses", id)
	}
	return "check broker.url, the firewall, and whether the broker runs"
}

// secured adds to c how the way to the broker is secured, and until when the
// broker's certificate is valid.
func secured(ctx context.Context, b config.Broker, now time.Time, c *Check) {
	e, err := b.Endpoint()
	if err != nil {
		return
	}
	if !e.TLS {
		c.Detail += ", without TLS"
		if !e.Loopback() {
			c.Status, c.Remedy = Warn, "use tls://: topics, sizes and the password are sent unencrypted"
		}
		return
	}
	conf, err := tlsutil.Files{CA: b.CA, Cert: b.Cert, Key: b.Key, ServerName: cmp.Or(b.ServerName, e.Host)}.Config()
	if err != nil {
		return // the connection was made with them a moment ago
	}
	conf.NextProtos = b.ALPN
	d := tls.Dialer{Config: conf}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(e.Host, strconv.Itoa(e.Port)))
	if err != nil {
		return
	}
	defer conn.Close()
	s := conn.(*tls.Conn).ConnectionState()
	c.Detail += ", " + tls.VersionName(s.Version)
	if s.NegotiatedProtocol != "" {
		c.Detail += ", ALPN " + s.NegotiatedProtocol
	}
	if len(s.PeerCertificates) == 0 {
		return
	}
	end := s.PeerCertificates[0].NotAfter
	c.Detail += ", the broker's certificate is valid until " + end.UTC().Format(time.RFC3339)
	if end.Sub(now) < brokerSoon {
		c.Status, c.Remedy = Warn, "have the broker's certificate renewed: without a valid one, no role can connect"
	}
}

// brokerSoon is how long before its end the broker's certificate is worth a warning.
// Certificates that a program renews last 90 days or less, and are renewed when a third of
// that is left.
const brokerSoon = 7 * 24 * time.Hour

// expirySoon is how long before its end a certificate is worth a warning.
const expirySoon = 30 * 24 * time.Hour

func certificate(name, path string, now time.Time) Check {
	c := Check{Name: name, Status: OK}
	raw, err := os.ReadFile(path)
	if err != nil {
		c.Status, c.Detail = Fail, err.Error()
		return c
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		c.Status, c.Detail = Fail, path+" holds no PEM certificate"
		return c
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		c.Status, c.Detail = Fail, fmt.Sprintf("%s: %v", path, err)
		return c
	}
	c.Detail = fmt.Sprintf("%s, valid until %s", path, cert.NotAfter.UTC().Format(time.RFC3339))
	switch {
	case now.Before(cert.NotBefore) || now.After(cert.NotAfter):
		c.Status, c.Remedy = Fail, "the certificate is not valid now: renew it, or set the clock"
	case cert.NotAfter.Sub(now) < expirySoon:
		c.Status, c.Remedy = Warn, "renew it"
	}
	return c
}
