package transport

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/fxamacker/cbor/v2"
)

// Reasons of a receiver for which the sender keeps an object, waits, and asks before it
// sends again.
const (
	ReasonBusy   = "busy"   // nothing is taken for the moment; the disk may be full
	ReasonUnread = "unread" // nobody reads the stream here
)

// Limits of receipts and asks.
const (
	MaxReceiptItems = 64
	MaxDetail       = 320 // bytes of a ReceiptItem.Detail
	maxReasonText   = 64
	maxReceipt      = 1 << 20                             // 64 items with 65536 chunks each
	maxAsk          = 128 + MaxReceiptItems*(MaxTopic+64) // bytes
)

// Receipt is the body of a KindReceipt object: what became of objects that its
// addressee sent. It is signed by the one who took them.
type Receipt struct {
	To    string // name of the sender of the objects, CheckName
	Items []ReceiptItem
}

// ReceiptItem is about one object.
type ReceiptItem struct {
	Object  [32]byte
	Outcome Outcome
	Reason  string // a label of Reasons or of the receiver's own; only with Refused
	Total   int    // chunks of the object; only with Partial, 2 to 65536
	Have    []byte // bit i%8 of byte i/8: chunk i is there; only with Partial
	// Detail says to people what differs; only with Refused, at most MaxDetail bytes of
	// printable UTF-8.
	Detail string
}

// Outcome says what became of an object at its receiver.
type Outcome uint8

// The outcomes.
const (
	// Taken: the receiver has it on disk and will answer for it. The sender may
	// delete its copy.
	Taken Outcome = 1
	// Refused: the receiver does not take it; Reason says why.
	Refused Outcome = 2
	// Partial: some chunks are there, Have says which.
	Partial Outcome = 3
	// Unknown: nothing of it is there.
	Unknown Outcome = 4
	// Working: all of it is there, and not safe yet. Ask again.
	Working Outcome = 5
)

// String returns the label of the outcome in logs and metrics.
func (o Outcome) String() string {
	switch o {
	case Taken:
		return "taken"
	case Refused:
		return "refused"
	case Partial:
		return "partial"
	case Unknown:
		return "unknown"
	case Working:
		return "working"
	}
	return "invalid"
}

// Detail returns text in the form that a ReceiptItem takes: cut to MaxDetail bytes, with every
// character that cannot be printed replaced.
func Detail(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > MaxDetail {
		text = strings.ToValidUTF8(text[:MaxDetail-3], "") + "..."
	}
	return text
}

// Has reports whether the receiver has chunk i.
func (it *ReceiptItem) Has(i int) bool {
	return i >= 0 && i < it.Total && it.Have[i/8]>>(i%8)&1 == 1
}

// Ask is the body of a KindAsk object: it asks for a receipt.
type Ask struct {
	To    string // name of the receiver, or empty: whoever receives
	Items []AskItem
}

// AskItem names an object and how it is cut.
type AskItem struct {
	Object [32]byte
	Topic  string // under which its chunks are published
	Total  int    // chunks, 1 to 65536
	Size   int    // bytes
}

// Versions of receipts and asks. Receipts of version 1 had no detail.
const (
	receiptVersion = 2
	askVersion     = 1
)

var receiptDec = must(cbor.DecOptions{
	IndefLength:      cbor.IndefLengthForbidden,
	TagsMd:           cbor.TagsForbidden,
	UTF8:             cbor.UTF8RejectInvalid,
	MaxNestedLevels:  4,
	MaxArrayElements: MaxReceiptItems,
	MaxMapPairs:      16,
}.DecMode())

func (r *Receipt) validate() error {
	if err := CheckName(r.To); err != nil {
		return fmt.Errorf("receipt: addressee: %w", err)
	}
	if len(r.Items) == 0 || len(r.Items) > MaxReceiptItems {
		return fmt.Errorf("%w: receipt of %d items, want 1 to %d", ErrMalformed, len(r.Items), MaxReceiptItems)
	}
	for i := range r.Items {
		it := &r.Items[i]
		partial := it.Outcome == Partial
		switch {
		case it.Outcome < Taken || it.Outcome > Working:
			return fmt.Errorf("%w: receipt: outcome %d", ErrMalformed, it.Outcome)
		case (it.Reason != "") != (it.Outcome == Refused) || len(it.Reason) > maxReasonText:
			return fmt.Errorf("%w: receipt: %v with the reason %q", ErrMalformed, it.Outcome, it.Reason)
		case it.Detail != "" && it.Outcome != Refused, !plainText(it.Detail, MaxDetail):
			return fmt.Errorf("%w: receipt: %v with a detail of %d bytes", ErrMalformed, it.Outcome, len(it.Detail))
		case !partial && (it.Total != 0 || len(it.Have) != 0):
			return fmt.Errorf("%w: receipt: %v with chunks", ErrMalformed, it.Outcome)
		case partial && (it.Total < 2 || it.Total > maxChunks || len(it.Have) != (it.Total+7)/8):
			return fmt.Errorf("%w: receipt: %d bytes for %d chunks", ErrMalformed, len(it.Have), it.Total)
		case partial && it.Total%8 != 0 && it.Have[len(it.Have)-1]>>(it.Total%8) != 0:
			return fmt.Errorf("%w: receipt: chunks beyond the last", ErrMalformed)
		}
		for j := 0; j < len(it.Reason); j++ {
			if c := it.Reason[j]; (c < 'a' || c > 'z') && c != '_' {
				return fmt.Errorf("%w: receipt: reason %q", ErrMalformed, it.Reason)
			}
		}
	}
	return nil
}

// MarshalReceipt encodes r as an object's body.
func MarshalReceipt(r Receipt) ([]byte, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	w := wireReceipt{Version: receiptVersion, To: r.To}
	for i := range r.Items {
		it := &r.Items[i]
		have := it.Have
		if have == nil {
			have = []byte{}
		}
		w.Items = append(w.Items, wireReceiptItem{Object: it.Object[:], Outcome: uint8(it.Outcome), Reason: it.Reason,
			Total: uint32(it.Total), Have: have, Detail: it.Detail})
	}
	b, err := wireEnc.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("encode receipt: %w", err)
	}
	return b, nil
}

// UnmarshalReceipt decodes a receipt strictly.
func UnmarshalReceipt(b []byte) (*Receipt, error) {
	var w wireReceipt
	if err := unmarshalExact(b, &w, "receipt", receiptVersion, maxReceipt); err != nil {
		return nil, err
	}
	r := &Receipt{To: w.To}
	for _, it := range w.Items {
		if len(it.Object) != 32 || it.Total > maxChunks {
			return nil, fmt.Errorf("%w: receipt: object id of %d bytes, %d chunks", ErrMalformed, len(it.Object),
				it.Total)
		}
		r.Items = append(r.Items, ReceiptItem{Object: [32]byte(it.Object), Outcome: Outcome(it.Outcome),
			Reason: it.Reason, Total: int(it.Total), Have: it.Have, Detail: it.Detail})
	}
	return r, r.validate()
}

type wireReceipt struct {
	_       struct{} `cbor:",toarray"`
	Version uint64
	To      string
	Items   []wireReceiptItem
}

type wireReceiptItem struct {
	_       struct{} `cbor:",toarray"`
	Object  []byte
	Outcome uint8
	Reason  string
	Total   uint32
	Have    []byte
	Detail  string
}

func (a *Ask) validate() error {
	if a.To != "" {
		if err := CheckName(a.To); err != nil {
			return fmt.Errorf("ask: addressee: %w", err)
		}
	}
	if len(a.Items) == 0 || len(a.Items) > MaxReceiptItems {
		return fmt.Errorf("%w: ask of %d items, want 1 to %d", ErrMalformed, len(a.Items), MaxReceiptItems)
	}
	for i := range a.Items {
		it := &a.Items[i]
		if it.Total < 1 || it.Total > maxChunks || it.Size < 1 || it.Size > MaxChunkSize*maxChunks/8 ||
			!ValidTopic(it.Topic) {
			return fmt.Errorf("%w: ask: object of %d bytes in %d chunks on %q", ErrMalformed, it.Size, it.Total,
				it.Topic)
		}
	}
	return nil
}

// MarshalAsk encodes a as an object's body.
func MarshalAsk(a Ask) ([]byte, error) {
	if err := a.validate(); err != nil {
		return nil, err
	}
	w := wireAsk{Version: askVersion, To: a.To}
	for i := range a.Items {
		it := &a.Items[i]
		w.Items = append(w.Items, wireAskItem{Object: it.Object[:], Topic: it.Topic, Total: uint32(it.Total),
			Size: uint64(it.Size)})
	}
	b, err := wireEnc.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("encode ask: %w", err)
	}
	return b, nil
}

// UnmarshalAsk decodes an ask strictly.
func UnmarshalAsk(b []byte) (*Ask, error) {
	var w wireAsk
	if err := unmarshalExact(b, &w, "ask", askVersion, maxAsk); err != nil {
		return nil, err
	}
	a := &Ask{To: w.To}
	for _, it := range w.Items {
		if len(it.Object) != 32 || it.Total > maxChunks || it.Size > 1<<40 {
			return nil, fmt.Errorf("%w: ask: object id of %d bytes, %d chunks", ErrMalformed, len(it.Object), it.Total)
		}
		a.Items = append(a.Items, AskItem{Object: [32]byte(it.Object), Topic: it.Topic, Total: int(it.Total),
			Size: int(it.Size)})
	}
	return a, a.validate()
}

type wireAsk struct {
	_       struct{} `cbor:",toarray"`
	Version uint64
	To      string
	Items   []wireAskItem
}

type wireAskItem struct {
	_      struct{} `cbor:",toarray"`
	Object []byte
	Topic  string
	Total  uint32
	Size   uint64
}

// unmarshalExact decodes an array whose first element is its version, and which has
// exactly one encoding.
func unmarshalExact(b []byte, w any, what string, version uint64, limit int) error {
	if len(b) > limit {
		return fmt.Errorf("%w: %s of %d bytes, want at most %d", ErrTooLarge, what, len(b), limit)
	}
	var parts []cbor.RawMessage
	if err := receiptDec.Unmarshal(b, &parts); err != nil {
		return decodeError(what, err)
	}
	var has uint64
	if len(parts) == 0 || receiptDec.Unmarshal(parts[0], &has) != nil {
		return fmt.Errorf("%w: %s has no version", ErrMalformed, what)
	}
	switch {
	case has < version:
		return fmt.Errorf("%w: %s of version %d, this build reads %d", ErrDowngraded, what, has, version)
	case has > version:
		return fmt.Errorf("%w: %s of version %d, this build reads %d", ErrUnsupportedVersion, what, has, version)
	}
	if err := receiptDec.Unmarshal(b, w); err != nil {
		return decodeError(what, err)
	}
	if again, err := wireEnc.Marshal(w); err != nil || !bytes.Equal(again, b) {
		return fmt.Errorf("%w: %s is not in canonical form", ErrMalformed, what)
	}
	return nil
}

// Whole returns the payload of an object that travels as a single chunk: a receipt,
// an ask or a status. size is the largest payload (0: DefaultChunkSize).
func Whole(sealed []byte, size int) ([]byte, error) {
	pieces, err := Split(sealed, size)
	if err != nil {
		return nil, err
	}
	if len(pieces) != 1 {
		return nil, fmt.Errorf("%w: an object of %d bytes does not fit into one message", ErrTooLarge, len(sealed))
	}
	return pieces[0].Marshal()
}

// ReadWhole returns the object in a payload made by Whole.
func ReadWhole(payload []byte, maxObject int) ([]byte, error) {
	c, err := UnmarshalChunk(payload, maxObject)
	if err != nil {
		return nil, err
	}
	if c.Total != 1 {
		return nil, fmt.Errorf("%w: one of %d chunks, want a whole object", ErrMalformed, c.Total)
	}
	if ObjectID(c.Data) != c.Object {
		return nil, fmt.Errorf("%w: object %x", ErrHash, c.Object[:6])
	}
	return c.Data, nil
}

// SealReceipt returns the payload of a signed receipt from the one called name.
func SealReceipt(r Receipt, name string, key *SigningKey, now time.Time, number func() (boot, sequence uint64)) ([]byte,
	error) {
	body, err := MarshalReceipt(r)
	if err != nil {
		return nil, err
	}
	boot, sequence := number()
	sealed, err := Seal(Meta{Kind: KindReceipt, Device: name, BootEpoch: boot, Sequence: sequence,
		Start: now.UnixNano(), End: now.UnixNano()}, body, key)
	if err != nil {
		return nil, err
	}
	return Whole(sealed, MaxChunkSize)
}
