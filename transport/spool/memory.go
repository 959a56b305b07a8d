package spool

// Tick does what waits for the disk: it writes objects that are in memory and
// removes files that could not be removed. Call it now and then.
func (s *Spool) Tick() {
	if !s.Durable() {
		return
	}
	s.mu.Lock()
	s.expire()
	for _, q := range s.streams {
		for _, e := range append([]*entry(nil), q.entries...) {
			if e.gone {
				s.remove(q, e)
			}
		}
	}
	due := s.inMem > 0 && s.o.Mono() >= s.retryAt
	s.mu.Unlock()
	if due {
		s.Flush()
	}
}

// Flush writes the objects that are in memory, oldest first, until the disk
// refuses one; those that are leased stay. Tick does it when it is time.
func (s *Spool) Flush() {
	for s.Durable() {
		s.mu.Lock()
		var e *entry
		var of *queue
		for _, q := range s.streams {
			for _, x := range q.entries {
				if x.body != nil && !x.gone && !x.leased && (e == nil || x.number < e.number) {
					e, of = x, q
				}
			}
		}
		if e == nil {
			s.mu.Unlock()
			return
		}
		body := e.body
		h := Header{Number: e.number, Created: s.o.Now().Add(-s.age(e)).UnixNano(), ID: e.id, Size: e.size,
			Stream: of.name, Topic: e.topic}
		s.mu.Unlock()
		if s.store(&h, body) != nil {
			return
		}
		s.mu.Lock()
		if e.gone || e.id != h.ID { // dropped, delivered or replaced meanwhile
			for _, d := range s.dirs {
				_ = d.fs.Remove(d.join(objectName(e.number)))
			}
		} else if e.body != nil {
			s.inMem--
			s.memory -= e.size
			e.body = nil
		}
		s.signal()
		s.mu.Unlock()
	}
}
