package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Healther is implemented by a role that can say what is wrong with it now; an
// empty list is good health.
type Healther interface{ Health() []string }

// Statuser is implemented by a role that describes itself: a value for JSON.
type Statuser interface{ Status() any }

// ServeMetrics answers on listen what a pull of metrics needs, until stop is
// called: GET /metrics with what c collects, and GET /healthz, 200 or, with
// reasons, 503. listen is host:port, or unix: and the path of a socket. An empty
// listen serves nothing.
func ServeMetrics(listen string, c prometheus.Collector, log *slog.Logger) (stop func(), err error) {
	if listen == "" {
		return func() {}, nil
	}
	mux, err := handlers(c)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return serve(listen, mux, "metrics", log)
}

// ServeControl is ServeMetrics with GET /status besides, for `agent status` on
// the same machine. The socket is for its owner and group.
func ServeControl(socket string, c interface {
	prometheus.Collector
	Healther
	Statuser
}, log *slog.Logger) (stop func(), err error) {
	if socket == "" {
		return func() {}, nil
	}
	mux, err := handlers(c)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, c.Status())
	})
	return serve("unix:"+socket, mux, "control socket", log)
}

func handlers(c prometheus.Collector) (*http.ServeMux, error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(c); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		reasons := []string{}
		if h, ok := c.(Healther); ok {
			reasons = append(reasons, h.Health()...)
		}
		code := http.StatusOK
		if len(reasons) > 0 {
			code = http.StatusServiceUnavailable
		}
		writeJSON(w, code, struct {
			OK      bool     `json:"ok"`
			Reasons []string `json:"reasons"`
		}{len(reasons) == 0, reasons})
	})
	return mux, nil
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		code, b = http.StatusInternalServerError, []byte(`{"error":"cannot be encoded"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(b, '\n')) // the reader went away: nobody to tell
}

func serve(listen string, mux http.Handler, what string, log *slog.Logger) (stop func(), err error) {
	l, err := listenOn(listen)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error(what+": not served any more", "error", err)
		}
	}()
	log.Info(what+": served", "address", l.Addr().String())
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
		<-ended
	}, nil
}

// listenOn opens host:port or unix:PATH. A socket that a killed process left
// behind is replaced; one that still answers is not.
func listenOn(listen string) (net.Listener, error) {
	path, local := strings.CutPrefix(listen, "unix:")
	if !local {
		return net.Listen("tcp", listen)
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		c.Close()
		return nil, fmt.Errorf("%s is in use by another process", path)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// maxAnswer bounds an answer of a control socket, bytes.
const maxAnswer = 4 << 20

// Ask gets a page ("/status") from a control socket.
func Ask(ctx context.Context, socket, page string) ([]byte, error) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://hencedge"+page, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", socket, errors.Unwrap(err))
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask %s: %w", socket, err)
	case len(b) > maxAnswer:
		return nil, fmt.Errorf("ask %s: the answer is larger than %d bytes", socket, maxAnswer)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("ask %s: %s", socket, resp.Status)
	}
	return b, nil
}
