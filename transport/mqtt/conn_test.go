package mqtt

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/hencedge/hencedge/transport"
)

// FuzzBrokerBytes plays a hostile broker to the guard in front of the MQTT
// library: what passes is framed, allowed and within the limit.
func FuzzBrokerBytes(f *testing.F) {
	f.Add([]byte{0x20, 2, 0, 0, 0x32, 9, 0, 1, 'q', 0, 7, 'h', 'e', 'l', 'l', 0xd0, 0})
	f.Add([]byte{0x30, 0xff, 0x7f, 0, 1, 'q'})
	f.Add([]byte{0x15, 3, 3, 0, 2, 2, 70}) // what a TLS server answers
	f.Fuzz(func(t *testing.T, b []byte) {
		g := newGuardedConn(readOnly{Reader: bytes.NewReader(b)}, 64, [16]byte{1})
		out, err := io.ReadAll(g)
		if err == errTLS {
			if !bytes.Contains(b, []byte{0x15, 3}) {
				t.Fatal("taken for an alert")
			}
		} else if err != nil && err != io.ErrUnexpectedEOF {
			if transport.Reason(err) == transport.ReasonOther {
				t.Fatalf("%v has no label", err)
			}
		}
		for len(out) > 1 {
			kind, length, head := out[0]>>4, int(out[1]&0x7f), 2
			if out[1] >= 0x80 {
				if len(out) < 3 {
					t.Fatal("cut header")
				}
				length, head = length|int(out[2])<<7, 3
			}
			if _, reply := replySize[kind]; kind != typePublish && !reply {
				t.Fatalf("packet type %d passed", kind)
			}
			if length > 64+4+transport.MaxTopic {
				t.Fatalf("a packet of %d bytes passed", length)
			}
			out = out[min(len(out), head+length):]
		}
	})
}

type readOnly struct {
	net.Conn
	io.Reader
}

func (r readOnly) Read(p []byte) (int, error) { return r.Reader.Read(p) }
