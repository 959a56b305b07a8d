package httppoll

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// server is a web server with TLS; ca is the file that vouches for it.
func server(t *testing.T, h http.HandlerFunc) (url, ca string) {
	t.Helper()
	authority, err := tlsutil.NewDevCA("test")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	if s.TLS, err = authority.ServerConfig(false, "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, authority.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	return s.URL, ca
}

func open(t *testing.T, h config.HTTP) *Input {
	t.Helper()
	in, err := New(config.Input{Name: "w", Every: 5 * time.Millisecond, Timeout: 10 * time.Second, MaxAge: time.Minute,
		Retry:    time.Millisecond,
		RetryMax: 2 * time.Millisecond, HTTP: &h}, input.Env{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	return in
}

func sensor(t *testing.T, h *Input, path, pattern string) input.Sensor {
	t.Helper()
	s, err := h.Sensor(config.Source{Type: config.SourceHTTP, Point: config.Point{Path: path, Pattern: pattern}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestJSONOverTLS(t *testing.T) {
	url, ca := server(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"sensors": [{"name": "air", "value": 21.25}, {"name": "door", "open": true}]}`)
	})
	h := open(t, config.HTTP{URL: url + "/state", CA: ca})
	air, door, none := sensor(t, h, `sensors.#(name=="air").value`, ""), sensor(t, h, "sensors.1.open", ""),
		sensor(t, h, "sensors.7.value", "")
	inputtest.Until(t, air, nil, inputtest.Is(21.25))
	inputtest.Until(t, door, nil, inputtest.Is(1))
	inputtest.Until(t, none, nil, func(_ float64, err error) bool { return errors.Is(err, input.ErrReading) })
}

// A server that nobody vouches for is not asked.
func TestUntrusted(t *testing.T) {
	var asked atomic.Bool
	url, _ := server(t, func(http.ResponseWriter, *http.Request) { asked.Store(true) })
	h := open(t, config.HTTP{URL: url})
	if err := h.poll(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") || asked.Load() {
		t.Errorf("got %v", err)
	}
}

func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	secret := func(name, text string) config.Secret {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return config.Secret("file:" + path)
	}
	for name, c := range map[string]struct {
		h    config.HTTP
		want func(r *http.Request) bool
	}{
		"basic": {config.HTTP{Username: "u", Password: secret("p", "pw")}, func(r *http.Request) bool {
			u, p, ok := r.BasicAuth()
			return ok && u == "u" && p == "pw"
		}},
		"bearer": {config.HTTP{Token: secret("t", "tok")},
			func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer tok" }},
		"header": {config.HTTP{Token: secret("k", "key"), Header: "X-API-Key"}, func(r *http.Request) bool {
			return r.Header.Get("X-Api-Key") == "key" && r.Header.Get("Authorization") == ""
		}},
	} {
		url, ca := server(t, func(w http.ResponseWriter, r *http.Request) {
			if !c.want(r) {
				w.WriteHeader(http.StatusUnauthorized)
			}
			fmt.Fprint(w, "1")
		})
		c.h.URL, c.h.CA = url, ca
		if err := open(t, c.h).poll(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	h := open(t, config.HTTP{URL: "https://127.0.0.1:1", Token: "env:HENCEDGE_NOT_SET"})
	if err := h.poll(t.Context()); !errors.Is(err, config.ErrSecret) {
		t.Errorf("got %v", err)
	}
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"status": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "500"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://u:p@example.org/new?token=x", http.StatusFound)
		}, `answers 302 Found to https://example.org/new; redirects are not followed`},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, "more than"},
		"large when unpacked": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 8<<20))
			_ = z.Close()
		}, "more than"},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("5"))
		}, "unexpected EOF"},
		"slow": {func(w http.ResponseWriter, r *http.Request) { // one byte at a time
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(" "))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(5 * time.Millisecond)
			}
		}, "deadline exceeded"},
		"large": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, input.MaxText+1)) },
			"more than"},
	} {
		url, ca := server(t, c.h)
		ctx, cancel := context.WithCancel(t.Context())
		if name == "slow" {
			ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		}
		defer cancel()
		if err := open(t, config.HTTP{URL: url, CA: ca}).poll(ctx); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// A server that hangs costs one timeout.
	url, ca := server(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := open(t, config.HTTP{URL: url, CA: ca}).poll(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if _, err := New(config.Input{HTTP: &config.HTTP{URL: url, CA: "none.pem"}}, input.Env{}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// What goes wrong is told without the query of the address: services take their keys there.
func TestQueryStaysSecret(t *testing.T) {
	gone := testrig.FreeAddress(t)
	hangs, ca := server(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for name, url := range map[string]string{"gone": "http://" + gone, "hangs": hangs} {
		ctx := t.Context()
		if name == "hangs" {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
		}
		err := open(t, config.HTTP{URL: url + "/v1?key=hunter2", CA: ca, Insecure: true}).poll(ctx)
		if err == nil || strings.Contains(err.Error(), "hunter2") ||
			!strings.Contains(err.Error(), strings.SplitN(url, "://", 2)[1]) {
			t.Errorf("%s: got %v", name, err)
		}
		if name == "gone" && !errors.Is(err, syscall.ECONNREFUSED) || name == "hangs" &&
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A byte order mark before the text is no part of it.
func TestByteOrderMark(t *testing.T) {
	for path, body := range map[string]string{"t": "\ufeff{\"t\": 21.5}\r\n", "": "\ufeff21.5"} {
		url, ca := server(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
		inputtest.Until(t, sensor(t, open(t, config.HTTP{URL: url, CA: ca}), path, ""), nil,
			func(v float64, err error) bool {
				if errors.Is(err, input.ErrReading) {
					t.Fatal(err)
				}
				return err == nil && v == 21.5
			})
	}
}

// The input comes back when the server does.
func TestRecovery(t *testing.T) {
	var n atomic.Int32
	url, ca := server(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) < 4 {
			w.WriteHeader(503)
			return
		}
		fmt.Fprint(w, "T=-4.5")
	})
	inputtest.Until(t, sensor(t, open(t, config.HTTP{URL: url, CA: ca}), "", "T=([-0-9.]+)"), nil, inputtest.Is(-4.5))
}
