package alert

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/hencedge/hencedge/internal/durable"
)

// The state is a durable.Log of records of one length. A record is the length of a JSON
// object (2 bytes, big endian), the object, zeros and a checksum. The object is an entry:
// values that replace earlier ones, so that reading them again changes nothing. What must
// happen together is one entry.
const (
	recordSize = 8192
	maxEntry   = recordSize - 2 - crc32.Size
	// compactFrom is the least size in bytes of a log that is compacted, when it has doubled.
	compactFrom = 8 << 20
)

// entry is a change of the state.
type entry struct {
	Series []series  `json:"s,omitempty"`
	Alarms []alarm   `json:"a,omitempty"`
	Queued []queued  `json:"q,omitempty"`
	Taken  []taken   `json:"t,omitempty"`
	Gone   []subject `json:"g,omitempty"` // series and alarms of rules that are no more
}

// alarm is what receivers know about a subject.
type alarm struct {
	subject
	Class  bool   `json:"c,omitempty"` // it is of all devices
	Firing bool   `json:"x,omitempty"`
	Told   bool   `json:"t,omitempty"` // of the event in Last; if not, there was a silence
	Number uint64 `json:"n,omitempty"` // events so far
	Last   *Event `json:"l,omitempty"` // the one that raised it, while it fires
}

// subject names an alarm. Device is empty for all devices of a class, and for none.
type subject struct {
	Rule   string `json:"r"`
	Device string `json:"d,omitempty"`
}

// queued is an event and who has not taken it yet.
type queued struct {
	N     uint64   `json:"n"` // position in the queue
	Event Event    `json:"e"`
	To    []string `json:"to"`
}

// taken says that a receiver has an event, or will never get it.
type taken struct {
	N  uint64 `json:"n"`
	By string `json:"by"`
}

// appendEntry appends an entry as a record.
func appendEntry(b []byte, e *entry) ([]byte, error) {
	text, err := json.Marshal(e)
	if err == nil && len(text) > maxEntry {
		err = fmt.Errorf("a change of %d bytes, want at most %d", len(text), maxEntry)
	}
	if err != nil {
		return b, err
	}
	start := len(b)
	b = binary.BigEndian.AppendUint16(b, uint16(len(text)))
	b = append(b, text...)
	b = append(b, make([]byte, maxEntry-len(text))...)
	return durable.AppendSum(b, start), nil
}

// readEntry reads the payload of a record.
func readEntry(payload []byte) (*entry, error) {
	if len(payload) < 2 {
		return nil, errEntry
	}
	n := int(binary.BigEndian.Uint16(payload))
	if n > len(payload)-2 {
		return nil, errEntry
	}
	d := json.NewDecoder(bytes.NewReader(payload[2 : 2+n]))
	d.DisallowUnknownFields()
	e := new(entry)
	if err := d.Decode(e); err != nil {
		return nil, fmt.Errorf("%w: %w", errEntry, err)
	}
	return e, nil
}

var errEntry = errors.New("a record of the alarms makes no sense")

// appendAll appends a state in as few records as it needs.
func appendAll(b []byte, s *state) []byte {
	var e entry
	size := 0
	flush := func() {
		b, _ = appendEntry(b, &e) // within the bound: see room
		e, size = entry{}, 0
	}
	room := func(v any) {
		text, _ := json.Marshal(v)
		if size += len(text) + 1; size > maxEntry-64 {
			flush()
			size = len(text) + 1
		}
	}
	for _, v := range s.series {
		room(v)
		e.Series = append(e.Series, *v)
	}
	for _, v := range s.alarms {
		room(v)
		e.Alarms = append(e.Alarms, *v)
	}
	for _, v := range s.queue {
		room(v)
		e.Queued = append(e.Queued, *v)
	}
	if size > 0 {
		flush()
	}
	return b
}
