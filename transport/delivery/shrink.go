package delivery

import "sync"

// Some brokers acknowledge a message above their limit and drop it, as mosquitto does with
// message_size_limit. MQTT 3.1.1 has no way to ask for the limit. The sign is an object
// whose chunks were all acknowledged while the receiver answers that it has none of them.
// When that happens again and again, chunks are halved until one arrives.

const (
	vanishings = 2       // of a whole object, before chunks are made smaller
	smallest   = 4 << 10 // bytes of a chunk: below it something else is wrong
)

// shrink finds a chunk size that arrives.
type shrink struct {
	mu   sync.Mutex
	full int // as configured
	size int // in use
	sent map[[32]byte]int
}

func (s *shrink) now() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// acknowledged notes that the broker has acknowledged every chunk of an object.
func (s *shrink) acknowledged(id [32]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sent) >= 1024 { // of objects that were dropped meanwhile
		clear(s.sent)
	}
	s.sent[id]++
}

// vanished notes that the receiver has nothing of an object. When that happens too often,
// ok is true and size is the smaller chunk size from now on. After the smallest size comes
// the configured one again.
func (s *shrink) vanished(id [32]byte) (size int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent[id] < vanishings {
		return s.size, false
	}
	delete(s.sent, id)
	if s.size /= 2; s.size < smallest {
		s.size = s.full
	}
	return s.size, true
}

// arrived notes that an object was taken.
func (s *shrink) arrived(id [32]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sent, id)
}
