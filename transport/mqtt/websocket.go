package mqtt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/hencedge/hencedge/transport"
)

// overWebsocket makes a WebSocket (RFC 6455, subprotocol "mqtt") of raw, on which TLS
// has been set up where the URL asks for it, and hands it on as a stream of bytes.
func overWebsocket(ctx context.Context, raw net.Conn, e endpoint) (net.Conn, error) {
	d := websocket.Dialer{
		Subprotocols:   []string{"mqtt"},
		NetDialContext: func(context.Context, string, string) (net.Conn, error) { return raw, nil },
	}
	ws, answer, err := d.DialContext(ctx, "ws://"+e.authority+e.path, nil)
	switch {
	case errors.Is(err, websocket.ErrBadHandshake) && answer != nil:
		return nil, fmt.Errorf("WebSocket: the server answers %q to %s: the path of the broker's URL may be another, "+
			"often /mqtt or /ws", answer.Status, e.path)
	case err != nil:
		return nil, fmt.Errorf("WebSocket: %w", err)
	case ws.Subprotocol() != "mqtt":
		ws.Close()
		return nil, fmt.Errorf("WebSocket: %s%s speaks another protocol than MQTT", e.authority, e.path)
	}
	return &webConn{Conn: ws}, nil
}

// webConn is a WebSocket as a stream: the bounds of its messages mean nothing
// (MQTT 3.1.1, section 6). One goroutine reads at a time.
type webConn struct {
	*websocket.Conn
	in      io.Reader // of the present message, or nil
	writing sync.Mutex
}

func (c *webConn) Read(p []byte) (int, error) {
	for {
		if c.in == nil {
			kind, in, err := c.NextReader()
			if err != nil {
				return 0, err
			}
			if kind != websocket.BinaryMessage {
				return 0, fmt.Errorf("%w: broker sent a WebSocket message of text", transport.ErrMalformed)
			}
			c.in = in
		}
		n, err := c.in.Read(p)
		if errors.Is(err, io.EOF) {
			c.in, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (c *webConn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c *webConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
