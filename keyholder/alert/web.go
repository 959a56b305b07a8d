package alert

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/keyholder/outlet"
)

// webhook posts events signed as the Standard Webhooks specification says: HMAC-SHA256 over
// id, time and body.
type webhook struct {
	*outlet.Web
	secret config.Secret
	now    func() time.Time
}

func newWebhook(cfg *config.Webhook) (*webhook, error) {
	w, err := outlet.NewWeb(&cfg.HTTP)
	return &webhook{w, cfg.Secret, time.Now}, err
}

func (w *webhook) close() { w.Close() }

func (w *webhook) send(ctx context.Context, e *Event) error {
	body, err := e.text()
	if err != nil {
		return err
	}
	key, err := signingKey(w.secret)
	if err != nil {
		return err
	}
	defer clear(key)
	at := strconv.FormatInt(w.now().Unix(), 10)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", e.ID, at, body)
	header := http.Header{}
	header.Set("Webhook-Id", e.ID)
	header.Set("Webhook-Timestamp", at)
	header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return w.Post(ctx, "", body, header)
}

// leastKey is the least length of a signing key, bytes.
const leastKey = 16

// signingKey reads the key of a webhook: "whsec_" and base64, or any other bytes.
func signingKey(s config.Secret) ([]byte, error) {
	key, err := s.Resolve()
	if err != nil {
		return nil, err
	}
	if text, ok := bytes.CutPrefix(key, []byte("whsec_")); ok {
		raw := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
		n, err := base64.StdEncoding.Decode(raw, text)
		clear(key)
		if err != nil {
			return nil, errors.New("the secret is not base64 after whsec_")
		}
		key = raw[:n]
	}
	if len(key) < leastKey {
		return nil, fmt.Errorf("the secret has %d bytes, use at least %d", len(key), leastKey)
	}
	return key, nil
}

// alertmanager posts alarms to the API of Prometheus' Alertmanager, version 2.
type alertmanager struct {
	*outlet.Web
	now func() time.Time
}

func newAlertmanager(cfg *config.HTTP) (*alertmanager, error) {
	w, err := outlet.NewWeb(cfg)
	return &alertmanager{w, time.Now}, err
}

// lasting is how long an alarm stays with an Alertmanager that is not told again.
const lasting = time.Hour

// postable is an alert as the API takes it.
type postable struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

func (a *alertmanager) close() { a.Close() }

func (a *alertmanager) send(ctx context.Context, e *Event) error { return a.refresh(ctx, []Event{*e}) }

// refresh tells of alarms again: an Alertmanager that was restarted has forgotten them.
func (a *alertmanager) refresh(ctx context.Context, events []Event) error {
	list := make([]postable, len(events))
	for i := range events {
		list[i] = a.postable(&events[i])
	}
	body, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return a.Post(ctx, "/api/v2/alerts", body, nil)
}

func (a *alertmanager) postable(e *Event) postable {
	p := postable{StartsAt: e.Raised, EndsAt: a.now().Add(lasting),
		Labels: map[string]string{"alertname": e.Alert, "severity": e.Severity, "program": e.Program,
			"holder": e.Holder},
		Annotations: map[string]string{"summary": e.summary(), "rule": e.Rule, "incident": e.Incident}}
	if e.State == StateResolved {
		p.EndsAt = e.At
		if !p.EndsAt.After(p.StartsAt) { // the API wants an interval
			p.EndsAt = p.StartsAt.Add(time.Millisecond)
		}
	}
	if e.Device != "" {
		p.Labels["device"] = e.Device
	}
	return p
}

// summary says the event in a line.
func (e *Event) summary() string {
	s := e.Program
	if e.Device != "" {
		s += " of " + e.Device
	}
	if len(e.Devices) > 0 {
		s += " of " + strings.Join(e.Devices, ", ")
	}
	s += ": " + e.Rule
	if e.Value != nil {
		s += fmt.Sprintf(", is %s ± %.2g", config.FormatNumber(*e.Value), e.Bound)
		if e.Unit != "" {
			s += " " + e.Unit
		}
	}
	if e.End != nil {
		s += " at " + e.End.Format(time.RFC3339)
	}
	return s
}
