package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/transport"
)

const (
	recordSize  = 64
	recTaken    = 1
	recMade     = 2
	recInterval = 3
	recLatest   = 4
	recFloor    = 5
	recClaim    = 6
)

type record struct {
	kind   byte
	id     [32]byte
	series [8]byte
	boot   uint64
	number uint64
}

func (r *record) append(b []byte) []byte {
	start := len(b)
	b = append(b, r.kind, 0, 0, 0)
	b = append(append(b, r.id[:]...), r.series[:]...)
	b = binary.BigEndian.AppendUint64(b, r.boot)
	b = binary.BigEndian.AppendUint64(b, r.number)
	return durable.AppendSum(b, start)
}

// parseRecord reads a record without its checksum. ok is false for one that no version
// of this program has written.
func parseRecord(b []byte) (r record, ok bool) {
	if len(b) != recordSize-4 || !bytes.Equal(b[1:4], []byte{0, 0, 0}) || b[0] < recTaken || b[0] > recClaim {
		return r, false
	}
	r.kind = b[0]
	copy(r.id[:], b[4:])
	copy(r.series[:], b[36:])
	r.boot, r.number = binary.BigEndian.Uint64(b[44:]), binary.BigEndian.Uint64(b[52:])
	return r, r.kind != recInterval || r.last() >= r.number
}

// claim returns the record that a result is made of a window.
func claim(window, result [32]byte) record {
	r := record{kind: recClaim, id: window, series: [8]byte(result[:8])}
	r.boot, r.number = binary.BigEndian.Uint64(result[8:]), binary.BigEndian.Uint64(result[16:])
	return r
}

// claimed returns the result of a claim.
func (r *record) claimed() (result [32]byte) {
	copy(result[:], r.series[:])
	binary.BigEndian.PutUint64(result[8:], r.boot)
	binary.BigEndian.PutUint64(result[16:], r.number)
	return result
}

// last returns the last number of an interval.
func (r *record) last() uint64 { return binary.BigEndian.Uint64(r.id[:]) }

// noSeries is the series of ids whose numbers are in intervals.
var noSeries = [8]byte{}

// seriesKey names a numbered series and a boot epoch of it.
type seriesKey struct {
	series [8]byte
	boot   uint64
}

// keyOf names the numbered series that an object belongs to.
func keyOf(obj *transport.Object) seriesKey {
	m := &obj.Meta
	return seriesKey{seriesOf(obj.Signer, m.Device, m.Stream), m.BootEpoch}
}

// seriesOf names a numbered series.
func seriesOf(signer [32]byte, device, stream string) (out [8]byte) {
	h := sha256.New()
	h.Write(signer[:])
	fmt.Fprintf(h, "%s/%s", device, stream)
	copy(out[:], h.Sum(nil))
	return out
}
