package evaluator

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/evaluator/store"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/transport"
)

// State returns the state of the service. Counts and keys are each read at a moment of
// their own.
func (s *Service) State() State {
	st := s.Stats()
	out := State{Name: s.cfg.Name, Boot: s.state.Boot(), URL: s.cfg.Broker.URL, Connected: s.Connected(),
		Accepted: st.Accepted, Twins: st.Twins, Results: st.Results, Failed: st.Failed, Refused: st.Refused,
		Programs: map[string]Counted{}, PublicKey: s.signer.PublicText()}
	out.Devices, out.MoreDevices = s.devices.deviceStates()
	for i := range s.plan.Programs {
		p := st.Programs[s.plan.Programs[i].Name]
		out.Programs[s.plan.Programs[i].Name] = Counted{Results: p.Results, Failed: p.Failed, Compute: p.Evaluate}
	}
	s.custody.describe(&out)
	for ref, k := range s.keys {
		out.Keys = append(out.Keys, KeyState{hex.EncodeToString(ref.ID[:]), ref.Epoch, k.params.Name()})
	}
	slices.SortFunc(out.Keys, func(a, b KeyState) int { return int(int64(a.Epoch) - int64(b.Epoch)) })
	return out
}

// State is a service as it is now, for people and programs.
type State struct {
	Name      string             `json:"name"`
	Boot      uint64             `json:"boot_epoch"`
	URL       string             `json:"broker"`
	Connected bool               `json:"connected"`
	Accepted  uint64             `json:"windows_accepted"`
	Twins     uint64             `json:"windows_twin,omitempty"` // of a second board with the same identity
	Results   uint64             `json:"results"`
	Failed    uint64             `json:"results_failed"`
	Refused   map[string]uint64  `json:"refused"` // by reason
	Programs  map[string]Counted `json:"programs"`
	Keys      []KeyState         `json:"keys"`
	// Devices are those whose streams are read. Of many these are the ones that differ, then
	// those never heard of and those off line. MoreDevices counts the others.
	Devices     []DeviceState `json:"devices"`
	MoreDevices int           `json:"more_devices,omitempty"`
	PublicKey   string        `json:"signing_public_key"`
	Missing     []store.Gap   `json:"windows_missing,omitempty"`
}

// Counted are the results of one program.
type Counted struct {
	Results uint64         `json:"results"`
	Failed  uint64         `json:"failed"`
	Compute time.Duration  `json:"compute_ns"`        // on ciphertexts, in all
	Waiting *store.Waiting `json:"waiting,omitempty"` // with a store
}

// KeyState is a key epoch in use.
type KeyState struct {
	ID     string `json:"id"`
	Epoch  uint32 `json:"epoch"`
	Params string `json:"params"`
}

// Stats counts what was done so far.
func (s *Service) Stats() Stats { return s.tally.snapshot(s.receiver.Counters()) }

// Health returns what is wrong now.
func (s *Service) Health() []string {
	var out []string
	if c, _ := s.link.get(); c != nil && !c.Connected() {
		out = append(out, "no connection to the broker")
	}
	if reason := daemon.CertificateHealth(s.cfg.Broker, s.now()); reason != "" {
		out = append(out, reason)
	}
	var twice []string
	for _, name := range s.devices.duplicates.devices() {
		if _, known := s.roster.find(name); !known {
			continue // it was removed
		}
		twice = append(twice, fmt.Sprintf("device %s: a second board sends with its name and signing key, or it lost "+
			"its state while its clock was wrong; give each board its own", name))
	}
	out = append(out, bounded(twice)...)
	out = append(out, s.roster.health()...)
	out = append(out, s.devices.health(s.now())...)
	out = append(out, s.unmade.health(s.now())...)
	return append(out, s.custody.health(s.now())...)
}

// stallTime is how long one evaluation may take, with its turn at a device.
const stallTime = 30 * time.Minute

// Stalled returns which program does not come to an end, because a device hangs.
func (s *Service) Stalled() string {
	return s.working.Stalled(stallTime, "program %s has been computing for %v")
}

// Line returns the state in one line.
func (s *Service) Line() string {
	st := s.Stats()
	where := "connected"
	if !s.Connected() {
		where = "not connected"
	}
	var refused uint64
	for _, n := range st.Refused {
		refused += n
	}
	return fmt.Sprintf("%s, %d windows accepted, %d results, %d refused", where, st.Accepted, st.Results, refused)
}

// Published describes the program to key holders, who approve it.
func (p *Planned) Published() program.Published {
	return program.Publish(p.source, p.params, p.Unit, p.Topic)
}

// announce publishes what every program computes, retained, so that key holders can
// approve it. They have to approve a program that is too long for one message from the
// evaluator's configuration.
func (s *Service) announce(ctx context.Context, client transport.Client) {
	for i := range s.plan.Programs {
		if ctx.Err() != nil {
			return
		}
		m, err := s.announcement(&s.plan.Programs[i])
		if err == nil {
			err = client.Publish(ctx, m.Topic, m.Payload, m.Retain)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("a program was not published; key holders approve it with --evaluator and this configuration",
				"program",
				s.plan.Programs[i].Name, "error", err)
		}
	}
}

// announcement returns the message that describes a program.
func (s *Service) announcement(p *Planned) (transport.Message, error) {
	published := p.Published()
	body, err := program.MarshalPublished(&published)
	if err != nil {
		return transport.Message{}, err
	}
	now := s.now().UnixNano()
	m := transport.Meta{Kind: transport.KindProgram, Device: s.cfg.Name, Program: p.Name, Layout: p.Circuit.Hash(),
		Start: now, End: now}
	m.BootEpoch, m.Sequence = s.state.Sequence("program")
	sealed, err := transport.Seal(m, body, s.signer)
	if err != nil {
		return transport.Message{}, fmt.Errorf("program %s: %w", p.Name, err)
	}
	payload, err := transport.Whole(sealed, int(s.cfg.Broker.ChunkSize))
	return transport.Message{Topic: m.Topic(s.cfg.Broker.TopicPrefix), Payload: payload, Retain: true}, err
}
