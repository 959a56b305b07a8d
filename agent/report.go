package agent

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/mqtt"
)

// link is what is known of the way to the broker.
type link struct {
	mu       sync.Mutex
	client   transport.Client
	up       bool
	ever     bool   // there was a connection
	changed  moment // of up
	back     moment // of the connection after the last long absence
	lastAck  moment
	lastErr  string
	lost     uint64 // windows, when Health was asked last
	lostAt   moment // when Health noticed the last of them
	lastFail moment
	short    moment // the last of several connections in a row that soon ended
}

// moment is when something happened: for people, and to measure how long ago that is,
// also when the clock is set meanwhile.
type moment struct {
	wall time.Time
	mono time.Duration
}

func (a *Agent) now() moment { return moment{a.clock.Now(), a.clock.Mono()} }

func (m moment) sub(o moment) time.Duration { return m.mono - o.mono }

// when returns the wall time, nil for never.
func (m moment) when() *time.Time {
	if m.wall.IsZero() {
		return nil
	}
	return &m.wall
}

func (l *link) use(c transport.Client, now moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.client, l.changed, l.up = c, now, c.Connected()
	l.ever = l.ever || l.up
}

func (l *link) set(up bool, now moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if up && !l.up && now.sub(l.changed) > offlineTooLong {
		l.back = now
	}
	l.up, l.changed, l.ever = up, now, l.ever || up
}

func (l *link) acknowledged(now moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastAck = now
}

func (l *link) failed(err error, now moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastErr, l.lastFail = err.Error(), now
}

// shortMatters is how long connections that soon end count against the agent's health.
const shortMatters = 2 * time.Minute

// ended notes the end of a connection; short says that it was one of several that ended
// soon after they were made.
func (l *link) ended(short bool, now moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if short {
		l.short = now
	} else {
		l.short = moment{}
	}
}

// unsteady says that connections end soon after they are made.
func (l *link) unsteady(now moment) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.short.wall.IsZero() || now.sub(l.short) > shortMatters {
		return ""
	}
	return mqtt.ErrShort.Error()
}

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
	r.Keys.Params = keys.Context.Parameters().Name()
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

// openMeter finds what counts the board's energy.
func (a *Agent) openMeter(m sensor.Machine) {
	if a.cfg.Energy == config.EnergyOff {
		a.meter = sensor.NoMeter("off")
		return
	}
	work := func() (w sensor.Work) {
		for _, s := range a.streams {
			w.Readings += s.Count.Samples()
			w.Windows += s.sealed.windows.Load()
		}
		return w
	}
	a.meter = sensor.OpenMeter(m, work, func() bool { return a.current().Context.Ring().Backend().Name() == "cuda" })
	if e := a.meter.Report(); e.Sensor != "" {
		a.log.Info("measuring energy", "sensor", e.Sensor, "scope", string(e.Scope))
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

// offlineTooLong is how long the broker may be away before the agent calls
// itself unhealthy. Windows wait meanwhile.
const offlineTooLong = 5 * time.Minute

// lossMatters is how long a loss of windows counts against the agent's health once
// it was noticed.
const lossMatters = 10 * time.Minute

// losses says which windows were lost lately, or "".
func (l *link) losses(s Stats, now moment) (reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := s.Spool.Dropped + s.Spool.Expired + s.Spool.Damaged + s.Refused; n > l.lost {
		l.lost, l.lostAt = n, now
	}
	if l.lost == 0 || now.sub(l.lostAt) >= lossMatters {
		return ""
	}
	return fmt.Sprintf("%d windows were lost: %d to a full queue, %d to age, %d to damage on disk, %d that can "+
		"never be sent",
		l.lost, s.Spool.Dropped, s.Spool.Expired, s.Spool.Damaged, s.Refused)
}

// never returns the health of an agent that has not reached the broker since its start.
func never(lastErr string) string {
	if lastErr == "" {
		return "the broker has not been reached since the start"
	}
	return "the broker has not been reached since the start: " + lastErr
}

// Health says what is wrong now: no connection yet, or for too long, windows lost lately,
// a spool that cannot be written, a certificate that ends, channels without a value
// for too long.
func (a *Agent) Health() []string {
	var out []string
	a.link.mu.Lock()
	switch c := a.link.client; {
	case c == nil:
	case !a.link.ever:
		out = append(out, never(a.link.lastErr))
	case !c.Connected():
		if since := a.now().sub(a.link.changed); since > offlineTooLong {
			out = append(out, fmt.Sprintf("no connection to the broker for %v", since.Round(time.Second)))
		}
	}
	a.link.mu.Unlock()
	if reason := a.link.losses(a.Stats(), a.now()); reason != "" {
		out = append(out, reason)
	}
	if err := a.spool.Health(); err != nil {
		out = append(out, err.Error())
	}
	if reason := daemon.CertificateHealth(a.cfg.Broker, a.clock.Now()); reason != "" {
		out = append(out, reason)
	}
	if err := a.state.Health(); err != nil {
		out = append(out, "cannot be written: "+err.Error())
	}
	for _, reason := range []string{a.duplicates.health(), a.link.unsteady(a.now())} {
		if reason != "" {
			out = append(out, reason)
		}
	}
	out = append(out, a.refusedStreams()...)
	if reason := a.link.unacknowledged(a.Stats(), a.since, a.now()); reason != "" {
		out = append(out, reason)
	}
	if n := a.Stats().Delivery.Renumbered; n > 0 {
		out = append(out, fmt.Sprintf("%d windows had sequence numbers that were already used: another board has "+
			"this device's identity (give it its own), or the state is an old copy (then restart the agent)", n))
	}
	if reason := a.Stats().Delivery.Unreadable; reason != "" {
		out = append(out, "the evaluator's receipts cannot be read: "+reason+"; it runs another version of this "+
			"program: install the same version on both. Windows wait until then")
	}
	if reason := oldSpool(a.Stats().Delivery.Before, len(a.cfg.Streams)); reason != "" {
		out = append(out, reason)
	}
	return append(out, a.silent()...)
}

// oldSpool says that the spool is an old copy: more of its windows had been delivered than
// the process before can have had under way when it ended.
func oldSpool(before uint64, streams int) string {
	if before <= uint64(3*streams) {
		return ""
	}
	return fmt.Sprintf("%d windows in the spool had already been delivered before this start: the spool is an old "+
		"copy, such as a restored backup, or its files could not be deleted. The evaluator counts each window once. A "+
		"replay reads again what it had read after the copy was made (restart the agent once all is delivered)", before)
}

// refusedStreams says why the evaluator refuses all windows of a stream.
func (a *Agent) refusedStreams() (out []string) {
	refusing := a.Stats().Delivery.Refusing
	for _, stream := range slices.Sorted(maps.Keys(refusing)) {
		out = append(out, fmt.Sprintf("the evaluator refuses every window of stream %s: %s", stream, refusing[stream]))
	}
	return out
}

// unacknowledgedTooLong is how long windows may wait although there is a connection
// before the agent calls itself unhealthy.
const unacknowledgedTooLong = 15 * time.Minute

// unacknowledged says that windows are not acknowledged although there is a connection:
// nobody answers for them, or they are refused. After a long absence the backlog gets the
// same time again.
func (l *link) unacknowledged(s Stats, start, now moment) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Spool.Objects == 0 || s.Delivery.Closed || s.Delivery.LastTrouble == "" || l.client == nil ||
		!l.client.Connected() {
		return ""
	}
	for _, t := range []moment{l.back, l.lastAck} {
		if !t.wall.IsZero() && t.mono > start.mono {
			start = t
		}
	}
	age := now.sub(start)
	if age <= unacknowledgedTooLong {
		return ""
	}
	return fmt.Sprintf("no window was acknowledged for %v, and %d wait: %s", age.Round(time.Second), s.Spool.Objects,
		s.Delivery.LastTrouble)
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
