package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// A client certificate counts against the health of a role before it ends.
func TestCertificateHealth(t *testing.T) {
	ca, err := tlsutil.NewDevCA("dev")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Client("board7")
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := tlsutil.PEM(cert)
	if err != nil {
		t.Fatal(err)
	}
	b := config.Broker{Cert: filepath.Join(t.TempDir(), "cert.pem")}
	if got := CertificateHealth(b, time.Now()); !strings.Contains(got, "no such file") {
		t.Errorf("absent: %q", got)
	}
	if err := os.WriteFile(b.Cert, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for before, want := range map[time.Duration]string{certificateSoon + time.Hour: "",
		certificateSoon - time.Hour: " ends at ", -time.Second: " ended at "} {
		got := CertificateHealth(b, cert.Leaf.NotAfter.Add(-before))
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%v before its end: %q", before, got)
		}
	}
	if got := CertificateHealth(config.Broker{}, time.Now()); got != "" {
		t.Errorf("without a certificate: %q", got)
	}
}
