package transport

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
)

// Status is the body of a KindStatus object: in clear, retained under
// StatusTopic, once as a birth message and once as the last will.
type Status struct {
	Online   bool
	Version  string         // of the software, at most MaxStatusText bytes
	Streams  []StreamStatus // that the sender publishes, at most MaxStatusStreams
	Since    int64          // start of the process, unix nanoseconds
	KeyID    [16]byte       // key set that the sender encrypts under; zeros: none
	KeyEpoch uint32         // of that key set
	// CertificateEnd is the end of the validity of the TLS client certificate that the sender shows to the
	// broker, unix nanoseconds; 0: it shows none, or is older than the field.
	CertificateEnd int64
}

// StreamStatus is a stream as its sender describes it. One without channels is
// a name alone: its description did not fit.
type StreamStatus struct {
	Name     string
	Params   string // name of the parameters
	LogScale int    // 0: the parameters' own
	Packing  string
	Samples  int   // of a window, per channel
	Every    int64 // length of a window by time in nanoseconds; 0: by count
	Channels []ChannelStatus
	Places   int // that share a ciphertext; 0: none
	// Resolutions are the widths of the channels' bins, for counts, or of their steps, for whole numbers; nil: none.
	Resolutions []float64
}

// ChannelStatus is one channel, in slot order.
type ChannelStatus struct {
	_        struct{} `cbor:",toarray"`
	Name     string
	Unit     string
	Min, Max float64 // the range
}

// Limits of a Status.
const (
	MaxStatusText     = 64
	MaxStatusStreams  = 64
	MaxStatusChannels = 1024
	maxStatus         = 64 << 10
)

// statusFormat is the format of a status body; 1 had names of streams alone.
const statusFormat = 2

// statusDec is wireDec with room for the channels of a stream.
var (
	statusDec  = must(statusDecOptions(cbor.ExtraDecErrorUnknownField).DecMode())
	statusPeek = must(statusDecOptions(cbor.ExtraDecErrorNone).DecMode())
)

func statusDecOptions(extra cbor.ExtraDecErrorCond) cbor.DecOptions {
	o := strictDecOptions(extra)
	o.MaxArrayElements = MaxStatusChannels
	return o
}

func (s *Status) validate() error {
	if len(s.Version) > MaxStatusText || len(s.Streams) > MaxStatusStreams {
		return fmt.Errorf("%w: status with a version of %d bytes and %d streams", ErrMalformed, len(s.Version),
			len(s.Streams))
	}
	for i := 0; i < len(s.Version); i++ {
		if s.Version[i] < 0x20 || s.Version[i] > 0x7e {
			return fmt.Errorf("%w: status: version is not printable ASCII", ErrMalformed)
		}
	}
	if s.KeyID == [16]byte{} && s.KeyEpoch != 0 {
		return fmt.Errorf("%w: status: key epoch %d without a key set", ErrMalformed, s.KeyEpoch)
	}
	if s.CertificateEnd < 0 {
		return fmt.Errorf("%w: status: a certificate that ended before 1970", ErrMalformed)
	}
	for i := range s.Streams {
		if err := s.Streams[i].validate(); err != nil {
			return err
		}
	}
	return nil
}

func (s *StreamStatus) validate() error {
	if err := CheckName(s.Name); err != nil {
		return fmt.Errorf("status: stream: %w", err)
	}
	fail := func(what string) error {
		return fmt.Errorf("%w: status: stream %q: %s", ErrMalformed, s.Name, what)
	}
	if len(s.Channels) == 0 {
		if s.Params != "" || s.LogScale != 0 || s.Packing != "" || s.Samples != 0 || s.Every != 0 ||
			s.Places != 0 || len(s.Resolutions) > 0 {
			return fail("a description without channels")
		}
		return nil
	}
	switch {
	case len(s.Channels) > MaxStatusChannels:
		return fail(fmt.Sprintf("%d channels", len(s.Channels)))
	case CheckName(s.Params) != nil, CheckName(s.Packing) != nil:
		return fail("parameters or packing without a name")
	case s.LogScale < 0 || s.LogScale > 120, s.Samples < 1 || s.Samples > MaxSamples, s.Every < 0,
		s.Places < 0 || s.Places > MaxSlots:
		return fail(fmt.Sprintf("scale 2^%d, %d samples every %d ns, %d places", s.LogScale, s.Samples, s.Every,
			s.Places))
	}
	if n := len(s.Resolutions); n > 0 && n != len(s.Channels) {
		return fail(fmt.Sprintf("%d resolutions of %d channels", n, len(s.Channels)))
	}
	for _, r := range s.Resolutions {
		if !finite(r) || r <= 0 {
			return fail(fmt.Sprintf("a resolution of %g", r))
		}
	}
	for i := range s.Channels {
		c := &s.Channels[i]
		if CheckName(c.Name) != nil || !plainText(c.Unit, MaxStatusText) || !finite(c.Min) || !finite(c.Max) {
			return fail(fmt.Sprintf("channel %d is not one", i))
		}
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// plainText reports whether s is at most limit bytes of UTF-8 without characters that
// could drive a terminal.
func plainText(s string, limit int) bool {
	return len(s) <= limit && utf8.ValidString(s) && !strings.ContainsFunc(s,
		func(r rune) bool { return !unicode.IsPrint(r) })
}

// Fit leaves out descriptions of streams, the last ones first, until the encoded
// status has at most limit bytes. The names stay.
func (s *Status) Fit(limit int) {
	limit = min(limit, maxStatus)
	streams := append([]StreamStatus(nil), s.Streams...)
	s.Streams = streams
	for i := len(streams) - 1; i >= 0; i-- {
		if b, err := MarshalStatus(*s); err != nil || len(b) <= limit {
			return
		}
		streams[i] = StreamStatus{Name: streams[i].Name}
	}
}

// MarshalStatus encodes s as an object's body.
func MarshalStatus(s Status) ([]byte, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	w := wireStatus{Online: s.Online, Version: s.Version, Since: s.Since, Format: statusFormat, KeyEpoch: s.KeyEpoch,
		CertificateEnd: s.CertificateEnd}
	if s.KeyID != [16]byte{} {
		w.KeyID = s.KeyID[:]
	}
	for _, st := range s.Streams {
		w.Streams = append(w.Streams, wireStreamStatus(st))
	}
	b, err := wireEnc.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	return b, nil
}

// UnmarshalStatus decodes a status body strictly.
func UnmarshalStatus(b []byte) (*Status, error) {
	if len(b) > maxStatus {
		return nil, fmt.Errorf("%w: status of %d bytes, want at most %d", ErrTooLarge, len(b), maxStatus)
	}
	var peek struct {
		Format *uint64 `cbor:"4,keyasint"`
	}
	if err := statusPeek.Unmarshal(b, &peek); err != nil {
		return nil, decodeError("status", err)
	}
	switch {
	case peek.Format == nil:
		return nil, fmt.Errorf("%w: status of format 1, this build reads %d", ErrDowngraded, statusFormat)
	case *peek.Format != statusFormat:
		return nil, fmt.Errorf("%w: status of format %d, this build reads %d", ErrUnsupportedVersion, *peek.Format,
			statusFormat)
	}
	var w wireStatus
	if err := statusDec.Unmarshal(b, &w); err != nil {
		return nil, decodeError("status", err)
	}
	if len(w.KeyID) != 0 && len(w.KeyID) != 16 {
		return nil, fmt.Errorf("%w: status: key set id of %d bytes", ErrMalformed, len(w.KeyID))
	}
	s := Status{Online: w.Online, Version: w.Version, Since: w.Since, KeyEpoch: w.KeyEpoch,
		CertificateEnd: w.CertificateEnd}
	copy(s.KeyID[:], w.KeyID)
	for _, st := range w.Streams {
		s.Streams = append(s.Streams, StreamStatus(st))
	}
	if err := s.validate(); err != nil {
		return nil, err
	}
	if again, err := MarshalStatus(s); err != nil || !bytes.Equal(again, b) {
		return nil, fmt.Errorf("%w: status is not in canonical form", ErrMalformed)
	}
	return &s, nil
}

type wireStatus struct {
	Online   bool               `cbor:"0,keyasint"`
	Version  string             `cbor:"1,keyasint"`
	Streams  []wireStreamStatus `cbor:"2,keyasint,omitempty"`
	Since    int64              `cbor:"3,keyasint"`
	Format   uint64             `cbor:"4,keyasint"`
	KeyID    []byte             `cbor:"5,keyasint,omitempty"`
	KeyEpoch uint32             `cbor:"6,keyasint,omitempty"`

	CertificateEnd int64 `cbor:"7,keyasint,omitempty"`
}

type wireStreamStatus struct {
	Name     string          `cbor:"0,keyasint"`
	Params   string          `cbor:"1,keyasint,omitempty"`
	LogScale int             `cbor:"2,keyasint,omitempty"`
	Packing  string          `cbor:"3,keyasint,omitempty"`
	Samples  int             `cbor:"4,keyasint,omitempty"`
	Every    int64           `cbor:"5,keyasint,omitempty"`
	Channels []ChannelStatus `cbor:"6,keyasint,omitempty"`
	Places   int             `cbor:"7,keyasint,omitempty"`

	Resolutions []float64 `cbor:"8,keyasint,omitempty"`
}

// StatusMessage is a status as it came from the broker.
type StatusMessage struct {
	*Status
	Object *Object
	Sealed []byte // there if the message held an object, also if that is refused
}

// NewStatusVerifier returns what OpenStatus takes for the devices of a trust store. Which status is the newest
// of its device is left to a StatusOrder.
func NewStatusVerifier(trust *TrustStore, prefix string) (*Verifier, error) {
	v, err := NewVerifier(VerifierOptions{Trust: trust, Kinds: []Kind{KindStatus}, NoReplay: true,
		MaxObject: maxSealedStatus, TopicPrefix: prefix})
	if err == nil {
		v.keys = nil // a device sends a status too rarely for a table of its key
	}
	return v, err
}

const maxSealedStatus = 128 << 10

// OpenStatus opens a message of a status topic: one chunk with a status that the device of the topic has signed.
// The message is never nil.
func OpenStatus(v *Verifier, d Delivery) (*StatusMessage, error) {
	m := &StatusMessage{}
	var err error
	if m.Sealed, err = ReadWhole(d.Payload, maxSealedStatus); err != nil {
		return m, err
	}
	if m.Object, err = v.OpenFrom(d.Topic, m.Sealed); err != nil {
		return m, err
	}
	m.Status, err = UnmarshalStatus(m.Object.Body)
	return m, err
}

// StatusOrder tells the newest status of one device from those that somebody kept. The zero value has had none.
//
// A last will has a smaller number than the birth message of its connection, which is made after it. So of the
// numbers before the newest, an offline status counts if it was made after the status before the newest.
type StatusOrder struct {
	had                   bool
	boot, sequence, first uint64 // first: the least number of a last will that counts
}

// Take reports whether a status is as new as any before, and remembers it if so.
func (o *StatusOrder) Take(m *StatusMessage) bool {
	boot, sequence := m.Object.Meta.BootEpoch, m.Object.Meta.Sequence
	switch {
	case !o.had || boot > o.boot:
		*o = StatusOrder{had: true, boot: boot, sequence: sequence}
	case boot < o.boot:
		return false
	case sequence > o.sequence:
		o.first, o.sequence = o.sequence+1, sequence
	case sequence < o.sequence:
		return !m.Online && sequence >= o.first
	}
	return true
}

// Newest returns the number of the newest status, 0 before any.
func (o *StatusOrder) Newest() uint64 { return o.sequence }
