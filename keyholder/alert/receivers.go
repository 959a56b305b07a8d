package alert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/hencedge/hencedge/config"
)

// newSenders returns the receivers of a configuration, by name. It connects to none.
func newSenders(cfg *config.Alerts, log *slog.Logger) (map[string]sender, error) {
	if log == nil {
		log = slog.Default()
	}
	out := make(map[string]sender, len(cfg.Receivers))
	for i := range cfg.Receivers {
		r := &cfg.Receivers[i]
		var s sender
		var err error
		switch {
		case len(r.Command) > 0:
			s = &command{r.Command}
		case r.Webhook != nil:
			s, err = newWebhook(r.Webhook)
		case r.Alertmanager != nil:
			s, err = newAlertmanager(r.Alertmanager)
		case r.MQTT != nil:
			s, err = newPublisher(r.MQTT, log.With("receiver", r.Name))
		default:
			err = fmt.Errorf("%w: no type", config.ErrInvalid)
		}
		if err != nil {
			for _, done := range out {
				done.close()
			}
			return nil, fmt.Errorf("receiver %s: %w", r.Name, err)
		}
		out[r.Name] = s
	}
	return out, nil
}

// text returns the event as receivers get it: one line of JSON.
func (e *Event) text() ([]byte, error) {
	var b bytes.Buffer
	j := json.NewEncoder(&b)
	j.SetEscapeHTML(false)
	err := j.Encode(e)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
