package evaluator

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport"
)

func TestPressure(t *testing.T) {
	var p pressure
	now := time.Unix(1000, 0)
	check := func(what string, want bool) {
		t.Helper()
		if got := p.busy(now); got != want {
			t.Errorf("%s: busy %v", what, got)
		}
	}
	check("at first", false)
	p.failed(now)
	check("at once", true)
	now = now.Add(firstProbe)
	check("the first to ask later", false)
	check("the second", true)
	for range 10 {
		p.failed(now)
	}
	now = now.Add(lastProbe - time.Second)
	check("after many failures", true)
	now = now.Add(time.Second)
	check("later", false)
	now = now.Add(-time.Hour)
	check("the clock was set back", false)
	check("and then", true)
	p.worked()
	check("it works", false)
}

// A store without room tells so, at once and to who asks, and takes the same window
// when it has room.
func TestStoreFull(t *testing.T) {
	dir, state := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "state")
	program := prog("change", "mean(x) - mean(lag(x, 1))", inputs("d1/count/temp")) // keeps a window
	cfg := storeConfig(t, dir, program)
	load := numbers(8, 0, 0.1)
	r := newRigAt(t, cfg, state)
	size := len(r.seal(r.window("d1", "count", 1, time.Unix(1000, 0), numbers(8, 10, 2), load)))
	r.stop()
	cfg.Store.Bytes = config.Size(size + size/2)
	r = newRigAt(t, cfg, state)
	rc := r.receipts("d1")
	rc.expect(r.sendWindow(r.window("d1", "count", 1, time.Unix(1000, 0), numbers(8, 10, 2), load)), transport.Taken, "")
	second := r.window("d1", "count", 2, time.Unix(2000, 0), numbers(8, 15, 2), load)
	sealed := r.seal(second)
	oid := transport.ObjectID(sealed)
	pieces, err := transport.Split(sealed, int(cfg.Broker.ChunkSize))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // it may be sent again, and gets the same answer
		r.send(second.topic, sealed)
		rc.expect(oid, transport.Refused, transport.ReasonBusy)
		r.expectRefusal(transport.ReasonBusy)
		rc.ask("d1", second.topic, oid, len(pieces), len(sealed))
		rc.expect(oid, transport.Refused, transport.ReasonBusy)
	}
	r.stop()
	cfg.Store.Bytes = config.Size(10 * size)
	r = newRigAt(t, cfg, state)
	rc = r.receipts("d1")
	rc.ask("d1", second.topic, oid, len(pieces), len(sealed))
	rc.expect(oid, transport.Unknown, "")
	r.send(second.topic, sealed)
	rc.expect(oid, transport.Taken, "")
	r.expect("change", 5)
}
