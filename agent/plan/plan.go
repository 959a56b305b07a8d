package plan

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime"
	"time"

	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/delivery"
)

// Predict predicts sizes, traffic, time and precision. The configuration and its
// fit to the parameters are checked as in Check. Keys that do not exist yet are
// replaced by temporary ones of the same size, and sensors that this machine
// does not have are only warned about, so that a plan can be made anywhere. link
// is the uplink in bits per second, 0 where it is not known.
func Predict(cfg *config.Agent, o Options, link float64) (*Prediction, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	c := &checker{cfg: cfg}
	m := o.machine()
	m.Inputs = c.inputs(m)
	defer m.Inputs.Close()
	var absent []string // what may be there on the board
	if c.faults == 0 {
		for _, e := range c.errs.List {
			absent = append(absent, e.Cause)
		}
		c.errs = config.Errors{}
	}
	k := seal.Keys{Context: c.context(o)}
	var streams []*seal.Stream
	if k.Context != nil {
		for i := range cfg.Streams {
			if s := c.layout(i); s != nil {
				streams = append(streams, s)
			}
		}
	}
	if err := c.errs.Err(); err != nil {
		return nil, err
	}
	defer k.Wipe()
	found, err := loadOrMake(&k, c, o.Keys)
	if err != nil {
		return nil, err
	}
	params := c.params
	p := &Prediction{Device: cfg.Device, Params: params.Name(), LogN: params.LogN(), Slots: params.Slots(),
		KeyMode: string(cfg.Keys.Mode), KeyBytes: found.bytes, BoardKeyBytes: found.board, KeyAbsent: found.absent,
		Processors: cmp.Or(cfg.Workers, runtime.GOMAXPROCS(0)), Warnings: append(Warnings(cfg), absent...)}
	if cfg.AllCompact() {
		p.KeyMode = string(config.ModeCompact)
	}
	next := nextNumbers(cfg, m.Clock.Now())
	var objects, bytes float64 // per second
	for _, s := range streams {
		o, err := outlook(&k, cfg, s, next, m)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", s.Config.Name, err)
		}
		p.Streams = append(p.Streams, *o)
		p.BytesPerDay += o.BytesPerDay
		p.MessagesPerDay += o.WindowsPerDay * float64(o.Chunks)
		p.CPU += o.Duty
		p.StateWritesPerDay += o.WindowsPerDay / seal.SequenceBlock
		objects += o.WindowsPerDay / secondsPerDay
		bytes += o.WindowsPerDay / secondsPerDay * float64(o.ObjectBytes)
		p.Warnings = append(p.Warnings, o.doubts(params.Slots()/max(o.Places, 1))...)
	}
	p.outage(cfg, objects, bytes)
	p.spool(cfg, streams)
	p.MemoryBytes = memoryLimit(cfg, largestTables) + binaryMemory + deadMemory
	if link > 0 {
		p.Link = p.BytesPerDay * 8 / secondsPerDay / link / p.Open
	}
	if most := float64(cfg.Delivery.Bandwidth); most > 0 {
		p.Cap = p.BytesPerDay / secondsPerDay / most / p.Open
	}
	p.judge()
	p.inTime(cfg)
	p.fits(cfg)
	p.machine(cfg, m)
	return p, nil
}

// fits refuses windows for which there is no room where they wait.
func (p *Prediction) fits(cfg *config.Agent) {
	where, room := "queue.bytes", cfg.Queue.Bytes
	if cfg.Spool != nil {
		where, room = "spool.bytes", cfg.Spool.Bytes
	}
	for _, o := range p.Streams {
		if int64(o.ObjectBytes) > int64(room) {
			p.Refusals = append(p.Refusals,
				fmt.Sprintf("a window of stream %s has %d bytes and never fits into %s, %s; raise it, or use a "+
					"lower level or smaller parameters",
					o.Name, o.ObjectBytes, where, room))
		}
		for i, d := range cfg.Delivery.Streams {
			if d.Stream == o.Name && d.Bytes > 0 && int64(o.ObjectBytes) > int64(d.Bytes) {
				p.Refusals = append(p.Refusals,
					fmt.Sprintf("a window of stream %s has %d bytes and never fits into delivery.streams[%d].bytes, "+
						"%s; raise it, or use a lower level or smaller parameters",
						o.Name, o.ObjectBytes, i, d.Bytes))
			}
		}
	}
}

// outage finds how long windows can wait, by the bounds of all and those of each
// stream. objects and bytes are the rates of sealed objects, per second.
func (p *Prediction) outage(cfg *config.Agent, objects, bytes float64) {
	if objects == 0 {
		return
	}
	room, age := min(float64(cfg.Queue.Objects)/objects, float64(cfg.Queue.Bytes)/bytes), math.Inf(1)
	if cfg.Spool != nil {
		room, age = float64(cfg.Spool.Bytes)/bytes, cfg.Spool.Age.Seconds()
	}
	p.QueueSeconds = math.Inf(1)
	for i := range p.Streams {
		s := &p.Streams[i]
		rate := s.WindowsPerDay / secondsPerDay * float64(s.ObjectBytes)
		if rate == 0 {
			continue
		}
		bound, oldest := room, age
		for _, d := range cfg.Delivery.Streams {
			if d.Stream == s.Name && d.Bytes > 0 {
				bound = min(bound, float64(d.Bytes)/rate)
			}
			if d.Stream == s.Name && d.Age > 0 {
				oldest = d.Age.Seconds()
			}
		}
		s.QueueSeconds = min(bound, oldest)
		p.QueueSeconds = min(p.QueueSeconds, s.QueueSeconds)
	}
}

// spool predicts what the disk sees, and when windows may leave it.
func (p *Prediction) spool(cfg *config.Agent, streams []*seal.Stream) {
	p.Open = 1
	if list, err := Hours(cfg.Delivery.Hours); err == nil && len(list) > 0 {
		p.Open = delivery.OpenShare(list)
	}
	p.wear(cfg, streams)
}

// judge says whether processor and link can do it.
func (p *Prediction) judge() {
	for _, c := range []struct {
		share  float64
		what   string
		remedy string
	}{
		{p.CPU / float64(p.Processors),
			"sampling and encryption take %.0f %% of the processors of this machine that the agent uses",
			"use longer windows, fewer channels or smaller parameters"},
		{p.Cap, "the streams take %.0f %% of delivery.bandwidth in the hours in which they may be sent",
			"raise it, or use longer windows, a lower level or smaller parameters"},
		{p.Link, "the streams take %.0f %% of the uplink", "use longer windows, a lower level or smaller parameters"},
	} {
		text := fmt.Sprintf(c.what+"; %s", 100*c.share, c.remedy)
		switch {
		case c.share > 1:
			p.Refusals = append(p.Refusals, text)
		case c.share > 0.5:
			p.Warnings = append(p.Warnings, text)
		}
	}
}

// inTime refuses streams whose samples or windows take longer than they may.
func (p *Prediction) inTime(cfg *config.Agent) {
	for i, o := range p.Streams {
		if s := o.SealMs / 1e3; o.WindowSeconds > 0 && s > o.WindowSeconds {
			p.Refusals = append(p.Refusals,
				fmt.Sprintf("stream %s: a window takes %.3g s to encrypt and seal on this machine, and one is due "+
					"every %.3g s; use longer windows or smaller parameters", o.Name, s, o.WindowSeconds))
		}
		if interval := cfg.Streams[i].Interval; interval > 0 && o.SampleMs > milliseconds(interval) {
			p.Refusals = append(p.Refusals,
				fmt.Sprintf("stream %s: reading its sensors takes %.3g ms and a sample is due every %v; use a "+
					"longer interval, or fewer channels in the stream", o.Name, o.SampleMs, interval))
		}
	}
}

const secondsPerDay = 86400

// keyFiles are the lengths in bytes of the keys that encrypt: of all windows but compact ones, and of those. absent
// says that one of them is not there, and one that was made for the plan took its place.
type keyFiles struct {
	bytes, board int64
	absent       bool
}

// loadOrMake loads the keys that exist and makes temporary ones for the rest.
func loadOrMake(k *seal.Keys, c *checker, given seal.Given) (found keyFiles, err error) {
	cfg := c.cfg
	if !cfg.AllCompact() {
		if err := found.makeAbsent(k, cfg, &given); err != nil {
			return found, err
		}
	}
	if cfg.Keys.BoardKey != "" {
		if err := found.makeBoard(k, c.params, cfg.Keys.BoardKey, &given); err != nil {
			return found, err
		}
	}
	if _, gone := sizeOf(cfg.SigningKey); given.Signing == nil && gone {
		key, err := transport.NewSigningKey()
		if err != nil {
			return found, err
		}
		k.WipeLater(key.Wipe)
		given.Signing = key
	}
	sized := *cfg // whose key it is does not matter to its size
	sized.Keys.Holder = config.HolderNone
	k.Load(&sized, given, func(path string, err error) { c.fail(path, "correct the file or its path", err) })
	return found, c.errs.Err()
}

// sizeOf returns the length of a file, 0 if it cannot be told, and whether it is absent.
func sizeOf(path string) (bytes int64, absent bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, errors.Is(err, fs.ErrNotExist)
	}
	return info.Size(), false
}

// makeAbsent makes the public or secret key, if it is not there.
func (f *keyFiles) makeAbsent(k *seal.Keys, cfg *config.Agent, given *seal.Given) error {
	file := cfg.Keys.PublicKey
	if cfg.Keys.Mode == config.KeyModeSymmetric {
		file = cfg.Keys.SecretKey
	}
	gone := false
	if f.bytes, gone = sizeOf(file); !gone || given.Public != nil || given.Secret != nil {
		return nil
	}
	sk, err := secret.Generate(k.Context, nil)
	if err != nil {
		return err
	}
	k.WipeLater(func() { _ = sk.Wipe() })
	var text []byte
	if f.absent = true; cfg.Keys.Mode == config.KeyModeSymmetric {
		given.Secret = sk
		text, err = sk.Marshal()
		defer clear(text)
	} else if given.Public, err = sk.PublicKey(); err == nil {
		text, err = k.Context.MarshalPublicKey(given.Public)
	}
	f.bytes = int64(len(text))
	return err
}

// makeBoard makes the board's key, if it is not there.
func (f *keyFiles) makeBoard(k *seal.Keys, params henc.Parameters, file string, given *seal.Given) (err error) {
	gone := false
	if f.board, gone = sizeOf(file); !gone || given.Board != nil {
		return nil
	}
	f.absent = true
	if given.Board, err = k.MakeBoard(params); err != nil {
		return err
	}
	text, err := given.Board.Key.Marshal()
	clear(text)
	f.board = int64(len(text))
	return err
}

// nextNumbers returns the boot epoch and the reserved sequence numbers that the
// next start would use.
func nextNumbers(cfg *config.Agent, now time.Time) seal.StateFile {
	f, err := seal.ReadState(cfg.State, cfg.Device)
	if err != nil {
		return seal.StateFile{BootEpoch: uint64(max(now.Unix(), 1))}
	}
	f.BootEpoch++
	return *f
}

// outlook encrypts and seals sample windows of a stream.
func outlook(k *seal.Keys, cfg *config.Agent, s *seal.Stream, next seal.StateFile, m sensor.Machine) (*StreamOutlook,
	error) {
	clock := m.Clock
	w := &source.Window{Samples: s.Config.Window.Samples, Start: clock.Now(), End: clock.Now()}
	for _, ch := range s.Config.Channels {
		v := make([]float64, w.Samples)
		for i := range v { // a sawtooth over the whole range
			v[i] = ch.Range[0] + (ch.Range[1]-ch.Range[0])*float64(i%16)/15
		}
		w.Values = append(w.Values, v)
	}
	id := seal.Identity{Device: cfg.Device, Boot: next.BootEpoch, Sequence: next.Reserved[s.Config.Name]}
	out, encrypt, seal, err := sealing(k, s, w, id, clock, int(cfg.Broker.ChunkSize))
	if err != nil {
		return nil, err
	}
	sample, absent := sampling(s, m)
	wire, chunks, err := wireBytes(s.Topic, out.Object, int(cfg.Broker.ChunkSize))
	if err != nil {
		return nil, err
	}
	o := &StreamOutlook{Name: s.Config.Name, Level: out.Meta.Level, LogScale: math.Log2(out.Meta.Scale),
		Samples: w.Samples, SlotsUsed: s.Config.Slots(), Places: s.Config.Places, Place: s.Place,
		BodyBytes: out.Body, ObjectBytes: len(out.Object), Chunks: chunks, WireBytes: wire,
		EncryptMs: milliseconds(encrypt), SealMs: milliseconds(seal.wall), SampleMs: milliseconds(sample.wall),
		absent: absent}
	if s.Config.Histogram() {
		o.Bins = binsOf(s.Config, "")
	}
	if o.Precision = s.Config.Compact(); o.Precision > 0 {
		o.Readings = s.Config.Readings()
	}
	switch {
	case s.Config.Replay != nil, s.Config.Events != nil && !s.Config.Window.ByTime():
	case s.Config.Window.ByTime():
		o.WindowSeconds = s.Config.Window.Every.Seconds()
	default:
		o.WindowSeconds = float64(w.Samples) * s.Config.Interval.Seconds()
	}
	if o.WindowSeconds > 0 {
		o.WindowsPerDay = secondsPerDay / o.WindowSeconds
		o.BytesPerDay = o.WindowsPerDay * float64(wire)
		o.Duty = (seal.cpu.Seconds() + float64(w.Samples)*sample.cpu.Seconds()) / o.WindowSeconds
	}
	if o.Precision > 0 {
		o.compactPrecision(s.Config)
		return o, nil
	}
	if s.Config.Whole() {
		return o, o.stepPrecision(s.Config, k.Context.Parameters())
	}
	precision(k, o, s.Config, out.Meta.Scale)
	o.modes(s.Config, k.Seeded)
	return o, nil
}

// precision fills in the error of a fresh ciphertext from the noise model.
func precision(k *seal.Keys, o *StreamOutlook, s config.Stream, scale float64) {
	noise := k.Context.Parameters().Noise()
	sigma := noise.FreshPK(scale)
	if k.Seeded {
		sigma = noise.FreshSeeded(scale)
	}
	sigma = math.Hypot(sigma, henc.EncodingError(k.Context.Parameters().LogN()))
	o.PrecisionBits = -math.Log2(sigma)
	for _, ch := range s.Channels {
		_, half := ch.Affine()
		unit, values := ch.Unit, o.Samples
		if s.Histogram() {
			half, unit, values = 1/s.CountUnit(), countUnit, s.Stride()
		}
		o.Channels = append(o.Channels,
			ChannelOutlook{Name: ch.Name, Unit: unit, Error: half * sigma, Bound: half * noise.Max(sigma, values)})
	}
}

// compactPrecision fills in the error of readings of a compact window: that of the board, and what its precision
// promises of results.
func (o *StreamOutlook) compactPrecision(s config.Stream) {
	precision := compact.Precision(o.Precision)
	// The cut is uniform. Beside it the noise does not count.
	sigma := math.Exp2(float64(compact.LogRatio-precision.Bits())) / math.Sqrt(12)
	o.PrecisionBits = -math.Log2(sigma)
	for _, ch := range s.Channels {
		_, half := ch.Affine()
		o.Channels = append(o.Channels, ChannelOutlook{Name: ch.Name, Unit: ch.Unit, Error: half * sigma,
			Bound: half * math.Exp2(-float64(o.Precision))})
	}
}

// stepPrecision fills in what rounding to steps moves the readings by; encryption moves them by nothing.
func (o *StreamOutlook) stepPrecision(s config.Stream, p henc.Parameters) error {
	var grids []config.Grid
	if s.Digits() {
		w, grid, err := seal.Digits(s, p)
		if err != nil {
			return err
		}
		o.Room, grids = w.Numbers(), []config.Grid{grid}
	} else {
		code, all, err := seal.Row(s, p)
		if err != nil {
			return err
		}
		o.RowBits, grids = code.Size(), all
	}
	for i, g := range grids {
		o.PrecisionBits = max(o.PrecisionBits, math.Log2(float64(g.Bins+1)))
		o.Channels = append(o.Channels, ChannelOutlook{Name: s.Channels[i].Name, Unit: s.Channels[i].Unit,
			Error: g.Width() / math.Sqrt(12), Bound: g.Width() / 2})
	}
	return nil
}

// countUnit is the unit of errors in a histogram, which rounding removes.
const countUnit = "counts"

// wireBytes returns the size of the MQTT 3.1.1 PUBLISH packets (QoS 1) of an object:
// fixed header, topic and packet id besides the chunk.
func wireBytes(topic string, object []byte, chunkSize int) (bytes, chunks int, err error) {
	pieces, err := transport.Split(object, chunkSize)
	if err != nil {
		return 0, 0, err
	}
	for i := range pieces {
		payload, err := pieces[i].Payload()
		if err != nil {
			return 0, 0, err
		}
		rest := 2 + len(topic) + 2 + len(payload)
		length := 1
		for v := rest; v >= 128; v >>= 7 {
			length++
		}
		bytes += 1 + length + rest
	}
	return bytes, len(pieces), nil
}

// doubts returns warnings about one stream.
func (o StreamOutlook) doubts(slots int) []string {
	var out []string
	used := float64(o.SlotsUsed) / float64(slots)
	if o.Room > 0 {
		used = float64(o.Samples) / float64(o.Room)
	}
	if used < 0.05 && o.Precision == 0 && o.RowBits == 0 {
		more := "longer windows or more channels"
		if o.Bins > 0 {
			more = "finer resolutions or more channels"
		} else if o.Room > 0 {
			more = "longer windows"
		}
		out = append(out, fmt.Sprintf("stream %s: %.1f %% of the slots are used; %s cost no more bytes", o.Name,
			100*used, more))
	}
	return append(out, o.absent...)
}
