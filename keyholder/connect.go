package keyholder

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/mqtt"
)

// Dial connects to the broker of a configuration.
func Dial(ctx context.Context, b config.Broker, log *slog.Logger) (transport.Client, error) {
	o, err := daemon.BrokerOptions(b, log)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", b.URL, err)
	}
	return mqtt.Dial(ctx, o)
}

// Signers returns the public keys of a configuration's evaluators, by name.
func Signers(devices []config.Signer) (map[string][]ed25519.PublicKey, error) {
	out := make(map[string][]ed25519.PublicKey, len(devices))
	for _, d := range devices {
		pub, err := transport.ParsePublicKey(d.PublicKey)
		if err != nil {
			return nil, fmt.Errorf("evaluator %s: %w", d.Name, err)
		}
		out[d.Name] = append(out[d.Name], pub)
	}
	return out, nil
}

// Limits returns the bounds of reassembly that a configuration sets.
func Limits(l config.Limits) transport.Limits {
	return transport.Limits{MaxObject: int(l.Object), MaxObjects: l.Pending, MaxBytes: int(l.Memory),
		MaxAge: l.Reassembly}
}
