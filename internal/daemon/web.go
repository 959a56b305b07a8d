package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// WebFiles returns the TLS files of a web server.
func WebFiles(h *config.HTTP) tlsutil.Files {
	return tlsutil.Files{CA: h.CA, Cert: h.Cert, Key: h.Key, ServerName: h.ServerName}
}

// CheckWeb looks at the files and secrets that a connection to a web server needs. who names the
// user that must be able to read them. It calls fail for every fault, with its place in the
// configuration, which begins with at, and a remedy. It connects to nothing.
func CheckWeb(h *config.HTTP, who, at string, fail func(path, remedy string, err error)) {
	if field, err := WebFiles(h).Check(); err != nil {
		remedy := "correct the path or the file"
		if errors.Is(err, fs.ErrPermission) {
			remedy = "let " + who + " read the file and enter its directory"
		}
		fail(at+field, remedy, err)
	}
	for key, s := range map[string]config.Secret{"password": h.Password, "token": h.Token} {
		secret, err := s.Resolve()
		if err != nil {
			fail(at+key, s.Available(), err)
		}
		clear(secret)
	}
}

// WebClient returns a client for a web server, which has one connection and keeps it for
// idle. It follows no redirects, so that neither data nor credentials go anywhere else. It
// fails when a certificate or key cannot be read.
func WebClient(h *config.HTTP, idle time.Duration) (*http.Client, error) {
	tls, err := WebFiles(h).Config()
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: tls, MaxConnsPerHost: 1,
			IdleConnTimeout: idle, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: false},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// WebAsk sends a request with the credentials of h, which are read anew each time, so that they
// can be changed. Its errors do not show the query, which may hold secrets.
func WebAsk(c *http.Client, req *http.Request, h *config.HTTP) (*http.Response, error) {
	req.Header.Set("User-Agent", "hencedge")
	if err := authorize(req, h); err != nil {
		return nil, err
	}
	resp, err := c.Do(req)
	var whole *url.Error
	if errors.As(err, &whole) {
		err = fmt.Errorf("%s: %w", req.URL.Host, whole.Err)
	}
	return resp, err
}

func authorize(req *http.Request, h *config.HTTP) error {
	if h.Username != "" {
		password, err := h.Password.Resolve()
		if err != nil {
			return err
		}
		req.SetBasicAuth(h.Username, string(password))
	}
	token, err := h.Token.Resolve()
	switch {
	case err != nil:
		return err
	case token == nil:
	case h.Header != "":
		req.Header.Set(h.Header, string(token))
	default:
		req.Header.Set("Authorization", "Bearer "+string(token))
	}
	return nil
}

// RetryAfter returns how long a server asks to wait before it is asked again, in seconds or until
// a date; 0 if it does not say so.
func RetryAfter(resp *http.Response, now time.Time) time.Duration {
	text := resp.Header.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
