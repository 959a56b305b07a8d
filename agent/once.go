package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrNoSamples: the sensors of a stream gave nothing that a window could be made of.
var ErrNoSamples = errors.New("no sample")

// firstWindow bounds how long Once waits for the first sample of a stream of
// sensors, besides two intervals, and for an input of messages to work. It is the machine's own
// time: it bounds a person's
// wait.
const firstWindow = 30 * time.Second

// expectSamples ends sampling when a stream of sensors has no sample in time, or when no
// message can come, and returns why. It returns nil when ctx ends.
func (a *Agent) expectSamples(ctx context.Context, patience time.Duration, stop func()) error {
	begun := time.Now()
	look := time.NewTicker(min(patience, time.Second) / 4)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		for _, s := range a.streams {
			if s.Count.Samples() > 0 || time.Since(begun) < patience+2*s.Config.Interval {
				continue
			}
			_, silent := s.Source.Trouble()
			if silent == nil && !s.Source.Periodic() {
				continue // samples come when they come
			}
			stop()
			return a.noSamples(s, silent)
		}
	}
}

// noSamples says why a stream has no samples. silent is why no message can come, if that
// is known: a new attempt to connect may have cleared it from the troubles since.
func (a *Agent) noSamples(s *stream, silent error) error {
	var why []string
	for _, t := range a.troubles() {
		if t.Stream == s.Config.Name {
			why = append(why, fmt.Sprintf("channel %s: %s", t.Channel, t.Error))
		}
	}
	if len(why) == 0 && silent != nil {
		why = append(why, silent.Error())
	}
	err := fmt.Errorf("stream %s: %w", s.Config.Name, ErrNoSamples)
	if len(why) > 0 {
		err = fmt.Errorf("%w: %s", err, strings.Join(why, "; "))
	}
	return err
}
