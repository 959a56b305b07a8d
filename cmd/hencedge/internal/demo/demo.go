// Package demo runs all of hencedge in one process: an MQTT broker with mutual TLS, an
// agent on this machine's sensors, an evaluator, and a key holder. The three roles meet
// only at the broker, each with just the keys that it would have in production. Every
// decrypted result is compared with the plaintext truth and with the promised error.
package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/hencedge/hencedge/henc"
)

// Run runs the demo and returns its summary. If ctx ends early or an error exceeds its
// bound, Summary.OK is false and the error is nil.
func Run(ctx context.Context, o Options) (*Summary, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	params, err := henc.Named(o.Params)
	if err != nil {
		return nil, fmt.Errorf("%w: parameters: %w", ErrSetup, err)
	}
	started := time.Now()
	s, err := newStage(o, params)
	if err != nil {
		return nil, err
	}
	defer s.clear()
	if o.OnStart != nil {
		o.OnStart(s.cast)
	}
	sum := newSummary(s.cast, started)
	err = s.play(ctx, func(r Row) error {
		sum.add(r)
		s.page.compared(r)
		if o.OnRow != nil {
			return o.OnRow(r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	sum.finish()
	return sum, nil
}
