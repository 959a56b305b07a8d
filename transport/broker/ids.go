package broker

import (
	"sync/atomic"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// In MQTT each direction of a connection has packet ids of its own (3.1.1, section 2.3.1). The
// server keeps both in one table. It refuses a subscription that has the id of a message which the
// client has yet to acknowledge, ignores the end of a subscription in the same case, and forgets
// the message if the client publishes with that id. So a packet of the client gets an id within
// the server that no message of the table has, and the answer gets the client's id back.
//
// The server gives its messages ids in ascending order, and skips those in the table. The id for
// a packet is taken half the range away from the newest of them, so that no message gets it
// before the packet was handled. Messages of QoS 2 keep their ids: they need them for
// several packets, and hencedge sends none.

// session is what the gate knows of a connection. The server handles the packets of a client one
// after another and answers each from the same goroutine, so theirs and inner need no lock.
type session struct {
	finished chan struct{} // closes when the last packet was handled
	newest   atomic.Uint32 // the id of the newest message to the client
	theirs   uint16        // the id of the client's packet that is handled
	inner    uint16        // the id that it has meanwhile; 0: none
}

func (g *gate) session(cl *mqtt.Client) *session {
	s, ok := g.active.Load(cl)
	if !ok {
		return nil
	}
	return s.(*session)
}

// OnPacketRead is called before a packet of cl is handled. It replaces the packet's id.
func (g *gate) OnPacketRead(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	s := g.session(cl)
	if s == nil || pk.PacketID == 0 {
		return pk, nil
	}
	switch pk.FixedHeader.Type {
	case packets.Subscribe, packets.Unsubscribe:
	case packets.Publish:
		if pk.FixedHeader.Qos != 1 {
			return pk, nil
		}
	default:
		return pk, nil
	}
	s.theirs = pk.PacketID
	s.inner = uint16(s.newest.Load()) ^ 0x8000
	for range 1 << 16 {
		if s.inner != 0 {
			if _, taken := cl.State.Inflight.Get(s.inner); !taken {
				break
			}
		}
		s.inner--
	}
	pk.PacketID = s.inner
	return pk, nil
}

// OnPacketEncode is called before a packet is written to cl. It gives an answer the id of the
// packet that it answers.
func (g *gate) OnPacketEncode(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	switch pk.FixedHeader.Type {
	case packets.Suback, packets.Unsuback, packets.Puback:
		if s := g.session(cl); s != nil && s.inner != 0 && pk.PacketID == s.inner {
			pk.PacketID = s.theirs
		}
	}
	return pk
}
