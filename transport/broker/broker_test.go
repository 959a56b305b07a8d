package broker

import (
	"crypto/tls"
	"io"
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
	if b.URL() != "tcp://"+addr {
		t.Errorf("%q, %q", addr, b.URL())
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

// TestNoForgottenPuback breaks connections right after a message, before its
// PUBACK can be written. The next connection of the session must not get a
// PUBACK for a message that it has not sent.
func TestNoForgottenPuback(t *testing.T) {
	b, addr, err := Start(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	connect := append([]byte{0x10, 13, 0, 4}, "MQTT\x04\x00\x00\x3c\x00\x01a"...)
	for i := range 60 {
		for phase := range 2 {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write(connect); err != nil {
				t.Fatal(err)
			}
			connack := make([]byte, 4)
			if _, err := io.ReadFull(c, connack); err != nil || connack[0] != 0x20 {
				t.Fatalf("%x, %v", connack, err)
			}
			if phase == 0 {
				c.Write([]byte{0x32, 6, 0, 1, 'q', 0, byte(i + 1), 'x'})
				c.(*net.TCPConn).SetLinger(0) // a reset, not an orderly end
			} else {
				c.Write([]byte{0xc0, 0}) // the answer to a ping comes next, and nothing before it
				answer := make([]byte, 2)
				if _, err := io.ReadFull(c, answer); err != nil || answer[0] != 0xd0 {
					t.Errorf("round %d: got packet %x, %v", i, answer, err)
				}
			}
			c.Close()
		}
	}
}

// A connection on which nothing was sent yet does not keep the broker from closing.
func TestCloseCutsSilentConnections(t *testing.T) {
	ca, err := tlsutil.NewDevCA("test")
	if err != nil {
		t.Fatal(err)
	}
	conf, err := ca.ServerConfig(false)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{}, {TLS: conf}} {
		b, addr, err := Start(o)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("read %d bytes of a broker that is closed", n)
		}
	}
}
