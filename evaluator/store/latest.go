package store

import (
	"bytes"
	"slices"
)

// latest remembers the newest objects of every stream, beyond the bound on all objects. A
// stream has few objects under way at a time. So an object whose receipt was lost is among
// these, even if thousands of other boards have sent since.
type latest struct {
	rings map[[8]byte][]record // by series, oldest first
	ids   map[[32]byte]struct{}
}

const (
	keepLatest  = 16      // of a series
	maxInLatest = 1 << 16 // series
)

func newLatest() latest {
	return latest{rings: map[[8]byte][]record{}, ids: map[[32]byte]struct{}{}}
}

func (l *latest) has(id [32]byte) bool { _, ok := l.ids[id]; return ok }

func (l *latest) add(r *record) {
	ring, known := l.rings[r.series]
	if l.has(r.id) || !known && len(l.rings) >= maxInLatest {
		return
	}
	if len(ring) >= keepLatest {
		delete(l.ids, ring[0].id)
		ring = slices.Delete(ring, 0, 1)
	}
	kept := *r
	kept.kind = recLatest
	l.rings[r.series] = append(ring, kept)
	l.ids[r.id] = struct{}{}
}

// append encodes all of it: each series from its oldest on.
func (l *latest) append(b []byte) []byte {
	series := make([][8]byte, 0, len(l.rings))
	for k := range l.rings {
		series = append(series, k)
	}
	slices.SortFunc(series, func(x, y [8]byte) int { return bytes.Compare(x[:], y[:]) })
	for _, k := range series {
		for i := range l.rings[k] {
			b = l.rings[k][i].append(b)
		}
	}
	return b
}
