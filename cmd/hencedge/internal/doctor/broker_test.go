package doctor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// The credentials of a role are looked at, each in a check of its own; without the
// password, or offline, the broker is not asked.
func TestBrokerChecks(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "broker"), "sesame", 0o600)
	ca, err := tlsutil.NewDevCA("test")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Client("board1")
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err := tlsutil.PEM(cert)
	if err != nil {
		t.Fatal(err)
	}
	own := config.Broker{Cert: write(t, filepath.Join(dir, "cert.pem"), string(certPEM), 0o644),
		Key: write(t, filepath.Join(dir, "key.pem"), string(keyPEM), 0o600)}
	loose := own
	loose.Key = write(t, filepath.Join(dir, "loose.pem"), string(keyPEM), 0o644)
	for name, c := range map[string]struct {
		credentials string
		b           config.Broker
		online      bool
		want        []string
	}{
		"nothing": {b: config.Broker{}, want: []string{"info broker: not tried"}},
		"password": {b: config.Broker{Password: config.Secret("file:" + filepath.Join(dir, "broker"))},
			want: []string{"ok broker password: resolves", "info broker: not tried"}},
		"no password": {b: config.Broker{Password: config.Secret("file:" + filepath.Join(dir, "none"))},
			want: []string{"fail broker password: ", "info broker: not tried"}},
		"no password, connected": {b: config.Broker{Password: config.Secret("file:" + filepath.Join(dir, "none"))},
			online: true, want: []string{"fail broker password: ", "info broker: not tried without its password"}},
		"credential of systemd": {b: config.Broker{Password: "cred:broker"}, want: []string{"info broker password: " +
			"systemd hands it", "info broker: not tried"}},
		"credential": {credentials: dir, b: config.Broker{Password: "cred:broker"},
			want: []string{"ok broker password: resolves", "info broker: not tried"}},
		"no credential": {credentials: dir, b: config.Broker{Password: "cred:none"},
			want: []string{"fail broker password: ", "info broker: not tried"}},
		// it ends within a day
		"certificate": {b: own, want: []string{"ok TLS key: ", "warn certificate: ", "info broker: not tried"}},
		"key that others read": {b: loose, want: []string{"fail TLS key: ", "warn certificate: ",
			"info broker: not tried"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CREDENTIALS_DIRECTORY", c.credentials)
			got := brokerChecks(t.Context(), "agent", c.b, Options{Offline: !c.online})
			if len(got) != len(c.want) {
				t.Fatalf("%+v", got)
			}
			for i, g := range got {
				line := fmt.Sprintf("%s %s: %s", g.Status, strings.TrimPrefix(g.Name, "agent "), g.Detail)
				if !strings.HasPrefix(line, c.want[i]) || (g.Status == Fail) && g.Remedy == "" {
					t.Errorf("%q with the remedy %q, want %q", line, g.Remedy, c.want[i])
				}
			}
		})
	}
}

// What an agent believes, and whose keys it holds, includes what its inputs name.
func TestFilesOfInputs(t *testing.T) {
	cfg := &config.Agent{
		Keys:   config.AgentKeys{PublicKey: "public.key"},
		Broker: config.Broker{CA: "ca", Cert: "cert"},
		Inputs: []config.Input{
			{Exec: &config.Exec{Command: []string{"/bin/tool", "-x"}}},
			{HTTP: &config.HTTP{CA: "http-ca", Cert: "http-cert",
				Key: write(t, filepath.Join(t.TempDir(), "http.key"), "x",
					0o600)}},
			{MQTT: &config.MQTT{CA: "mqtt-ca", Cert: "mqtt-cert",
				Key: write(t, filepath.Join(t.TempDir(), "mqtt.key"), "x",
					0o644)}},
			{Serial: &config.Serial{Device: "/dev/ttyS0"}},
		},
	}
	if got, want := believed(cfg), []string{"public.key", "ca", "cert", "/bin/tool", "http-ca", "http-cert", "mqtt-ca",
		"mqtt-cert"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got := inputKeys(cfg)
	if len(got) != 2 || got[0].Status != OK || got[1].Status != Fail {
		t.Errorf("%+v", got)
	}
}
