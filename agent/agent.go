package agent

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/delivery"
	"github.com/hencedge/hencedge/transport/spool"
)

// Agent is an edge service that is ready to run. Its methods are safe for
// concurrent use; Run or Once is called once.
type Agent struct {
	cfg     *config.Agent
	deps    Deps
	log     *slog.Logger
	clock   role.Clock
	keys    seal.Keys
	state   *seal.State
	spool   *spool.Spool
	courier atomic.Pointer[delivery.Courier] // nil until Run
	streams []*stream
	inputs  *sensor.Inputs
	since   moment
	bootID  []byte
	link    link
	device  device
	shown   atomic.Pointer[tls.Config] // what the connection to the broker is made with; nil: another one
	// duplicates are other boards with this identity.
	duplicates duplicates
	meter      *sensor.Meter // of energy
	sealing    daemon.Pulse
	tracing    tracing

	used atomic.Bool
}

// stream is one configured stream as it runs.
type stream struct {
	*plan.Stream
	sealed sealCounters
}

// device guards the keys of an agent, which move when a device fails.
type device struct {
	sync.RWMutex
	fallback  role.Fallback[seal.Keys]
	fallbacks uint64 // failures so far
	stop      func() // ends sampling; nil before Run
	failure   error  // what the agent stops for
}

func (a *Agent) now() moment { return moment{a.clock.Now(), a.clock.Mono()} }

// Deps are what an agent may be given instead of what its configuration names.
// The zero value is a service on this machine.
type Deps struct {
	// Client is a connection to the broker; nil dials as the configuration says
	// and closes on return. A given client is left open.
	Client transport.Client
	// Context, with PublicKey or SecretKey, replaces the key file. Its
	// parameters must be those of the streams.
	Context   *henc.Context
	PublicKey *henc.PublicKey
	SecretKey *secret.Key
	// NewContext makes the context for the streams' parameters, and so chooses the
	// device that encrypts; nil is henc.NewContext. Reopen makes one on the device
	// of a context that failed; nil means that there is no way.
	NewContext func(henc.Parameters) (*henc.Context, error)
	Reopen     func(*henc.Context) (*henc.Context, error)
	// SigningKey replaces the signing key file.
	SigningKey *transport.SigningKey
	// Clock and Root replace the machine's clock and file system (see Machine).
	Clock role.Clock
	Root  string
	// WaitForSensors starts the agent although sensors under /sys and /proc are not
	// there: their samples are missing until they come. Otherwise that is an error.
	WaitForSensors bool
	// Spool replaces the queue that the configuration describes.
	Spool *spool.Spool
	// Observer is told of every sealed window, before it is sent. It must not
	// block for long.
	Observer func(Observation)
	// OnRemote takes the messages on the device's configuration topic, unchecked.
	// It is used when the configuration has a remote section.
	OnRemote func(payload []byte)
	// OnReady is called once, when sampling starts; the broker may be away.
	OnReady func()
	Logger  *slog.Logger // nil: slog.Default
	// Metrics is what metrics.listen serves, and whose health it tells if it has one;
	// nil is the agent itself. It collects the agent.
	Metrics prometheus.Collector
	// Version of the software, for the status message.
	Version string
}

func (d Deps) logger() *slog.Logger {
	if d.Logger == nil {
		return slog.Default()
	}
	return d.Logger
}

// options returns the part of d that is needed before the agent runs.
func (d Deps) options() plan.Options {
	return plan.Options{Keys: seal.Given{Public: d.PublicKey, Secret: d.SecretKey, Signing: d.SigningKey},
		Context: d.Context, NewContext: d.NewContext,
		Machine:   sensor.Machine{Root: d.Root, Clock: d.Clock, Wait: d.WaitForSensors, Log: d.logger()},
		Connected: d.Client != nil}
}

// Observation is a sealed window with the plaintext that it holds. It exists on
// the device only and is for demonstrations and tests.
type Observation struct {
	Meta   transport.Meta
	Object [32]byte // id of the sealed object
	// Values are the samples as they were encrypted, in physical units, by
	// channel, then sample: after clamping and replacing missing samples. The
	// observer owns them.
	Values  [][]float64
	Encrypt time.Duration // encoding and encrypting
	Body    int           // bytes of the ciphertext
	Sealed  int           // bytes of the sealed object
	Chunks  int           // MQTT messages
}

// Errors of an agent.
var (
	// ErrUsed: an Agent runs once.
	ErrUsed = errors.New("the agent has run already")
	// ErrUndelivered: windows were still waiting when the stop timeout ended.
	ErrUndelivered = errors.New("windows were not delivered")
)
