package mqtt

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// MQTT 3.1.1 packet types that a broker may send to a client that publishes
// and subscribes with QoS 0 and 1 only.
const (
	typeConnack  = 2
	typePublish  = 3
	typePuback   = 4
	typeSuback   = 9
	typeUnsuback = 11
	typePingreq  = 12 // of the client
	typePingresp = 13
)

// replySize is the only length that each reply may have: subscriptions are
// made one by one, so every reply is a message id and at most one code.
var replySize = map[byte]int{typeConnack: 2, typePuback: 2, typeSuback: 3, typeUnsuback: 2, typePingresp: 0}

// markerSize is the length of the payload that stands in for an oversized one:
// 16 unguessable bytes and the size that was refused.
const markerSize = 16 + 8

// guardedConn checks the framing of everything that comes in before the MQTT library
// allocates memory for it. It skips the payload of a PUBLISH above the limit and hands the
// packet on with a marker instead, so that it can be counted and acknowledged. Ending the
// connection would only make the broker deliver the message again. Messages with QoS 0 are
// treated in the same way unless qos0 is set, since a broker sends any number of them
// without waiting for acknowledgements. Any other malformed packet ends the connection.
//
// It reads a message only when gate lets it in. Meanwhile the broker has to wait, and the
// library's pings are answered here: the broker's answers lie behind that message. Payloads go
// to deposit, and the library gets the same message without one: it would copy them twice.
type guardedConn struct {
	net.Conn
	in       *bufio.Reader
	limit    int
	qos0     bool                 // messages with QoS 0 are taken
	gate     gate                 // nil: everything is let in
	deposit  func(payload []byte) // takes the payload of what gate let in
	patience time.Duration        // how long a message waits at the gate before it is late
	marker   [16]byte
	head     []byte // bytes to hand on first
	pass     int    // bytes to hand on unchanged after head
	next     *incoming
	err      error
	killed   atomic.Bool
	ping     chan struct{} // holds one when a ping of the library is not answered
	closed   chan struct{}
	once     sync.Once

	// resumes says whether there are subscriptions to make again in a new session; may be nil.
	resumes func() bool
	writing sync.Mutex
	holding bool     // messages wait for the subscriptions
	held    [][]byte // these
}

// incoming is a message of which the payload has not been read.
type incoming struct {
	topic string
	first byte             // of the packet
	vary  []byte           // what comes between its length and the payload
	size  int              // of the payload, bytes
	limit <-chan time.Time // ends its wait for room; nil: that has not begun
	late  bool
}

// pong is the answer to a ping.
var pong = []byte{typePingresp << 4, 0}

// errKilled is what the library sees on a connection that was given up. The library would
// ignore net.ErrClosed, which it takes for its own doing.
var errKilled = errors.New("connection given up")

// kill closes the connection in a way that the library notices.
func (g *guardedConn) kill() {
	g.killed.Store(true)
	g.Close()
}

// Close closes the connection, and ends a Read that waits for room.
func (g *guardedConn) Close() error {
	g.once.Do(func() { close(g.closed) })
	return g.Conn.Close()
}

// Write writes b. On a killed connection it fails with errKilled.
func (g *guardedConn) Write(p []byte) (int, error) {
	if len(p) == 2 && p[0]>>4 == typePingreq {
		select {
		case g.ping <- struct{}{}:
		default:
		}
	}
	if len(p) > 0 && p[0]>>4 == typePublish && g.hold(p) {
		return len(p), nil
	}
	n, err := g.Conn.Write(p)
	if err != nil && g.killed.Load() {
		err = errKilled
	}
	return n, err
}

// A broker that lost the session has no subscriptions. A message that somebody answers must
// not reach it before they are made again, or the answer finds nobody. The library sends what
// was not acknowledged as soon as it is connected. So messages wait here: the library writes
// each packet at once, and resends what was not acknowledged when this connection ends.

// hold keeps a message until release, if it has to wait.
func (g *guardedConn) hold(packet []byte) bool {
	g.writing.Lock()
	defer g.writing.Unlock()
	if g.holding {
		g.held = append(g.held, bytes.Clone(packet))
	}
	return g.holding
}

// begin decides, from the broker's answer to CONNECT, whether messages have to wait.
func (g *guardedConn) begin(connack []byte) {
	accepted, present := connack[1] == 0, connack[0]&1 == 1
	g.writing.Lock()
	defer g.writing.Unlock()
	g.holding = accepted && !present && g.resumes != nil && g.resumes()
}

// release sends what was held. It may be called twice.
func (g *guardedConn) release(timeout time.Duration) {
	g.writing.Lock()
	defer g.writing.Unlock()
	for _, packet := range g.held {
		if g.SetWriteDeadline(time.Now().Add(timeout)) != nil {
			break
		}
		if _, err := g.Conn.Write(packet); err != nil {
			g.kill()
			break
		}
	}
	if len(g.held) > 0 {
		_ = g.SetWriteDeadline(time.Time{}) // fails on a closed connection
	}
	g.holding, g.held = false, nil
}

func newGuardedConn(c net.Conn, limit int, marker [16]byte) *guardedConn {
	return &guardedConn{Conn: c, in: bufio.NewReaderSize(c, 16<<10), limit: limit, marker: marker,
		ping: make(chan struct{}, 1), closed: make(chan struct{})}
}

// Read returns bytes whose framing was checked.
func (g *guardedConn) Read(p []byte) (int, error) {
	n, err := g.read(p)
	if err != nil && g.killed.Load() {
		err = errKilled
	}
	return n, err
}

func (g *guardedConn) read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(g.head) == 0 && g.pass == 0 {
		if g.err == nil && g.next == nil {
			g.err = g.packet()
		}
		if g.err == nil && g.next != nil {
			g.err = g.admit()
		}
		if g.err != nil {
			return 0, g.err
		}
	}
	if len(g.head) > 0 {
		n := copy(p, g.head)
		g.head = g.head[n:]
		return n, nil
	}
	n, err := g.in.Read(p[:min(len(p), g.pass)])
	g.pass -= n
	return n, err
}

// admit waits until the next message may come in, and hands it on then. If the library pings
// meanwhile, it hands on an answer instead.
func (g *guardedConn) admit() error {
	for g.gate != nil {
		again := g.gate(g.next.topic, g.next.size, g.next.late)
		if again == nil {
			break
		}
		if g.next.limit == nil {
			g.next.limit = time.After(g.patience)
		}
		select {
		case <-again:
		case <-g.next.limit:
			g.next.late = true
		case <-g.ping:
			g.head = pong
			return nil
		case <-g.closed:
			return net.ErrClosed
		}
	}
	handOn := g.next.size
	if g.gate != nil {
		payload := make([]byte, g.next.size)
		if _, err := io.ReadFull(g.in, payload); err != nil {
			return err
		}
		g.deposit(payload)
		handOn = 0
	}
	g.head = append([]byte{g.next.first}, encodeLength(len(g.next.vary)+handOn)...)
	g.head, g.pass = append(g.head, g.next.vary...), handOn
	select {
	case <-g.ping: // a connection that brings messages lives
		g.head = append(bytes.Clone(pong), g.head...)
	default:
	}
	g.next = nil
	return nil
}

// packet reads the start of one packet and decides what becomes of it.
func (g *guardedConn) packet() error {
	first, err := g.in.ReadByte()
	if err != nil {
		return err
	}
	length, err := g.remainingLength()
	if err != nil {
		return err
	}
	if isAlert(first, length) {
		return errTLS
	}
	kind := first >> 4
	if kind != typePublish {
		want, ok := replySize[kind]
		if !ok || length != want || first&0x0f != 0 {
			return fmt.Errorf("%w: broker sent packet type %d of %d bytes", transport.ErrMalformed, kind, length)
		}
		if kind == typeConnack {
			answer, err := g.in.Peek(length)
			if err != nil {
				return err
			}
			g.begin(answer)
		}
		if kind == typePingresp {
			select {
			case <-g.ping:
			default:
			}
		}
		g.head, g.pass = append([]byte{first}, encodeLength(length)...), length
		return nil
	}
	qos := first >> 1 & 3
	if qos > 1 {
		return fmt.Errorf("%w: broker sent a message with QoS %d", transport.ErrMalformed, qos)
	}
	var size [2]byte
	if length < 2 {
		return fmt.Errorf("%w: broker sent a message of %d bytes", transport.ErrMalformed, length)
	}
	if _, err := io.ReadFull(g.in, size[:]); err != nil {
		return err
	}
	topic := int(binary.BigEndian.Uint16(size[:]))
	vary := topic + 2*int(qos) // topic and, with QoS 1, the message id
	payload := length - 2 - vary
	if topic == 0 || topic > transport.MaxTopic || payload < 0 {
		return fmt.Errorf("%w: broker sent a topic of %d bytes in a message of %d", transport.ErrMalformed, topic,
			length)
	}
	rest := make([]byte, vary)
	if _, err := io.ReadFull(g.in, rest); err != nil {
		return err
	}
	varying := append(size[:], rest...)
	if payload <= g.limit && (qos > 0 || g.qos0) {
		g.next = &incoming{topic: string(rest[:topic]), first: first, vary: varying, size: payload}
		return nil
	}
	if _, err := io.CopyN(io.Discard, g.in, int64(payload)); err != nil {
		return err
	}
	g.head = append([]byte{first}, encodeLength(len(varying)+markerSize)...)
	g.head = append(append(g.head, varying...), g.marker[:]...)
	g.head = binary.BigEndian.AppendUint64(g.head, uint64(payload))
	return nil
}

// oversized reports whether payload stands in for an oversized one, and its size.
func oversized(payload []byte, marker [16]byte) (size uint64, ok bool) {
	if len(payload) != markerSize || !bytes.Equal(payload[:16], marker[:]) {
		return 0, false
	}
	return binary.BigEndian.Uint64(payload[16:]), true
}

// remainingLength reads the length field, one to four bytes.
func (g *guardedConn) remainingLength() (int, error) {
	length := 0
	for shift := 0; shift < 28; shift += 7 {
		b, err := g.in.ReadByte()
		if err != nil {
			return 0, err
		}
		length |= int(b&0x7f) << shift
		if b < 0x80 {
			return length, nil
		}
	}
	return 0, fmt.Errorf("%w: broker sent a length of more than four bytes", transport.ErrMalformed)
}

func encodeLength(n int) []byte {
	var out []byte
	for n >= 0x80 {
		out = append(out, byte(n)|0x80)
		n >>= 7
	}
	return append(out, byte(n))
}
