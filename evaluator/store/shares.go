package store

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport/spool"
)

// shares divides the outbox among the programs, so that one whose results nobody takes
// cannot stop the others. Each program has an equal part of the store's bytes; a program
// that is not configured any more keeps its part while results of it wait.
//
// When the results of a program fill its share, the windows of its streams are refused
// as busy: their devices keep them, and nothing is lost. This ends when results are
// delivered. It also ends when the program turns out to be unread: results of other
// programs are delivered again and again, and none of its own. To find that out, a few
// windows are taken beyond the share, one at a time, each after the results of the other
// programs were delivered. Of an unread program the oldest results stay, the windows go
// to the other programs, and what it would have made of them is skipped and counted.
type shares struct {
	bytes    int64         // of the store
	patience time.Duration // with a program that is passed over

	mu       sync.Mutex
	programs map[string]*share
}

// share is the part of one program.
type share struct {
	topic   string // of its results; empty: not configured any more
	passed  time.Duration
	last    time.Time // of the last delivery that passed it over; zero: none
	probes  int       // windows taken beyond the share
	probed  time.Time // the last of them
	pending int       // jobs that were begun
	size    int64     // of its newest result
	skipped uint64
	told    string // the trouble that the log has
}

// giveUp is how many rounds of sending, waiting and asking a program may be passed over
// before it counts as unread.
const giveUp = 5

func newShares(c *config.Store, programs map[string]string) *shares {
	s := &shares{bytes: int64(c.Bytes), patience: giveUp * (c.RetryMax + c.ReceiptTimeout),
		programs: map[string]*share{}}
	for name, topic := range programs {
		s.programs[name] = &share{topic: topic}
	}
	return s
}

// of returns the share of a program; mu is held.
func (s *shares) of(program string) *share {
	p := s.programs[program]
	if p == nil {
		p = &share{}
		s.programs[program] = p
	}
	return p
}

// part returns the size of each share; mu is held.
func (s *shares) part(waiting map[string]spool.StreamStats) int64 {
	n := len(waiting)
	for name, p := range s.programs {
		if _, there := waiting[name]; !there && p.topic != "" {
			n++
		}
	}
	return s.bytes / int64(max(n, 1))
}

// full reports whether the results of a program fill its share, with those that are being
// made; mu is held. A program always has room for one.
func (s *shares) full(program string, waiting map[string]spool.StreamStats) bool {
	p, w := s.of(program), waiting[program]
	return w.Objects+p.pending > 0 && w.Bytes+int64(p.pending+1)*p.size > s.part(waiting)
}

func (p *share) unread(patience time.Duration) bool { return p.passed >= patience }

// begun counts a job, and made its end. size is that of its result, 0 if there is none.
func (s *shares) begun(program string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(program).pending++
}

func (s *shares) made(program string, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.of(program)
	p.pending--
	p.size = cmp.Or(size, p.size)
}

// blocks reports whether windows that a program reads have to wait for room. With probe
// the caller takes a window if not.
func (s *shares) blocks(program string, waiting map[string]spool.StreamStats, now time.Time, probe bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.of(program)
	if !s.full(program, waiting) || p.unread(s.patience) {
		return false
	}
	if p.probes > 2*giveUp || !p.probed.IsZero() && now.Sub(p.probed) < s.patience/giveUp ||
		!s.othersDelivered(program, waiting) {
		return true
	}
	if probe {
		p.probes, p.probed = p.probes+1, now
	}
	return false
}

// othersDelivered reports whether another program has no result waiting; mu is held.
func (s *shares) othersDelivered(program string, waiting map[string]spool.StreamStats) bool {
	for name, p := range s.programs {
		if name != program && p.topic != "" && p.pending == 0 && waiting[name].Objects == 0 {
			return true
		}
	}
	return false
}

// skips reports whether a result of the program is not made, and counts it then.
func (s *shares) skips(program string, waiting map[string]spool.StreamStats) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.of(program)
	if !p.unread(s.patience) || !s.full(program, waiting) {
		return false
	}
	p.skipped++
	return true
}

// delivered notes that a result of a program was delivered while those of others wait. A
// pause of all deliveries counts little, because every program needs time after it.
func (s *shares) delivered(program string, waiting map[string]spool.StreamStats, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range waiting {
		s.of(name)
	}
	for name, p := range s.programs {
		if name == program || waiting[name].Objects == 0 {
			p.passed, p.last, p.probes, p.probed = 0, time.Time{}, 0, time.Time{}
			continue
		}
		if !p.last.IsZero() {
			p.passed += min(max(now.Sub(p.last), 0), s.patience/giveUp)
		}
		p.last = now
	}
}

// waiting returns the undelivered results of every program, and how many were skipped.
func (s *shares) waiting(streams map[string]spool.StreamStats) map[string]Waiting {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]Waiting{}
	part := s.part(streams)
	for name := range streams {
		s.of(name)
	}
	for name, p := range s.programs {
		w := streams[name]
		if p.topic == "" && w.Objects == 0 {
			continue
		}
		out[name] = Waiting{Results: w.Objects, Bytes: w.Bytes, Share: part, Oldest: w.Oldest,
			Unread:  p.unread(s.patience),
			Skipped: p.skipped}
	}
	return out
}

// Waiting tells of the results of one program that are not delivered.
type Waiting struct {
	Results int           `json:"results"`
	Bytes   int64         `json:"bytes"`
	Share   int64         `json:"share_bytes"` // of the store
	Oldest  time.Duration `json:"oldest_ns"`
	Unread  bool          `json:"unread,omitempty"` // others are delivered, these are not
	Skipped uint64        `json:"skipped"`          // never made, since the share was full
}

// trouble returns what is wrong with the delivery of a program's results: a kind, which
// stays the same as long as the trouble does, and the full text. Both are empty if nothing
// is wrong.
func (s *shares) trouble(program string, w Waiting, reader string) (kind, text string) {
	s.mu.Lock()
	topic := s.of(program).topic
	s.mu.Unlock()
	which := fmt.Sprintf("program %s (topic %s)", program, topic)
	if topic == "" {
		which = fmt.Sprintf("program %s, which is not configured any more", program)
	}
	held := fmt.Sprintf("%d results wait for %s, the oldest for %v; they take %d %% of the program's share of "+
		"the store, %d bytes",
		w.Results, reader, w.Oldest.Round(time.Second), 100*w.Bytes/max(w.Share, 1), w.Share)
	switch {
	case w.Results == 0:
		return "", ""
	case w.Unread && w.Skipped > 0:
		return "skipped", fmt.Sprintf("%s: %s. Nobody takes them, while results of other programs are delivered: %d "+
			"further results were not made. Let the key holder read the program (programs in keyholder.yaml), or "+
			"remove it", which, held, w.Skipped)
	case w.Unread:
		return "unread", fmt.Sprintf("%s: %s. Nobody takes them, while results of other programs are delivered; when "+
			"the share is full, no further ones are made. Let the key holder read the program (programs in "+
			"keyholder.yaml), or remove it", which, held)
	case 2*w.Bytes >= w.Share:
		return "half", fmt.Sprintf("%s: %s. When it is full, the devices keep the windows of the program's "+
			"streams", which, held)
	}
	return "", ""
}

// changes notes the kinds of trouble that there are now, by program, and returns the
// programs whose trouble began or changed, and those whose trouble is over.
func (s *shares) changes(kinds map[string]string) (begun, over []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range kinds {
		s.of(name)
	}
	for name, p := range s.programs {
		switch {
		case kinds[name] == p.told:
			continue
		case kinds[name] == "":
			over = append(over, name)
		default:
			begun = append(begun, name)
		}
		p.told = kinds[name]
	}
	return begun, over
}
