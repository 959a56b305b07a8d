// Package httppoll takes values from the answers of a web server: JSON, text, or
// a bare number.
package httppoll

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
)

// Input is one page.
type Input struct {
	cfg    config.Input
	worker *input.Worker
	texts  *input.Texts
	client *http.Client

	input.Background
}

// New makes the input; it fails when a certificate or a key cannot be read.
func New(in config.Input, env input.Env) (*Input, error) {
	if in.HTTP == nil {
		return nil, fmt.Errorf("%w: input %s has no page", input.ErrNoSensor, in.Name)
	}
	client, err := daemon.WebClient(in.HTTP, 2*in.Every+10*time.Second)
	if err != nil {
		return nil, fmt.Errorf("input %s: %w", in.Name, err)
	}
	return &Input{cfg: in, worker: input.NewWorker(in, env), texts: input.NewTexts(env.Counters()), client: client}, nil
}

// Sensor adds a quantity.
func (h *Input) Sensor(src config.Source) (input.Sensor, error) {
	cell, err := h.texts.Add(src, h.cfg)
	if err != nil {
		return nil, err
	}
	return input.Started{Sensor: cell, Begin: func() { h.Start(h.run) }, Trouble: h.worker.Trouble}, nil
}

func (h *Input) run(ctx context.Context) {
	defer h.client.CloseIdleConnections()
	h.worker.Poll(ctx, h.cfg.Every, h.cfg.Timeout, h.poll)
}

func (h *Input) poll(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.cfg.HTTP.URL, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json, text/plain;q=0.9, */*;q=0.1")
	resp, err := daemon.WebAsk(h.client, req, h.cfg.HTTP)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, input.MaxText+1))
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return fmt.Errorf("%s answers %s%s; redirects are not followed: write the address that has the values",
			req.URL.Host, resp.Status, target(resp))
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s answers %s", req.URL.Host, resp.Status)
	case len(body) > input.MaxText:
		return fmt.Errorf("%s answers with more than %d bytes", req.URL.Host, input.MaxText)
	}
	h.texts.Take(strings.TrimPrefix(string(body), "\ufeff")) // a byte order mark, as some servers write it
	return nil
}

// target says where a redirect leads, without the part that may hold secrets.
func target(resp *http.Response) string {
	u, err := resp.Location()
	if err != nil {
		return ""
	}
	return " to " + input.Clip(u.Scheme+"://"+u.Host+u.EscapedPath())
}

var _ input.Input = (*Input)(nil)
