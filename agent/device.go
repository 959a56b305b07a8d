package agent

import (
	"errors"
	"time"

	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/role"
)

// stopping sets what ends sampling when the agent stops for a failure.
func (a *Agent) stopping(stop func()) {
	a.device.Lock()
	defer a.device.Unlock()
	a.device.stop = stop
}

// failure returns what the agent stopped for, or nil.
func (a *Agent) failure() error {
	a.device.RLock()
	defer a.device.RUnlock()
	return a.device.failure
}

// maxAttempts bounds how often a window is encrypted again after failures of the
// device that encrypts.
const maxAttempts = 3

// current returns the keys in use; they change when a device fails.
func (a *Agent) current() seal.Keys {
	a.device.RLock()
	defer a.device.RUnlock()
	return a.keys
}

// sealed seals a window. If a device fails, it tries again on what replaces it. The
// window keeps its number, since nothing of it has left by then.
func (a *Agent) sealed(s *seal.Stream, w *source.Window, id seal.Identity) (out *seal.Sealed, err error) {
	defer a.sealing.Begin(s.Config.Name)()
	err = role.Attempt(maxAttempts, a.current(), func(k seal.Keys) (err error) {
		out, err = k.Seal(s, w, id, a.clock)
		return err
	}, a.replace)
	return out, err
}

// stallTime is how long the encryption of one window may take: the driver of a GPU
// that is newer than the kernels compiles them first, which takes minutes.
const stallTime = 10 * time.Minute

// Stalled returns which window has been encrypting for too long, since a device hangs, or "".
func (a *Agent) Stalled() string {
	return a.sealing.Stalled(stallTime, "a window of stream %s has been encrypting for %v")
}

// guard prepares for failures of the device.
func (a *Agent) guard() {
	a.device.fallback = role.Fallback[seal.Keys]{Policy: a.cfg.BackendFallback, Mono: a.clock.Mono, Log: a.log}
	a.device.fallback.Stop = func(err error) {
		a.device.failure = err
		if a.device.stop != nil {
			a.device.stop()
		}
	}
}

// replace moves the keys from a device that failed, as backend_fallback says, and
// returns them.
func (a *Agent) replace(failed seal.Keys, cause error) (seal.Keys, error) {
	a.device.Lock()
	defer a.device.Unlock()
	if a.keys.Context != failed.Context {
		return a.keys, nil // another stream saw it first
	}
	a.device.fallbacks++
	device := failed.Context.Ring().Backend().Device()
	processor := func() (seal.Keys, error) { return a.move(henc.NewContext(failed.Context.Parameters())) }
	to := role.Replacements[seal.Keys]{Processor: processor}
	switch {
	case a.deps.PublicKey != nil || a.deps.SecretKey != nil:
		to.Processor = func() (seal.Keys, error) {
			return seal.Keys{},
				errors.New("the keys were not read from a file")
		}
	case a.deps.Reopen != nil:
		to.Reopen = func() (seal.Keys, error) { return a.move(a.deps.Reopen(failed.Context)) }
	}
	return a.device.fallback.Replace(device, cause, to)
}

// move reads the keys again into ctx. If err says that there is no context, it returns
// err. It needs the lock.
func (a *Agent) move(ctx *henc.Context, err error) (seal.Keys, error) {
	if err != nil {
		return seal.Keys{}, err
	}
	fresh := seal.Keys{Context: ctx}
	var failed []error
	fresh.Load(a.cfg, seal.Given{Signing: a.keys.Signing}, func(_ string, err error) { failed = append(failed, err) })
	if err := errors.Join(failed...); err != nil {
		fresh.Wipe()
		return seal.Keys{}, err
	}
	fresh.Adopt(a.keys) // wiped when the agent closes
	a.keys = fresh
	return fresh, nil
}
