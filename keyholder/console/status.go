package console

import (
	"context"
	"crypto/ed25519"
	"slices"
	"strings"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/transport"
)

// Enrolled are the boards whose word the page takes for what they are: their public keys verify what they say of
// themselves. It is safe for concurrent use.
type Enrolled interface {
	// Stamp returns a text that differs after a change of Each. It is cheap.
	Stamp() string
	// Each hands each board to take, and returns what is wrong with others.
	Each(take func(config.Device)) (faults []error)
}

// word is what an enrolled board has said of itself. It takes about 120 bytes.
type word struct {
	key     [ed25519.PublicKeySize]byte
	order   transport.StatusOrder
	said    bool // anything
	asked   bool // the broker, for what it keeps of this board
	online  bool
	version string
	end     int64 // of its client certificate, Unix nanoseconds; 0: it shows none
}

// words is what all boards have said. The fleet's lock guards it.
type words struct {
	by      map[string]*word
	trouble string
	client  transport.Client // nil before ListenBoards
}

// States of a board. One that has said nothing has none.
const (
	stateOnline  = "online"
	stateOffline = "offline"
)

// add completes a row with what its board has said.
func (w *word) add(d *device) {
	d.Enrolled = true
	if !w.said {
		return
	}
	d.State, d.Version = stateOffline, w.version
	if w.online {
		d.State = stateOnline
	}
	if w.end > 0 {
		end := millis(time.Unix(0, w.end))
		d.Certificate = &end
	}
}

// why says why what boards say may be missing or old; "" if nothing is wrong.
func (w *words) why() string {
	switch {
	case w.trouble != "":
		return w.trouble
	case w.client == nil || !w.client.Connected():
		return "there is no connection to the broker: what boards say of themselves may be old"
	}
	return ""
}

// enrolEvery is how often the enrolled boards are looked at.
const enrolEvery = 10 * time.Second

// ListenBoards takes what boards say of themselves until ctx ends. Without Options.Enrolled it returns at once.
func (c *Console) ListenBoards(ctx context.Context, client transport.Client) {
	if c.o.Enrolled == nil {
		return
	}
	c.fleet.mu.Lock()
	c.fleet.words.client = client
	c.fleet.mu.Unlock()
	l := c.newListener()
	l.refresh()
	prefix := c.o.Holder.Broker.TopicPrefix
	c.fleet.setTrouble(l.subscribe(ctx, client, transport.StatusTopic(prefix, "+")))
	for role.Sleep(ctx, enrolEvery) == nil {
		l.refresh()
		for _, name := range l.fleet.silent() {
			l.subscribe(ctx, client, transport.StatusTopic(prefix, name))
		}
	}
}

// listener verifies what boards say.
type listener struct {
	*Console
	prefix string // of topics
	stamp  string
	faults map[string]bool // that the log has
}

func (c *Console) newListener() *listener {
	return &listener{Console: c, faults: map[string]bool{},
		prefix: transport.StatusTopic(c.o.Holder.Broker.TopicPrefix, "")}
}

// subscribe asks for a status topic. It returns why that failed.
func (l *listener) subscribe(ctx context.Context, client transport.Client, topic string) string {
	err := client.Subscribe(ctx, topic, l.hear)
	if err == nil || ctx.Err() != nil {
		return ""
	}
	l.log.Warn("the page lacks what boards say of themselves: the broker does not let the key holder read it",
		"topic", topic, "error", err)
	return "the broker does not let the key holder read what boards say of themselves"
}

// refresh reads the enrolled boards if they have changed.
func (l *listener) refresh() {
	stamp := l.o.Enrolled.Stamp()
	if stamp == l.stamp {
		return
	}
	e := l.fleet.enrolling()
	for _, err := range l.o.Enrolled.Each(func(d config.Device) {
		pub, err := transport.ParsePublicKey(d.PublicKey)
		if err != nil { // the file was checked
			l.log.Warn("the page leaves out an enrolled board", "device", d.Name, "error", err)
			return
		}
		e.add(d.Name, pub)
	}) {
		if text := err.Error(); !l.faults[text] && len(l.faults) < maxFaults {
			l.faults[text] = true
			l.log.Warn("the page leaves out an enrolled board", "error", text)
		}
	}
	l.stamp = stamp
	l.fleet.enrol(e)
}

const maxFaults = 100

// hear takes a birth message or last will. Those that nobody enrolled signs are of no interest.
func (l *listener) hear(msg transport.Delivery) {
	if msg.Ack != nil {
		defer msg.Ack()
	}
	name, ok := strings.CutPrefix(msg.Topic, l.prefix)
	if !ok {
		return
	}
	key := l.fleet.key(name)
	if key == nil {
		return
	}
	m, err := l.open(name, key, msg)
	if err != nil {
		l.log.Warn("a board's status is refused", "topic", msg.Topic, "class", transport.Reason(err), "error", err)
		return
	}
	l.fleet.hear(m)
}

// open verifies a status. Each has a verifier of its own, which takes microseconds: one for all boards would keep
// every key once more.
func (l *listener) open(name string, key ed25519.PublicKey, msg transport.Delivery) (*transport.StatusMessage, error) {
	trust, err := transport.TrustKeys(map[string]ed25519.PublicKey{name: key})
	if err != nil {
		return nil, err
	}
	v, err := transport.NewStatusVerifier(trust, l.o.Holder.Broker.TopicPrefix)
	if err != nil {
		return nil, err
	}
	return transport.OpenStatus(v, msg)
}

// enrolling is a new set of boards.
type enrolling struct {
	old, by map[string]*word
}

// enrolling begins a new set of boards. Only one may be made at a time.
func (f *fleet) enrolling() *enrolling {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &enrolling{old: f.words.by, by: make(map[string]*word, len(f.words.by))}
}

// add adds a board. One with another key has said nothing yet.
func (e *enrolling) add(name string, pub ed25519.PublicKey) {
	name = strings.Clone(name) // which is part of the text of its file
	key, w := [ed25519.PublicKeySize]byte(pub), e.old[name]
	if w == nil || w.key != key {
		w = &word{key: key, asked: w != nil && w.asked}
	}
	e.by[name] = w
}

// enrol sets the boards.
func (f *fleet) enrol(e *enrolling) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.words.by = e.by
}

// silent returns the boards that have said nothing and were not returned before. The broker may keep something of
// them all the same: it came before the board was known, or did not fit into the queue of messages that
// wait for the key holder, of which brokers drop the rest (1,000 in mosquitto).
func (f *fleet) silent() (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, w := range f.words.by {
		if !w.said && !w.asked {
			w.asked = true
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (f *fleet) setTrouble(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.words.trouble = text
}

func (f *fleet) trouble() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.words.why()
}

// key returns the public key of an enrolled board, nil for another one.
func (f *fleet) key(name string) ed25519.PublicKey {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.words.by[name]; w != nil {
		return w.key[:]
	}
	return nil
}

// hear takes what a board says of itself, if that is as new as what it said before.
func (f *fleet) hear(m *transport.StatusMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.words.by[m.Object.Meta.Device]
	if w == nil || !w.order.Take(m) {
		return
	}
	w.said, w.online, w.version, w.end = true, m.Online, f.shared(m.Version), m.CertificateEnd
}
