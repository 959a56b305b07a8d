package outlet

import (
	"strings"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
)

// reader is who must be able to read what receivers need.
const reader = "the user that reads results"

// CheckWeb looks at the files and secrets of a page. It calls fail for every fault, with its
// place in the configuration, which begins with at, and a remedy. It connects to nothing.
func CheckWeb(cfg *config.HTTP, at string, fail func(path, remedy string, err error)) {
	daemon.CheckWeb(cfg, reader, at, fail)
}

// CheckMQTT is CheckWeb for a broker.
func CheckMQTT(cfg *config.AlertMQTT, at string, fail func(path, remedy string, err error)) {
	daemon.CheckBroker(cfg.Broker(), reader, "", func(path, remedy string, err error) {
		fail(at+strings.TrimPrefix(path, "broker."), remedy, err)
	})
}

// At reports whether cfg is the broker b, as far as the names of hosts tell.
func At(cfg *config.AlertMQTT, b config.Broker) bool {
	theirs, err := b.Endpoint()
	if err != nil {
		return false
	}
	own, err := cfg.Broker().Endpoint()
	return err == nil && (strings.EqualFold(own.Host, theirs.Host) || own.Loopback() && theirs.Loopback())
}
