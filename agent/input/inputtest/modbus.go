package inputtest

import (
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"testing"
	"time"

	"github.com/simonvetter/modbus"

	"github.com/hencedge/hencedge/internal/testrig"
)

// ModbusServer starts a Modbus TCP server of another library and gives its address.
func ModbusServer(t *testing.T, h modbus.RequestHandler) string {
	t.Helper()
	addr := testrig.FreeAddress(t)
	s, err := modbus.NewServer(&modbus.ServerConfiguration{URL: "tcp://" + addr, Timeout: time.Minute,
		Logger: log.New(io.Discard, "", 0)}, h)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	return addr
}

// ModbusBus passes serial frames to the Modbus TCP servers of units; other units are
// silent, as on a real bus.
func ModbusBus(serial io.ReadWriter, units map[byte]string) error {
	for n := uint16(1); ; n++ {
		req := make([]byte, 8)
		if _, err := io.ReadFull(serial, req); err != nil {
			return nil // the other side is gone
		}
		if modbusCRC(req) != 0 {
			return errors.New("two requests on the line at a time")
		}
		addr, ok := units[req[0]]
		if !ok {
			continue
		}
		body, err := ask(addr, n, req[:6])
		if err != nil {
			return err
		}
		crc := modbusCRC(body)
		if _, err := serial.Write(append(body, byte(crc), byte(crc>>8))); err != nil {
			return nil
		}
	}
}

// ask sends one request over Modbus TCP and gives unit and PDU of the answer.
func ask(addr string, n uint16, request []byte) ([]byte, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	head := binary.BigEndian.AppendUint16(nil, n)
	if _, err := c.Write(append(append(head, 0, 0, 0, byte(len(request))), request...)); err != nil {
		return nil, err
	}
	head = make([]byte, 6)
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint16(head[4:]))
	_, err = io.ReadFull(c, body)
	return body, err
}

// modbusCRC returns the checksum of MODBUS over Serial Line V1.02, bit by bit as its
// section 6.2.2 describes it.
func modbusCRC(b []byte) uint16 {
	crc := uint16(0xffff)
	for _, c := range b {
		crc ^= uint16(c)
		for range 8 {
			if crc&1 == 1 {
				crc = crc>>1 ^ 0xa001
			} else {
				crc >>= 1
			}
		}
	}
	return crc
}
