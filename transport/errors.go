package transport

import (
	"errors"
	"slices"
	"sync/atomic"
)

// Refusals. Every error that Open, Receiver and the decoders return for bad
// input wraps exactly one of these; test with errors.Is, label with Reason.
var (
	// ErrMalformed: not valid, not canonical, or a field is out of range.
	ErrMalformed = errors.New("malformed message")
	// ErrTruncated: the bytes end before the structure does.
	ErrTruncated = errors.New("truncated message")
	// ErrTooLarge: a message, object or chunk exceeds a size limit.
	ErrTooLarge = errors.New("message too large")
	// ErrLimit: a bound on the number of objects, streams or bytes is reached.
	ErrLimit = errors.New("limit reached")
	// ErrUnsupportedVersion: made by a newer format than this build reads.
	ErrUnsupportedVersion = errors.New("unsupported format version")
	// ErrDowngraded: an older format version or a weaker algorithm than allowed.
	ErrDowngraded = errors.New("downgraded message")
	// ErrUnknownSigner: no trusted key for this sender and kind of message.
	ErrUnknownSigner = errors.New("unknown signer")
	// ErrSignature: the signature does not verify.
	ErrSignature = errors.New("bad signature")
	// ErrReplayed: this sequence number was seen already, or is too old to tell.
	ErrReplayed = errors.New("replayed message")
	// ErrWrongKey: encrypted under a key set that is not on the allow-list.
	ErrWrongKey = errors.New("wrong key set")
	// ErrWrongEpoch: right key set, but an epoch that is retired or unknown.
	ErrWrongEpoch = errors.New("wrong key epoch")
	// ErrWrongParams: a parameter hash that is not on the allow-list.
	ErrWrongParams = errors.New("wrong parameters")
	// ErrWrongLayout: the stream's slot layout (or program) is another one.
	ErrWrongLayout = errors.New("wrong layout")
	// ErrWrongKind: a kind of message that this receiver does not take.
	ErrWrongKind = errors.New("wrong kind of message")
	// ErrWrongTopic: published under a topic that the signed header contradicts.
	ErrWrongTopic = errors.New("wrong topic")
	// ErrWrongDelivery: with QoS 0, or retained, where that is not the protocol.
	ErrWrongDelivery = errors.New("wrong delivery")
	// ErrBodyMismatch: the body's own header contradicts the signed header.
	ErrBodyMismatch = errors.New("body contradicts its signed header")
	// ErrConflict: a chunk contradicts another chunk of the same object.
	ErrConflict = errors.New("conflicting chunk")
	// ErrHash: the reassembled object does not have the announced hash.
	ErrHash = errors.New("object hash mismatch")
	// ErrEvicted: an incomplete object was dropped for age or for room.
	ErrEvicted = errors.New("incomplete object dropped")
)

// reasons maps each sentinel to its metric label, in the order of the counters.
var reasons = []struct {
	err   error
	label string
}{
	{ErrMalformed, "malformed"},
	{ErrTruncated, "truncated"},
	{ErrTooLarge, "too_large"},
	{ErrLimit, "limit"},
	{ErrUnsupportedVersion, "unsupported_version"},
	{ErrDowngraded, "downgraded"},
	{ErrUnknownSigner, "unknown_signer"},
	{ErrSignature, "bad_signature"},
	{ErrReplayed, "replayed"},
	{ErrWrongKey, "wrong_key"},
	{ErrWrongEpoch, "wrong_epoch"},
	{ErrWrongParams, "wrong_params"},
	{ErrWrongLayout, "wrong_layout"},
	{ErrWrongKind, "wrong_kind"},
	{ErrWrongTopic, "wrong_topic"},
	{ErrWrongDelivery, "wrong_delivery"},
	{ErrBodyMismatch, "body_mismatch"},
	{ErrConflict, "conflict"},
	{ErrHash, "hash_mismatch"},
	{ErrEvicted, "evicted"},
}

// ReasonOther is the label of an error that wraps no sentinel of this package.
const ReasonOther = "other"

// Reason returns the metric label of err: the label of the first sentinel of this
// package that it wraps, ReasonOther for any other error, "" for nil.
func Reason(err error) string {
	if err == nil {
		return ""
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.label
		}
	}
	return ReasonOther
}

// Reasons lists every label that Reason can give, ReasonOther last. Metric
// exporters register them up front so that a counter exists before it moves.
func Reasons() []string {
	out := make([]string, 0, len(reasons)+1)
	for _, r := range reasons {
		out = append(out, r.label)
	}
	return append(out, ReasonOther)
}

// maxReasons bounds the counters' array; a test keeps it above len(reasons).
const maxReasons = 32

// Counters counts accepted objects and refusals by reason. The zero value is
// ready; all methods are safe for concurrent use, and a nil *Counters counts
// nothing.
type Counters struct {
	accepted   atomic.Uint64
	duplicates atomic.Uint64
	refused    [maxReasons]atomic.Uint64
}

// Accept counts one accepted object.
func (c *Counters) Accept() {
	if c != nil {
		c.accepted.Add(1)
	}
}

// Duplicate counts one harmless repetition, such as a chunk that the broker
// delivered twice.
func (c *Counters) Duplicate() {
	if c != nil {
		c.duplicates.Add(1)
	}
}

// Refuse counts err under Reason(err); nil counts nothing.
func (c *Counters) Refuse(err error) {
	if c == nil || err == nil {
		return
	}
	i := slices.IndexFunc(reasons, func(r struct {
		err   error
		label string
	}) bool {
		return errors.Is(err, r.err)
	})
	if i < 0 {
		i = len(reasons)
	}
	c.refused[i].Add(1)
}

// Refused returns the number of refusals with the label reason (see Reasons).
func (c *Counters) Refused(reason string) uint64 {
	if c == nil {
		return 0
	}
	for i, r := range reasons {
		if r.label == reason {
			return c.refused[i].Load()
		}
	}
	if reason == ReasonOther {
		return c.refused[len(reasons)].Load()
	}
	return 0
}

// Snapshot returns every label of Reasons with its count.
func (c *Counters) Snapshot() map[string]uint64 {
	out := make(map[string]uint64, len(reasons)+1)
	for _, label := range Reasons() {
		out[label] = c.Refused(label)
	}
	return out
}
