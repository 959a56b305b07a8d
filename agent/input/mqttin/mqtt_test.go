package mqttin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// broker is a mosquitto with TLS; it can be restarted.
type broker struct {
	path, conf, address, ca string
	cmd                     *exec.Cmd
}

func newBroker(t *testing.T) *broker {
	t.Helper()
	path := ""
	for _, name := range []string{"mosquitto", "/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		const why = "mosquitto is neither on PATH nor in /usr/sbin; install it to test against a real broker"
		if strings.Contains(os.Getenv("HENCEDGE_TEST_REQUIRE"), "mosquitto") {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	b := &broker{path: path, conf: filepath.Join(dir, "mosquitto.conf"), address: l.Addr().String(), ca: filepath.Join(dir, "ca.pem")}
	l.Close()
	authority, err := tlsutil.NewDevCA("test")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := authority.Server("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err := tlsutil.PEM(cert)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(b.address)
	conf := fmt.Sprintf("listener %s 127.0.0.1\nallow_anonymous true\ncafile %[2]s/ca.pem\ncertfile %[2]s/server.pem\nkeyfile %[2]s/server.key\n", port, dir)
	if u, err := user.Current(); err == nil && u.Uid == "0" {
		conf += "user root\n"
	}
	for name, data := range map[string][]byte{"server.pem": certPEM, "server.key": keyPEM, "ca.pem": authority.PEM(), "mosquitto.conf": []byte(conf)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.start(t)
	t.Cleanup(b.stop)
	return b
}

func (b *broker) start(t *testing.T) {
	t.Helper()
	b.cmd = exec.Command(b.path, "-c", b.conf)
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if c, err := net.Dial("tcp", b.address); err == nil {
			c.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("mosquitto does not answer")
}

func (b *broker) stop() {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

func (b *broker) options(id string) config.MQTT {
	return config.MQTT{URL: "tls://" + b.address, CA: b.ca, ClientID: id}
}

// publisher is a client that sends readings.
func (b *broker) publisher(t *testing.T) func(topic, payload string, retain bool) {
	t.Helper()
	tls, err := tlsutil.Files{CA: b.ca}.Config()
	if err != nil {
		t.Fatal(err)
	}
	c, err := transport.Dial(t.Context(), transport.Options{URL: "tls://" + b.address, ClientID: "device", TLS: tls, Logger: slog.New(slog.DiscardHandler)})
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
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := c.Publish(ctx, topic, []byte(payload), retain); err != nil {
			t.Fatal(err)
		}
	}
}

func open(t *testing.T, c config.MQTT) *Input {
	t.Helper()
	m, err := New(config.Input{Name: "plant", MaxAge: time.Minute, Retry: time.Millisecond, RetryMax: 5 * time.Millisecond, MQTT: &c},
		input.Env{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func sensor(t *testing.T, m *Input, topic, path string) input.Sensor {
	t.Helper()
	s, err := m.Sensor(config.Source{Type: config.SourceMQTT, Point: config.Point{Topic: topic, Path: path}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMosquitto(t *testing.T) {
	b := newBroker(t)
	publish := b.publisher(t)
	publish("plant/boiler/temp", "99", true) // retained: of unknown age
	m := open(t, b.options("agent"))
	number, wild := sensor(t, m, "plant/boiler/temp", ""), sensor(t, m, "plant/+/state", "pump.speed")
	other := sensor(t, m, "plant/+/state", "pump.on")
	if _, _, err := number.Read(t.Context()); !errors.Is(err, input.ErrNoValue) {
		t.Errorf("got %v", err)
	}
	// Readings count from the subscription on.
	inputtest.Until(t, wild, func() { publish("plant/1/state", `{"pump": {"speed": 1450.5, "on": true}}`, false) }, inputtest.Is(1450.5))
	inputtest.Until(t, other, nil, inputtest.Is(1))
	inputtest.Until(t, number, func() { publish("plant/boiler/temp", " 71.5\n", false) }, func(v float64, err error) bool {
		if v == 99 {
			t.Fatal("a retained message counts")
		}
		return err == nil && v == 71.5
	})
	// In order: the last one stays.
	for i := range 200 {
		publish("plant/boiler/temp", fmt.Sprint(i), false)
	}
	inputtest.Until(t, number, nil, inputtest.Is(199))
	publish("plant/2/state", `{"pump": {}}`, false)
	inputtest.Until(t, wild, nil, func(_ float64, err error) bool { return errors.Is(err, input.ErrReading) })
	// After the broker's restart everything goes on.
	b.stop()
	b.start(t)
	inputtest.Until(t, number, func() { publish("plant/boiler/temp", "5", false) }, inputtest.Is(5))
	if m.env.Count.Failures.Load() == 0 {
		t.Error("the loss is not counted")
	}
}

func TestNew(t *testing.T) {
	if _, err := New(config.Input{MQTT: &config.MQTT{URL: "tls://h", CA: "none.pem"}}, input.Env{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
