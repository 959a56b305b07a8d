package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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
	// duplicates are other boards with this identity.
	duplicates duplicates
	meter      *sensor.Meter // of energy
	sealing    daemon.Pulse

	used atomic.Bool
}

// stream is one configured stream as it runs.
type stream struct {
	*plan.Stream
	sealed sealCounters
}

// New prepares an agent, in the order in which each part needs the ones before:
//
//  1. the configuration is checked, keys are loaded, sensors and files opened
//  2. the signing key of a first start is made
//  3. the state is locked, with a new boot epoch
//  4. the spool is opened: only now, since it belongs to the state
//  5. each source goes on where the spool ends
//  6. the energy meter finds its sensor
//
// Mistakes that belong to a field are a *config.Errors. Call Close when neither Run nor
// Once is called.
func New(cfg *config.Agent, deps Deps) (_ *Agent, err error) {
	p, err := plan.Prepare(cfg, deps.options(), false)
	if err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, deps: deps, log: deps.logger().With("device", cfg.Device), clock: p.Machine.Clock,
		keys:   p.Keys,
		inputs: p.Machine.Inputs, bootID: p.Machine.BootID()}
	for _, s := range p.Streams {
		a.streams = append(a.streams, &stream{Stream: s})
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if a.keys.Missing {
		if err := a.keys.MakeSigning(cfg.SigningKey); err != nil {
			return nil, err
		}
		deps.logger().Warn("created this device's signing key; the evaluator refuses windows until it is enrolled",
			"file", cfg.SigningKey, "public_key", a.keys.Signing.PublicText(), "enrol", "hencedge agent enroll")
	}
	a.guard()
	a.since = a.now()
	if a.state, err = seal.OpenState(cfg.State, cfg.Device, a.since.wall); err != nil {
		return nil, err
	}
	if err := a.state.Health(); err != nil {
		a.log.Error("cannot write the state file; using a boot epoch taken from the clock", "boot_epoch",
			a.state.Boot(), "error", err)
	}
	if err := a.openSpool(); err != nil {
		return nil, err
	}
	for _, s := range a.streams {
		if err := a.resume(s); err != nil {
			return nil, fmt.Errorf("stream %s: %w", s.Config.Name, err)
		}
	}
	a.openMeter(p.Machine)
	for _, w := range plan.Warnings(cfg) {
		a.log.Warn(w)
	}
	a.log.Info("agent is ready", "boot_epoch", a.state.Boot(), "params", a.keys.Context.Parameters().Name(), "streams",
		len(a.streams))
	return a, nil
}

// openSpool takes the given spool, or opens the configured one.
func (a *Agent) openSpool() (err error) {
	if a.spool = a.deps.Spool; a.spool != nil {
		return nil
	}
	if a.spool, err = openSpool(a.cfg, a.clock, a.log); err != nil || a.cfg.Spool == nil {
		return err
	}
	return foreign(a.spool, a.cfg.Device, a.cfg.Spool.Dir)
}

// resume lets a stream go on after the last window that the spool has or had.
func (a *Agent) resume(s *stream) error {
	if !a.spool.Durable() {
		return nil
	}
	kept := a.spool.Cursor(s.Config.Name)
	if len(kept) == 0 {
		return nil
	}
	return s.Source.Resume(kept)
}

// Close lets go of what New opened: sources and inputs, the spool, then the state that it
// belongs to. It wipes the keys that the agent loaded itself. Run and Once call it.
func (a *Agent) Close() error {
	var errs []error
	for _, s := range a.streams {
		errs = append(errs, s.Source.Close())
	}
	errs = append(errs, a.inputs.Close())
	if a.spool != nil && a.deps.Spool == nil { // then it is ours
		a.spool.Release()
	}
	if a.state != nil {
		errs = append(errs, a.state.Close())
	}
	a.device.Lock()
	a.keys.Wipe()
	a.device.Unlock()
	return errors.Join(errs...)
}

// Stats returns the counts so far.
func (a *Agent) Stats() Stats {
	s := Stats{Boot: a.state.Boot(), Streams: map[string]StreamStats{}, Inputs: a.inputs.Stats(),
		Spool: a.spool.Stats()}
	if c := a.courier.Load(); c != nil {
		s.Delivery = c.Stats()
	}
	s.Sent, s.SentBytes, s.Retries, s.Refused = s.Delivery.Delivered, s.Delivery.DeliveredBytes, s.Delivery.Retries,
		s.Delivery.Dropped
	for _, st := range a.streams {
		s.Streams[st.Config.Name] = st.stats()
	}
	a.device.RLock()
	s.Fallbacks = a.device.fallbacks
	a.device.RUnlock()
	return s
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

// streamStatus describes the streams for the status message, as many as it can name.
func (a *Agent) streamStatus() []transport.StreamStatus {
	var list []transport.StreamStatus
	for _, s := range a.streams {
		list = append(list, daemon.DescribeStream(s.Config))
	}
	slices.SortFunc(list, func(a, b transport.StreamStatus) int { return strings.Compare(a.Name, b.Name) })
	return list[:min(len(list), transport.MaxStatusStreams)]
}
