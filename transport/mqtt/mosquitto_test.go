package mqtt

import (
	"fmt"
	"testing"

	"github.com/hencedge/hencedge/transport/broker/mosquitto"
	"github.com/hencedge/hencedge/transport/tlsutil"
)

// persistent is a mosquitto that keeps its messages while it is stopped.
type persistent struct{ b *mosquitto.Broker }

// newMosquitto starts one that everybody may use, over TLS if there is an authority.
func newMosquitto(t *testing.T, ca *tlsutil.DevCA, mutual bool) persistent {
	t.Helper()
	conf := fmt.Sprintf("allow_anonymous true\npersistence true\npersistence_location %s/\nmax_queued_messages "+
		"10000\nlog_type all\n", t.TempDir())
	if mutual {
		conf += "require_certificate true\n"
	}
	return persistent{mosquitto.Start(t, ca, conf)}
}

func (p persistent) addr() string       { return p.b.Address }
func (p persistent) durable() bool      { return true }
func (p persistent) url() string        { return p.b.URL }
func (p persistent) start(t *testing.T) { t.Helper(); p.b.Start(t) }
func (p persistent) stop(*testing.T)    { p.b.Stop() }
