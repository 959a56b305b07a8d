package agent

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
)

// Report is the state of an agent for people and programs; times are absent
// until there is something to tell.
type Report struct {
	Device string    `json:"device"`
	Boot   uint64    `json:"boot_epoch"`
	Since  time.Time `json:"since"`
	Broker struct {
		URL       string     `json:"url"`
		Connected bool       `json:"connected"`
		LastAck   *time.Time `json:"last_ack,omitempty"` // of a window
		LastError string     `json:"last_error,omitempty"`
		FailedAt  *time.Time `json:"last_error_at,omitempty"`
	} `json:"broker"`
	Queue struct {
		Objects  int     `json:"objects"`
		Bytes    int64   `json:"bytes"`
		Durable  bool    `json:"durable"`        // on disk; those in memory are lost with the process
		Memory   int     `json:"memory_objects"` // of the objects, not on disk
		Oldest   float64 `json:"oldest_s"`       // age of the oldest
		Dropped  uint64  `json:"dropped"`        // lost to a full queue
		Expired  uint64  `json:"expired"`        // lost to age
		Damaged  uint64  `json:"damaged"`        // lost to damage on disk
		Repaired uint64  `json:"repaired"`
		// Waits is why nothing is delivered at the moment; empty when it is.
		Waits string `json:"waits,omitempty"`
	} `json:"queue"`
	Keys struct {
		Mode      string `json:"mode"`
		Params    string `json:"params"`
		ID        string `json:"id"`
		Epoch     uint32 `json:"epoch"`
		PublicKey string `json:"signing_public_key"`
	} `json:"keys"`
	Sent      uint64 `json:"sent"`
	SentBytes uint64 `json:"sent_bytes"`
	Retries   uint64 `json:"retries"`
	Refused   uint64 `json:"refused"`
	// Renumbered counts windows whose number somebody else had used: another board with
	// this device's identity, or this board before its state was replaced by an old copy.
	Renumbered uint64                       `json:"renumbered,omitempty"`
	Streams    map[string]StreamStats       `json:"streams"`
	Inputs     map[string]sensor.InputStats `json:"inputs,omitempty"`
	Troubles   []Trouble                    `json:"troubles,omitempty"` // channels without a value now
	Energy     sensor.Energy                `json:"energy"`
}

// Report describes the agent as it is now.
func (a *Agent) Report() Report {
	s, keys := a.Stats(), a.current()
	r := Report{Device: a.cfg.Device, Boot: s.Boot, Since: a.since.wall, Streams: s.Streams,
		Sent: s.Sent, SentBytes: s.SentBytes, Retries: s.Retries, Refused: s.Refused}
	r.Inputs, r.Troubles, r.Energy, r.Renumbered = s.Inputs, a.troubles(), a.Energy(), s.Delivery.Renumbered
	q := &r.Queue
	q.Objects, q.Bytes, q.Durable, q.Memory, q.Oldest = s.Spool.Objects, s.Spool.Bytes, a.spool.Durable(),
		s.Spool.MemoryObjects, s.Spool.Oldest.Seconds()
	q.Dropped, q.Expired, q.Damaged, q.Repaired = s.Spool.Dropped, s.Spool.Expired, s.Spool.Damaged, s.Spool.Repaired
	switch {
	case q.Objects == 0:
	case s.Delivery.Closed:
		q.Waits = "outside the hours of delivery"
	case s.Delivery.LastTrouble != "":
		q.Waits = s.Delivery.LastTrouble
	}
	r.Keys.Mode, r.Keys.ID, r.Keys.Epoch = string(a.cfg.Keys.Mode), hex.EncodeToString(keys.ID[:]), keys.Epoch
	if a.cfg.AllCompact() {
		r.Keys.Mode = string(config.ModeCompact)
	}
	r.Keys.Params = a.cfg.Streams[0].Params
	r.Keys.PublicKey = keys.Signing.PublicText()
	r.Broker.URL = a.cfg.Broker.URL
	a.link.mu.Lock()
	defer a.link.mu.Unlock()
	r.Broker.Connected = a.link.client != nil && a.link.client.Connected()
	if q.Objects > 0 && q.Waits == "" && !r.Broker.Connected {
		q.Waits = "no connection to the broker"
	}
	r.Broker.LastError = a.link.lastErr
	r.Broker.LastAck, r.Broker.FailedAt = a.link.lastAck.when(), a.link.lastFail.when()
	return r
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

func (s *stream) stats() StreamStats {
	c := &s.sealed
	return StreamStats{
		Stats:   s.Count.Stats(),
		Windows: c.windows.Load(), Partial: c.partial.Load(), Errors: c.errors.Load(),
		BodyBytes: c.bodyBytes.Load(), ObjectBytes: c.objectBytes.Load(), EncryptNanos: c.encryptNanos.Load(),
		GapNanos: c.gapNanos.Load(),
	}
}

// Energy returns what the board spent so far.
func (a *Agent) Energy() sensor.Energy { return a.meter.Report() }

// Connected reports whether there is a connection to the broker now.
func (a *Agent) Connected() bool {
	a.link.mu.Lock()
	defer a.link.mu.Unlock()
	return a.link.client != nil && a.link.client.Connected()
}

// Line returns the state in one line.
func (a *Agent) Line() string {
	r := a.Report()
	where := "connected"
	if !r.Broker.Connected {
		where = "not connected"
	}
	line := fmt.Sprintf("%s, %d windows wait, %d sent", where, r.Queue.Objects, r.Sent)
	if r.Broker.LastAck != nil {
		line += ", last acknowledged " + r.Broker.LastAck.UTC().Format(time.RFC3339)
	}
	return line
}
