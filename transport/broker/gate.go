package broker

import (
	"crypto/sha256"
	"crypto/subtle"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// gate lets clients in: everybody, or those with a known name and password.
// Whoever is in may publish and subscribe everywhere.
//
// It also keeps the broker from losing messages. The broker records a PUBACK in
// the session before it writes it, and hands the message on after that. When
// the connection breaks in between, the next connection inherits the record and
// gets the PUBACK of a message that nobody received. So the record is removed
// at once, and a new connection takes a session over only after the old one has
// finished what it was doing. Without the record the publisher sends the message
// again, as it should. And it keeps the packet ids of both directions apart (see session).
type gate struct {
	mqtt.HookBase
	server *mqtt.Server
	users  map[string]string
	active sync.Map // *mqtt.Client -> *session, until the client has finished
}

// finishTime bounds the wait for an old connection to finish.
const finishTime = 5 * time.Second

// ID names the hook in the broker's log.
func (g *gate) ID() string { return "gate" }

// Provides says which events the hook answers.
func (g *gate) Provides(event byte) bool {
	switch event {
	case mqtt.OnConnectAuthenticate, mqtt.OnACLCheck, mqtt.OnQosPublish, mqtt.OnPacketRead, mqtt.OnPacketEncode,
		mqtt.OnSessionEstablish, mqtt.OnSessionEstablished, mqtt.OnDisconnect:
		return true
	}
	return false
}

// OnSessionEstablish is called before cl takes over its session.
func (g *gate) OnSessionEstablish(cl *mqtt.Client, _ packets.Packet) {
	old, ok := g.server.Clients.Get(cl.ID)
	if !ok {
		return
	}
	last := g.session(old)
	if last == nil {
		return
	}
	old.Stop(packets.ErrSessionTakenOver)
	limit := time.NewTimer(finishTime)
	defer limit.Stop()
	select {
	case <-last.finished:
	case <-limit.C:
	}
}

// OnSessionEstablished is called before the first message of cl is read.
func (g *gate) OnSessionEstablished(cl *mqtt.Client, _ packets.Packet) {
	g.active.Store(cl, &session{finished: make(chan struct{})})
}

// OnDisconnect is called after the last message of cl was handled.
func (g *gate) OnDisconnect(cl *mqtt.Client, _ error, _ bool) {
	if s, ok := g.active.LoadAndDelete(cl); ok {
		close(s.(*session).finished)
	}
}

// OnQosPublish is called when a message or an answer enters a session.
func (g *gate) OnQosPublish(cl *mqtt.Client, pk packets.Packet, _ int64, _ int) {
	switch pk.FixedHeader.Type {
	case packets.Publish:
		if s := g.session(cl); s != nil {
			s.newest.Store(uint32(pk.PacketID))
		}
	case packets.Puback:
		if cl.State.Inflight.Delete(pk.PacketID) {
			atomic.AddInt64(&g.server.Info.Inflight, -1)
		}
	}
}

// OnConnectAuthenticate checks name and password.
func (g *gate) OnConnectAuthenticate(_ *mqtt.Client, pk packets.Packet) bool {
	if g.users == nil {
		return true
	}
	want, known := g.users[string(pk.Connect.Username)]
	a, b := sha256.Sum256([]byte(want)), sha256.Sum256(pk.Connect.Password)
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && known
}

// OnACLCheck allows every topic.
func (g *gate) OnACLCheck(*mqtt.Client, string, bool) bool { return true }
