//go:build !nobroker

package loadbench

import "github.com/hencedge/hencedge/transport/broker"

// startServer starts a broker on a free port of this machine.
func startServer() (server, error) {
	b, _, err := broker.Start(broker.Options{})
	if err != nil {
		return nil, err
	}
	return b, nil
}
