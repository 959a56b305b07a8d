package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/transport"
)

// devices keeps what devices say of themselves in their birth messages, and how their
// windows fare. The windows of a device whose description differs from the configuration
// here are refused for a hash; the birth message tells both sides which field differs.
type devices struct {
	*reporter
	cfg        *config.Evaluator
	keys       map[transport.KeyRef]keyEpoch
	roster     *roster
	verifier   *transport.Verifier
	duplicates duplicates
	since      time.Time // of the first connection, zero before it

	mu      sync.Mutex
	said    map[string]*said // by device
	streams map[streamID]*standing
	told    map[string]time.Time // when a stranger was answered last, by device
	silent  bool                 // silent devices were reported
}

// said is the newest birth message of a device.
type said struct {
	order   transport.StatusOrder
	status  *transport.Status
	differs []string // from this configuration
}

// standing is how the windows of a stream fare.
type standing struct {
	taken bool      // one was, at any time
	n     int       // refusals since
	since time.Time // of the first of them
	last  time.Time
	why   string
}

// A single refusal says nothing about its stream. Three in a row do, and so does one that
// nothing follows for a minute, or one before any window was taken. A stream without
// refusals for an hour is merely silent.
const (
	refusedInRow  = 3
	refusedForAll = time.Minute
	refusalLasts  = time.Hour
	silentAfter   = time.Minute
)

// newDevices returns what listens to the birth messages of the devices whose streams
// programs read.
func newDevices(cfg *config.Evaluator, keys map[transport.KeyRef]keyEpoch, r *roster) (*devices, error) {
	v, err := transport.NewStatusVerifier(r.trust, cfg.Broker.TopicPrefix)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return &devices{reporter: r.reporter, cfg: cfg, keys: keys, roster: r, verifier: v, said: map[string]*said{},
		streams: map[streamID]*standing{}, told: map[string]time.Time{}}, nil
}

// subscribeStatus asks for the birth messages of the devices. A broker that does not
// grant them costs only the better messages.
func (d *devices) subscribeStatus(ctx context.Context, client transport.Client) {
	d.mu.Lock()
	d.since = d.now()
	d.mu.Unlock()
	for _, topic := range d.roster.filters(transport.StatusTopic) {
		if err := client.Subscribe(ctx, topic, d.heard); err != nil {
			if ctx.Err() == nil {
				d.log.Warn("cannot read the birth messages of devices; differences between their files and this one "+
					"are not reported",
					"error", err)
			}
			return
		}
	}
}

// heard takes a birth message or last will.
func (d *devices) heard(msg transport.Delivery) {
	if msg.Ack != nil {
		defer msg.Ack()
	}
	if d.roster.strange("st", msg.Topic) {
		return // of another evaluator's device, or of an evaluator
	}
	st, err := transport.OpenStatus(d.verifier, msg)
	if err != nil {
		d.refuse(msg.Topic, d.explain(msg.Topic, st.Sealed, err))
		return
	}
	m, now := &st.Object.Meta, &said{status: st.Status}
	now.differs = d.differences(m.Device, st.Status)
	if st.Online {
		if _, news := d.duplicates.birth(st.Object.Signer, m); news {
			d.toldTwice(m)
		}
	}
	d.mu.Lock()
	before := d.said[m.Device]
	if before != nil {
		now.order = before.order
	}
	if !now.order.Take(st) {
		d.mu.Unlock()
		return // an earlier one, which somebody kept
	}
	d.said[m.Device] = now
	d.mu.Unlock()
	if before != nil && slices.Equal(before.differs, now.differs) {
		return
	}
	for _, text := range now.differs {
		d.log.Warn("a device's configuration differs from this one", "device", m.Device, "difference", text)
	}
}

// differences returns what in a device's birth message does not fit this configuration.
func (d *devices) differences(device string, st *transport.Status) []string {
	var out []string
	for _, own := range d.roster.streams(device) {
		name := own.Stream.Name
		at := slices.IndexFunc(st.Streams, func(x transport.StreamStatus) bool { return x.Name == name })
		if at < 0 {
			out = append(out, fmt.Sprintf("stream %s is read by programs%s, and the device publishes %s", name,
				d.where(own.Path+".name"), streamList(st.Streams)))
			continue
		}
		if theirs, ok := daemon.DescribedStream(st.Streams[at]); ok {
			out = append(out, d.compare(own, theirs)...)
		}
	}
	ref := transport.KeyRef{ID: st.KeyID, Epoch: st.KeyEpoch}
	if _, known := d.keys[ref]; ref.ID != [16]byte{} && !known {
		out = append(out, fmt.Sprintf("the device encrypts under epoch %d of key set %x; %s", ref.Epoch, ref.ID[:4],
			d.keyList()))
	}
	return out
}

// compare returns the fields in which a device's stream differs from own.
func (d *devices) compare(own config.PlacedStream, theirs config.Stream) []string {
	var out []string
	for _, x := range own.Stream.Compare(theirs) {
		out = append(out, fmt.Sprintf("stream %s, %s: the device has %s, the evaluator %s%s", own.Stream.Name, x.Path,
			x.Other, x.Ours, d.where(own.Path+"."+x.Path)))
	}
	return out
}

// where returns the place of a field in the configuration's file, in brackets. It is empty
// for a configuration that was built in code.
func (d *devices) where(path string) string {
	if p := d.cfg.Problem(path, "", ""); p.File != "" {
		return fmt.Sprintf(" (%s:%d)", filepath.Base(p.File), p.Line)
	}
	return ""
}

func streamList(list []transport.StreamStatus) string {
	const most = 8
	names := make([]string, 0, most)
	for i := range list {
		if i == most {
			names = append(names, "...")
			break
		}
		names = append(names, list[i].Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// keyList returns which keys there are.
func (d *devices) keyList() string {
	var names []string
	for ref, k := range d.keys {
		names = append(names, fmt.Sprintf("epoch %d of key set %x (%s)", ref.Epoch, ref.ID[:4], k.params.Name()))
	}
	slices.Sort(names)
	return "this evaluator has " + strings.Join(names, ", ")
}

// explained is a refusal with what differs, in words for both sides.
type explained struct {
	error
	detail string
}

func (e explained) Error() string { return e.error.Error() + ": " + e.detail }
func (e explained) Unwrap() error { return e.error }

// explain adds to a refusal which field differs, where that is known.
func (d *devices) explain(topic string, sealed []byte, err error) error {
	reason := transport.Reason(err)
	switch reason {
	case "wrong_layout", "wrong_params", "wrong_key", "wrong_epoch", "unknown_signer":
	default:
		return err
	}
	m, perr := transport.PeekMeta(sealed)
	if perr != nil {
		return err
	}
	var detail string
	switch reason {
	case "unknown_signer":
		at, known := d.roster.find(m.Device)
		if !known {
			return err
		}
		detail = "the public key of " + m.Device
		if at.File != "" {
			detail += fmt.Sprintf(" (%s:%d)", filepath.Base(at.File), at.Line)
		}
		return explained{err, detail}
	case "wrong_key", "wrong_epoch":
		detail = d.keyList()
	default:
		detail = strings.Join(d.described(m), "; ")
	}
	if detail == "" {
		detail = "compare the files of both with `hencedge check`"
	}
	return explained{err, detail}
}

// described returns the differences of the stream that a window belongs to, if its device
// has described it as it was when the window was made.
func (d *devices) described(m *transport.Meta) []string {
	list := d.roster.streams(m.Device)
	i := slices.IndexFunc(list, func(s config.PlacedStream) bool { return s.Stream.Name == m.Stream })
	if i < 0 {
		return nil
	}
	d.mu.Lock()
	said := d.said[m.Device]
	d.mu.Unlock()
	if said == nil {
		return nil
	}
	for _, st := range said.status.Streams {
		if theirs, ok := daemon.DescribedStream(st); ok && st.Name == m.Stream && theirs.LayoutHash() == m.Layout {
			return d.compare(list[i], theirs)
		}
	}
	return nil
}

// detailOf returns what a receipt says about a refusal beside its reason.
func detailOf(err error) string {
	var e explained
	if errors.As(err, &e) && transport.Reason(err) != "unknown_signer" {
		return transport.Detail(e.detail)
	}
	return transport.Detail(err.Error())
}

// note keeps how a window of a stream fared; err is nil for one that was taken.
func (d *devices) note(id streamID, err error, now time.Time) {
	switch Reason(err) {
	case "", "unknown_signer", "wrong_key", "wrong_epoch", "wrong_params", "wrong_layout", "input_mismatch", "level",
		"scale", "samples", "off_grid":
	default:
		return // of this window alone
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	st := d.streams[id]
	if st == nil {
		st = new(standing)
		d.streams[id] = st
	}
	if err == nil {
		*st = standing{taken: true}
		return
	}
	if st.n++; st.n == 1 {
		st.since = now
	}
	st.last, st.why = now, Reason(err)+": "+detailOf(err)
}

// refuseWindow counts and reports an object that is not taken, and returns err with what
// differs between the device and this configuration.
func (d *devices) refuseWindow(o transport.Staged, err error) error {
	err = d.explain(o.Topic, o.Whole(), err)
	d.refusedAt(o.Topic, err)
	d.refuse(o.Topic, err)
	return err
}

// refusedAt notes a refusal by the topic under which a window came.
func (d *devices) refusedAt(topic string, err error) {
	rest, ok := strings.CutPrefix(topic, d.cfg.Broker.TopicPrefix+"/up/")
	device, stream, _ := strings.Cut(rest, "/")
	if id := (streamID{device, stream}); ok && d.roster.reads(id) {
		d.note(id, err, d.now())
	}
}

// health returns the streams of which nothing is taken, and how the configurations of
// the devices that are online differ.
func (d *devices) health(now time.Time) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var refused, differ []string
	for _, id := range slices.SortedFunc(maps.Keys(d.streams), compareStreams) {
		st := d.streams[id]
		if !d.roster.reads(id) { // its device was removed
			delete(d.streams, id)
			continue
		}
		if st.n == 0 || now.Sub(st.last) > refusalLasts || st.taken && st.n < refusedInRow &&
			now.Sub(st.since) < refusedForAll {
			continue
		}
		refused = append(refused, fmt.Sprintf("nothing of stream %s/%s is taken, %d windows were refused: %s",
			id.device, id.stream,
			st.n, st.why))
	}
	for _, name := range slices.Sorted(maps.Keys(d.said)) {
		if _, known := d.roster.find(name); !known {
			delete(d.said, name)
			continue
		}
		if s := d.said[name]; s.status.Online {
			for _, text := range s.differs {
				differ = append(differ, "device "+name+": "+text)
			}
		}
	}
	return append(bounded(refused), bounded(differ)...)
}

// maxStates bounds the devices that the state of a service lists.
const maxStates = 100

// deviceStates returns the devices whose streams are read, and how many there are more.
func (d *devices) deviceStates() (states []DeviceState, more int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []DeviceState
	for _, name := range d.roster.readDevices() {
		st := DeviceState{Name: name}
		if now := d.said[name]; now != nil {
			st.Heard, st.Online, st.Version, st.Differs = true, now.status.Online, now.status.Version, now.differs
		}
		out = append(out, st)
	}
	if more = len(out) - maxStates; more <= 0 {
		return out, 0
	}
	slices.SortStableFunc(out, func(a, b DeviceState) int { return cmp.Compare(a.rank(), b.rank()) })
	return out[:maxStates], more
}

// rank orders devices by how much there is to say of them.
func (s *DeviceState) rank() int {
	switch {
	case len(s.Differs) > 0:
		return 0
	case !s.Heard:
		return 1
	case !s.Online:
		return 2
	}
	return 3
}

// DeviceState is what is known of a device whose streams are read.
type DeviceState struct {
	Name    string   `json:"name"`
	Heard   bool     `json:"heard"` // its birth message is there
	Online  bool     `json:"online"`
	Version string   `json:"version,omitempty"`
	Differs []string `json:"differs,omitempty"` // from this configuration
}

// tellSilent reports, once, the devices without a birth message. That is what a wrong
// topic prefix or broker looks like from here.
func (d *devices) tellSilent(now time.Time) {
	d.mu.Lock()
	var missing []string
	if !d.silent && !d.since.IsZero() && now.Sub(d.since) >= silentAfter {
		d.silent = true
		for _, name := range d.roster.readDevices() {
			if d.said[name] == nil {
				missing = append(missing, name)
			}
		}
	}
	d.mu.Unlock()
	if len(missing) > 0 {
		d.log.Warn("devices have never announced themselves here: they have not been started yet, or use another "+
			"broker or topic_prefix",
			"devices", strings.Join(missing[:min(len(missing), 16)], ", "), "count", len(missing), "topic_prefix",
			d.cfg.Broker.TopicPrefix)
	}
}

// mayTell reports whether a stranger who uses the name of a device gets an answer now. It
// allows one a second, because anybody who can publish there can ask for more.
func (d *devices) mayTell(device string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last, ok := d.told[device]; ok && now.Sub(last) < time.Second && now.Sub(last) >= 0 {
		return false
	}
	d.told[device] = now
	return true
}
