package mqtt

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/gorilla/websocket"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// webFront returns a web server that hands WebSockets at path on to a broker.
func webFront(t *testing.T, broker, path string, protocols []string, secure bool) *httptest.Server {
	t.Helper()
	up := websocket.Upgrader{Subprotocols: protocols}
	mux := http.NewServeMux()
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		ws, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer ws.Close()
		behind, err := net.Dial("tcp", broker)
		if err != nil {
			return
		}
		defer behind.Close()
		front := &webConn{Conn: ws}
		go func() {
			defer ws.Close()
			_, _ = io.Copy(front, behind)
		}()
		_, _ = io.Copy(behind, front)
	})
	s := httptest.NewUnstartedServer(mux)
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.CloseClientConnections)
	return s
}

// roots trusts the test server's certificate.
func roots(s *httptest.Server) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return &tls.Config{RootCAs: pool}
}

// TestWebSocket: messages of any size go both ways over a WebSocket, with TLS and
// without, at the default path and at another.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	b := newEmbedded(t, nil)
	for i, c := range []struct {
		path, suffix string
		secure       bool
	}{{"/mqtt", "", false}, {"/mqtt", "/", true}, {"/ws/broker", "/ws/broker", true}} {
		front := webFront(t, b.addr(), c.path, []string{"mqtt"}, c.secure)
		o := Options{ClientID: fmt.Sprint("web", i), URL: strings.Replace(front.URL, "http", "ws", 1) + c.suffix}
		if c.secure {
			o.TLS = roots(front)
		}
		client := dial(t, o)
		got := make(chan []byte, 1)
		if err := client.Subscribe(t.Context(), "web/+",
			func(d transport.Delivery) { got <- d.Payload; d.Ack() }); err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{0, 1, 300 << 10} {
			want := bytes.Repeat([]byte{7}, size)
			if err := client.Publish(t.Context(), "web/x", want, false); err != nil {
				t.Fatal(err)
			}
			if b := testrig.Receive(t, "a message over "+o.URL, got); !bytes.Equal(b, want) {
				t.Errorf("%s: %d bytes of %d came back", o.URL, len(b), size)
			}
		}
		if err := client.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWebSocketRefused: what is no MQTT broker behind a WebSocket is told.
func TestWebSocketRefused(t *testing.T) {
	t.Parallel()
	b := newEmbedded(t, nil)
	front, other := webFront(t, b.addr(), "/ws", []string{"mqtt"}, false),
		webFront(t, b.addr(), "/mqtt", []string{"chat"}, false)
	for url, want := range map[string]string{
		front.URL: `the server answers "404 Not Found" to /mqtt: the path of the broker's URL may be another`,
		other.URL: "speaks another protocol than MQTT",
	} {
		if err := attempt(t, Options{URL: strings.Replace(url, "http", "ws", 1)}); !strings.Contains(err.Error(),
			want) {
			t.Errorf("%s: %v", url, err)
		}
	}
	for url, want := range map[string]string{
		"ws://h/mqtt":       "not encrypted",
		"wss://h/mqtt?a=b":  "more than scheme, host and port",
		"wss://u:p@h/mqtt":  "more than scheme, host and port",
		"tls://h:8883/mqtt": "more than scheme, host and port",
	} {
		if _, err := Dial(t.Context(), Options{URL: url, ClientID: "c"}); !errors.Is(err, transport.ErrOptions) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// attempt tries one connection and returns why it failed.
func attempt(t *testing.T, o Options) error {
	t.Helper()
	o.ClientID, o.Logger = "attempt", testrig.Quiet()
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	end, err := o.endpoint()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testrig.Patience)
	defer cancel()
	c := &client{opts: o, end: end, ctx: ctx, log: o.Logger}
	c.router = newRouter(c)
	conn, err := c.open(nil, paho.ClientOptions{})
	if err == nil {
		defer conn.Close()
		// An MQTT CONNECT, and what is answered.
		if _, err = conn.Write([]byte("\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a")); err == nil {
			_, err = conn.Read(make([]byte, 64))
		}
	}
	if err == nil {
		t.Fatalf("%s: connected", o.URL)
	}
	return end.explain(err)
}

// TestWrongPort: TLS against a port without it, the other way round, and a certificate
// without a subject alternative name say what is wrong.
func TestWrongPort(t *testing.T) {
	t.Parallel()
	plain := newEmbedded(t, nil)
	trusted := x509.NewCertPool()
	secure := newEmbedded(t, selfSigned(t, trusted, "localhost"))
	nameless := newEmbedded(t, selfSigned(t, trusted))
	for _, c := range []struct {
		url, want string
	}{
		{"tls://" + plain.addr(), "the port may be one without TLS"},
		{"tcp://" + secure.addr(), "the port may be one for TLS"},
		{"tcp://" + alerting(t), "the broker answers with TLS: write tls://"},
		{"tls://" + nameless.addr(), "no subject alternative name"},
	} {
		if err := attempt(t, Options{URL: c.url, TLS: &tls.Config{ServerName: "localhost",
			RootCAs: trusted}}); !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.url, err)
		}
	}
}

// selfSigned returns a server with a certificate for the given DNS names, which pool then
// trusts; its common name is localhost in any case.
func selfSigned(t *testing.T, pool *x509.CertPool, names ...string) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: names,
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// alerting returns the address of a server that answers as OpenSSL does to what is not TLS.
func alerting(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 64))
			_, _ = conn.Write([]byte{21, 3, 1, 0, 2, 2, 70}) // fatal: protocol_version
			conn.Close()
		}
	}()
	return l.Addr().String()
}
