package henc

import "github.com/hencedge/hencedge/cutrantt"

// defaultBackend is what a context runs on unless WithBackend says otherwise.
func defaultBackend() cutrantt.Backend { return nil }
