package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/spool"
)

// Check finds out whether an agent would work with this configuration: fields,
// parameters, slots, keys, sensors, both ends of replay files, TLS files, secrets and the
// state file. It changes nothing and does not connect. All mistakes are in one
// *config.Errors, with their place in the file; it wraps ErrAbsent when each is
// about something that may appear later.
func Check(cfg *config.Agent, o Options) error {
	p, err := Prepare(cfg, o, true)
	if err != nil {
		return err
	}
	p.Close()
	return nil
}

// CheckAlone checks what needs nothing but the configuration itself:
// fields, parameters, slots, levels and scales. It opens no file and no device, so
// that it answers the same on every machine.
func CheckAlone(cfg *config.Agent) error {
	if err := cfg.Check(); err != nil {
		return err
	}
	c := &checker{cfg: cfg}
	params, err := henc.Named(cfg.Streams[0].Params)
	if err != nil {
		c.unknown(err)
		return c.err()
	}
	c.params = params
	for i := range cfg.Streams {
		c.layout(i)
	}
	return c.err()
}

// Options are what replaces parts of a configuration. The zero value replaces nothing.
type Options struct {
	// Keys, with Context, replace the key files. The parameters of Context must be those
	// of the streams.
	Keys    seal.Given
	Context *henc.Context
	// NewContext makes the context for the streams' parameters; nil is henc.NewContext.
	NewContext func(henc.Parameters) (*henc.Context, error)
	// Machine is where sensors are read.
	Machine sensor.Machine
	// Connected says that there is a connection to the broker: how to make one is not
	// checked.
	Connected bool
}

// Machine returns the machine with its clock and log.
func (o Options) machine() sensor.Machine {
	m := o.Machine
	if m.Clock == nil {
		m.Clock = role.SystemClock()
	}
	if m.Log == nil {
		m.Log = slog.Default()
	}
	return m
}

// prepared is everything that an agent needs but the state file.
type prepared struct {
	Machine sensor.Machine
	Keys    seal.Keys
	Streams []*Stream
}

// Stream is a stream with its open source.
type Stream struct {
	*seal.Stream
	Source source.Source
	Count  *source.Counters
	// Collector makes windows of the source's rows.
	Collector *source.Collector
}

func (p *prepared) Close() {
	for _, s := range p.Streams {
		_ = s.Source.Close()
	}
	_ = p.Machine.Inputs.Close()
	p.Keys.Wipe()
}

// checker collects mistakes with their place in the file.
type checker struct {
	cfg    *config.Agent
	params henc.Parameters // of the streams; zero until context has found them
	errs   config.Errors
	faults int // mistakes that time does not mend
	// scan reads the ends of replay files. A start does not: one bad row must not keep
	// the other streams from their work.
	scan bool
}

func (c *checker) fail(path, remedy string, err error) {
	if !mayAppear(err) {
		c.faults++
	}
	c.errs.Add(c.cfg.Problem(path, err.Error(), remedy))
}

// err returns all mistakes. They wrap ErrAbsent where trying again may help.
func (c *checker) err() error {
	err := c.errs.Err()
	if err != nil && c.faults == 0 {
		return absentErrors{&c.errs}
	}
	return err
}

func Prepare(cfg *config.Agent, o Options, scan bool) (*prepared, error) {
	if cfg == nil {
		return nil, fmt.Errorf("%w: no configuration", config.ErrInvalid)
	}
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	c := &checker{cfg: cfg, scan: scan}
	p := &prepared{Machine: o.machine()}
	p.Machine.Inputs = c.inputs(p.Machine)
	p.Keys.Context = c.context(o)
	p.Keys.Load(cfg, o.Keys, func(path string, err error) { c.fail(path, seal.Remedy(path, err), err) })
	for i := range cfg.Streams {
		if s := c.stream(i, p); s != nil {
			p.Streams = append(p.Streams, s)
		}
	}
	c.broker(o)
	c.state()
	c.spool()
	if err := c.err(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// context makes the context of the streams' parameters, which config has found
// to be the same for all; where all streams are compact, of the boards' ring.
func (c *checker) context(o Options) *henc.Context {
	const path = "streams[0].params"
	name := c.cfg.Streams[0].Params
	params, err := henc.Named(name)
	if err != nil {
		c.unknown(err)
		return nil
	}
	ring := params
	if c.cfg.AllCompact() {
		if ring, err = compact.Named(compact.SetFor(params)); err != nil {
			c.fail(path, "update this program", err)
			return nil
		}
	}
	if o.Context != nil {
		if have := o.Context.Parameters().Name(); have != ring.Name() {
			c.fail(path, "use the parameters of the keys", fmt.Errorf("the keys are for %s, not %s", have, ring.Name()))
			return nil
		}
		c.params = params
		return o.Context
	}
	newContext := o.NewContext
	if newContext == nil {
		newContext = func(p henc.Parameters) (*henc.Context, error) { return henc.NewContext(p, henc.WithFastestN2()) }
	}
	ctx, err := newContext(ring)
	if err != nil {
		c.fail(path, "try another parameter set", err)
		return nil
	}
	c.params = params
	return ctx
}

// unknown refuses the name of the streams' parameters.
func (c *checker) unknown(err error) {
	name := c.cfg.Streams[0].Params
	if errors.Is(err, henc.ErrUnknownSet) {
		err = fmt.Errorf("%w %q", henc.ErrUnknownSet, name)
	}
	c.fail("streams[0].params", "use one of "+strings.Join(slices.Concat(henc.Names(),
		henc.BootstrapNames(), henc.IntegerNames()), ", "), err)
}

// inputs makes the inputs.
func (c *checker) inputs(m sensor.Machine) *sensor.Inputs {
	return sensor.OpenInputs(c.cfg.Inputs, m.Log.With("device", c.cfg.Device), func(i int, err error) {
		c.fail(fmt.Sprintf("inputs[%d]", i), "correct the input, or what it names", err)
	})
}

// stream checks one stream against the parameters and opens its source. It does both even
// if one fails, so that all mistakes are found at once.
func (c *checker) stream(i int, p *prepared) *Stream {
	var s *seal.Stream
	if p.Keys.Context != nil {
		s = c.layout(i)
	}
	count, log := new(source.Counters), p.Machine.Log.With("device", c.cfg.Device, "stream", c.cfg.Streams[i].Name)
	src := c.source(i, p.Machine, count, log)
	switch {
	case src == nil:
		return nil
	case s == nil:
		_ = src.Close() // nothing was read
		return nil
	}
	return &Stream{Stream: s, Source: src, Count: count, Collector: source.NewCollector(s.Config, count, log)}
}

// Source opens the source of a stream, or nil.
func (c *checker) source(i int, m sensor.Machine, count *source.Counters, log *slog.Logger) source.Source {
	cfg, at := c.cfg.Streams[i], fmt.Sprintf("streams[%d]", i)
	switch {
	case cfg.Replay != nil:
		var err error
		if c.scan {
			err = source.Scan(cfg, m.Clock)
		}
		if err == nil {
			var r source.Source
			if r, err = source.OpenReplay(cfg, m.Clock, count, log); err == nil {
				return r
			}
		}
		path := at + ".replay"
		if !errors.Is(err, source.ErrReplay) {
			path += ".file"
		}
		c.fail(path, "correct the configuration or the file", err)
		return nil
	case cfg.Events != nil:
		e, err := source.OpenEvents(m, cfg, count)
		if err == nil {
			return e
		}
		c.fail(at+".events", "correct the events or the channels' sources", err)
		return nil
	}
	l, missing := source.OpenLive(m, cfg, count)
	sound := true
	for k, err := range missing {
		if err != nil {
			c.fail(fmt.Sprintf("%s.channels[%d].source", at, k), listSensors, err)
			sound = false
		}
	}
	if !sound {
		return nil
	}
	return l
}

const listSensors = "`hencedge agent discover` lists the sensors of this machine"

// layout checks one stream against the parameters.
func (c *checker) layout(i int) *seal.Stream {
	cfg, at, params := c.cfg.Streams[i], fmt.Sprintf("streams[%d]", i), c.params
	if cfg.Compact() > 0 {
		return c.compact(i)
	}
	if cfg.Whole() {
		return c.whole(i)
	}
	s := &seal.Stream{Config: cfg, Level: cfg.LevelAt(params.Depth()), Layout: cfg.LayoutHash(),
		Place: c.cfg.PlaceIn(cfg),
		Topic: transport.ReadingTopic(c.cfg.Broker.TopicPrefix, c.cfg.Device, cfg.Name)}
	before := len(c.errs.List)
	slots, of := params.Slots(), params.Name()
	if cfg.Places > 1 {
		slots, of = slots/cfg.Places, fmt.Sprintf("a place of %d in %s", cfg.Places, of)
	}
	switch need := cfg.Slots(); {
	case need <= slots:
	case cfg.Histogram():
		c.fail(at+".channels", "use a coarser resolution, split the channels into several streams, or use a larger "+
			"parameter set", fmt.Errorf("the bins of %d channels take %d slots; %s has %d", len(cfg.Channels), need,
			of, slots))
	default:
		c.fail(at+".channels", slotRemedy(len(cfg.Channels), slots),
			fmt.Errorf("%d channels of %d samples take %d slots; %s has %d", len(cfg.Channels), cfg.Window.Samples,
				need, of, slots))
	}
	if s.Level > params.Depth() {
		c.fail(at+".level", fmt.Sprintf("use a level from 0 to %d", params.Depth()),
			fmt.Errorf("%s has no level %d", params.Name(), s.Level))
	} else if cfg.LogScale != 0 {
		s.Scale = math.Ldexp(1, cfg.LogScale)
		// Coefficients are at most the scale, since |u| <= 1; leave a bit for noise.
		if err := params.CheckScale(s.Level, 4*s.Scale); err != nil {
			remedy := fmt.Sprintf("leave it out; the scale of %s is 2^%.0f", params.Name(),
				math.Log2(params.ScaleAt(s.Level)))
			if cfg.Histogram() {
				remedy = "use a smaller one here and in the evaluator's file, or edge12-add, which takes 2^42"
			}
			c.fail(at+".log_scale", remedy, err)
		}
	}
	if len(c.errs.List) > before {
		return nil
	}
	return s
}

// compact checks one compact stream against the parameters.
func (c *checker) compact(i int) *seal.Stream {
	cfg := c.cfg.Streams[i]
	if err := compact.CheckPrecision(c.params, compact.Precision(cfg.Compact())); err != nil {
		c.fail(fmt.Sprintf("streams[%d].precision", i), "write precision: 12, or params: boot16", err)
		return nil
	}
	return &seal.Stream{Config: cfg, Scale: compact.Scale(), Layout: cfg.LayoutHash(),
		Topic: transport.ReadingTopic(c.cfg.Broker.TopicPrefix, c.cfg.Device, cfg.Name)}
}

// whole checks one stream of whole numbers against the parameters.
func (c *checker) whole(i int) *seal.Stream {
	cfg, at := c.cfg.Streams[i], fmt.Sprintf("streams[%d]", i)
	if !c.params.Integers() {
		c.fail(at+".params", "use one of "+strings.Join(henc.IntegerNames(), ", "),
			fmt.Errorf("%s does not hold whole numbers", c.params.Name()))
		return nil
	}
	if c.cfg.Keys.Mode == config.KeyModeSymmetric {
		c.fail("keys.mode", `write "mode: public"`,
			errors.New("whole numbers are encrypted with the public key"))
		return nil
	}
	if cfg.Digits() {
		if _, _, err := seal.Digits(cfg, c.params); err != nil {
			c.fail(at+".window", "use fewer samples a window, a coarser resolution, or params: bfv14", err)
			return nil
		}
	} else if _, _, err := seal.Row(cfg, c.params); err != nil {
		c.fail(at+".channels", "use coarser resolutions, fewer channels, or params: bfv14", err)
		return nil
	}
	return &seal.Stream{Config: cfg, Level: c.params.MaxLevel(), Scale: henc.DefaultT, Layout: cfg.LayoutHash(),
		Topic: transport.ReadingTopic(c.cfg.Broker.TopicPrefix, c.cfg.Device, cfg.Name)}
}

// slotRemedy says what would fit.
func slotRemedy(channels, slots int) string {
	if channels > slots {
		return "split the channels into several streams, or use a larger parameter set"
	}
	return fmt.Sprintf("use at most %d samples per window, fewer channels, or a larger parameter set",
		fitting(channels, slots))
}

// fitting returns the most samples per window with which channels fit into slots.
func fitting(channels, slots int) int {
	n := 1
	for 2*n*channels <= slots {
		n *= 2
	}
	return n
}

// broker checks what is read when connecting.
func (c *checker) broker(o Options) {
	if o.Connected {
		return
	}
	if t := c.cfg.Traces; t != nil {
		daemon.CheckWeb(&t.HTTP, "the user that the agent runs as", "traces.", c.fail)
	}
	daemon.CheckBroker(c.cfg.Broker, "the user that the agent runs as", "hencedge-agent", c.fail)
}

// state checks the state file without changing it.
func (c *checker) state() {
	if _, err := seal.ReadState(c.cfg.State, c.cfg.Device); err != nil && !errors.Is(err, os.ErrNotExist) {
		remedy := "do as the message says; the spool of the device belongs to its state"
		if errors.Is(err, fs.ErrPermission) {
			remedy = "give the file to the user that the agent runs as: chown, chmod 600"
		}
		c.fail("state", remedy, err)
		return
	}
	dir := filepath.Dir(c.cfg.State)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		c.fail("state", "make the directory, owned by the user that the agent runs as", seal.NoDirectory(dir))
	} else if err := writable(dir); err != nil {
		c.fail("state", "give the directory to the user that the agent runs as: each version of the file is a new one",
			err)
	}
}

// writable says why this user cannot make files in dir. A file system that is
// read-only now may be writable later.
func writable(dir string) error {
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil && !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("the directory %s cannot be written: %w", dir, err)
	}
	return nil
}

// spool checks that the spool's directories are there or can be made, can be written, and
// are a spool's own, without changing anything. The windows in them are not looked at:
// the agent deals with them.
func (c *checker) spool() {
	s := c.cfg.Spool
	if s == nil {
		return
	}
	for path, dir := range map[string]string{"spool.dir": s.Dir, "spool.mirror": s.Mirror} {
		if dir == "" {
			continue
		}
		if err := spool.CheckDir(dir); errors.Is(err, spool.ErrForeign) {
			c.fail(path, "name an empty directory, or one that is not there yet", err)
			continue
		}
		info, err := os.Stat(dir)
		if errors.Is(err, os.ErrNotExist) {
			dir = filepath.Dir(dir)
			if info, err = os.Stat(dir); errors.Is(err, os.ErrNotExist) {
				err = seal.NoDirectory(dir)
			}
		}
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a directory", dir)
		}
		if err == nil {
			err = writable(dir)
		}
		if err != nil {
			c.fail(path, "make the directory, owned by the user that the agent runs as", err)
		}
	}
}
