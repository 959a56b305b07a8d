//go:build !evaluatoronly

package main

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/config"
)

// agentWrites returns the files and directories that an agent writes. An existing signing
// key is only read.
func agentWrites(cfg *config.Agent) []string {
	out := []string{cfg.State}
	if seal.FirstStart(cfg) {
		out = append(out, cfg.SigningKey)
	}
	if s := cfg.Spool; s != nil {
		out = append(out, s.Dir, s.Mirror)
	}
	return out
}

// agentReads returns the files that an agent reads.
func agentReads(cfg *config.Agent) []string {
	out := []string{cfg.Keys.PublicKey, cfg.Keys.SecretKey, cfg.Broker.CA, cfg.Broker.Cert, cfg.Broker.Key,
		cfg.SigningKey}
	for _, n := range cfg.Secrets() {
		out = append(out, n.Secret.File())
	}
	dir := os.Getenv("CREDENTIALS_DIRECTORY") // systemd hands these over
	return slices.DeleteFunc(out, func(p string) bool { return dir != "" && filepath.Dir(p) == filepath.Clean(dir) })
}
