package loadbench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/transport"
)

func newBed(ctx context.Context, o Options) (*bed, error) {
	b := &bed{o: o, begin: time.Now().Unix()}
	if err := b.build(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// joinWindows is how far one device may be ahead of another behind a broker, where each has a
// connection of its own and nothing holds the faster one back. What waits was in memory before.
const joinWindows = 1 << 12

func (b *bed) build(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "hencedge-load-"); err != nil { // 0700
		return err
	}
	if err := b.describe(); err != nil {
		return err
	}
	for i := range b.o.Devices {
		key, err := transport.NewSigningKey()
		if err != nil {
			return err
		}
		name := deviceName(i)
		b.devices = append(b.devices, &device{name: name, place: config.PlaceOf(name, b.o.Places), key: key})
	}
	if err := b.configure(); err != nil {
		return err
	}
	if err := b.fits(); err != nil {
		return err
	}
	if err := b.makeKeys(ctx); err != nil {
		return err
	}
	return b.encrypt(ctx)
}

// describe describes the stream that every device sends.
func (b *bed) describe() error {
	st := config.Stream{Name: streamName, Params: b.o.Params.Name(), Places: b.o.Places,
		Window: config.Window{Samples: b.o.Samples, Every: every}}
	for k := range b.o.Channels {
		st.Channels = append(
			st.Channels,
			config.Channel{Name: channelName(k), Unit: "1", Range: [2]float64{0, 100}},
		)
	}
	if b.o.Compact > 0 {
		st.Mode, st.Precision = config.ModeCompact, b.o.Compact
		st.SetDefaults()
		b.stream = st
		return b.checkCompact()
	}
	st.SetDefaults()
	if slots := b.o.Params.Slots() / max(b.o.Places, 1); st.Slots() > slots {
		of, instead := "", ""
		if b.o.Places > 0 {
			of = fmt.Sprintf(" at each of %d places", b.o.Places)
			most := b.o.Places // that fit
			for most*st.Slots() > b.o.Params.Slots() {
				most /= 2
			}
			if most > 1 {
				instead = fmt.Sprintf("--places %d, ", most)
			}
		}
		return fmt.Errorf("%w: %d channels of %d samples take %d slots, %s has %d%s; use %sfewer --samples or fewer "+
			"--channels", ErrOptions, b.o.Channels, b.o.Samples, st.Slots(), b.o.Params.Name(), slots, of, instead)
	}
	b.stream = st
	return nil
}

// configure writes the evaluator's configuration and compiles its programs.
func (b *bed) configure() (err error) {
	if b.given, err = b.programs(); err != nil {
		return err
	}
	programs, err := b.multiplied(b.given)
	if err != nil {
		return err
	}
	key, err := transport.NewSigningKey()
	if err != nil {
		return err
	}
	defer key.Wipe()
	if err := key.Save(b.path("signing.key")); err != nil {
		return err
	}
	b.cfg = &config.Evaluator{
		Name: evaluatorName, Broker: config.Broker{URL: "tcp://127.0.0.1:1"},
		KeySets:    []string{b.path("for-evaluator")},
		SigningKey: b.path("signing.key"), State: b.path("state"), Programs: programs, Workers: b.o.Workers,
		Keys: config.EvaluatorKeys{Holder: config.OneOrMore{config.HolderNone}},
	}
	if b.o.Pack > 0 {
		b.cfg.Results = &config.Results{Pack: b.o.Pack, Within: b.o.Within}
	}
	if b.o.Broker != "" { // a place of its own at a broker that others use too
		b.cfg.Broker.TopicPrefix = fmt.Sprintf("hencedge/load-%08x", rand.Uint32())
		b.cfg.Join.Windows = joinWindows
	}
	class := ""
	if b.classed() {
		class = eachDevice
		b.cfg.Classes = []config.Class{{Name: class, Streams: []config.Stream{b.stream}}}
	}
	for _, d := range b.devices {
		b.cfg.Devices = append(b.cfg.Devices, config.Device{Name: d.name, PublicKey: d.key.PublicText(), Class: class})
		if class == "" {
			b.cfg.Streams = append(b.cfg.Streams, config.DeviceStream{Device: d.name, Stream: b.stream})
		}
	}
	b.cfg.SetDefaults()
	for _, d := range b.devices {
		d.topic = transport.ReadingTopic(b.cfg.Broker.TopicPrefix, d.name, streamName)
	}
	if err := b.cfg.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if b.plan, err = evaluator.Check(b.cfg); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	b.signer = key.Public()
	return b.readAll()
}

// fits checks that the memory holds all ciphertexts and some signed windows of each device.
func (b *bed) fits() error {
	const fewest = 2 // signed windows per device
	signed := (b.ciphertextBytes() + slotRoom) * int64(len(b.devices)) * fewest / 3 * 4
	if missing := signed - b.free(); missing > 0 {
		return fmt.Errorf(
			"%w: --memory %d: %d devices with %d windows each need %d MiB; use more, or fewer --windows",
			ErrOptions,
			b.o.Memory>>20,
			len(b.devices),
			b.o.Windows,
			(b.o.Memory+missing+1<<20-1)>>20,
		)
	}
	return nil
}

// readAll checks that every device is read by some program: the windows of others would have
// no result.
func (b *bed) readAll() error {
	read := map[string]bool{}
	for i := range b.plan.Programs {
		for _, in := range b.plan.Programs[i].Circuit.Inputs() {
			read[in.Device] = true
		}
	}
	for _, d := range b.devices {
		if !read[d.name] && !b.classed() {
			return fmt.Errorf("%w: no program reads device %s: let one read %q, or use fewer --devices", ErrOptions,
				d.name, eachDevice)
		}
	}
	return nil
}
