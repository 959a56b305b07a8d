package inputtest

import (
	"context"
	"log/slog"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport/broker/mosquitto"
	"github.com/hencedge/hencedge/transport/mqtt"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// Broker is a mosquitto with TLS; it can be restarted.
type Broker struct {
	*mosquitto.Broker
	user, secret string
}

// Mosquitto starts a broker that everybody may use.
func Mosquitto(t *testing.T) Broker {
	t.Helper()
	return start(t, Broker{}, "allow_anonymous true\n")
}

// MosquittoFor starts a broker for one user.
func MosquittoFor(t *testing.T, name, password string) Broker {
	t.Helper()
	file := filepath.Join(t.TempDir(), "passwords")
	if out, err := exec.Command(testenv.Program(t, "mosquitto", "mosquitto_passwd"), "-b", "-c", file, name,
		password).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return start(t, Broker{user: name, secret: password}, "allow_anonymous false\npassword_file "+file+"\n")
}

func start(t *testing.T, b Broker, conf string) Broker {
	t.Helper()
	ca, err := tlsutil.NewDevCA("test")
	if err != nil {
		t.Fatal(err)
	}
	b.Broker = mosquitto.Start(t, ca, conf)
	return b
}

// MQTT returns how an input connects.
func (b Broker) MQTT(id string) config.MQTT {
	return config.MQTT{URL: b.URL, CA: b.CA, ClientID: id}
}

// Publisher returns a client that sends readings.
func (b Broker) Publisher(t *testing.T) func(topic, payload string, retain bool) {
	t.Helper()
	tls, err := tlsutil.Files{CA: b.CA}.Config()
	if err != nil {
		t.Fatal(err)
	}
	o := mqtt.Options{URL: b.URL, ClientID: "device", TLS: tls, Logger: slog.New(slog.DiscardHandler)}
	if b.user != "" {
		o.Username, o.Password = b.user, func() (string, error) { return b.secret, nil }
	}
	c, err := mqtt.Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return func(topic, payload string, retain bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), testrig.Patience)
		defer cancel()
		if err := c.Publish(ctx, topic, []byte(payload), retain); err != nil {
			t.Error(err)
		}
	}
}
