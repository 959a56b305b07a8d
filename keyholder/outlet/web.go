package outlet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
)

// Web posts to a page.
type Web struct {
	cfg    *config.HTTP
	client *http.Client
}

// NewWeb returns a Web. It fails if a file that cfg names cannot be used.
func NewWeb(cfg *config.HTTP) (*Web, error) {
	client, err := daemon.WebClient(cfg, time.Minute)
	return &Web{cfg, client}, err
}

// Close ends connections that are not in use.
func (w *Web) Close() { w.client.CloseIdleConnections() }

// Post posts to the page with the path added, or to the page itself; without a Content-Type in header it is JSON. A
// status from 300 to 499 refuses it (ErrRefused), other than those that ask to come again. An
// error about a status holds a *StatusError.
func (w *Web) Post(ctx context.Context, path string, body []byte, header http.Header) error {
	page := w.cfg.URL
	if path != "" {
		page = strings.TrimSuffix(page, "/") + path
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, page, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if header != nil {
		req.Header = header
	}
	if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := daemon.WebAsk(w.client, req, w.cfg)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // so that the connection can be used again
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	line, _, _ := strings.Cut(string(answer[:min(len(answer), 200)]), "\n")
	err = &StatusError{resp.StatusCode, daemon.RetryAfter(resp, time.Now()),
		fmt.Sprintf("%s answers %s: %q", req.URL.Host, resp.Status, line)}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return err
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 500 {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// StatusError is an answer of a web server that is no success.
type StatusError struct {
	Code  int           // of HTTP
	After time.Duration // that the server asks to wait; 0: it does not say
	text  string
}

// Error tells the status and the first line of the answer.
func (e *StatusError) Error() string { return e.text }
