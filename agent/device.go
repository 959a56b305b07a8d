package agent

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// ErrBackend: the device that encrypts failed, and the configuration says to stop
// then.
var ErrBackend = errors.New("the backend failed")

// device guards the keys of an agent, which move when a device fails.
type device struct {
	sync.RWMutex
	fallbacks uint64        // failures so far
	reopened  time.Duration // when a device was opened anew, on the monotonic clock
	stop      func()        // ends sampling; nil before Run
	failure   error         // what the agent stops for
}

// stopping makes a failure that the agent stops for end sampling.
func (a *Agent) stopping(stop func()) {
	a.device.Lock()
	defer a.device.Unlock()
	a.device.stop = stop
}

// failure is what the agent stopped for, or nil.
func (a *Agent) failure() error {
	a.device.RLock()
	defer a.device.RUnlock()
	return a.device.failure
}

// maxAttempts bounds how often a window is encrypted again after failures of the
// device that encrypts.
const maxAttempts = 3

// deviceFault reports whether what met err may succeed on another device.
func deviceFault(err error) bool {
	return errors.Is(err, cutrantt.ErrDevice) || errors.Is(err, cutrantt.ErrMemory)
}

// current are the keys in use; those of a device that failed are replaced.
func (a *Agent) current() keys {
	a.device.RLock()
	defer a.device.RUnlock()
	return a.keys
}

// sealed seals a window, again on what replaces a device that fails meanwhile:
// nothing of the window has left by then, so that its number stays.
func (a *Agent) sealed(s *stream, w *window, id identity) (*sealed, error) {
	defer a.sealing.Begin(s.cfg.Name)()
	for n := 1; ; n++ {
		k := a.current()
		out, err := k.seal(s, w, id, a.clock)
		if err == nil || !deviceFault(err) || n == maxAttempts {
			return out, err
		}
		if rerr := a.replace(k.ctx, err); rerr != nil {
			return nil, errors.Join(err, rerr)
		}
	}
}

// stallTime is how long the encryption of one window may take: the driver of a GPU
// that is newer than the kernels compiles them first, which takes minutes.
const stallTime = 10 * time.Minute

// Stalled says that a window is not getting encrypted: a device that encrypts hangs.
func (a *Agent) Stalled() string {
	stream, took := a.sealing.Oldest()
	if took < stallTime {
		return ""
	}
	return fmt.Sprintf("a window of stream %s has been encrypting for %v", stream, took.Round(time.Second))
}

// replace moves the keys from a device that failed, as configured: to the same
// device with a new context, but not twice within a minute, or to the processor.
func (a *Agent) replace(failed *henc.Context, cause error) error {
	a.device.Lock()
	defer a.device.Unlock()
	if a.keys.ctx != failed {
		return nil // another stream saw it first
	}
	a.device.fallbacks++
	where := failed.Ring().Backend().Device()
	switch {
	case a.cfg.BackendFallback == config.FallbackStop:
		a.device.failure = fmt.Errorf("%w: %s: %w", ErrBackend, where, cause)
		if a.device.stop != nil {
			a.device.stop()
		}
		return ErrBackend
	case a.deps.PublicKey != nil || a.deps.SecretKey != nil:
		return fmt.Errorf("%s failed, and its keys were not read from a file", where)
	case a.cfg.BackendFallback == config.FallbackRetry && a.deps.Reopen != nil && (a.device.reopened == 0 || a.clock.Mono()-a.device.reopened > time.Minute):
		a.device.reopened = max(a.clock.Mono(), 1)
		ctx, err := a.deps.Reopen(failed)
		if err == nil {
			err = a.move(ctx)
		}
		if err == nil {
			a.log.Warn("the device that encrypts failed and was opened anew", "device", where, "error", cause)
			return nil
		}
		a.log.Error("the device that encrypts failed and could not be opened anew", "device", where, "error", err)
	}
	ctx, err := henc.NewContext(failed.Parameters())
	if err == nil {
		err = a.move(ctx)
	}
	if err != nil {
		return fmt.Errorf("go on with the processor: %w", err)
	}
	a.log.Error("the device that encrypts failed; the processor takes over until a restart", "device", where, "error", cause)
	return nil
}

// move reads the keys again into ctx. It needs the lock.
func (a *Agent) move(ctx *henc.Context) error {
	fresh := keys{ctx: ctx}
	var failed []error
	fresh.load(a.cfg, Deps{SigningKey: a.keys.signing}, func(_ string, err error) { failed = append(failed, err) })
	if err := errors.Join(failed...); err != nil {
		fresh.wipe()
		return err
	}
	fresh.own = append(fresh.own, a.keys.own...) // wiped when the agent closes
	a.keys = fresh
	return nil
}
