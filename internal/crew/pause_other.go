//go:build !amd64 && !arm64

package crew

func relax() {}
