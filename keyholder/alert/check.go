package alert

import (
	"fmt"
	"os/exec"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/keyholder/outlet"
)

// Check looks at what receivers need: programs, TLS files and secrets. It calls fail for
// every fault, with its place in the configuration and a remedy. It connects to nothing.
func Check(cfg *config.Alerts, fail func(path, remedy string, err error)) {
	for i := range cfg.Receivers {
		r := &cfg.Receivers[i]
		at := fmt.Sprintf("alerts.receivers[%d].", i)
		switch {
		case len(r.Command) > 0:
			if _, err := exec.LookPath(r.Command[0]); err != nil {
				fail(at+"command", "correct the path, or make the program executable for the user that "+
					"reads results", err)
			}
		case r.Webhook != nil:
			outlet.CheckWeb(&r.Webhook.HTTP, at+"webhook.", fail)
			key, err := signingKey(r.Webhook.Secret)
			if err != nil {
				fail(at+"webhook.secret", r.Webhook.Secret.Available(), err)
			}
			clear(key)
		case r.Alertmanager != nil:
			outlet.CheckWeb(r.Alertmanager, at+"alertmanager.", fail)
		case r.MQTT != nil:
			outlet.CheckMQTT(r.MQTT, at+"mqtt.", fail)
		}
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
	for i := range cfg.Receivers {
		if m := cfg.Receivers[i].MQTT; m != nil && outlet.At(m, b) {
			out = append(out, i)
		}
	}
	return out
}
