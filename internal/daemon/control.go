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
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// ServeMetrics serves metrics and health on listen until stop is called. GET /metrics
// returns what c collects; GET /healthz returns 200, or 503 with the reasons. listen is
// host:port, or unix: and the path of a socket. An empty listen serves nothing.
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

// reloadTime bounds a reload over the control socket. It includes the stop of the running
// service, which may take as long as the configuration says.
const reloadTime = 10 * time.Minute

// ServeControl serves what ServeMetrics does, and GET /status and POST /reload for
// `agent status` and `agent reload` on the same machine. Only the owner and the group of
// the socket may use it.
func ServeControl(socket string, c Controlled, log *slog.Logger) (stop func(), err error) {
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
	mux.HandleFunc("POST /reload", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(reloadTime)) // what fails shows in the answer
		ctx, cancel := context.WithTimeout(r.Context(), reloadTime)
		defer cancel()
		if err := c.AskReload(ctx, "asked for"); err != nil {
			writeJSON(w, http.StatusConflict, map[string]string{"error": err.Error()})
			return
		}
		writeJSON(w, http.StatusOK, map[string]bool{"ok": true})
	})
	return serve("unix:"+socket, mux, "control socket", log)
}

// Controlled is what a control socket gives access to.
type Controlled interface {
	prometheus.Collector
	Healther
	Statuser
	AskReload(ctx context.Context, reason string) error
}

// Healther is implemented by a role that knows its problems. An empty list is good health.
type Healther interface{ Health() []string }

// Statuser is implemented by a role that describes itself, as a value for JSON.
type Statuser interface{ Status() any }

// Staller is implemented by a role that knows when only a restart gets its work going
// again. Stalled returns the reason, or "". While it has one, the watchdog is not fed.
type Staller interface{ Stalled() string }

func handlers(c prometheus.Collector) (*http.ServeMux, error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(c); err != nil {
		return nil, err
	}
	// process_*: memory, processor time and file descriptors, under their usual names.
	if err := registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})); err != nil {
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
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error(what+": no longer served", "error", err)
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

// listenOn opens host:port or unix:PATH. It replaces a socket that a killed process left
// behind, but not one that another process still listens on.
func listenOn(listen string) (net.Listener, error) {
	path, local := strings.CutPrefix(listen, "unix:")
	if !local {
		return net.Listen("tcp", listen)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	switch info, lerr := os.Lstat(path); {
	case err == nil:
		c.Close()
		return nil, fmt.Errorf("%s is in use by another process", path)
	case lerr != nil || info.Mode().Type() != fs.ModeSocket: // nothing there, or not a socket: do not remove it
	case !errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%s may be in use by another process: %w", path, err)
	default:
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

// Ask returns a page ("/status") of a control socket.
func Ask(ctx context.Context, socket, page string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	code, b, err := call(ctx, socket, http.MethodGet, page)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("ask %s: %d %s", socket, code, http.StatusText(code))
	}
	return b, err
}

// ErrReload says that the service refused a reload and keeps its configuration.
var ErrReload = errors.New("the reload was refused")

// Reload asks for a reload over a control socket and waits for its outcome.
func Reload(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, reloadTime)
	defer cancel()
	code, b, err := call(ctx, socket, http.MethodPost, "/reload")
	if err != nil || code == http.StatusOK {
		return err
	}
	var answer struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(b, &answer); err != nil || answer.Error == "" {
		return fmt.Errorf("ask %s: %d %s", socket, code, http.StatusText(code))
	}
	return fmt.Errorf("%w:\n%s", ErrReload, answer.Error)
}

func call(ctx context.Context, socket, method, page string) (code int, body []byte, err error) {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://hencedge"+page, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("ask %s: %w", socket, errors.Unwrap(err))
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("ask %s: %w", socket, err)
	case len(b) > maxAnswer:
		return 0, nil, fmt.Errorf("ask %s: the answer is larger than %d bytes", socket, maxAnswer)
	}
	return resp.StatusCode, b, nil
}
