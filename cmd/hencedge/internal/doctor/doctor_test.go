package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/broker"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestClock(t *testing.T) {
	now := earliest.AddDate(0, 3, 0)
	state := func(ok bool, err error) func() (bool, time.Duration, error) {
		return func() (bool, time.Duration, error) { return ok, time.Millisecond, err }
	}
	for _, c := range []struct {
		now   time.Time
		state func() (bool, time.Duration, error)
		want  Status
	}{
		{now, state(true, nil), OK},
		{now, state(false, nil), Warn},
		{now, state(false, errors.New("not permitted")), Info},
		{time.Unix(0, 0), state(true, nil), Fail},
	} {
		if got := clock(c.now, c.state); got.Status != c.want {
			t.Errorf("%v: got %+v, want %s", c.now, got, c.want)
		}
	}
}

func TestSwap(t *testing.T) {
	const head = "Filename\tType\tSize\tUsed\tPriority\n"
	for text, want := range map[string]Status{
		head: OK,
		head + "/dev/zram0 partition 100 0 100\n":                OK,
		head + "/dev/sda2 partition 100 0 -2\n/swap file 1 0 -3": Warn,
		head + "/dev/dm-1 partition 100 0 -2\n":                  OK,
		head + "/dev/dm-2 partition 100 0 -2\n":                  Warn, // a volume, not encrypted
		head + "/dev/dm-1 partition 9 0 -2\n/swap file 1 0 -3":   Warn,
	} {
		proc, sys := t.TempDir(), t.TempDir()
		write(t, filepath.Join(sys, "class/block/dm-1/dm/uuid"), "CRYPT-PLAIN-swap\n", 0o444)
		write(t, filepath.Join(sys, "class/block/dm-2/dm/uuid"), "LVM-x\n", 0o444)
		write(t, filepath.Join(proc, "swaps"), text, 0o644)
		if got := swap(proc, sys); got.Status != want {
			t.Errorf("%q: got %+v, want %s", text, got, want)
		}
	}
	if got := swap(t.TempDir(), t.TempDir()); got.Status != Info {
		t.Errorf("no file: %+v", got)
	}
}

func TestCoreDumps(t *testing.T) {
	limit := func(n uint64) func() (uint64, error) { return func() (uint64, error) { return n, nil } }
	for _, c := range []struct {
		pattern string
		limit   uint64
		want    Status
	}{{"core", 0, OK}, {"core", 1 << 30, Warn}, {"|/usr/lib/systemd/systemd-coredump %P", 0, Warn}} {
		proc := t.TempDir()
		write(t, filepath.Join(proc, "sys/kernel/core_pattern"), c.pattern+"\n", 0o644)
		if got := coreDumps(proc, limit(c.limit)); got.Status != c.want {
			t.Errorf("%q, limit %d: got %+v, want %s", c.pattern, c.limit, got, c.want)
		}
	}
}

func TestMemory(t *testing.T) {
	proc := t.TempDir()
	write(t, filepath.Join(proc, "meminfo"), "MemTotal: 4096000 kB\nMemAvailable: 2048000 kB\nHugePages_Total: 0\n",
		0o644)
	if got := memory(proc); got.Status != OK || got.Detail != "2000 MiB available of 4000 MiB" {
		t.Errorf("got %+v", got)
	}
	write(t, filepath.Join(proc, "meminfo"), "MemTotal: 512000 kB\nMemAvailable: 102400 kB\n", 0o644)
	if got := memory(proc); got.Status != Warn {
		t.Errorf("got %+v", got)
	}
}

func TestSecretsAreFoundByContent(t *testing.T) {
	dir := t.TempDir()
	p, err := henc.Named("edge12-d1")
	if err != nil {
		t.Fatal(err)
	}
	set, err := keyholder.Create(filepath.Join(t.TempDir(), "keys"),
		keyholder.CreateOptions{Params: p, Needs: keyholder.Needs{Rotations: []int{1}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set.Export(keyholder.RoleAgent, filepath.Join(dir, "keys"), keyholder.ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "secret.key"), "not a key at all", 0o600)
	if got := noSecrets("x", []string{dir, filepath.Join(dir, "keys"),
		filepath.Join(dir, "absent")}); got.Status != OK || !strings.Contains(got.Detail, "none in 4 files") {
		t.Errorf("a board with public keys: %+v", got)
	}
	b, err := os.ReadFile(filepath.Join(set.Dir(), "epoch-0001", keyholder.SecretFile))
	if err != nil {
		t.Fatal(err)
	}
	hidden := write(t, filepath.Join(dir, "a/b/notes.txt"), string(b), 0o600)
	if got := noSecrets("x", []string{dir}); got.Status != Fail || !strings.Contains(got.Detail, hidden) {
		t.Errorf("a board with a secret key: %+v", got)
	}
}

func TestCertificate(t *testing.T) {
	ca, err := tlsutil.NewDevCA("test")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Client("board1")
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := tlsutil.PEM(cert)
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, filepath.Join(t.TempDir(), "cert.pem"), string(text), 0o644)
	now := cert.Leaf.NotBefore.Add(time.Hour)
	if got := certificate("x", path, now); got.Status != Warn {
		t.Errorf("a day before its end: %+v", got)
	}
	if got := certificate("x", path, now.AddDate(0, 1, 0)); got.Status != Fail {
		t.Errorf("after its end: %+v", got)
	}
	if got := certificate("x", write(t, path+"2", "junk", 0o644), now); got.Status != Fail {
		t.Errorf("junk: %+v", got)
	}
}

// holderConfig is a key holder's configuration with a key set and a broker.
func holderConfig(t *testing.T, url, ca string) string {
	t.Helper()
	dir := t.TempDir()
	p, err := henc.Named("edge12-add")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keyholder.Create(filepath.Join(dir, "keys"), keyholder.CreateOptions{Params: p}); err != nil {
		t.Fatal(err)
	}
	signer, err := transport.NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	return write(t, filepath.Join(dir, "keyholder.yaml"),
		"name: home\nbroker: {url: \""+url+"\", ca: \""+ca+"\"}\nkey_set: keys\n"+
			"evaluators:\n  - {name: cloud, public_key: \""+signer.PublicText()+"\"}\n", 0o644)
}

func find(t *testing.T, r *Report, name string) Check {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %q in %+v", name, r.Checks)
	return Check{}
}

func TestExamineKeyHolder(t *testing.T) {
	ca, err := tlsutil.NewDevCA("test")
	if err != nil {
		t.Fatal(err)
	}
	var server *tls.Config
	if server, err = ca.ServerConfig(false); err != nil {
		t.Fatal(err)
	}
	b := testrig.Broker(t, broker.Options{TLS: server})
	caFile := write(t, filepath.Join(t.TempDir(), "ca.pem"), string(ca.PEM()), 0o644)
	path := holderConfig(t, b.URL(), caFile)
	r, err := Examine(context.Background(), Options{KeyHolder: path})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"key holder configuration", "key set", "secret key of epoch 1"} {
		if c := find(t, r, name); c.Status != OK {
			t.Errorf("%+v", c)
		}
	}
	// The broker's certificate is for a day.
	if c := find(t, r, "key holder broker"); c.Status != Warn || !strings.Contains(c.Detail,
		", TLS 1.3, the broker's certificate is valid until ") {
		t.Errorf("%+v", c)
	}
	secret := filepath.Join(filepath.Dir(path), "keys", "epoch-0001", keyholder.SecretFile)
	if err := os.Chmod(secret, 0o644); err != nil {
		t.Fatal(err)
	}
	b.Close()
	r, err = Examine(context.Background(), Options{KeyHolder: path, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if c := find(t, r, "secret key of epoch 1"); r.OK || c.Status != Fail || !strings.Contains(c.Remedy, "chmod 600") {
		t.Errorf("%v %+v", r.OK, c)
	}
	if c := find(t, r, "key holder broker"); c.Status != Fail {
		t.Errorf("a closed broker answers: %+v", c)
	}
	r, err = Examine(context.Background(), Options{KeyHolder: path, Offline: true})
	if err != nil || find(t, r, "key holder broker").Status != Info {
		t.Errorf("offline: %+v, %v", r, err)
	}
}

// What protects the page of a key holder is examined as well.
func TestConsoleFiles(t *testing.T) {
	ca, err := tlsutil.NewDevCA("test")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Server("console.example.org")
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err := tlsutil.PEM(cert)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	page := config.Console{Listen: "0.0.0.0:9470", Cert: write(t, filepath.Join(dir, "c.pem"), string(certPEM), 0o644),
		Key: write(t, filepath.Join(dir, "c.key"), string(keyPEM), 0o644)}
	r := &Report{Checks: consoleFiles(&page)}
	if c := find(t, r, "console"); c.Status != OK || !strings.Contains(c.Detail, "over TLS") {
		t.Errorf("%+v", c)
	}
	if c := find(t, r, "console TLS key"); c.Status != Fail || !strings.Contains(c.Remedy, "chmod 600") {
		t.Errorf("a key that others can read: %+v", c)
	}
	// The certificate is for a day.
	if c := find(t, r, "console certificate"); c.Status != Warn || c.Remedy != "renew it" {
		t.Errorf("%+v", c)
	}
	local := consoleFiles(&config.Console{Listen: "127.0.0.1:9470"})
	holder := &config.KeyHolder{State: filepath.Join(t.TempDir(), "state"), Console: &config.Console{
		Listen: "127.0.0.1:9470"}}
	if got := passkeyFiles(holder); got != nil {
		t.Errorf("no passkeys: %+v", got)
	}
	one := filepath.Join(holder.State+".passkeys", "a.json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(one), 0o700), os.WriteFile(one, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := passkeyFiles(holder); len(got) != 1 || got[0].Status != Warn {
		t.Errorf("a passkey of a page without a name: %+v", got)
	}
	holder.Console.Listen = "localhost:9470"
	if got := passkeyFiles(holder); len(got) != 1 || got[0].Status != OK || !strings.Contains(got[0].Detail, "1 log") {
		t.Errorf("a passkey: %+v", got)
	}
	if len(local) != 1 || !strings.Contains(local[0].Detail, "for this machine alone") || consoleFiles(nil) != nil {
		t.Errorf("%+v", local)
	}
}

// How the way to the broker is secured: a certificate that is valid for long is in
// order, and so is a broker on this machine without TLS.
func TestSecured(t *testing.T) {
	ca, err := tlsutil.NewDevCA("test")
	if err != nil {
		t.Fatal(err)
	}
	server, err := ca.ServerConfig(false)
	if err != nil {
		t.Fatal(err)
	}
	server.NextProtos = []string{"mqtt"}
	b := testrig.Broker(t, broker.Options{TLS: server})
	conf := config.Broker{URL: b.URL(), CA: write(t, filepath.Join(t.TempDir(), "ca.pem"), string(ca.PEM()), 0o644),
		ALPN: []string{"mqtt"}}
	end := server.Certificates[0].Leaf.NotAfter
	for _, c := range []struct {
		b     config.Broker
		now   time.Time
		want  Status
		holds string
	}{
		{conf, end.Add(-2 * brokerSoon), OK, "TLS 1.3, ALPN mqtt, the broker's certificate is valid until " +
			end.UTC().Format(time.RFC3339)},
		{conf, end.Add(-brokerSoon / 2), Warn, "valid until"},
		{config.Broker{URL: "mqtt://localhost:1"}, end, OK, "without TLS"},
		{config.Broker{URL: "mqtt://broker.example:1"}, end, Warn, "without TLS"},
	} {
		got := Check{Status: OK, Detail: "x"}
		secured(t.Context(), c.b, c.now, &got)
		if got.Status != c.want || !strings.Contains(got.Detail, c.holds) ||
			(got.Status == Warn) != (got.Remedy != "") {
			t.Errorf("%+v: %+v", c.b, got)
		}
	}
}

// TestUnreachable: the remedy is for what is wrong.
func TestUnreachable(t *testing.T) {
	ca, err := tlsutil.NewDevCA("test")
	if err != nil {
		t.Fatal(err)
	}
	server, err := ca.ServerConfig(false)
	if err != nil {
		t.Fatal(err)
	}
	b := testrig.Broker(t, broker.Options{TLS: server, Users: map[string]string{"board1": "secret1"}})
	other, err := tlsutil.NewDevCA("other")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	right := write(t, filepath.Join(dir, "ca.pem"), string(ca.PEM()), 0o644)
	wrong := write(t, filepath.Join(dir, "other.pem"), string(other.PEM()), 0o644)
	for _, c := range []struct {
		b    config.Broker
		want string
	}{
		{config.Broker{URL: b.URL(), CA: wrong}, "broker.ca"},
		{config.Broker{URL: b.URL(), CA: right, ServerName: "other.example"}, "broker.server_name"},
		{config.Broker{URL: b.URL(), CA: right}, "broker.username"},
		{config.Broker{URL: "tcp://127.0.0.1:1"}, "broker.url"},
	} {
		c.b.ClientID = "board1"
		timeout := testrig.Patience
		if c.want == "broker.url" {
			timeout = time.Second // that is tried until then
		}
		if got := reach(t.Context(), "agent", c.b, timeout); got.Status != Fail ||
			!strings.Contains(got.Remedy, c.want) {
			t.Errorf("want %s: %+v", c.want, got)
		}
	}
}

func TestExamineBrokenConfiguration(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "agent.yaml"), "device: board1\nbogus: 1\n", 0o644)
	r, err := Examine(context.Background(), Options{Agent: path})
	if err != nil {
		t.Fatal(err)
	}
	if c := find(t, r, "agent configuration"); r.OK || c.Status != Fail || !strings.Contains(c.Detail, "bogus") {
		t.Errorf("%+v", c)
	}
}

// TestBrokerPassword: without the password the broker is not tried, since its
// refusal would hide why; with the directory of credentials it is.
func TestBrokerPassword(t *testing.T) {
	dir := t.TempDir()
	b := config.Broker{URL: "tcp://127.0.0.1:1", ClientID: "board1", Username: "board1", Password: "cred:broker"}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	r := &Report{Checks: brokerChecks(context.Background(), "agent", b, Options{Timeout: time.Second})}
	if c := find(t, r, "agent broker password"); c.Status != Fail {
		t.Errorf("a credential that is not there: %+v", c)
	}
	if c := find(t, r, "agent broker"); c.Status != Info || !strings.Contains(c.Detail, "password") {
		t.Errorf("without a password: %+v", c)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	r = &Report{Checks: brokerChecks(context.Background(), "agent", b, Options{Offline: true})}
	if c := find(t, r, "agent broker password"); c.Status != Info { // a shell is not the service
		t.Errorf("offline, outside the service: %+v", c)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	write(t, filepath.Join(dir, "broker"), "secret1", 0o600)
	r = &Report{Checks: brokerChecks(context.Background(), "agent", b, Options{Timeout: time.Second})}
	if c := find(t, r, "agent broker password"); c.Status != OK {
		t.Errorf("a credential that is there: %+v", c)
	}
	if c := find(t, r, "agent broker"); c.Status != Fail { // nothing listens on port 1
		t.Errorf("with a password: %+v", c)
	}
}
