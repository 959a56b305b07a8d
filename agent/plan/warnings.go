package plan

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/keyset"
)

// Warnings returns what works in a configuration but deserves thought.
func Warnings(cfg *config.Agent) []string {
	var out []string
	if cfg.Keys.Mode == config.KeyModeSymmetric {
		out = append(out, "symmetric mode: the secret key is on this device; whoever takes it can decrypt "+
			"everything under that key")
	}
	if cfg.Keys.BoardKey != "" {
		out = append(out, "compact windows: the key of this device's windows is on it; whoever takes it can decrypt "+
			"them, past and future, and those of no other device")
	}
	if cfg.Keys.Mode == config.KeyModePublic {
		for _, file := range keyset.Secrets(filepath.Dir(cmp.Or(cfg.Keys.PublicKey, cfg.Keys.BoardKey))) {
			if file == filepath.Clean(cfg.Keys.BoardKey) {
				continue
			}
			out = append(out, fmt.Sprintf("SECRET KEY ON THIS DEVICE: %s lies beside the public key, and whoever "+
				"takes the device decrypts everything with it; remove it, and make a new key set "+
				"if others could read it",
				file))
		}
	}
	if cfg.Keys.Holder == config.HolderNone {
		out = append(out, "keys.holder is none: nobody checks who signed the key that this device encrypts with. "+
			"Whoever replaced it in transit can read everything. Write the fingerprint that `hencedge keys show` "+
			"prints at the key holder")
	}
	if seal.FirstStart(cfg) {
		out = append(out, fmt.Sprintf("signing_key: %s does not exist; it is made at the first start, or by "+
			"`hencedge agent enroll`", cfg.SigningKey))
	}
	if e, err := cfg.Broker.Endpoint(); err == nil && !e.TLS && !e.Loopback() {
		out = append(out, fmt.Sprintf("no TLS to %s: topics, sizes and the broker's password travel in clear", e.Host))
	}
	for _, n := range cfg.Secrets() {
		if path := n.Secret.Exposed(); path != "" {
			out = append(out, fmt.Sprintf("%s: every user of this machine may read or change %s; run chmod o-rwx on it",
				n.Path, path))
		}
	}
	if path := config.Exposed(cfg.Broker.Key); path != "" {
		out = append(out, fmt.Sprintf(
			"broker.key: every user of this machine may read or change %s; run chmod 600 on it",
			path))
	}
	out = append(out, sensor.Warnings(cfg)...)
	for _, s := range cfg.Streams {
		if s.Replay != nil && s.Replay.Speed == "fast" && cfg.Queue.Full != config.QueueBlock {
			out = append(out, fmt.Sprintf("stream %s replays as fast as it can, and a full queue drops windows; set "+
				"queue.full to block to lose none", s.Name))
		}
	}
	return out
}
