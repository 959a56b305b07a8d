package engine

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
)

// Compact windows stay as they came until a run needs them. The gatherer then chooses their places: the windows
// of many devices for one routine and key are bootstrapped together, once for each input. From then on they are what
// windows at places are that were added up.

// ErrNoDeviceKey: the key set has no switching key for a device, so its compact windows cannot be used.
var ErrNoDeviceKey = errors.New("no switching key for the device")

// CompactKeys are what compact windows need of a key set, besides the keys of bootstrapping.
type CompactKeys struct {
	Set   henc.Parameters               // of the boards
	Small *henc.Context                 // for compact.Switching of Set and the parameters of the results
	Join  *henc.SwitchingKey            // from the common secret to that of the results, of Keys.Context
	Pack  map[uint64]*henc.SwitchingKey // of compact.PackElements, of Small
	// Device returns the key from a device's secret to the common one, of Small. It fails with ErrNoDeviceKey
	// for a device that has none. It may be called at any time.
	Device func(name string) (*henc.SwitchingKey, error)
}

// readCompact reads the keys of compact windows of an epoch, and those of devices when they are first needed. It
// returns nil if no device had such windows when the epoch was exported.
func readCompact(dir string, trust keyset.Trust, export *keyset.Export, e keyset.Epoch, big *henc.Context) (
	*CompactKeys, error) {
	set, params, err := e.CompactParameters(big.Parameters())
	if errors.Is(err, keyset.ErrNoCompact) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	small, err := henc.NewContext(params)
	if err != nil {
		return nil, err
	}
	k := &CompactKeys{Set: set, Small: small}
	if k.Join, k.Pack, err = export.CompactCommon(e, small, big); err != nil {
		return nil, err
	}
	d := &deviceKeys{dir: dir, trust: trust, small: small, export: export, epoch: e}
	k.Device = d.read
	return k, nil
}

// deviceKeys reads the keys of devices from an export. One that it does not find may have been added since: then it
// opens the export again, but not more often than every reopenAfter.
type deviceKeys struct {
	dir   string
	trust keyset.Trust
	small *henc.Context

	mu     sync.Mutex
	export *keyset.Export
	epoch  keyset.Epoch
	opened time.Time
}

const reopenAfter = 5 * time.Second

func (d *deviceKeys) read(device string) (*henc.SwitchingKey, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key, err := d.export.CompactDevice(d.epoch, device, d.small)
	if errors.Is(err, keyset.ErrNoCompact) && time.Since(d.opened) > reopenAfter {
		d.opened = time.Now()
		if d.reopen() == nil {
			key, err = d.export.CompactDevice(d.epoch, device, d.small)
		}
	}
	if errors.Is(err, keyset.ErrNoCompact) {
		return nil, fmt.Errorf("%w: %w; ask the key holder for an export after keys device %s", ErrNoDeviceKey, err,
			device)
	}
	return key, err
}

// reopen takes the export as it is now, if it has the epoch.
func (d *deviceKeys) reopen() error {
	export, err := keyset.OpenExport(d.dir, d.trust)
	if err != nil {
		return err
	}
	for _, e := range export.Manifest.Epochs {
		if e.Epoch == d.epoch.Epoch && e.KeyID == d.epoch.KeyID {
			d.export, d.epoch = export, e
			return nil
		}
	}
	return keyset.ErrNoCompact
}

// compactWindow is a window as it came.
type compactWindow struct {
	window *compact.Window
	origin compact.Origin
}

// CompactHeader completes what the receiver knows of the header of a compact window: level and scale.
func CompactHeader(m *transport.Meta) { m.Level, m.Scale = 0, compact.Scale() }

// ReceiveCompact reads a compact window of a stream under the parameters with this hash. It fails with
// ErrNoDeviceKey, with henc.ErrLength or henc.ErrParams for another number of readings or precision than the stream's,
// and with the errors of compact.Unmarshal.
func (e *Engine) ReceiveCompact(params [32]byte, st config.Stream, m *transport.Meta, body []byte) (
	*Ciphertext, error) {
	l := e.lanes[params]
	l.mu.Lock()
	d := l.devices[0]
	l.mu.Unlock()
	side, err := d.compacts.of(d.ctx, transport.KeyRef{ID: m.KeyID, Epoch: m.KeyEpoch})
	if err != nil {
		return nil, err
	}
	w, err := compact.Unmarshal(side.keys.Set, body)
	switch {
	case err != nil:
		return nil, err
	case int(w.Precision) != st.Compact():
		return nil, fmt.Errorf("%w: a window of precision %d, the stream has %d", henc.ErrParams, w.Precision,
			st.Compact())
	case len(w.Values) != st.Readings():
		return nil, fmt.Errorf("%w: a window of %d readings, the stream has %d", henc.ErrLength, len(w.Values),
			st.Readings())
	}
	if _, err := side.key(m.Device); err != nil {
		return nil, err
	}
	return &Ciphertext{compact: &compactWindow{w, compact.Origin{Device: m.Device, Stream: m.Stream, KeyID: m.KeyID,
		KeyEpoch: m.KeyEpoch, BootEpoch: m.BootEpoch, Sequence: m.Sequence}}}, nil
}

// compacts are what takes compact windows on a device, by key, made when it is first needed.
type compacts struct {
	mu   sync.Mutex
	keys map[transport.KeyRef]*CompactKeys
	made map[transport.KeyRef]*compactSide
}

// compactSide takes compact windows under one key.
type compactSide struct {
	keys     *CompactKeys
	receiver *compact.Receiver
	packer   *compact.Packer

	mu      sync.Mutex
	devices map[string]*compact.Key
}

func (c *compacts) of(ctx *henc.Context, key transport.KeyRef) (*compactSide, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if made := c.made[key]; made != nil {
		return made, nil
	}
	keys := c.keys[key]
	if keys == nil {
		return nil, fmt.Errorf("%w: epoch %d of key set %x has no device with compact windows", ErrNoDeviceKey,
			key.Epoch, key.ID)
	}
	r, err := compact.NewReceiver(keys.Set, keys.Small, ctx, keys.Join)
	if err != nil {
		return nil, err
	}
	p, err := r.NewPacker(keys.Pack)
	if err != nil {
		return nil, err
	}
	if c.made == nil {
		c.made = map[transport.KeyRef]*compactSide{}
	}
	c.made[key] = &compactSide{keys: keys, receiver: r, packer: p, devices: map[string]*compact.Key{}}
	return c.made[key], nil
}

// key returns the prepared key of a device.
func (s *compactSide) key(device string) (*compact.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.devices[device]; k != nil {
		return k, nil
	}
	key, err := s.keys.Device(device)
	if err != nil {
		return nil, err
	}
	k, err := s.receiver.Prepare(key)
	if err == nil {
		s.devices[device] = k
	}
	return k, err
}

// forget drops the keys. Nothing must compute any more.
func (c *compacts) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, side := range c.made {
		side.packer.Free()
		for _, k := range side.devices {
			k.Release()
		}
	}
	c.keys, c.made = nil, nil
}

// groups is how many groups of jobs, each with a window at every place, share a bootstrap: it has twice as many
// coefficients as slots.
const groups = 2

// bootstrapped returns the inputs of at most two groups of jobs on compact windows, by group: those of job k stand at
// place k.
func (d *device) bootstrapped(jobs ...[]*ticket) ([]map[program.Input]*henc.Ciphertext, error) {
	first := jobs[0][0]
	side, err := d.compacts.of(d.ctx, first.key)
	if err != nil {
		return nil, err
	}
	out := make([]map[program.Input]*henc.Ciphertext, len(jobs))
	for g := range out {
		out[g] = map[program.Input]*henc.Ciphertext{}
	}
	for in := range first.compact {
		windows := make([][]*compactWindow, len(jobs))
		for g, group := range jobs {
			for _, job := range group {
				windows[g] = append(windows[g], job.compact[in])
			}
		}
		cts, err := d.bootstrapWindows(side, first.key, windows)
		if err != nil {
			return nil, fmt.Errorf("bootstrap windows of %s: %w", in, err)
		}
		for g, ct := range cts {
			out[g][in] = ct
		}
	}
	return out, nil
}

// block is where the window of a group has to come in both halves, in units of half its readings, before place brings
// it to its place. There are blocks of them.
func block(group, place, blocks int) int { return (2*place + 1 + group) % blocks }

// bootstrapWindows brings the readings of each group of windows to the slots of one ciphertext, those of window k to
// place k.
func (d *device) bootstrapWindows(side *compactSide, key transport.KeyRef, windows [][]*compactWindow) (
	[]*henc.Ciphertext, error) {
	boot, err := d.boots.of(d.ctx, key)
	if err != nil {
		return nil, err
	}
	joined, err := side.join(windows)
	if err != nil {
		return nil, err
	}
	readings := len(windows[0][0].window.Values)
	used := make([][]bool, len(windows))
	for g, group := range windows {
		used[g] = make([]bool, d.ctx.Parameters().N())
		for place := range group {
			packed, at, _ := side.spot(g, place, readings) // join has looked
			for j := range readings {
				used[g][side.packer.Position(packed, at, j, readings)] = true
			}
		}
	}
	halves, err := boot.CoefficientsOf(joined, used...)
	d.ctx.Ring().Free(joined.Value)
	if err != nil {
		return nil, err
	}
	var out []*henc.Ciphertext
	for g := range halves {
		ct, e := d.placed(d.keys[key], halves[g], g, readings)
		free(d, halves[g][:])
		out, err = append(out, ct), errors.Join(err, e)
	}
	return out, err
}

// placed joins the halves of the windows of a group at their places. Those of the first group are half a window ahead
// in the first half; those of the second are so as a whole, too.
func (d *device) placed(ev *henc.Evaluator, halves [2]*henc.Ciphertext, group, readings int) (
	*henc.Ciphertext, error) {
	first, err := ev.Rotate(halves[0], readings/2)
	if err != nil {
		return nil, err
	}
	defer d.ctx.Ring().Free(first.Value)
	sum, err := ev.Add(first, halves[1])
	if err != nil || group == 0 {
		return sum, err
	}
	defer d.ctx.Ring().Free(sum.Value)
	return ev.Rotate(sum, readings/2)
}

// spot is where join puts the window at a place of a group.
func (s *compactSide) spot(group, place, readings int) (packed, at int, ok bool) {
	blocks := s.packer.Windows(readings) * s.receiver.Windows()
	if group >= groups || 2*place >= blocks {
		return 0, 0, false
	}
	return s.packer.Spot(block(group, place, blocks), readings)
}

// join packs groups of windows into one ciphertext at level 0, each where Coefficients brings it to its place. What is
// packed together is done side by side with the rest.
func (s *compactSide) join(windows [][]*compactWindow) (*henc.Ciphertext, error) {
	readings := len(windows[0][0].window.Values)
	packs := make([][]*compactWindow, s.receiver.Windows())
	for g, group := range windows {
		for place, w := range group {
			packed, at, ok := s.spot(g, place, readings)
			if !ok || len(w.window.Values) != readings {
				return nil, fmt.Errorf("%w: window %d of %d readings, others have %d", henc.ErrLength, place,
					len(w.window.Values), readings)
			}
			if packs[packed] == nil {
				packs[packed] = make([]*compactWindow, s.packer.Windows(readings))
			}
			packs[packed][at] = w
		}
	}
	all, errs := make([]*henc.Ciphertext, len(packs)), make([]error, len(packs))
	defer s.free(all)
	var working sync.WaitGroup
	for i, pack := range packs {
		if pack != nil {
			working.Go(func() { all[i], errs[i] = s.pack(pack, readings) })
		}
	}
	working.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s.receiver.Join(all)
}

// pack receives windows, of which some are nil, and packs them.
func (s *compactSide) pack(windows []*compactWindow, readings int) (*henc.Ciphertext, error) {
	received := make([]*henc.Ciphertext, len(windows))
	defer s.free(received)
	for at, w := range windows {
		if w == nil {
			continue
		}
		key, err := s.key(w.origin.Device)
		if err == nil {
			received[at], err = s.receiver.Receive(w.window, w.origin, key)
		}
		if err != nil {
			return nil, err
		}
	}
	return s.packer.Pack(received, readings)
}

// free gives the memory of ciphertexts of the small ring back.
func (s *compactSide) free(cts []*henc.Ciphertext) {
	for _, ct := range cts {
		if ct != nil {
			s.keys.Small.Ring().Free(ct.Value)
		}
	}
}
