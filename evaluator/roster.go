package evaluator

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport"
)

// roster knows the devices whose windows are taken, which streams each has, and which of
// these programs read. The devices of config.Evaluator.Enrolled come and go while the service
// runs; all others, and all classes, stay as they are.
type roster struct {
	*reporter
	cfg    *config.Evaluator
	trust  *transport.TrustStore // of all devices
	listed map[string]config.Enrolment
	keys   map[string]ed25519.PublicKey // of the listed ones

	// Read by programs; not changed once the service runs.
	single map[streamID]bool
	shared map[classStream]bool

	reading sync.Mutex // held while files are read
	roll    *config.Roll
	known   map[string]bool // mistakes that the log has

	mu       sync.RWMutex
	enrolled map[string]config.Enrolment
	faults   []*config.Error // of the files
	sizes    map[string]int  // devices by class
}

// classStream names a stream that every device of a class has.
type classStream struct{ class, stream string }

// enrolEvery is how often the files of enrolled devices are looked at.
const enrolEvery = 5 * time.Second

// newRoster returns a roster that has read the files once. Mistakes in them are told and do
// not fail.
func newRoster(cfg *config.Evaluator, r *reporter) (*roster, error) {
	out := &roster{reporter: r, cfg: cfg, trust: transport.NewTrustStore(), roll: config.NewRoll(cfg),
		listed: map[string]config.Enrolment{}, keys: map[string]ed25519.PublicKey{},
		single: map[streamID]bool{}, shared: map[classStream]bool{}, known: map[string]bool{}}
	for i, d := range cfg.Devices {
		pub, err := transport.ParsePublicKey(d.PublicKey)
		if err != nil {
			return nil, fmt.Errorf("%w: device %s: %w", ErrConfig, d.Name, err)
		}
		at := cfg.Problem(fmt.Sprintf("devices[%d].public_key", i), "", "")
		out.listed[d.Name], out.keys[d.Name] = config.Enrolment{Device: d, File: at.File, Line: at.Line}, pub
	}
	if err := out.refresh(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return out, nil
}

// follow reads the files again and again until ctx ends.
func (r *roster) follow(ctx context.Context) {
	if len(r.cfg.Enrolled) == 0 {
		return
	}
	tick := time.NewTicker(enrolEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := r.refresh(); err != nil {
				r.log.Error("the enrolled devices stay as they were", "error", err)
			}
		}
	}
}

// refresh reads the files and trusts the devices in them, and those no more that have gone.
func (r *roster) refresh() error {
	r.reading.Lock()
	defer r.reading.Unlock()
	list, faults := r.roll.Read()
	now := make(map[string]config.Enrolment, len(list))
	keys := maps.Clone(r.keys)
	for _, d := range list {
		pub, err := transport.ParsePublicKey(d.PublicKey)
		if err != nil { // the file was checked
			return fmt.Errorf("%s:%d: %w", d.File, d.Line, err)
		}
		now[d.Name], keys[d.Name] = d, pub
	}
	r.mu.RLock()
	before := r.enrolled
	r.mu.RUnlock()
	if before == nil || !maps.EqualFunc(before, now, sameDevice) {
		if err := r.trust.SetDevices(keys); err != nil {
			return err
		}
	}
	r.mu.Lock()
	r.enrolled, r.faults = now, faults
	r.mu.Unlock()
	sizes := r.counts()
	r.mu.Lock()
	r.sizes = sizes
	r.mu.Unlock()
	r.tell(before, now, faults)
	return nil
}

func sameDevice(a, b config.Enrolment) bool { return a.Device == b.Device }

// tell logs what changed between two readings, and every mistake once.
func (r *roster) tell(before, now map[string]config.Enrolment, faults []*config.Error) {
	var came, went []string
	for name, d := range now {
		if old, ok := before[name]; !ok || !sameDevice(old, d) {
			came = append(came, name)
		}
	}
	for name := range before {
		if _, ok := now[name]; !ok {
			went = append(went, name)
		}
	}
	if len(came)+len(went) > 0 {
		r.log.Info("devices are enrolled", "count", len(now), "new", some(came), "removed", some(went))
	}
	known := map[string]bool{}
	news := 0
	for _, e := range faults {
		text := e.Error()
		known[text] = true
		if r.known[text] {
			continue
		}
		if news++; news <= maxTold {
			r.log.Error("an enrolled device is left out", "file", e.File, "line", e.Line, "error", e.Cause,
				"fix", e.Remedy)
		}
	}
	if news > maxTold {
		r.log.Error("more enrolled devices are left out; `hencedge evaluator check` lists them", "count", news-maxTold)
	}
	r.known = known
}

// maxTold bounds the devices that one line of the log or of health lists, and the lines of
// one kind.
const maxTold = 16

// some returns names in order, as far as they fit into a line.
func some(names []string) string {
	slices.Sort(names)
	if more := len(names) - maxTold; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxTold], ", "), more)
	}
	return strings.Join(names, ", ")
}

// bounded returns at most maxTold lines, and how many there are more.
func bounded(lines []string) []string {
	if more := len(lines) - maxTold; more > 0 {
		return append(lines[:maxTold:maxTold], fmt.Sprintf("and %d more of this kind", more))
	}
	return lines
}

// find returns a device.
func (r *roster) find(device string) (d config.Enrolment, ok bool) {
	if d, ok = r.listed[device]; ok {
		return d, true
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	d, ok = r.enrolled[device]
	return d, ok
}

// class returns the class of a device, or "".
func (r *roster) class(device string) string {
	d, _ := r.find(device)
	return d.Class
}

// reads reports whether programs read a stream.
func (r *roster) reads(id streamID) bool {
	return r.single[id] || len(r.shared) > 0 && r.shared[classStream{r.class(id.device), id.stream}]
}

// readDevices returns the devices whose streams are read, in order.
func (r *roster) readDevices() []string {
	seen := map[string]bool{}
	for id := range r.single {
		seen[id.device] = true
	}
	classes := map[string]bool{}
	for s := range r.shared {
		classes[s.class] = true
	}
	if len(classes) > 0 {
		r.mu.RLock()
		defer r.mu.RUnlock()
		for _, devices := range []map[string]config.Enrolment{r.listed, r.enrolled} {
			for name, d := range devices {
				if classes[d.Class] {
					seen[name] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// counts returns the number of devices of each class.
func (r *roster) counts() map[string]int {
	out := map[string]int{}
	for _, c := range r.cfg.Classes {
		out[c.Name] = 0
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, devices := range []map[string]config.Enrolment{r.listed, r.enrolled} {
		for _, d := range devices {
			if d.Class != "" {
				out[d.Class]++
			}
		}
	}
	return out
}

// covers reports whether these are all devices of a class.
func (r *roster) covers(class string, devices map[string]bool) bool {
	r.mu.RLock()
	size := r.sizes[class]
	r.mu.RUnlock()
	if len(devices) < size {
		return false
	}
	n := 0
	for name := range devices { // some may have gone
		if r.class(name) == class {
			n++
		}
	}
	return n >= size
}

// strange reports whether a topic that a filter with a wildcard brought belongs to nobody
// here. kind is "up", "st" or "ask".
func (r *roster) strange(kind, topic string) bool {
	if len(r.shared) == 0 {
		return false
	}
	rest, ok := strings.CutPrefix(topic, r.cfg.Broker.TopicPrefix+"/"+kind+"/")
	device, _, _ := strings.Cut(rest, "/")
	_, known := r.find(device)
	return ok && !known
}

// filters returns the topics of a kind for the devices whose streams are read: one for each,
// or one with a wildcard where there are classes.
func (r *roster) filters(topic func(prefix, device string) string) []string {
	prefix := r.cfg.Broker.TopicPrefix
	if len(r.shared) > 0 {
		return []string{topic(prefix, "+")}
	}
	var out []string
	for _, device := range r.readDevices() {
		out = append(out, topic(prefix, device))
	}
	return out
}

// readings returns the topics of all streams that programs read.
func (r *roster) readings() []string {
	prefix := r.cfg.Broker.TopicPrefix
	wide := map[string]bool{} // streams of any device
	for s := range r.shared {
		wide[s.stream] = true
	}
	var out []string
	for _, stream := range slices.Sorted(maps.Keys(wide)) {
		out = append(out, transport.ReadingTopic(prefix, "+", stream))
	}
	for _, id := range slices.SortedFunc(maps.Keys(r.single), compareStreams) {
		if !wide[id.stream] { // filters that overlap may bring a message twice
			out = append(out, transport.ReadingTopic(prefix, id.device, id.stream))
		}
	}
	return out
}

// streams returns those of a device that programs read.
func (r *roster) streams(device string) []config.PlacedStream {
	return slices.DeleteFunc(r.cfg.StreamsOf(device, r.class(device)), func(s config.PlacedStream) bool {
		return !r.reads(streamID{device, s.Stream.Name})
	})
}

// leftOut returns the number of mistakes in the files.
func (r *roster) leftOut() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.faults)
}

// health returns the enrolled devices that are left out.
func (r *roster) health() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out []string
	for _, e := range r.faults {
		out = append(out, fmt.Sprintf("an enrolled device is left out: %s:%d: %s", e.File, e.Line, e.Cause))
	}
	return bounded(out)
}
