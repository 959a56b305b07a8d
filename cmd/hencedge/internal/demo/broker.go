//go:build !nobroker

package demo

import (
	"crypto/tls"

	"github.com/hencedge/hencedge/transport/broker"
)

// startServer starts a broker on a free port of this machine.
func startServer(conf *tls.Config) (server, error) {
	b, _, err := broker.Start(broker.Options{TLS: conf})
	if err != nil {
		return nil, err
	}
	return b, nil
}
