package mqttin

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/inputtest"
	"github.com/hencedge/hencedge/config"
)

func open(t *testing.T, c config.MQTT) *Input {
	t.Helper()
	m, err := New(config.Input{Name: "plant", MaxAge: time.Minute, Retry: time.Millisecond,
		RetryMax: 5 * time.Millisecond, MQTT: &c},
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
	b := inputtest.Mosquitto(t)
	publish := b.Publisher(t)
	publish("plant/boiler/temp", "99", true) // retained: of unknown age
	m := open(t, b.MQTT("agent"))
	number, wild := sensor(t, m, "plant/boiler/temp", ""), sensor(t, m, "plant/+/state", "pump.speed")
	other := sensor(t, m, "plant/+/state", "pump.on")
	if _, _, err := number.Read(t.Context()); !errors.Is(err, input.ErrNoValue) {
		t.Errorf("got %v", err)
	}
	// Readings count from the subscription on.
	inputtest.Until(t, wild, func() { publish("plant/1/state", `{"pump": {"speed": 1450.5, "on": true}}`, false) },
		inputtest.Is(1450.5))
	inputtest.Until(t, other, nil, inputtest.Is(1))
	inputtest.Until(t, number, func() { publish("plant/boiler/temp", " 71.5\n", false) },
		func(v float64, err error) bool {
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
	// A message above the limit is passed over; the connection stays.
	before := m.env.Count.Failures.Load()
	publish("plant/boiler/temp", strings.Repeat("9", input.MaxText+1), false)
	publish("plant/boiler/temp", "6", false)
	inputtest.Until(t, number, nil, inputtest.Is(6))
	if n := m.env.Count.Failures.Load(); n != before {
		t.Errorf("%d failures", n-before)
	}
	// After the broker's restart everything goes on.
	b.Stop()
	b.Start(t)
	inputtest.Until(t, number, func() { publish("plant/boiler/temp", "5", false) }, inputtest.Is(5))
	if m.env.Count.Failures.Load() == 0 {
		t.Error("the loss is not counted")
	}
}

// Without a connection there is no value, and the reason is told.
func TestTrouble(t *testing.T) {
	s := sensor(t, open(t, config.MQTT{URL: "tcp://127.0.0.1:1", ClientID: "agent"}), "a", "")
	inputtest.Until(t, s, nil, func(_ float64, err error) bool {
		return errors.Is(err, input.ErrNoValue) && strings.Contains(err.Error(), "no connection to tcp://127.0.0.1:1")
	})
}

func TestNew(t *testing.T) {
	if _, err := New(config.Input{MQTT: &config.MQTT{URL: "tls://h", CA: "none.pem"}}, input.Env{}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
