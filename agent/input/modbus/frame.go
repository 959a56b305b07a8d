package modbus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hencedge/hencedge/agent/input/tty"
)

// Function codes (MODBUS Application Protocol V1.1b3, section 6).
const (
	readCoils    = 1
	readDiscrete = 2
	readHolding  = 3
	readInput    = 4
	exception    = 0x80
)

// Limits of one request (the same, sections 6.1 to 6.4).
const (
	maxBits      = 2000
	maxRegisters = 125
)

// Errors of an exchange.
var (
	// ErrException: the device refused the request.
	ErrException = errors.New("modbus exception")
	// errGateway: a gateway says that the unit does not answer. It is an
	// ErrException.
	errGateway = fmt.Errorf("%w", ErrException)
	// errSpan: the device does not have the registers, or not so many together. It is an
	// ErrException.
	errSpan = fmt.Errorf("%w", ErrException)
	// ErrFrame: what came back is no answer to the request.
	ErrFrame = errors.New("modbus: unusable answer")
)

// Exception codes that say more than no: about the registers that were asked for, and
// from a gateway, which answers for a unit.
const (
	illegalAddress = 2
	illegalValue   = 3
	gatewayPath    = 10
	gatewayTarget  = 11
)

// exceptions are the exception codes (the same, section 7).
var exceptions = map[byte]string{
	1: "illegal function", 2: "illegal data address", 3: "illegal data value", 4: "device failure", 5: "acknowledge",
	6: "device busy",
	8: "memory parity error", 10: "gateway path unavailable", 11: "gateway target does not respond",
}

// framing sends a request in the frames of one transport and gives the PDU that
// comes back.
type framing interface {
	exchange(l link, unit byte, r request) ([]byte, error)
}

// link is a connection to a device.
type link interface {
	io.ReadWriteCloser
	SetDeadline(t time.Time) error
}

// request asks for count bits or registers from address on.
type request struct {
	function byte
	address  uint16
	count    uint16
}

func (r request) pdu() []byte {
	b := []byte{r.function}
	b = binary.BigEndian.AppendUint16(b, r.address)
	return binary.BigEndian.AppendUint16(b, r.count)
}

// payload returns the number of data bytes of the answer.
func (r request) payload() int {
	if r.function == readCoils || r.function == readDiscrete {
		return (int(r.count) + 7) / 8
	}
	return 2 * int(r.count)
}

// answer takes the data out of the answer's PDU.
func (r request) answer(pdu []byte) ([]byte, error) {
	switch {
	case len(pdu) == 2 && pdu[0] == r.function|exception:
		text, ok := exceptions[pdu[1]]
		if !ok {
			text = "unknown"
		}
		kind := ErrException
		switch pdu[1] {
		case illegalAddress, illegalValue:
			kind = errSpan
		case gatewayPath, gatewayTarget:
			kind = errGateway
		}
		return nil, fmt.Errorf("%w %d (%s) at address %d, count %d", kind, pdu[1], text, r.address, r.count)
	case len(pdu) < 2 || pdu[0] != r.function:
		return nil, fmt.Errorf("%w: function 0x%02x", ErrFrame, first(pdu))
	case int(pdu[1]) != r.payload() || len(pdu) != 2+r.payload():
		return nil, fmt.Errorf("%w: %d bytes of data, want %d", ErrFrame, len(pdu)-2, r.payload())
	}
	return pdu[2:], nil
}

func first(b []byte) byte {
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

// mbap is Modbus TCP (MODBUS Messaging on TCP/IP Implementation Guide V1.0b,
// section 3.1.3): transaction, protocol 0, length, unit, PDU.
type mbap struct{ transaction uint16 }

func (m *mbap) exchange(l link, unit byte, r request) ([]byte, error) {
	m.transaction++
	pdu := r.pdu()
	b := binary.BigEndian.AppendUint16(nil, m.transaction)
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(1+len(pdu)))
	b = append(append(b, unit), pdu...)
	if _, err := l.Write(b); err != nil {
		return nil, err
	}
	return m.receive(l, unit)
}

func (m *mbap) receive(r io.Reader, unit byte) ([]byte, error) {
	var head [7]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(head[4:])) - 1
	switch {
	case binary.BigEndian.Uint16(head[2:]) != 0:
		return nil, fmt.Errorf("%w: protocol %d", ErrFrame, binary.BigEndian.Uint16(head[2:]))
	case n < 2 || n > 253:
		return nil, fmt.Errorf("%w: %d bytes long", ErrFrame, n)
	case binary.BigEndian.Uint16(head[0:]) != m.transaction:
		return nil, fmt.Errorf("%w: it belongs to another transaction", ErrFrame)
	case head[6] != unit:
		return nil, fmt.Errorf("%w: it comes from unit %d, not %d", ErrFrame, head[6], unit)
	}
	pdu := make([]byte, n)
	_, err := io.ReadFull(r, pdu)
	return pdu, err
}

// rtu is the serial framing (MODBUS over Serial Line V1.02, section 2.5.1):
// unit, PDU, CRC. gap is the silence before a frame: 3.5 characters, at least
// 1.75 ms.
type rtu struct{ gap time.Duration }

func (f rtu) exchange(l link, unit byte, r request) ([]byte, error) {
	time.Sleep(f.gap)
	if port, ok := l.(*os.File); ok {
		if err := tty.Discard(port); err != nil { // noise, and answers that come too late
			return nil, err
		}
	}
	b := append([]byte{unit}, r.pdu()...)
	b = binary.LittleEndian.AppendUint16(b, crc16(b))
	if _, err := l.Write(b); err != nil {
		return nil, err
	}
	return f.receive(l, unit, r)
}

// maxNoise is how many bytes that belong to no answer are passed over.
const maxNoise = 256

// receive finds the answer in what comes. A transceiver that turns from sending to
// receiving often puts a byte before it, and some put the request there.
func (rtu) receive(r io.Reader, unit byte, want request) ([]byte, error) {
	var b []byte
	for off, size := 0, 3; ; {
		if have := len(b); have < off+size {
			b = append(b, make([]byte, off+size-have)...)
			if n, err := io.ReadFull(r, b[have:]); err != nil {
				if have += n; have > 0 {
					err = fmt.Errorf("%w: %d bytes that are not an answer from unit %d: noise, wrong line "+
						"settings, or two devices with the same address: %w", ErrFrame, have, unit, err)
				}
				return nil, err
			}
		}
		frame := b[off:]
		whole := 0
		switch {
		case frame[0] != unit:
		case frame[1] == want.function|exception:
			whole = 5 // unit, function, code, CRC
		case frame[1] == want.function && int(frame[2]) == want.payload():
			whole = 3 + want.payload() + 2
		}
		switch {
		case whole > size:
			size = whole
			continue
		case whole > 0 && crc16(frame[:whole-2]) == binary.LittleEndian.Uint16(frame[whole-2:]):
			return frame[1 : whole-2], nil
		}
		if off, size = off+1, 3; off > maxNoise {
			return nil, fmt.Errorf("%w: %d bytes of noise", ErrFrame, len(b))
		}
	}
}

// crc16 returns the checksum of serial frames: polynomial 0xA001 (reflected 0x8005),
// start 0xFFFF (the same, section 6.2.2).
func crc16(b []byte) uint16 {
	crc := uint16(0xffff)
	for _, c := range b {
		crc ^= uint16(c)
		for range 8 {
			bit := crc & 1
			crc = crc>>1 ^ bit*0xa001
		}
	}
	return crc
}
