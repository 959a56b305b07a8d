package role

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/cutrantt"
)

// ErrBackend: a device failed, and backend_fallback says to stop then.
var ErrBackend = errors.New("the backend failed")

// Attempt runs f on a device, and again on what replace returns while devices fail, at
// most n times.
func Attempt[T any](n int, on T, f func(on T) error, replace func(failed T, cause error) (T, error)) error {
	for {
		err := f(on)
		if n--; err == nil || !DeviceFailed(err) || n == 0 {
			return err
		}
		next, rerr := replace(on, err)
		if rerr != nil {
			return errors.Join(err, rerr)
		}
		on = next
	}
}

// DeviceFailed reports whether what met err may succeed on another device.
func DeviceFailed(err error) bool {
	return errors.Is(err, cutrantt.ErrDevice) || errors.Is(err, cutrantt.ErrMemory)
}

// Fallback replaces devices that fail, as backend_fallback says. T is a device with the
// keys on it. Its owner's lock guards it.
type Fallback[T any] struct {
	Policy config.FallbackPolicy
	Mono   func() time.Duration // see Clock
	Log    *slog.Logger
	// Stop ends the service with an error.
	Stop func(err error)

	reopened  time.Duration // when a device was opened anew
	hasReopen bool
}

// Replace returns what takes over from a device that failed with cause: with the policy
// "retry" the device itself, opened anew, but not twice within a minute; then another
// device; then the processor. With the policy "stop" it calls Stop and fails with
// ErrBackend.
func (f *Fallback[T]) Replace(device string, cause error, to Replacements[T]) (next T, err error) {
	switch f.Policy {
	case config.FallbackStop:
		f.Log.Error("the device failed; stopping, as backend_fallback says", "device", device, "error", cause)
		err := fmt.Errorf("%w: %s: %w", ErrBackend, device, cause)
		f.Stop(err)
		return next, err
	case config.FallbackRetry:
		if to.Reopen == nil || f.justReopened() {
			break
		}
		if next, err = to.Reopen(); err == nil {
			f.Log.Warn("the device failed and was opened anew", "device", device, "error", cause)
			return next, nil
		}
		f.Log.Error("the device failed and could not be opened anew", "device", device, "error", err)
	}
	if to.Others != nil {
		next, left := to.Others()
		f.Log.Error("the device failed; the others go on", "device", device, "left", left, "error", cause)
		return next, nil
	}
	if next, err = to.Processor(); err != nil {
		return next, fmt.Errorf("go on with the processor: %w", err)
	}
	f.Log.Error("the device failed; the processor takes over until a restart", "device", device, "error", cause)
	return next, nil
}

// Replacements are what can take over from a device.
type Replacements[T any] struct {
	// Reopen opens the device anew; nil: it cannot.
	Reopen func() (T, error)
	// Others takes the device out of use and returns one of those that are left, and
	// their number; nil: there are none.
	Others func() (next T, left int)
	// Processor moves to the processor.
	Processor func() (T, error)
}

// justReopened reports whether a device was opened anew within the last minute. If not,
// it is now.
func (f *Fallback[T]) justReopened() bool {
	now := f.Mono()
	if f.hasReopen && now-f.reopened <= time.Minute {
		return true
	}
	f.reopened, f.hasReopen = now, true
	return false
}
