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
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/delivery"
)

// Prediction is what an agent will do to its device and its link. Rates are
// those of live streams; a replay has none.
type Prediction struct {
	Device      string  `json:"device"`
	Params      string  `json:"params"`
	LogN        int     `json:"log_n"`
	Slots       int     `json:"slots"`
	KeyMode     string  `json:"key_mode"`
	BytesPerDay float64 `json:"bytes_per_day"`
	// MessagesPerDay counts MQTT messages, one per chunk.
	MessagesPerDay float64 `json:"messages_per_day"`
	// KeyBytes is the length of the file of the key that encrypts; KeyAbsent that it is
	// not there yet, and one that was made for the plan took its place.
	KeyBytes  int64 `json:"key_bytes"`
	KeyAbsent bool  `json:"key_absent,omitempty"`
	// CPU is the share of one processor that sampling, encryption and sealing take on
	// this machine, measured; delivery comes to it. Processors is how many the agent
	// uses. Link the share of the uplink, 0 where its rate is not known.
	CPU        float64         `json:"cpu"`
	Processors int             `json:"processors"`
	Link       float64         `json:"link,omitempty"`
	Streams    []StreamOutlook `json:"streams"`
	// EvaluationKeys is set by Needs.
	EvaluationKeys *EvaluationKeys `json:"evaluation_keys,omitempty"`
	// QueueSeconds is how long the broker may be away before windows of any live stream
	// are lost, or sampling waits where a full queue blocks.
	QueueSeconds float64 `json:"queue_s"`
	// StateWritesPerDay is how often the state file is written and flushed.
	StateWritesPerDay float64 `json:"state_writes_per_day"`
	// SpoolBytesPerDay are written into files of the spool, both copies, and
	// SpoolSyncsPerDay flushes of files and directories. 0 without a spool.
	SpoolBytesPerDay float64 `json:"spool_bytes_per_day,omitempty"`
	SpoolSyncsPerDay float64 `json:"spool_syncs_per_day,omitempty"`
	// DeviceBytesPerDay is about what wears the storage below the file system: what
	// ext4 writes for the spool and the state file, with its journal.
	DeviceBytesPerDay float64 `json:"device_bytes_per_day"`
	// MemoryBytes is what the process takes at its peak, about: with its binary,
	// and with the windows that wait where no spool keeps them on disk.
	MemoryBytes int64 `json:"memory_bytes"`
	// Open is the part of the time in which windows may be sent, 1 without hours.
	Open float64 `json:"open"`
	// Cap is the share of the bandwidth cap, 0 without one.
	Cap float64 `json:"cap,omitempty"`
	// Refusals say what cannot work, Warnings what deserves thought.
	Refusals []string `json:"refusals,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// StreamOutlook is the prediction for one stream. Sizes are exact for the next
// window: one was encrypted and sealed to find them. Later ones grow by at most
// 8 bytes, as the sequence number does.
type StreamOutlook struct {
	Name          string  `json:"name"`
	Level         int     `json:"level"`
	LogScale      float64 `json:"log_scale"`
	Samples       int     `json:"samples"`
	SlotsUsed     int     `json:"slots_used"`
	WindowSeconds float64 `json:"window_s"` // 0 for a replay
	WindowsPerDay float64 `json:"windows_per_day"`
	BodyBytes     int     `json:"body_bytes"`   // ciphertext
	ObjectBytes   int     `json:"object_bytes"` // signed
	Chunks        int     `json:"chunks"`       // MQTT messages
	WireBytes     int     `json:"wire_bytes"`   // MQTT packets sent, without TLS, TCP and IP
	BytesPerDay   float64 `json:"bytes_per_day"`
	EncryptMs     float64 `json:"encrypt_ms"` // medians of a few, on this machine: encoding and encrypting
	SealMs        float64 `json:"seal_ms"`    // a window from its samples to its messages, encryption included
	SampleMs      float64 `json:"sample_ms"`  // a sample of all sensors of /sys and /proc that are here; 0 for others
	// QueueSeconds is how long the broker may be away before the stream loses windows.
	QueueSeconds float64 `json:"queue_s,omitempty"`
	// Duty is the share of one processor that the stream takes: processor time of
	// samples and sealing, per time of a window.
	Duty          float64 `json:"duty"`
	PrecisionBits float64 `json:"precision_bits"`
	// Programs read the stream and need ProgramLevel; see Prediction.Needs.
	Programs     []string         `json:"programs,omitempty"`
	ProgramLevel *int             `json:"program_level,omitempty"`
	Channels     []ChannelOutlook `json:"channels"`

	absent []string // sensors, with the reason
}

// ChannelOutlook is the predicted error of a fresh, decrypted sample.
type ChannelOutlook struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Error float64 `json:"error"` // standard deviation, in Unit
	Bound float64 `json:"bound"` // on all samples of a window, in Unit; see henc.NoiseModel.Max
}

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
			if s := c.layout(i, k.Context.Parameters()); s != nil {
				streams = append(streams, s)
			}
		}
	}
	if err := c.errs.Err(); err != nil {
		return nil, err
	}
	defer k.Wipe()
	keyBytes, keyAbsent, err := loadOrMake(&k, c, o.Keys)
	if err != nil {
		return nil, err
	}
	params := k.Context.Parameters()
	p := &Prediction{Device: cfg.Device, Params: params.Name(), LogN: params.LogN(), Slots: params.Slots(),
		KeyMode: string(cfg.Keys.Mode), KeyBytes: keyBytes, KeyAbsent: keyAbsent,
		Processors: cmp.Or(cfg.Workers, runtime.GOMAXPROCS(0)), Warnings: append(Warnings(cfg), absent...)}
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
		p.Warnings = append(p.Warnings, o.doubts(params.Slots())...)
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

// loadOrMake loads the keys that exist and makes temporary ones for the rest. It gives
// the length of the file of the key that encrypts, and whether that is absent.
func loadOrMake(k *seal.Keys, c *checker, given seal.Given) (bytes int64, missing bool, err error) {
	absent := func(path string) bool {
		_, err := os.Stat(path)
		return errors.Is(err, fs.ErrNotExist)
	}
	cfg := c.cfg
	file := cfg.Keys.PublicKey
	if cfg.Keys.Mode == config.KeyModeSymmetric {
		file = cfg.Keys.SecretKey
	}
	if info, err := os.Stat(file); err == nil {
		bytes = info.Size()
	}
	if given.Public == nil && given.Secret == nil && absent(file) {
		sk, err := secret.Generate(k.Context, nil)
		if err != nil {
			return 0, true, err
		}
		k.WipeLater(func() { _ = sk.Wipe() })
		var text []byte
		if missing = true; cfg.Keys.Mode == config.KeyModeSymmetric {
			given.Secret = sk
			text, err = sk.Marshal()
			defer clear(text)
		} else if given.Public, err = sk.PublicKey(); err == nil {
			text, err = k.Context.MarshalPublicKey(given.Public)
		}
		if err != nil {
			return 0, true, err
		}
		bytes = int64(len(text))
	}
	if given.Signing == nil && absent(cfg.SigningKey) {
		key, err := transport.NewSigningKey()
		if err != nil {
			return 0, missing, err
		}
		k.WipeLater(key.Wipe)
		given.Signing = key
	}
	sized := *cfg // whose key it is does not matter to its size
	sized.Keys.Holder = config.HolderNone
	k.Load(&sized, given, func(path string, err error) { c.fail(path, "correct the file or its path", err) })
	return bytes, missing, c.errs.Err()
}

// nextNumbers are the boot epoch and the reserved sequence numbers that the
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
		Samples: w.Samples, SlotsUsed: s.Config.Slots(),
		BodyBytes: out.Body, ObjectBytes: len(out.Object), Chunks: chunks, WireBytes: wire,
		EncryptMs: milliseconds(encrypt), SealMs: milliseconds(seal.wall), SampleMs: milliseconds(sample.wall),
		absent: absent}
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
	precision(k, o, s.Config, out.Meta.Scale)
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
		o.Channels = append(o.Channels,
			ChannelOutlook{Name: ch.Name, Unit: ch.Unit, Error: half * sigma,
				Bound: half * noise.Max(sigma, o.Samples)})
	}
}

// wireBytes is the size of the MQTT 3.1.1 PUBLISH packets (QoS 1) of an object:
// fixed header, topic and packet id besides the chunk.
func wireBytes(topic string, object []byte, chunkSize int) (bytes, chunks int, err error) {
	pieces, err := transport.Split(object, chunkSize)
	if err != nil {
		return 0, 0, err
	}
	for i := range pieces {
		payload, err := pieces[i].Marshal()
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

// doubts are warnings about one stream.
func (o StreamOutlook) doubts(slots int) []string {
	var out []string
	if used := float64(o.SlotsUsed) / float64(slots); used < 0.05 {
		out = append(out, fmt.Sprintf("stream %s: %.1f %% of the slots are used; longer windows or more channels "+
			"cost no more bytes", o.Name, 100*used))
	}
	return append(out, o.absent...)
}
