package alert

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
)

// reader is who must be able to read what receivers need.
const reader = "the user that reads results"

// Check looks at what receivers need: programs, TLS files and secrets. It calls fail for
// every fault, with its place in the configuration and a remedy. It connects to nothing.
func Check(cfg *config.Alerts, fail func(path, remedy string, err error)) {
	for i := range cfg.Receivers {
		r := &cfg.Receivers[i]
		at := fmt.Sprintf("alerts.receivers[%d].", i)
		switch {
		case len(r.Command) > 0:
			if _, err := exec.LookPath(r.Command[0]); err != nil {
				fail(at+"command", "correct the path, or make the program executable for "+reader, err)
			}
		case r.Webhook != nil:
			checkWeb(&r.Webhook.HTTP, at+"webhook.", fail)
			key, err := signingKey(r.Webhook.Secret)
			if err != nil {
				fail(at+"webhook.secret", r.Webhook.Secret.Available(), err)
			}
			clear(key)
		case r.Alertmanager != nil:
			checkWeb(r.Alertmanager, at+"alertmanager.", fail)
		case r.MQTT != nil:
			daemon.CheckBroker(r.MQTT.Broker(), reader, "", func(path, remedy string, err error) {
				fail(at+"mqtt."+strings.TrimPrefix(path, "broker."), remedy, err)
			})
		}
	}
}

func checkWeb(cfg *config.HTTP, at string, fail func(path, remedy string, err error)) {
	if field, err := daemon.WebFiles(cfg).Check(); err != nil {
		remedy := "correct the path or the file"
		if errors.Is(err, fs.ErrPermission) {
			remedy = "let " + reader + " read the file and enter its directory"
		}
		fail(at+field, remedy, err)
	}
	for key, s := range map[string]config.Secret{"password": cfg.Password, "token": cfg.Token} {
		secret, err := s.Resolve()
		if err != nil {
			fail(at+key, s.Available(), err)
		}
		clear(secret)
	}
}

// Warnings returns what works and gives alarms to the evaluator: alarms follow from decrypted
// values, and whoever sees them learns something of those.
func Warnings(cfg *config.Alerts, evaluators config.Broker) []string {
	var out []string
	for _, i := range ReceiversAt(cfg, evaluators) {
		r := &cfg.Receivers[i]
		out = append(out, fmt.Sprintf("receiver %s publishes alarms in clear at %s, the broker that the evaluator "+
			"uses: alarms tell it about decrypted values; use another broker, or see that nobody else can "+
			"subscribe to %s", r.Name, r.MQTT.URL, r.MQTT.Topic))
	}
	return out
}

// ReceiversAt returns the indices of receivers that publish at a broker, as far as the names
// of hosts tell.
func ReceiversAt(cfg *config.Alerts, b config.Broker) (out []int) {
	theirs, err := b.Endpoint()
	if err != nil {
		return nil
	}
	for i := range cfg.Receivers {
		r := &cfg.Receivers[i]
		if r.MQTT == nil {
			continue
		}
		own, err := r.MQTT.Broker().Endpoint()
		if err == nil && (strings.EqualFold(own.Host, theirs.Host) || own.Loopback() && theirs.Loopback()) {
			out = append(out, i)
		}
	}
	return out
}
