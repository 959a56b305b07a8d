package henc

import (
	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
)

// defaultBackend is what a context runs on unless WithBackend says otherwise.
func defaultBackend() cutrantt.Backend { return cpu.New() }
