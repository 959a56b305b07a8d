package config

import (
	"slices"
	"testing"
)

// Every secret of a configuration that is set is listed, with its place, so that checks
// look at its file.
func TestSecretsAreListed(t *testing.T) {
	a := &Agent{Broker: Broker{Password: "file:/a"}, Inputs: []Input{
		{HTTP: &HTTP{Token: "file:/b"}}, {}, {HTTP: &HTTP{Password: "env:C"}, MQTT: &MQTT{}},
		{MQTT: &MQTT{Password: "cred:d"}},
	}}
	want := []NamedSecret{{"broker.password", "file:/a"}, {"inputs[0].http.token", "file:/b"},
		{"inputs[2].http.password",
			"env:C"}, {"inputs[3].mqtt.password", "cred:d"}}
	if got := a.Secrets(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := new(Agent).Secrets(); len(got) != 0 {
		t.Errorf("of none: %v", got)
	}
}
