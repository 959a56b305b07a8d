// Package plan predicts what an agent will cost: traffic, time, storage writes
// and precision, from its configuration and from an encryption that is timed on
// this machine under a key that is thrown away.
package plan

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/transport"
)

// Options of New.
type Options struct {
	// Link is the uplink in bits per second; 0 means that it is not known.
	Link float64
	// Rounds is how often a window is encrypted to time it; 0 means 5.
	Rounds int
}

// Plan is the prediction for an agent.
type Plan struct {
	Device  string   `json:"device"`
	Streams []Stream `json:"streams"`
	// Totals over the streams whose rate is known.
	BytesPerDay    float64 `json:"bytes_per_day"`
	MessagesPerDay float64 `json:"messages_per_day"`
	// CPU is the share of one processor that encryption takes, 0 to 1; Link is
	// the share of the uplink, where that is known.
	CPU  float64 `json:"cpu"`
	Link float64 `json:"link,omitempty"`
	// StateWrites counts the writes of the state file a day; nothing else is
	// written.
	StateWrites float64 `json:"state_writes_per_day"`
	// Refusals say what cannot work; empty for a possible configuration.
	Refusals []string `json:"refusals,omitempty"`
}

// Stream is the prediction for one stream.
type Stream struct {
	Name     string `json:"name"`
	Params   string `json:"params"`
	Mode     string `json:"mode"` // public or symmetric
	Level    int    `json:"level"`
	Samples  int    `json:"samples"`
	Channels int    `json:"channels"`
	Slots    int    `json:"slots"`     // used
	MaxSlots int    `json:"max_slots"` // of the parameters

	// Window is the time that a window covers in seconds; 0 where samples come
	// at the pace of a file.
	Window   float64 `json:"window_seconds,omitempty"`
	Body     int     `json:"body_bytes"`     // ciphertext
	Sealed   int     `json:"sealed_bytes"`   // signed object
	Sent     int     `json:"sent_bytes"`     // with chunk and MQTT headers and acknowledgements
	Messages int     `json:"messages"`       // MQTT messages a window
	Encrypt  float64 `json:"encrypt_ms"`     // median, on this machine
	PerDay   float64 `json:"bytes_per_day"`  // 0 where the rate is not known
	PerValue float64 `json:"bytes_a_sample"` // of one channel

	Precision []Precision `json:"precision"`
}

// Precision is the error of a channel from encryption alone.
type Precision struct {
	Channel string  `json:"channel"`
	Unit    string  `json:"unit"`
	StdDev  float64 `json:"std_dev"` // in Unit
	Bound   float64 `json:"bound"`   // for every sample of a window
	Bits    float64 `json:"bits"`    // log2 of the range over Bound
}

// sequenceBlock is how many windows share one write of the state file.
const sequenceBlock = 256

const day = 86400

// New plans for a checked configuration.
func New(ctx context.Context, cfg *config.Agent, o Options) (*Plan, error) {
	if o.Rounds <= 0 {
		o.Rounds = 5
	}
	p := &Plan{Device: cfg.Device}
	beds := map[string]*bed{}
	for _, s := range cfg.Streams {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b := beds[s.Params]
		if b == nil {
			var err error
			if b, err = newBed(s.Params, cfg.Keys.Mode == config.KeyModeSymmetric); err != nil {
				return nil, fmt.Errorf("stream %s: %w", s.Name, err)
			}
			beds[s.Params] = b
		}
		st, err := b.stream(cfg, s, o.Rounds)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", s.Name, err)
		}
		p.add(*st, o.Link)
	}
	for _, b := range beds {
		if err := b.key.Wipe(); err != nil {
			return nil, err
		}
	}
	if p.CPU > 1 {
		p.refuse("encryption takes %.1f processors in all; use longer windows, fewer channels or smaller parameters", p.CPU)
	}
	if p.Link > 1 {
		p.refuse("the streams need %.1f times the uplink; use longer windows, a lower level, or smaller parameters", p.Link)
	}
	return p, nil
}

func (p *Plan) refuse(format string, args ...any) {
	p.Refusals = append(p.Refusals, fmt.Sprintf(format, args...))
}

// add puts a stream into the totals.
func (p *Plan) add(s Stream, link float64) {
	p.Streams = append(p.Streams, s)
	if s.Window == 0 {
		return
	}
	windows := day / s.Window
	p.BytesPerDay += s.PerDay
	p.MessagesPerDay += windows * float64(s.Messages)
	p.CPU += s.Encrypt / 1e3 / s.Window
	p.StateWrites += windows / sequenceBlock
	if link > 0 {
		p.Link += float64(s.Sent) * 8 / s.Window / link
	}
	if s.Encrypt/1e3 > s.Window {
		p.refuse("stream %s: a window of %.3g s takes %.3g s to encrypt here", s.Name, s.Window, s.Encrypt/1e3)
	}
}

// bed is a parameter set with a key that is thrown away.
type bed struct {
	params    henc.Parameters
	ctx       *henc.Context
	key       *secret.Key
	enc       henc.RealEncryptor
	signing   *transport.SigningKey
	symmetric bool
}

func newBed(name string, symmetric bool) (*bed, error) {
	p, err := henc.Named(name)
	if err != nil {
		return nil, err
	}
	ctx, err := henc.NewContext(p)
	if err != nil {
		return nil, err
	}
	key, err := secret.Generate(ctx, nil)
	if err != nil {
		return nil, err
	}
	signing, err := transport.NewSigningKey()
	if err != nil {
		return nil, err
	}
	b := &bed{params: p, ctx: ctx, key: key, signing: signing, symmetric: symmetric}
	if symmetric {
		b.enc = secret.NewSeededEncryptor(ctx, key)
		return b, nil
	}
	pub, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	b.enc, err = henc.NewEncryptor(ctx, pub)
	return b, err
}

func (b *bed) stream(cfg *config.Agent, s config.Stream, rounds int) (*Stream, error) {
	if s.Slots() > b.params.Slots() {
		return nil, fmt.Errorf("%d channels of %d samples take %d slots; %s has %d", len(s.Channels), s.Window.Samples, s.Slots(), s.Params, b.params.Slots())
	}
	out := &Stream{
		Name: s.Name, Params: s.Params, Mode: "public", Level: s.LevelAt(b.params.MaxLevel()), Samples: s.Window.Samples,
		Channels: len(s.Channels), Slots: s.Slots(), MaxSlots: b.params.Slots(), Window: windowSeconds(s),
	}
	if b.symmetric {
		out.Mode = "symmetric"
	}
	scale := b.params.ScaleAt(out.Level)
	if s.LogScale != 0 {
		scale = math.Ldexp(1, s.LogScale)
	}
	ct, took, err := b.encrypt(out.Slots, out.Level, scale, rounds)
	if err != nil {
		return nil, err
	}
	out.Encrypt = float64(took.Nanoseconds()) / 1e6
	if err := b.sizes(cfg, s, ct, out); err != nil {
		return nil, err
	}
	if out.Window > 0 {
		out.PerDay = float64(out.Sent) * day / out.Window
	}
	out.PerValue = float64(out.Sent) / float64(len(s.Channels)*s.Window.Samples)
	out.Precision = b.precision(s, scale)
	return out, nil
}

// encrypt times the encryption of a window of extreme values.
func (b *bed) encrypt(slots, level int, scale float64, rounds int) (ct *henc.Ciphertext, median time.Duration, err error) {
	values := make([]float64, slots)
	for i := range values {
		values[i] = float64(1 - 2*(i%2))
	}
	var times []time.Duration
	for range rounds + 1 {
		start := time.Now()
		if ct, err = b.enc.EncryptReal(values, level, scale, nil); err != nil {
			return nil, 0, err
		}
		times = append(times, time.Since(start))
	}
	times = times[1:] // the first one also builds tables
	slices.Sort(times)
	return ct, times[len(times)/2], nil
}

// sizes measures a sealed window and what its chunks take on MQTT.
func (b *bed) sizes(cfg *config.Agent, s config.Stream, ct *henc.Ciphertext, out *Stream) error {
	body, err := b.ctx.MarshalCiphertext(ct)
	if err != nil {
		return err
	}
	now := time.Now().UnixNano()
	sealed, err := transport.Seal(transport.Meta{
		Kind: transport.KindReading, Device: cfg.Device, Stream: s.Name, BootEpoch: uint64(now) / 1e9, Sequence: 1 << 20,
		Params: b.params.Hash(), Layout: s.LayoutHash(), Level: ct.Level, Scale: ct.Scale, Start: now, End: now, Samples: uint32(s.Window.Samples),
	}, body, b.signing)
	if err != nil {
		return err
	}
	chunks, err := transport.Split(sealed, int(cfg.Broker.ChunkSize))
	if err != nil {
		return err
	}
	topic := len(transport.ReadingTopic(cfg.Broker.TopicPrefix, cfg.Device, s.Name))
	for _, c := range chunks {
		payload, err := c.Marshal()
		if err != nil {
			return err
		}
		// PUBLISH with QoS 1: type, remaining length, topic, packet id; and PUBACK.
		rest := 2 + topic + 2 + len(payload)
		out.Sent += 1 + varintLen(rest) + rest + 4
	}
	out.Body, out.Sealed, out.Messages = len(body), len(sealed), len(chunks)
	return nil
}

// varintLen is the size of MQTT's remaining length.
func varintLen(n int) int {
	size := 1
	for n >= 128 {
		n, size = n>>7, size+1
	}
	return size
}

func (b *bed) precision(s config.Stream, scale float64) []Precision {
	noise := b.params.Noise()
	sd := noise.FreshPK(scale)
	if b.symmetric {
		sd = noise.FreshSeeded(scale)
	}
	bound := noise.Max(sd, s.Window.Samples)
	var out []Precision
	for _, c := range s.Channels {
		_, half := c.Affine()
		out = append(out, Precision{Channel: c.Name, Unit: c.Unit, StdDev: half * sd, Bound: half * bound, Bits: math.Log2(2 / bound)})
	}
	return out
}

// windowSeconds is the time that a window covers, 0 where it is not known.
func windowSeconds(s config.Stream) float64 {
	switch {
	case s.Window.ByTime():
		return s.Window.Every.Seconds()
	case s.Replay != nil:
		return 0
	}
	return s.Interval.Seconds() * float64(s.Window.Samples)
}
