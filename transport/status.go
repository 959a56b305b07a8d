package transport

import (
	"bytes"
	"fmt"
)

// Status is the body of a KindStatus object: in clear, retained under
// StatusTopic, once as a birth message and once as the last will.
type Status struct {
	Online  bool
	Version string   // of the software, at most MaxStatusText bytes
	Streams []string // that the sender publishes, at most MaxStatusStreams
	Since   int64    // start of the process, unix nanoseconds
}

// Limits of a Status.
const (
	MaxStatusText    = 64
	MaxStatusStreams = 64
	maxStatus        = 8 << 10
)

type wireStatus struct {
	Online  bool     `cbor:"0,keyasint"`
	Version string   `cbor:"1,keyasint"`
	Streams []string `cbor:"2,keyasint,omitempty"`
	Since   int64    `cbor:"3,keyasint"`
}

func (s *Status) validate() error {
	if len(s.Version) > MaxStatusText || len(s.Streams) > MaxStatusStreams {
		return fmt.Errorf("%w: status with a version of %d bytes and %d streams", ErrMalformed, len(s.Version), len(s.Streams))
	}
	for i := 0; i < len(s.Version); i++ {
		if s.Version[i] < 0x20 || s.Version[i] > 0x7e {
			return fmt.Errorf("%w: status: version is not printable ASCII", ErrMalformed)
		}
	}
	for _, name := range s.Streams {
		if err := CheckName(name); err != nil {
			return fmt.Errorf("status: stream: %w", err)
		}
	}
	return nil
}

// MarshalStatus encodes s as an object's body.
func MarshalStatus(s Status) ([]byte, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	b, err := wireEnc.Marshal(wireStatus(s))
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
	var w wireStatus
	if err := wireDec.Unmarshal(b, &w); err != nil {
		return nil, decodeError("status", err)
	}
	s := Status(w)
	if err := s.validate(); err != nil {
		return nil, err
	}
	if again, err := wireEnc.Marshal(&w); err != nil || !bytes.Equal(again, b) {
		return nil, fmt.Errorf("%w: status is not in canonical form", ErrMalformed)
	}
	return &s, nil
}
