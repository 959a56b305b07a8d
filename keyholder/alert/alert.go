package alert

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/internal/role"
)

// Alarms follows the rules of a configuration. Its methods are safe for concurrent use.
type Alarms struct {
	o     Options
	rules []*rule
	lanes []*lane
	lock  *os.File

	turn sync.Mutex // held while series and alarms are changed; before mu
	mu   sync.Mutex
	*state
	journal  *durable.Log
	silences silences
	changed  chan struct{} // closed when the queue has changed
	most     int           // events in the queue
	counts   counts
}

// Options of Open. Config, Holder and State are required.
type Options struct {
	Config *config.Alerts // checked
	Holder string         // name of the key holder, for events
	State  string         // the key holder's state file; the alarms' files lie beside it
	Logger *slog.Logger   // nil: the default
	// Now is the wall clock; nil: the machine's.
	Now func() time.Time
	// RetryMin and RetryMax bound the waits after failures to deliver; 0: 1 s and 5 min.
	RetryMin, RetryMax time.Duration
}

// Bounds of what is remembered.
const (
	maxSeries = 1 << 16 // an evaluator names the devices
	maxQueue  = 1 << 14 // events that wait for a receiver
)

// every is the time between looks at the clock: for rules about age and for silences that
// end.
const every = time.Second

// diskRetry is the wait between attempts to write the state.
const diskRetry = time.Second

// Open reads the state that an earlier process left. Receivers are told once Run is called.
// It fails with durable.ErrLocked if another process has the state.
func Open(o Options) (*Alarms, error) {
	senders, err := newSenders(o.Config, o.Logger)
	if err != nil {
		return nil, err
	}
	return open(o, senders)
}

// open is Open with the receivers of a test.
func open(o Options, senders map[string]sender) (a *Alarms, err error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	a = &Alarms{o: o, changed: make(chan struct{}), counts: newCounts(), most: maxQueue,
		silences: silences{fixed: o.Config.Silences, path: o.State + SilenceSuffix}}
	if a.rules, err = compile(o.Config); err != nil {
		return nil, err
	}
	path := o.State + StateSuffix
	if a.lock, err = durable.LockFile(path + lockSuffix); err != nil {
		return nil, fmt.Errorf("state of the alarms: %w", err)
	}
	if a.state, a.journal, err = openState(path); err != nil {
		return nil, errors.Join(err, a.lock.Close())
	}
	for i := range o.Config.Receivers {
		name := o.Config.Receivers[i].Name
		a.lanes = append(a.lanes, newLane(a, name, senders[name]))
	}
	if err := a.settle(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Close gives the state to the next process. Call it when Run has returned.
func (a *Alarms) Close() error {
	for _, l := range a.lanes {
		l.to.close()
	}
	return errors.Join(a.journal.Close(), a.lock.Close())
}

// Observe takes the next result. It returns when its effect is on disk: waiting, while the
// disk takes nothing, until ctx ends. A result that is taken again, as after a crash, changes
// nothing.
func (a *Alarms) Observe(ctx context.Context, res *Result) error {
	a.turn.Lock()
	defer a.turn.Unlock()
	now := a.o.Now()
	c := a.begin(now)
	for _, r := range a.rules {
		if r.follows(res.Program, res.Device) {
			a.observe(c, r, res, now)
		}
	}
	return a.commit(ctx, c)
}

// observe takes a result for one rule.
func (a *Alarms) observe(c *change, r *rule, res *Result, now time.Time) {
	key := subject{r.Name, res.Device}
	s := series{Rule: r.Name, Device: res.Device}
	if known := a.state.series[key]; known != nil {
		s = *known
	} else if len(a.state.series) >= maxSeries {
		if a.counts.once("series") {
			a.o.Logger.Error("too many devices for the alarms; others are not followed", "most", maxSeries)
		}
		return
	}
	late, unclear := s.Late, s.Unclear
	e := entry{}
	if r.when.Age > 0 {
		if r.age(&s, res, now) {
			a.turned(c, &e, r, &s, Event{Start: instant(s.Start), End: instant(s.End)}, now)
		}
	} else if d := r.step(&s, res); d.changed {
		a.turned(c, &e, r, &s, Event{Evaluator: res.Evaluator, Value: finite(d.value), Unit: unit(res.Unit),
			Bound: bound(res.Bound), Windows: d.windows, Start: instant(d.first),
			End: instant(res.End.UnixNano())}, now)
	}
	a.counts.window(r.Name, s.Unclear > unclear, s.Late > late)
	e.Series = []series{s}
	c.entries = append(c.entries, e)
}

// change is what one call changes.
type change struct {
	entries []entry
	next    uint64 // N of the next event
	drop    int    // events at the head of the queue that give way
	told    []Event
}

// begin starts a change; turn is held.
func (a *Alarms) begin(now time.Time) *change {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.silences.refresh(); err != nil && a.counts.once(err.Error()) {
		a.o.Logger.Error("cannot read the silences; the earlier ones stay", "error", err)
	}
	return &change{next: a.next}
}

// turned adds to e what follows from a series that began or ceased to fire. what holds the
// window that caused it.
func (a *Alarms) turned(c *change, e *entry, r *rule, s *series, what Event, now time.Time) {
	key := subject{r.Name, r.subject(s.Device)}
	al := alarm{subject: key, Class: r.class()}
	if known := a.alarms[key]; known != nil {
		al = *known
	}
	firing := s.Firing
	if r.class() {
		what.Devices = a.firing(r, s)
		firing = len(what.Devices) > 0
		what.Devices = what.Devices[:min(len(what.Devices), mostDevices)]
	}
	if firing == al.Firing {
		return // another device of the class
	}
	al.Firing = firing
	what.Alert, what.Severity, what.Holder, what.Program = r.Name, r.Severity, a.o.Holder, r.Program
	what.Device, what.Rule, what.At = key.Device, strings.Join(strings.Fields(r.When), " "), now.UTC()
	if firing {
		what.State, what.Raised = StateFiring, what.At
		what.identify(s.Device, what.Start.UnixNano(), s.End)
		al.Last, al.Told = &what, false
		if a.silences.until(key.Rule, key.Device, now).IsZero() {
			a.tell(c, e, &al, r.receivers)
		}
	} else {
		if al.Told && al.Last != nil {
			what.Devices = nil
			al.resolve(&what)
			a.enqueue(c, e, &al, what, r.receivers)
		}
		al.Last, al.Told = nil, false
	}
	e.Alarms = append(e.Alarms, al)
}

// resolve makes e the end of the alarm.
func (al *alarm) resolve(e *Event) {
	e.State, e.Incident, e.Raised = StateResolved, al.Last.Incident, al.Last.Raised
	e.ID = digest(e.Incident, e.State)
	if e.At.Before(e.Raised) { // the clock was set back
		e.At = e.Raised
	}
}

// firing returns the devices of a class whose series fire, with s as it is now, sorted.
func (a *Alarms) firing(r *rule, s *series) []string {
	var out []string
	for key, other := range a.state.series {
		if key.Rule == r.Name && key.Device != s.Device && other.Firing {
			out = append(out, key.Device)
		}
	}
	if s.Firing {
		out = append(out, s.Device)
	}
	slices.Sort(out)
	return out
}

// tell queues the event that raised an alarm.
func (a *Alarms) tell(c *change, e *entry, al *alarm, to []string) {
	al.Told = true
	a.enqueue(c, e, al, *al.Last, to)
}

// enqueue adds one event to the queue. If that is full, its oldest event gives way.
func (a *Alarms) enqueue(c *change, e *entry, al *alarm, event Event, to []string) {
	al.Number++
	event.Number = al.Number
	e.Queued = append(e.Queued, queued{N: c.next, Event: event, To: to})
	c.next++
	c.told = append(c.told, event)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.state.queue)-c.drop+len(c.told) > a.most && c.drop < len(a.state.queue) {
		old := a.state.queue[c.drop]
		for _, name := range old.To {
			e.Taken = append(e.Taken, taken{old.N, name})
		}
		c.drop++
	}
}

// commit writes a change and takes it over; turn is held. While the disk takes nothing it
// waits, until ctx ends.
func (a *Alarms) commit(ctx context.Context, c *change) error {
	var b []byte
	for i := range c.entries {
		var err error
		if b, err = appendEntry(b, &c.entries[i]); err != nil {
			return fmt.Errorf("state of the alarms: %w", err)
		}
	}
	if len(b) == 0 {
		return nil
	}
	for told := false; ; told = true {
		err := a.write(b, c.entries)
		if err == nil {
			break
		}
		if !durable.Unwritable(err) {
			return fmt.Errorf("state of the alarms: %w", err)
		}
		if !told {
			a.o.Logger.Error("the state of the alarms cannot be written; results wait", "error", err)
		}
		if role.Sleep(ctx, diskRetry) != nil {
			return fmt.Errorf("state of the alarms: %w", err)
		}
	}
	for i := range c.told {
		a.counts.event(&c.told[i])
	}
	if c.drop > 0 {
		a.counts.lost(c.drop)
		a.o.Logger.Error("too many events wait for the receivers of alarms; the oldest are dropped", "dropped", c.drop,
			"most", a.most)
	}
	return nil
}

// write appends records to the journal and applies their entries.
func (a *Alarms) write(b []byte, entries []entry) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.journal.Append(b); err != nil {
		return err
	}
	woken := false
	for i := range entries {
		a.apply(&entries[i])
		woken = woken || len(entries[i].Queued) > 0
	}
	if woken {
		close(a.changed)
		a.changed = make(chan struct{})
	}
	if a.journal.Size()-a.journal.Least() > max(compactFrom, a.journal.Least()) {
		_ = a.journal.Compact() // on a full disk the log grows for a while
	}
	return nil
}

// look does what the time alone brings: rules about age, and silences that end.
func (a *Alarms) look(ctx context.Context) error {
	a.turn.Lock()
	defer a.turn.Unlock()
	now := a.o.Now()
	for _, r := range a.rules {
		for _, key := range slices.Collect(maps.Keys(a.state.series)) {
			s, e := *a.state.series[key], entry{}
			if key.Rule != r.Name || r.when.Age == 0 || !r.age(&s, nil, now) {
				continue
			}
			c := a.begin(now)
			a.turned(c, &e, r, &s, Event{Start: instant(s.Start), End: instant(s.End)}, now)
			e.Series = []series{s}
			c.entries = append(c.entries, e)
			if err := a.commit(ctx, c); err != nil { // each by itself: those of a class have one alarm
				return err
			}
		}
	}
	c := a.begin(now)
	for _, r := range a.rules {
		for key, known := range a.alarms {
			if key.Rule != r.Name || !known.Firing || known.Told || known.Last == nil ||
				!a.silences.until(key.Rule, key.Device, now).IsZero() {
				continue
			}
			al, e := *known, entry{}
			a.tell(c, &e, &al, r.receivers)
			e.Alarms = []alarm{al}
			c.entries = append(c.entries, e)
		}
	}
	return a.commit(ctx, c)
}

// settle adapts the state to the configuration: devices that rules name, and rules, devices
// and receivers that are gone.
func (a *Alarms) settle() error {
	now := a.o.Now()
	c := &change{next: a.next}
	byName, anew := map[string]*rule{}, map[string]bool{}
	for _, r := range a.rules {
		byName[r.Name] = r
	}
	var all []string
	for i := range a.o.Config.Receivers {
		all = append(all, a.o.Config.Receivers[i].Name)
	}
	for key, al := range a.alarms {
		r := byName[key.Rule]
		if r != nil && al.Class == r.class() && (al.Class || r.follows(r.Program, key.Device)) {
			continue
		}
		e := entry{Gone: []subject{key}}
		if al.Told && al.Last != nil {
			end := *al.Last
			end.At, end.Value, end.Bound, end.Windows, end.Devices = now.UTC(), nil, 0, 0, nil
			end.Reason = "the configuration has no such alarm any more"
			al.resolve(&end)
			a.enqueue(c, &e, al, end, all)
		}
		anew[key.Rule] = anew[key.Rule] || r != nil && al.Class != r.class()
		c.entries = append(c.entries, e)
	}
	for key := range a.state.series {
		if r := byName[key.Rule]; r == nil || anew[key.Rule] || !r.follows(r.Program, key.Device) {
			c.entries = append(c.entries, entry{Gone: []subject{key}})
		}
	}
	for _, r := range a.rules {
		for _, device := range r.Devices {
			if key := (subject{r.Name, device}); r.when.Age > 0 && (a.state.series[key] == nil || anew[r.Name]) {
				first := series{Rule: r.Name, Device: device, End: now.UnixNano()}
				c.entries = append(c.entries, entry{Series: []series{first}})
			}
		}
	}
	a.strangers(c, all)
	once, stop := context.WithCancel(context.Background())
	stop() // at the start a disk that takes nothing is an error
	return a.commit(once, c)
}

// strangers takes receivers out of the queue that the configuration does not know.
func (a *Alarms) strangers(c *change, known []string) {
	gone := 0
	for _, q := range a.state.queue {
		for _, name := range q.To {
			if !slices.Contains(known, name) {
				c.entries = append(c.entries, entry{Taken: []taken{{q.N, name}}})
				gone++
			}
		}
	}
	if gone > 0 {
		a.o.Logger.Warn("events are dropped whose receiver is not in the configuration any more", "events", gone)
	}
}
