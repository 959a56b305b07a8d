//go:build !amd64 && !arm64

package crt

// There is no vector code for this GOARCH.

var codes map[string]*code

func selected() *code { return nil }
