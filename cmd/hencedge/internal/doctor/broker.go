package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/keyholder"
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

// reach connects once, under a client id of its own so that it does not take
// the session of a running service.
func reach(ctx context.Context, role string, b config.Broker, timeout time.Duration) Check {
	c := Check{Name: role + " broker", Status: OK}
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	b.ClientID += "-doctor"
	start := time.Now()
	client, err := keyholder.Dial(ctx, b, slog.New(slog.DiscardHandler))
	if err != nil {
		c.Status, c.Detail = Fail, err.Error()
		c.Remedy = "check url, firewall, ca and credentials"
		return c
	}
	defer client.Close(ctx)
	c.Detail = fmt.Sprintf("%s answers in %v", b.URL, time.Since(start).Round(time.Millisecond))
	return c
}

// expirySoon is when a certificate's end is worth a warning.
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
