package evaluator

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/transport"
)

// Deps replaces what a Service would otherwise make from its configuration.
// The zero value is usable.
type Deps struct {
	// Client is the connection; nil dials cfg.Broker. A client that was handed
	// in is not closed.
	Client transport.Client
	// SigningKey signs results; nil loads cfg.SigningKey.
	SigningKey *transport.SigningKey
	// Keys are the evaluation keys; nil loads cfg.KeySets.
	Keys []engine.Keys
	// Context makes the context for parameters, and so chooses the backend; nil
	// is henc.NewContext with henc.WithFastestN2. More makes contexts on further
	// devices, over which windows and programs are spread; nil means none.
	Context engine.NewContext
	More    func(henc.Parameters) ([]*henc.Context, error)
	// Reopen makes a context on the device of one that failed; nil means that
	// there is no way (config.FallbackRetry then is config.FallbackCPU).
	Reopen func(*henc.Context) (*henc.Context, error)
	// ReadKeys reads the evaluation keys into another context; nil reads
	// cfg.KeySets. With Keys and without ReadKeys a failed device fails its jobs.
	ReadKeys func(*henc.Context) ([]engine.Keys, error)
	Logger   *slog.Logger     // nil: slog.Default
	Now      func() time.Time // nil: time.Now
	// OnStart is called once Run has all that it needs of this machine; the broker may
	// be away.
	OnStart func()
	// OnReady is called once all subscriptions are granted.
	OnReady func()
	// OnResult is called after every published result, from the workers.
	OnResult func(Event)
	// OnRefused is called for every message and window that was refused.
	OnRefused func(reason string, err error)
	// Metrics is what metrics.listen serves, and whose health it tells if it has one;
	// nil is the service itself. It collects the service.
	Metrics prometheus.Collector
	// Version is announced in the status message.
	Version string
}

// Windows and what is made of them are large and short-lived, and little else is in use: an evaluator on GPUs makes
// gigabytes of garbage a second with some hundred megabytes in use. By Go's default it would collect tens of times a
// second, and each collection looks through the stacks of all workers. It costs most where there are many processors,
// which wait for each other in it; there garbage may be more, as there is more memory.
const (
	garbagePerLimit = 4  // garbage may be so many times limits.memory
	garbageOfMany   = 64 // or the memory of the machine divided by this, if that is more
	garbageShare    = 8  // and at most the memory of the machine divided by this
)

// mostGarbage bounds the garbage of an evaluator in bytes, where that is from a 64th to an eighth of the machine's
// memory.
func mostGarbage(cfg *config.Evaluator) int64 { return garbagePerLimit * int64(cfg.Limits.Memory) }

// TuneMemory sets the garbage collector of this process for an evaluator with this configuration: see Costs.Garbage.
// It is for a process that is nothing but an evaluator. end goes back. GOGC and GOMEMLIMIT in the environment win.
func TuneMemory(cfg *config.Evaluator) (end func()) {
	memory := daemon.MachineMemory()
	return daemon.AllowGarbage(min(max(mostGarbage(cfg), memory/garbageOfMany), memory/garbageShare))
}
