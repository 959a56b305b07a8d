package evaluator

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/internal/testenv"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

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
	// The check of a program asks for the room of its windows at their largest, these
	// are smaller, and this test is about one that does not fit: the store gets less
	// once the check is through.
	room := cfg.Store.Bytes
	narrow := func(bytes int) {
		cfg.Store.Bytes = room
		var once sync.Once
		r = newRigAt(t, cfg, state, func(d *Deps) {
			d.Now = func() time.Time {
				once.Do(func() { cfg.Store.Bytes = config.Size(bytes) })
				return time.Now()
			}
		})
	}
	narrow(size + size/2)
	rc := r.receipts("d1")
	rc.expect(r.sendWindow(r.window("d1", "count", 1, time.Unix(1000, 0), numbers(8, 10, 2), load)),
		transport.Taken, "")
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
	narrow(size) // then not a byte more fits
	if reasons := r.service.Health(); len(reasons) != 1 || !strings.Contains(reasons[0], "inbox is full") {
		t.Errorf("health: %q", reasons)
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

// Two boards with one identity are told apart from one board that is started again,
// also with a spool of windows from before, and with live data before them.
func TestTwins(t *testing.T) {
	signer := [32]byte{1}
	type w struct {
		boot, seq uint64
		start     int64
		twin      bool
	}
	for name, list := range map[string][]w{
		"restarts": {{5, 1, 10, false}, {5, 2, 20, false}, {6, 9, 30, false}, {6, 10, 40, false},
			{7, 20, 50, false}},
		"backlog after live": {{6, 9, 30, false}, {5, 1, 10, false}, {6, 10, 40, false}, {5, 2, 20, false}},
		"lost state":         {{6, 0, 100, false}, {5, 300, 50, false}, {6, 1, 110, false}, {5, 301, 60, false}},
		"clock set back":     {{5, 1, 100, false}, {6, 9, 30, false}, {5, 2, 110, false}},
		"clones": {{5, 1, 10, false}, {6, 9, 30, false}, {5, 9, 25, false}, {5, 10, 35, true}, {6, 10, 40, false},
			{5, 11, 45, true}},
		// By the clock: boot epochs are seconds, times nanoseconds. The clone starts at 1000
		// from the numbers that were reserved, far ahead of the original.
		"a clone at once": {{500, 7, 998e9, false}, {1000, 384, 1001e9, false}, {500, 8, 1000.5e9, false},
			{500, 9, 1002e9, true}, {1000, 385, 1003e9, false}, {500, 10, 1004e9, true}},
		"restart, backlog late": {{1000, 384, 1001e9, false}, {500, 7, 998e9, false}, {1000, 385, 1002e9, false},
			{500, 8, 999e9, false}},
		"clock was ahead":      {{500, 7, 2e15, false}, {1000, 384, 1001e9, false}, {500, 8, 2.1e15, false}},
		"boot epoch was drawn": {{500, 7, 600e9, false}, {5000, 384, 601e9, false}, {500, 8, 602e9, false}},
	} {
		var tw duplicates
		told := 0
		for i, x := range list {
			twin, news := tw.note(signer, &transport.Meta{Device: "d", Stream: "s", BootEpoch: x.boot, Sequence: x.seq,
				Start: x.start, End: x.start + 1}, time.Unix(1e6, 0))
			if twin != x.twin {
				t.Errorf("%s: window %d: %v", name, i, twin)
			}
			if news {
				told++
			}
			if other, _ := tw.note([32]byte{2}, &transport.Meta{Device: "d", Stream: "s", BootEpoch: 1, Sequence: 1},
				time.Unix(1e6, 0)); other {
				t.Errorf("%s: another signer's window", name)
			}
		}
		if want := map[bool]int{true: 1}[name == "clones" || name == "a clone at once"]; told != want {
			t.Errorf("%s: told %d times", name, told)
		}
	}
}

// Birth messages tell two boards from one that is started again or loses its connection,
// and from messages that a broker had kept.
func TestTwinBirths(t *testing.T) {
	type m struct {
		boot, seq uint64
		made      int64
		twin      bool
	}
	for name, list := range map[string][]m{
		"restarts and connections": {{5, 1, 10, false}, {5, 2, 20, false}, {6, 9, 30, false}, {6, 10, 40, false},
			{7, 12, 50, false}},
		"kept by the broker": {{7, 12, 50, false}, {5, 1, 10, false}, {5, 2, 20, false}, {6, 9, 30, false},
			{7, 12, 50, false}},
		"the same again": {{5, 1, 10, false}, {6, 9, 30, false}, {5, 1, 10, false}},
		"a clone": {{5, 1, 10, false}, {6, 9, 30, false}, {5, 2, 31, true}, {6, 10, 32, false},
			{5, 3, 33, true}},
		"the original is heard late": {{6, 9, 30, false}, {5, 2, 31, true}},
	} {
		var d duplicates
		told := 0
		for i, x := range list {
			twin, news := d.birth([32]byte{1}, &transport.Meta{Device: "d", BootEpoch: x.boot, Sequence: x.seq,
				Start: x.made})
			if twin != x.twin {
				t.Errorf("%s: message %d: %v", name, i, twin)
			}
			if news {
				told++
			}
		}
		if named := len(d.devices()); told != named || told > 1 {
			t.Errorf("%s: told %d times of %d devices", name, told, named)
		}
	}
}

// A window of a second board is counted, told and a reason to be unhealthy.
func TestTwinIsTold(t *testing.T) {
	r := newRig(t, storeConfig(t, filepath.Join(t.TempDir(), "store"),
		prog("mean", "mean(x)", inputs("d1/count/temp"))))
	rc := r.receipts("d1")
	for i, x := range []struct{ boot, seq uint64 }{{7, 1}, {8, 5}, {7, 6}} {
		w := r.window("d1", "count", x.seq, time.Unix(int64(1000*(i+1)), 0), numbers(8, float64(i), 0),
			numbers(8, 0, 0))
		w.meta.BootEpoch = x.boot
		rc.expect(r.sendWindow(w), transport.Taken, "")
		r.expect("mean", float64(i))
	}
	if h := r.service.Health(); r.service.Stats().Twins != 1 || len(h) != 1 ||
		!strings.Contains(h[0], "device d1: a second board") || r.service.State().Twins != 1 {
		t.Errorf("%d, %q", r.service.Stats().Twins, h)
	}
}

// An evaluator whose disk is full starts, says busy, and takes windows when there is
// room. A real, small file system, filled.
func TestStartOnAFullDisk(t *testing.T) {
	dir := testenv.Disk(t, "1m")
	cfg := storeConfig(t, filepath.Join(dir, "store"), prog("mean", "mean(x)", inputs("d1/count/temp")))
	state := filepath.Join(dir, "state")
	r := newRigAt(t, cfg, state)
	rc := r.receipts("d1")
	send := func(n uint64, outcome transport.Outcome, reason string) {
		t.Helper()
		id := r.sendWindow(r.window("d1", "count", n, time.Unix(int64(1000*n), 0), numbers(8, float64(n), 0),
			numbers(8, 0, 0)))
		rc.expect(id, outcome, reason)
	}
	w := r.window("d1", "count", 1, time.Unix(1000, 0), numbers(8, 1, 0), numbers(8, 0, 0))
	sealed := r.seal(w)
	r.send(w.topic, sealed)
	rc.expect(transport.ObjectID(sealed), transport.Taken, "")
	first := r.expect("mean", 1)
	r.stop()
	ballast := filepath.Join(dir, "ballast")
	testenv.Fill(t, ballast)
	r = newRigAt(t, cfg, state)
	rc = r.receipts("d1")
	send(2, transport.Refused, transport.ReasonBusy)
	r.expectRefusal(transport.ReasonBusy)
	if h := r.service.Health(); len(h) == 0 || !strings.Contains(h[0], "no space left") {
		t.Errorf("health: %q", h)
	}
	r.send(w.topic, sealed) // it remembers
	rc.expect(transport.ObjectID(sealed), transport.Taken, "")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	send(3, transport.Taken, "")
	if third := r.expect("mean", 3); third.Meta.BootEpoch <= first.Meta.BootEpoch {
		t.Errorf("boot epoch %d after %d", third.Meta.BootEpoch, first.Meta.BootEpoch)
	}
	if h := r.service.Health(); len(h) != 0 {
		t.Errorf("health: %q", h)
	}
}

// A service that ends while there is no connection leaves nothing behind that goes on
// connecting.
func TestNothingConnectsAfterTheEnd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	tcp := l.(*net.TCPListener)
	r := newRig(t, testConfig(t, prog("mean", "mean(x)", inputs("d1/count/temp"))))
	cfg := *r.cfg
	cfg.Broker.URL, cfg.State = "tcp://"+address, ""
	s, err := New(&cfg, Deps{SigningKey: signer(t, "cloud"), Keys: []engine.Keys{{Context: r.ctx, Evaluation: r.keys}},
		Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	c, err := l.Accept() // it tries, and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for { // what was on its way
		_ = tcp.SetDeadline(time.Now().Add(time.Second))
		if c, err = l.Accept(); err != nil {
			break
		}
		c.Close()
	}
	_ = tcp.SetDeadline(time.Now().Add(3 * time.Second))
	if c, err := l.Accept(); err == nil {
		c.Close()
		t.Error("something connects after the end")
	}
	l.Close()
}
