package delivery

import (
	"crypto/ed25519"
	"log/slog"
	"time"

	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/spool"
)

// Options of a Courier. Spool, Client, Name and Key are required.
type Options struct {
	Spool     *spool.Spool
	Client    transport.Client
	ChunkSize int
	Prefix    string // of topics

	Name string                // of this sender
	Key  *transport.SigningKey // signs asks
	// Number gives the boot epoch and the next sequence number of an ask.
	Number func() (boot, sequence uint64, err error)

	Level  Level            // of streams that Levels does not name; empty: Broker
	Levels map[string]Level // by stream
	// Receivers are the public keys by name whose receipts count.
	Receivers map[string][]ed25519.PublicKey
	// Shared: each receiver has keys of its own, for some of the objects only. Then a
	// missing object key is not an error.
	Shared bool

	Objects int           // objects that are read and sent at a time, over all streams; 0: 4
	Receipt time.Duration // wait for a receipt before asking; 0: 30 s
	First   time.Duration // shortest delay after a failure; 0: 1 s
	Last    time.Duration // longest; 0: 1 min
	Held    time.Duration // delay after a refusal; 0: 5 min
	Rate    float64       // bytes a second of payloads; 0: no bound
	Burst   float64       // bytes; 0: what Rate gives in a second, at least a chunk
	Share   float64       // of bytes for live data while there is a backlog, 0 to 1
	Live    time.Duration // age below which data is live
	Hours   []Hours       // when to send; none: always

	// Before is called before an object leaves the spool because it was delivered or its
	// number was used before. If Before fails, the object stays and is tried again. It may
	// be nil.
	Before func(*spool.Lease) error
	// Renumber returns an object under the next free number. It is called when the receiver
	// already has another object under the number of one that was never sent: another
	// sender uses this identity, or this sender's state is an old copy. The returned object
	// takes the old one's place. It fails with ErrNumbered if the object cannot have another
	// number, and with transport.ErrUnknownSigner if it was signed with an earlier key; then the object is dropped.
	// nil: such objects are dropped.
	Renumber func(sealed []byte) ([]byte, error)
	// Topic is where an object is published; nil: where the spool says.
	Topic func(*spool.Lease) string
	// Notify is told of every attempt: nil, or why it failed. It may be nil.
	Notify func(error)

	Clock  Clock
	Logger *slog.Logger
}

// Level says when an object counts as delivered.
type Level string

// The levels.
const (
	Broker   Level = "broker"   // the broker has acknowledged it (PUBACK)
	Receiver Level = "receiver" // the receiver has signed that it has it on disk
)
