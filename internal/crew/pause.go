//go:build amd64 || arm64

package crew

// relax leaves the core to its other thread for some 10 ns.
//
//go:noescape
func relax()
