package agent

import (
	"sync/atomic"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/transport/delivery"
	"github.com/hencedge/hencedge/transport/spool"
)

// Stats are the counts of an agent since the start.
type Stats struct {
	Boot      uint64 // boot epoch of this start
	Streams   map[string]StreamStats
	Inputs    map[string]sensor.InputStats
	Spool     spool.Stats
	Delivery  delivery.Stats
	Sent      uint64 // objects delivered, at the acknowledgement level of their streams
	SentBytes uint64 // their bytes, before chunking
	Retries   uint64 // sends that failed and were tried again
	Refused   uint64 // objects dropped because they can never be sent
	Fallbacks uint64 // devices that failed while they encrypted
}

// StreamStats are the counts of one stream since the start.
type StreamStats struct {
	source.Stats
	Windows      uint64 // windows sealed
	Partial      uint64 // of these, with fewer samples than the window holds
	Errors       uint64 // windows lost because they could not be encrypted or sealed
	BodyBytes    uint64 // of ciphertexts
	ObjectBytes  uint64 // of sealed objects
	EncryptNanos uint64 // time spent encoding and encrypting
	GapNanos     uint64 // time before this start for which there are no samples
}

// sealCounters are the live counts of one stream's windows.
type sealCounters struct {
	windows, partial, errors                       atomic.Uint64
	bodyBytes, objectBytes, encryptNanos, gapNanos atomic.Uint64
}
