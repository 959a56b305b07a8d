package store

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// continuity follows the sequence numbers of every stream and says which windows are
// missing: in the middle of a boot epoch, or before the first window that a new store
// gets. It also notices numbers that go back, because a device's state was lost or is an
// old copy. Numbers may come late (live data before a backlog, windows that were refused
// for a time), so a gap is reported only as long as it is there.
type continuity struct {
	mu     sync.Mutex
	series map[[8]byte]*course
}

// course is one stream.
type course struct {
	device, stream string
	boot, high     uint64 // newest boot epoch and its highest number
	known          bool   // something came, now or earlier
	missing        []missing
	back           *wentBack
	newest         int64 // start of the newest window that this process took
	earlier        int64 // the same of earlier boot epochs
	again          *beganAgain
}

// missing are numbers lo to hi that have not come.
type missing struct {
	interval
	boot  uint64
	at    time.Time // when that was noticed
	first bool      // nothing at all is known of what came before
}

// wentBack is a boot epoch that began with a number that an earlier one had used.
type wentBack struct {
	from, to uint64
	at       time.Time
}

// beganAgain is a boot epoch with a window that begins before one of an earlier epoch. This
// reveals an old copy of a spool even if reserved numbers hide that the numbers went back.
type beganAgain struct {
	from, to int64
	at       time.Time
}

// Bounds of what is told.
const (
	maxMissing  = 64               // ranges of a stream
	untilTold   = 30 * time.Second // a range that fills meanwhile is no news
	toldFor     = 10 * time.Minute // windows that do not come
	maxInHealth = 4                // reasons
)

// first looks up, before a window is kept, where its stream stood before this process.
func (c *continuity) first(obj *transport.Object, earlier func([8]byte) (boot, high uint64, ok bool)) {
	m := &obj.Meta
	key := seriesOf(obj.Signer, m.Device, m.Stream)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.series[key] != nil {
		return
	}
	if c.series == nil {
		c.series = map[[8]byte]*course{}
	}
	s := &course{device: m.Device, stream: m.Stream}
	s.boot, s.high, s.known = earlier(key)
	c.series[key] = s
}

// note takes a window that was kept.
func (c *continuity) note(obj *transport.Object, now time.Time) {
	m := &obj.Meta
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.series[seriesOf(obj.Signer, m.Device, m.Stream)]
	s.times(m, now)
	if !s.known {
		s.boot, s.high, s.known = m.BootEpoch, m.Sequence, true
		if m.Sequence > 1 { // devices number from 0 or from 1
			s.miss(missing{interval{0, m.Sequence - 1}, m.BootEpoch, now, true})
		}
		return
	}
	switch n := m.Sequence; {
	case m.BootEpoch < s.boot: // a backlog
	case m.BootEpoch > s.boot:
		if n <= s.high {
			s.back = &wentBack{s.high, n, now}
		}
		s.boot, s.high = m.BootEpoch, n
		return
	case n > s.high:
		if n > s.high+1 {
			s.miss(missing{interval{s.high + 1, n - 1}, s.boot, now, false})
		}
		s.high = n
		return
	}
	s.fill(m.BootEpoch, m.Sequence)
}

// times notes when a window begins. The parts of an interval begin alike.
func (s *course) times(m *transport.Meta, now time.Time) {
	switch {
	case !s.known || m.BootEpoch < s.boot: // the first, or a backlog
	case m.BootEpoch > s.boot:
		s.earlier = s.newest
		fallthrough
	default:
		if s.earlier != 0 && m.Start < s.earlier && (s.again == nil || now.Sub(s.again.at) >= toldFor) {
			s.again = &beganAgain{m.Start, s.earlier, now}
		}
	}
	s.newest = max(s.newest, m.Start)
}

func (s *course) miss(m missing) {
	s.missing = append(s.missing, m)
	if len(s.missing) > maxMissing {
		s.missing = slices.Delete(s.missing, 0, 1)
	}
}

// fill takes a number that came late out of what is missing.
func (s *course) fill(boot, n uint64) {
	for i, m := range s.missing {
		if m.boot != boot && !m.first || n < m.lo || n > m.hi {
			continue
		}
		var rest []missing
		if low := m; n > m.lo {
			low.hi = n - 1
			rest = append(rest, low)
		}
		if high := m; n < m.hi {
			high.lo = n + 1
			rest = append(rest, high)
		}
		s.missing = slices.Replace(s.missing, i, i+1, rest...)
		return
	}
}

// gaps returns the windows that are missing, by device and stream.
func (c *continuity) gaps() (out []Gap) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.keys() {
		s := c.series[key]
		for _, m := range s.missing {
			out = append(out, Gap{s.device, s.stream, m.boot, m.lo, m.hi, m.at})
		}
	}
	return out
}

// Gap tells of windows of a stream that have not come.
type Gap struct {
	Device string    `json:"device"`
	Stream string    `json:"stream"`
	Boot   uint64    `json:"boot_epoch"`
	First  uint64    `json:"first"`
	Last   uint64    `json:"last"`
	Since  time.Time `json:"since"`
}

// keys returns the series by device and stream; mu is held.
func (c *continuity) keys() [][8]byte {
	return slices.SortedFunc(maps.Keys(c.series), func(a, b [8]byte) int {
		x, y := c.series[a], c.series[b]
		return cmp.Or(cmp.Compare(x.device, y.device), cmp.Compare(x.stream, y.stream))
	})
}

// health returns which windows do not come, for a while after that was noticed.
func (c *continuity) health(now time.Time) []string { return c.texts(now, untilTold) }

// texts is health, but reports a stream that begins in the middle once that has been known
// for the time first.
func (c *continuity) texts(now time.Time, first time.Duration) (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := func(at time.Time) bool { d := now.Sub(at); return d >= 0 && d < toldFor }
	for _, key := range c.keys() {
		s := c.series[key]
		name := fmt.Sprintf("device %s, stream %s", s.device, s.stream)
		if s.back != nil && fresh(s.back.at) {
			out = append(out, fmt.Sprintf("%s: its numbers went back from %d to %d with a new start: the "+
				"device's state was lost or is an old copy; if its spool is one too, a replay reads "+
				"samples again", name, s.back.from, s.back.to))
		}
		if s.again != nil && fresh(s.again.at) {
			stamp := func(at int64) string { return time.Unix(0, at).UTC().Format(time.RFC3339) }
			out = append(out, fmt.Sprintf("%s: a window of a new start begins at %s, before one of %s that was taken: "+
				"samples are sent again, by a replay whose spool is an old copy or whose file was exchanged, or the "+
				"device's clock was set back", name, stamp(s.again.from), stamp(s.again.to)))
		}
		for _, m := range s.missing {
			switch {
			case !fresh(m.at), m.first && now.Sub(m.at) < first, !m.first && now.Sub(m.at) < untilTold:
			case m.first:
				out = append(out, fmt.Sprintf("%s: its first window here has number %d: the windows before it "+
					"went to another evaluator or to a store that was lost, with the results that were not "+
					"delivered yet; or they still wait on the device", name, m.hi+1))
			default:
				out = append(out, fmt.Sprintf("%s: windows %d to %d of boot epoch %d have not come: its spool "+
					"dropped them, lost them to damage or still holds them; or the store here is a copy that is "+
					"older than they are", name, m.lo, m.hi, m.boot))
			}
		}
	}
	if more := len(out) - maxInHealth; more > 0 {
		out = append(out[:maxInHealth], fmt.Sprintf("and %d more; status --json lists the missing windows", more))
	}
	return out
}
