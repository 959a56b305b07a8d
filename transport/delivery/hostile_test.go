package delivery

import (
	"bytes"
	"crypto/ed25519"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/spool"
)

// TestHostileReceipts: whoever may publish to a board's receipts makes it allocate nothing
// near what he sends, and one log line.
func TestHostileReceipts(t *testing.T) {
	s, err := spool.Open(spool.Options{Objects: 4, Bytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	cloud := testKey(t, "cloud")
	var log strings.Builder
	c, err := New(Options{Spool: s, Client: &fakeClient{}, Name: "board", Key: testKey(t, "board"),
		Clock: testrig.NewClock(time.Unix(1000, 0)), Level: Receiver,
		Receivers: map[string][]ed25519.PublicKey{"cloud": {cloud.Public()}},
		Logger:    slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	// An envelope under the evaluator's key id, with arrays of arrays for an unprotected header.
	hint := transport.ObjectID(cloud.Public())
	hostile := append([]byte{0xd2, 0x84, 0x4d, 0xa2, 0x01, 0x32, 0x04, 0x48}, hint[:8]...)
	hostile = append(hostile, 0xa1, 0x61, 'a', 0x87)
	for range 7 {
		hostile = append(append(hostile, 0x9a, 0, 1, 0x86, 0xa0), bytes.Repeat([]byte{0x80}, 100_000)...)
	}
	hostile = append(append(hostile, 0x40, 0x58, 64), make([]byte, 64)...)
	payload, err := transport.Whole(hostile, transport.MaxChunkSize)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 40 {
		c.handle(t.Context(), transport.Delivery{Topic: transport.ReceiptTopic(transport.DefaultPrefix, "board"),
			Payload: payload})
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(len(payload)) {
		t.Errorf("%d bytes allocated for 40 messages of %d", n, len(payload))
	}
	if st := c.Stats(); st.Forged != 40 || st.Receipts != 0 {
		t.Errorf("%d forged, %d taken", st.Forged, st.Receipts)
	}
	if n := strings.Count(log.String(), "a receipt is ignored"); n != 1 {
		t.Errorf("%d log lines, want 1", n)
	}
}
