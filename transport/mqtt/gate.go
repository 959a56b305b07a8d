package mqtt

// A broker sends as many messages as it likes before it wants one acknowledged: 20 in
// mosquitto, 1024 or more elsewhere. MQTT 3.1.1 has no word against that. So the client
// stops reading when it has no room. TCP then makes the broker wait, which keeps what is
// left and serves its other clients.

// gate says whether a message of size bytes may be read: nil if so, and otherwise a channel
// that closes when it may be asked again. With late it says yes.
type gate func(topic string, size int, late bool) (again <-chan struct{})

// gate is the router's gate. A message that nobody subscribes to yet waits for room in the
// stash.
func (r *router) gate(topic string, size int, late bool) (again <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if to := r.takers(topic); len(to) > 0 {
		return r.flow.admit(to[0], topic, size, late)
	}
	if r.patience() <= 0 || !r.expected(topic) { // it is dropped
		return r.flow.admitAny(topic, size)
	}
	return r.flow.admitEarly(topic, r.stashLimit(), size, late)
}

// takers returns the subscriptions that a topic belongs to. The caller holds mu.
func (r *router) takers(topic string) (to []*subscription) {
	if s := r.named[topic]; s != nil {
		to = append(to, s)
	}
	for _, s := range r.wild {
		if matchTopic(s.filter, topic) {
			to = append(to, s)
		}
	}
	return to
}

// stashLimit bounds what waits for a subscription.
func (r *router) stashLimit() use {
	o := &r.c.opts
	return use{min(maxStashed, o.MaxInflight), min(maxStashedBytes, o.MaxInflightBytes)}
}

// admit lets a message of s in if there is room for it. A subscription may always have one,
// so that none waits for the handlers of another. When a message is late, handlers are stuck,
// and everything is let in until there is room again.
func (f *inflow) admit(s *subscription, topic string, n int, late bool) (again <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fits := f.fits(n)
	switch {
	case fits:
		f.stuck = false
	case late:
		f.stuck = true
	}
	if !fits && !f.stuck && s.held+s.coming > 0 {
		return f.waker()
	}
	s.coming++
	f.letIn(admitted{to: s, topic: topic, bytes: n})
	return nil
}

// admitEarly lets a message in for which there is no subscription, if it fits beside what
// waits for one. limit bounds these. When a message is late, a subscription may wait for an
// answer that lies behind it, and everything is let in until there is room again.
func (f *inflow) admitEarly(topic string, limit use, n int, late bool) (again <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// All that is on its way might wait as well.
	messages, bytes := f.early.messages+f.coming.messages, f.early.bytes+f.coming.bytes
	fits := messages+1 <= limit.messages && bytes+n <= limit.bytes && f.fits(n)
	switch {
	case fits:
		f.unclaimed = false
	case late:
		f.unclaimed = true
	}
	if !fits && !f.unclaimed && messages > 0 {
		return f.waker()
	}
	f.letIn(admitted{topic: topic, bytes: n})
	return nil
}

// admitAny lets a message in that nobody will get.
func (f *inflow) admitAny(topic string, n int) (again <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.letIn(admitted{topic: topic, bytes: n})
	return nil
}

// fits reports whether there is room for a message of n bytes. The caller holds mu.
func (f *inflow) fits(n int) bool {
	return f.held.messages+f.coming.messages+f.early.messages < f.limit.messages &&
		f.held.bytes+f.coming.bytes+f.early.bytes+n <= f.limit.bytes
}

func (f *inflow) letIn(a admitted) {
	f.line = append(f.line, a)
	f.coming.add(1, a.bytes)
}

// deposit keeps the payload of the newest message that was let in.
func (f *inflow) deposit(payload []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.line[len(f.line)-1].payload = payload
}

// payload returns what was deposited for the first message on the line, which the library has
// handed on without it. got is its payload there. ok is false if that is another message.
func (f *inflow) payload(topic string, got []byte) (payload []byte, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.line) == 0 { // of a client without a gate
		return got, true
	}
	return f.line[0].payload, f.line[0].topic == topic && len(got) == 0
}

// arrived takes the first message off the line. The caller holds mu.
func (f *inflow) arrived() {
	if len(f.line) == 0 { // of a client without a gate
		return
	}
	first := f.line[0]
	f.line[0].payload = nil
	f.line = f.line[1:]
	f.coming.add(-1, -first.bytes)
	if first.to != nil {
		first.to.coming--
	}
	f.awake()
}

// take is put for a message that was let in.
func (f *inflow) take(a *arrival, to []*subscription) {
	f.mu.Lock()
	f.arrived()
	lost := f.place(a, to)
	f.mu.Unlock()
	f.lose(lost)
}

// keep counts a message that was let in and waits for a subscription.
func (f *inflow) keep(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.arrived()
	f.early.add(1, n)
}

// pass forgets a message that was let in and is not kept.
func (f *inflow) pass() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.arrived()
}

// takeEarly is put for a message that waited for its subscription.
func (f *inflow) takeEarly(a *arrival, to []*subscription) {
	f.mu.Lock()
	f.early.add(-1, -len(a.payload))
	lost := f.place(a, to)
	f.mu.Unlock()
	f.lose(lost)
}

// dropEarly forgets messages that waited for a subscription.
func (f *inflow) dropEarly(messages, bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.early.add(-messages, -bytes)
	f.awake()
}

// changed lets waiting messages ask again, after a subscription was made.
func (f *inflow) changed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.awake()
}

// restart forgets what was on its way on an earlier connection. The library has handed on
// all that it had by then.
func (f *inflow) restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.line) > 0 {
		f.arrived()
	}
}

// waker returns a channel that closes when there may be room. The caller holds mu.
func (f *inflow) waker() <-chan struct{} {
	if f.wake == nil {
		f.wake = make(chan struct{})
	}
	return f.wake
}

// awake lets waiting messages ask again. The caller holds mu.
func (f *inflow) awake() {
	if f.wake != nil {
		close(f.wake)
		f.wake = nil
	}
}
