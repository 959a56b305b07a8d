package mqtt

import (
	"slices"
	"strings"
	"sync"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// outbox is the store in which the MQTT library keeps unacknowledged messages. The library
// deletes a message exactly when the broker's PUBACK arrives, so the deletion is the proof
// of delivery. The library's tokens are none: they also complete on lost connections.
// Inbound messages are not stored, since handlers acknowledge them only when they have
// taken charge of them.
type outbox struct {
	mu      sync.Mutex
	entries map[string]*outEntry
	order   []string
	next    *outEntry     // claims the next message that is put
	changed chan struct{} // closed and replaced when an entry goes
}

type outEntry struct {
	packet  packets.PublishPacket // a copy: the library writes to the one it sends
	claimed bool
	acked   chan struct{} // closed on PUBACK
	release func()        // gives the message's slot back
}

func newOutbox() *outbox {
	return &outbox{entries: make(map[string]*outEntry), changed: make(chan struct{})}
}

// expect makes e the entry of the next message that the library stores. The
// caller serialises expect and the call that publishes.
func (o *outbox) expect(e *outEntry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next = e
}

// claimed reports whether the library stored the message of e.
func (o *outbox) claimed(e *outEntry) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next == e {
		o.next = nil
	}
	return e.claimed
}

// pending returns the number of unacknowledged messages, and a channel that closes
// when it falls.
func (o *outbox) pending() (int, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.entries), o.changed
}

// Open, Close, Put, Get, All, Del and Reset make outbox a store of the library.

func (o *outbox) Open()  {}
func (o *outbox) Close() {}

func (o *outbox) Put(key string, m packets.ControlPacket) {
	p, publish := m.(*packets.PublishPacket)
	if !publish || !strings.HasPrefix(key, "o.") {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.next
	if e == nil {
		e = &outEntry{acked: make(chan struct{}), release: func() {}}
	}
	o.next = nil
	e.packet, e.claimed = *p, true
	if _, replaced := o.entries[key]; !replaced {
		o.order = append(o.order, key)
	}
	o.entries[key] = e
}

func (o *outbox) Get(key string) packets.ControlPacket {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.entries[key]; e != nil {
		p := e.packet
		return &p
	}
	return nil
}

func (o *outbox) All() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.order)
}

func (o *outbox) Del(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.entries[key]
	if e == nil {
		return
	}
	delete(o.entries, key)
	o.order = slices.DeleteFunc(o.order, func(k string) bool { return k == key })
	close(e.acked)
	e.release()
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *outbox) Reset() {}
