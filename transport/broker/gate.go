package broker

import (
	"crypto/sha256"
	"crypto/subtle"
	"sync/atomic"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// gate lets clients in: everybody, or those with a known name and password.
// Whoever is in may publish and subscribe everywhere.
//
// It also keeps the broker from losing messages. The broker records a PUBACK
// before it writes it, and hands the message on after that. When the connection
// breaks in between, the record stays in the session, and the next connection
// gets the PUBACK of a message that nobody received. Without the record the
// publisher sends the message again, as it should.
type gate struct {
	mqtt.HookBase
	server *mqtt.Server
	users  map[string]string
}

// ID names the hook in the broker's log.
func (g *gate) ID() string { return "gate" }

// Provides says which events the hook answers.
func (g *gate) Provides(event byte) bool {
	return event == mqtt.OnConnectAuthenticate || event == mqtt.OnACLCheck || event == mqtt.OnQosPublish
}

// OnQosPublish is called when a message or an answer enters a session.
func (g *gate) OnQosPublish(cl *mqtt.Client, pk packets.Packet, _ int64, _ int) {
	if pk.FixedHeader.Type == packets.Puback && cl.State.Inflight.Delete(pk.PacketID) {
		atomic.AddInt64(&g.server.Info.Inflight, -1)
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
