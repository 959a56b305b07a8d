package broker

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/hencedge/hencedge/transport/tlsutil"
)

func TestStartRefuses(t *testing.T) {
	for _, o := range []Options{
		{Address: "nonsense"}, {Address: "0.0.0.0:0"}, {Address: ":0"}, {Address: "192.0.2.1:0"},
		{MaxPacket: -1}, {MaxPacket: 1 << 30}, {Address: "127.0.0.1:99999"},
	} {
		if b, _, err := Start(o); err == nil {
			b.Close()
			t.Errorf("%+v was started", o)
		}
	}
	b, addr, err := Start(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if b.Addr() != addr || b.URL() != "tcp://"+addr {
		t.Errorf("%q, %q, %q", addr, b.Addr(), b.URL())
	}
	if second, _, err := Start(Options{Address: addr}); err == nil {
		second.Close()
		t.Error("two brokers on one port")
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("listens after Close")
	}
}

func TestTLS(t *testing.T) {
	ca, err := tlsutil.NewDevCA("dev")
	if err != nil {
		t.Fatal(err)
	}
	server, err := ca.ServerConfig(true)
	if err != nil {
		t.Fatal(err)
	}
	b, addr, err := Start(Options{TLS: server})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if b.URL() != "tls://"+addr {
		t.Error(b.URL())
	}
	client, err := ca.ClientConfig("a")
	if err != nil {
		t.Fatal(err)
	}
	c, err := tls.Dial("tcp", addr, client)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
