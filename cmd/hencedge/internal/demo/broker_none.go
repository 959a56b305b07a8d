//go:build nobroker

package demo

import (
	"crypto/tls"
	"errors"
)

// startServer returns an error: programs for boards hold no broker.
func startServer(*tls.Config) (server, error) {
	return nil, errors.New("this program is built for boards and has no broker: run the demo with the program for " +
		"amd64, or build one here with go build ./cmd/hencedge")
}
