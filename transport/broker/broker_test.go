package broker

import (
	"crypto/tls"
	"io"
	"maps"
	"net"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

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

// TestPacketIDs: a client's packets may have the ids of messages that it has not acknowledged.
// Its subscriptions are granted and ended, its messages acknowledged with the ids that it
// chose, and what it did not acknowledge comes again on the next connection.
func TestPacketIDs(t *testing.T) {
	const kept = 20
	b, addr, err := Start(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	connect := func() (c net.Conn, exchange func(send packets.ControlPacket, want func(packets.ControlPacket) bool)) {
		t.Helper()
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		exchange = func(send packets.ControlPacket, want func(packets.ControlPacket) bool) {
			t.Helper()
			if err := send.Write(c); err != nil {
				t.Fatal(err)
			}
			for {
				got, err := packets.ReadPacket(c)
				if err != nil {
					t.Fatalf("after %v: %v", send, err)
				}
				if want(got) {
					return
				}
			}
		}
		hello := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
		hello.ProtocolName, hello.ProtocolVersion, hello.ClientIdentifier = "MQTT", 4, "a"
		exchange(hello, isType[*packets.ConnackPacket])
		return c, exchange
	}
	subscribe := func(id uint16, filter string) *packets.SubscribePacket {
		p := packets.NewControlPacket(packets.Subscribe).(*packets.SubscribePacket)
		p.MessageID, p.Topics, p.Qoss = id, []string{filter}, []byte{1}
		return p
	}
	publish := func(id uint16, topic string) *packets.PublishPacket {
		p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
		p.MessageID, p.Qos, p.TopicName, p.Payload = id, 1, topic, []byte{byte(id)}
		return p
	}
	// messages collects the ids that the broker gave, until n messages of q have come.
	messages := func(ids map[uint16]bool, n int) func(packets.ControlPacket) bool {
		return func(p packets.ControlPacket) bool {
			if m, ok := p.(*packets.PublishPacket); ok && m.TopicName == "q" {
				ids[m.MessageID] = true
			}
			return len(ids) == n
		}
	}
	first, exchange := connect()
	granted := func(id uint16) func(packets.ControlPacket) bool {
		return func(p packets.ControlPacket) bool {
			ack, ok := p.(*packets.SubackPacket)
			if ok && (ack.MessageID != id || len(ack.ReturnCodes) != 1 || ack.ReturnCodes[0] != 1) {
				t.Errorf("answer to subscription %d: %v", id, ack)
			}
			return ok
		}
	}
	exchange(subscribe(1000, "q"), granted(1000))
	exchange(subscribe(1001, "gone"), granted(1001))
	ids := map[uint16]bool{}
	for i := range kept {
		exchange(publish(2000, "q"), messages(ids, i+1))
	}
	for id := range ids { // all of them are in use now, from the broker's side
		exchange(subscribe(id, "other"), granted(id))
		end := packets.NewControlPacket(packets.Unsubscribe).(*packets.UnsubscribePacket)
		end.MessageID, end.Topics = id, []string{"gone"}
		exchange(end, func(p packets.ControlPacket) bool {
			ack, ok := p.(*packets.UnsubackPacket)
			if ok && ack.MessageID != id {
				t.Errorf("answer to unsubscription %d has id %d", id, ack.MessageID)
			}
			return ok
		})
		exchange(publish(id, "gone"), func(p packets.ControlPacket) bool {
			if m, ok := p.(*packets.PublishPacket); ok && m.TopicName == "gone" {
				t.Error("a message of a subscription that was ended")
			}
			ack, ok := p.(*packets.PubackPacket)
			if ok && ack.MessageID != id {
				t.Errorf("answer to message %d has id %d", id, ack.MessageID)
			}
			return ok
		})
	}
	first.Close()
	second, exchange := connect()
	defer second.Close()
	again := map[uint16]bool{}
	exchange(packets.NewControlPacket(packets.Pingreq), messages(again, kept))
	if !maps.Equal(again, ids) {
		t.Errorf("messages %v were not acknowledged, and %v came again", ids, again)
	}
}

func isType[T packets.ControlPacket](p packets.ControlPacket) bool {
	_, ok := p.(T)
	return ok
}
