//go:build nobroker

package loadbench

import "errors"

// startServer returns an error: programs for boards hold no broker.
func startServer() (server, error) {
	return nil, errors.New(
		"this program is built for boards and has no broker: give the URL of one, or measure in " +
			"process, without --broker",
	)
}
