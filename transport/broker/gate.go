package broker

import (
	"crypto/sha256"
	"crypto/subtle"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// gate lets clients in: everybody, or those with a known name and password.
// Whoever is in may publish and subscribe everywhere.
type gate struct {
	mqtt.HookBase
	users map[string]string
}

// ID names the hook in the broker's log.
func (g *gate) ID() string { return "gate" }

// Provides says which events the hook answers.
func (g *gate) Provides(event byte) bool {
	return event == mqtt.OnConnectAuthenticate || event == mqtt.OnACLCheck
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
