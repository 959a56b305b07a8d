package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// A renewal of the client certificate is announced once, on the connection that there is.
func TestRenewalIsAnnounced(t *testing.T) {
	client := &fakeClient{}
	deps, _ := testDeps(t, client)
	a, err := New(testConfig(t), deps)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if end := a.certificateEnd(); end != 0 {
		t.Errorf("without a certificate: %d", end)
	}
	var end atomic.Pointer[time.Time]
	first, second := noon, noon.Add(90*24*time.Hour)
	end.Store(&first)
	a.shown.Store(&tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &tls.Certificate{Leaf: &x509.Certificate{NotAfter: *end.Load()}}, nil
	}})
	ctx, stop := context.WithCancel(t.Context())
	look, ended := make(chan time.Time), make(chan struct{})
	go func() {
		defer close(ended)
		a.renewals(ctx, client, look)
	}()
	for _, now := range []time.Time{first, second, second} {
		look <- noon // a change may count for this look or the next one
		end.Store(&now)
	}
	look <- noon
	look <- noon
	stop()
	<-ended
	client.mu.Lock()
	defer client.mu.Unlock()
	_, status := opened(t, keysFor(t), a.cfg.Device, client.messages)
	var told []int64
	for _, o := range status {
		st, err := transport.UnmarshalStatus(o.Body)
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, st.CertificateEnd)
	}
	if !slices.Equal(told, []int64{second.UnixNano()}) {
		t.Errorf("told %d, want %d once", told, second.UnixNano())
	}
}
