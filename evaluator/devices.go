package evaluator

import (
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

// devices is what the devices say of themselves in their birth messages, and how this
// evaluator takes what they send. A device whose description differs from the
// configuration here is refused with two hashes; from the birth message both sides
// learn which field it is.
type devices struct {
	verifier *transport.Verifier
	since    time.Time // of the first connection, zero before it

	mu      sync.Mutex
	said    map[string]*said // by device
	streams map[streamID]*standing
	told    map[string]time.Time // when a stranger was answered last, by device
	silent  bool                 // silent devices were reported
}

// said is the newest birth message of a device.
type said struct {
	boot, sequence uint64
	status         *transport.Status
	differs        []string // from this configuration
}

// standing is how the windows of a stream fare.
type standing struct {
	taken bool      // one was, at any time
	n     int       // refusals since
	since time.Time // of the first of them
	last  time.Time
	why   string
}

// Refusals of single windows say nothing about their stream. So many in a row do, or
// one that nothing follows for a minute, or the first one where nothing was taken yet.
// After a while without any the stream is merely silent.
const (
	refusedInRow  = 3
	refusedForAll = time.Minute
	refusalLasts  = time.Hour
	silentAfter   = time.Minute
	maxStatus     = 128 << 10
)

// makeDevices prepares what listens to birth messages.
func (s *Service) makeDevices() error {
	trust, err := s.trust()
	if err != nil {
		return err
	}
	v, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust, Kinds: []transport.Kind{transport.KindStatus},
		NoReplay: true, MaxObject: maxStatus, TopicPrefix: s.cfg.Broker.TopicPrefix})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	s.devices = &devices{verifier: v, said: map[string]*said{}, streams: map[streamID]*standing{},
		told: map[string]time.Time{}}
	return nil
}

// deviceNames are the devices whose streams are read, in order.
func (s *Service) deviceNames() []string {
	seen := map[string]bool{}
	for id := range s.sources {
		seen[id.device] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// subscribeStatus asks for the birth messages of the devices. A broker that does not
// grant them costs only the better messages.
func (s *Service) subscribeStatus(ctx context.Context, client transport.Client) {
	s.devices.mu.Lock()
	s.devices.since = s.now()
	s.devices.mu.Unlock()
	for _, name := range s.deviceNames() {
		topic := transport.StatusTopic(s.cfg.Broker.TopicPrefix, name)
		if err := client.Subscribe(ctx, topic, s.heard); err != nil {
			if ctx.Err() == nil {
				s.log.Warn("birth messages of devices cannot be read; what differs between their files and this one is not named",
					"error", err)
			}
			return
		}
	}
}

// heard takes a birth message or last will.
func (s *Service) heard(d transport.Delivery) {
	if d.Ack != nil {
		defer d.Ack()
	}
	sealed, err := transport.ReadWhole(d.Payload, maxStatus)
	var obj *transport.Object
	if err == nil {
		obj, err = s.devices.verifier.OpenFrom(d.Topic, sealed)
	}
	var st *transport.Status
	if err == nil {
		st, err = transport.UnmarshalStatus(obj.Body)
	}
	if err != nil {
		s.refuse(d.Topic, s.explain(d.Topic, sealed, err))
		return
	}
	m, now := &obj.Meta, &said{obj.Meta.BootEpoch, obj.Meta.Sequence, st, nil}
	now.differs = s.differences(m.Device, st)
	if st.Online {
		if _, news := s.duplicates.birth(obj.Signer, m); news {
			s.toldTwice(m)
		}
	}
	s.devices.mu.Lock()
	before := s.devices.said[m.Device]
	if before != nil && (m.BootEpoch < before.boot || m.BootEpoch == before.boot && m.Sequence < before.sequence) {
		s.devices.mu.Unlock()
		return // an earlier one, which somebody kept
	}
	s.devices.said[m.Device] = now
	s.devices.mu.Unlock()
	if before != nil && slices.Equal(before.differs, now.differs) {
		return
	}
	for _, text := range now.differs {
		s.log.Warn("a device's configuration differs from this one", "device", m.Device, "difference", text)
	}
}

// differences are what in a device's birth message does not fit this configuration.
func (s *Service) differences(device string, st *transport.Status) []string {
	var out []string
	for i := range s.cfg.Streams {
		own := &s.cfg.Streams[i]
		if own.Device != device || s.sources[streamID{device, own.Name}] == nil {
			continue
		}
		at := slices.IndexFunc(st.Streams, func(x transport.StreamStatus) bool { return x.Name == own.Name })
		if at < 0 {
			out = append(out, fmt.Sprintf("stream %s is read by programs%s, and the device publishes %s", own.Name,
				s.where(fmt.Sprintf("streams[%d].name", i)), streamList(st.Streams)))
			continue
		}
		if theirs, ok := daemon.DescribedStream(st.Streams[at]); ok {
			out = append(out, s.compare(i, theirs)...)
		}
	}
	ref := transport.KeyRef{ID: st.KeyID, Epoch: st.KeyEpoch}
	if _, known := s.keys[ref]; ref.ID != [16]byte{} && !known {
		out = append(out, fmt.Sprintf("the device encrypts under epoch %d of key set %x; %s", ref.Epoch, ref.ID[:4],
			s.keyList()))
	}
	return out
}

// compare says in which fields a device's stream differs from streams[i].
func (s *Service) compare(i int, theirs config.Stream) []string {
	var out []string
	own := s.cfg.Streams[i].Stream
	for _, d := range own.Compare(theirs) {
		out = append(out, fmt.Sprintf("stream %s, %s: the device has %s, the evaluator %s%s", own.Name, d.Path, d.Other,
			d.Ours, s.where(fmt.Sprintf("streams[%d].%s", i, d.Path))))
	}
	return out
}

// where is the place of a field in the configuration's file, in brackets; empty for a
// configuration that was built in code.
func (s *Service) where(path string) string {
	if p := s.cfg.Problem(path, "", ""); p.File != "" {
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

// keyList says which keys there are.
func (s *Service) keyList() string {
	var names []string
	for ref, k := range s.keys {
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
func (s *Service) explain(topic string, sealed []byte, err error) error {
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
		i := slices.IndexFunc(s.cfg.Devices, func(d config.Device) bool { return d.Name == m.Device })
		if i < 0 {
			return err
		}
		return explained{err, fmt.Sprintf("devices[%d].public_key%s", i, s.where(fmt.Sprintf("devices[%d].public_key", i)))}
	case "wrong_key", "wrong_epoch":
		detail = s.keyList()
	default:
		detail = strings.Join(s.described(m), "; ")
	}
	if detail == "" {
		detail = "compare the files of both with `hencedge check`"
	}
	return explained{err, detail}
}

// described are the differences of the stream that a window belongs to, if its device
// has described it as it was when the window was made.
func (s *Service) described(m *transport.Meta) []string {
	i := slices.IndexFunc(s.cfg.Streams, func(d config.DeviceStream) bool {
		return d.Device == m.Device && d.Name == m.Stream
	})
	if i < 0 {
		return nil
	}
	s.devices.mu.Lock()
	said := s.devices.said[m.Device]
	s.devices.mu.Unlock()
	if said == nil {
		return nil
	}
	for _, st := range said.status.Streams {
		if theirs, ok := daemon.DescribedStream(st); ok && st.Name == m.Stream && theirs.LayoutHash() == m.Layout {
			return s.compare(i, theirs)
		}
	}
	return nil
}

// detailOf is what a receipt says about a refusal beside its reason.
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

// refusedAt notes a refusal by the topic under which a window came.
func (s *Service) refusedAt(topic string, err error) {
	rest, ok := strings.CutPrefix(topic, s.cfg.Broker.TopicPrefix+"/up/")
	device, stream, _ := strings.Cut(rest, "/")
	if id := (streamID{device, stream}); ok && s.sources[id] != nil {
		s.devices.note(id, err, s.now())
	}
}

// health says of which streams nothing is taken, and in what the devices that are
// there differ.
func (d *devices) health(now time.Time) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, id := range slices.SortedFunc(maps.Keys(d.streams), compareStreams) {
		st := d.streams[id]
		if st.n == 0 || now.Sub(st.last) > refusalLasts || st.taken && st.n < refusedInRow &&
			now.Sub(st.since) < refusedForAll {
			continue
		}
		out = append(out, fmt.Sprintf("nothing of stream %s/%s is taken, %d windows were refused: %s", id.device, id.stream,
			st.n, st.why))
	}
	for _, name := range slices.Sorted(maps.Keys(d.said)) {
		if s := d.said[name]; s.status.Online {
			for _, text := range s.differs {
				out = append(out, "device "+name+": "+text)
			}
		}
	}
	return out
}

// DeviceState is what is known of a device whose streams are read.
type DeviceState struct {
	Name    string   `json:"name"`
	Heard   bool     `json:"heard"` // its birth message is there
	Online  bool     `json:"online"`
	Version string   `json:"version,omitempty"`
	Differs []string `json:"differs,omitempty"` // from this configuration
}

func (s *Service) deviceStates() []DeviceState {
	s.devices.mu.Lock()
	defer s.devices.mu.Unlock()
	var out []DeviceState
	for _, name := range s.deviceNames() {
		d := DeviceState{Name: name}
		if now := s.devices.said[name]; now != nil {
			d.Heard, d.Online, d.Version, d.Differs = true, now.status.Online, now.status.Version, now.differs
		}
		out = append(out, d)
	}
	return out
}

// tellSilent reports, once, the devices without a birth message: what a wrong topic
// prefix or broker looks like from here.
func (s *Service) tellSilent(now time.Time) {
	d := s.devices
	d.mu.Lock()
	var missing []string
	if !d.silent && !d.since.IsZero() && now.Sub(d.since) >= silentAfter {
		d.silent = true
		for _, name := range s.deviceNames() {
			if d.said[name] == nil {
				missing = append(missing, name)
			}
		}
	}
	d.mu.Unlock()
	if len(missing) > 0 {
		s.log.Warn("devices have never announced themselves here: they have not been started yet, or use another broker or "+
			"topic_prefix",
			"devices", strings.Join(missing[:min(len(missing), 16)], ", "), "count", len(missing), "topic_prefix",
			s.cfg.Broker.TopicPrefix)
	}
}

// mayTell reports whether a stranger in the name of a device gets an answer now: one a
// second, since anybody who can publish there can ask for them.
func (d *devices) mayTell(device string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last, ok := d.told[device]; ok && now.Sub(last) < time.Second && now.Sub(last) >= 0 {
		return false
	}
	d.told[device] = now
	return true
}
