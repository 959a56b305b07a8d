package evaluator

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// announce publishes a birth message of a device.
func (r *rig) announce(device string, st transport.Status, key *transport.SigningKey, sequence uint64) {
	r.t.Helper()
	body, err := transport.MarshalStatus(st)
	if err != nil {
		r.t.Fatal(err)
	}
	sealed, err := transport.Seal(transport.Meta{Kind: transport.KindStatus, Device: device, BootEpoch: 7,
		Sequence: sequence}, body, key)
	if err != nil {
		r.t.Fatal(err)
	}
	payload, err := transport.Whole(sealed, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	topic := transport.StatusTopic(r.cfg.Broker.TopicPrefix, device)
	if err := r.device.Publish(testrig.Context(r.t), topic, payload, true); err != nil {
		r.t.Fatal(err)
	}
}

// heard waits until the service knows a birth message.
func (r *rig) heard(device string, sequence uint64) {
	r.t.Helper()
	testrig.Eventually(r.t, "the birth message", func() bool {
		r.service.devices.mu.Lock()
		defer r.service.devices.mu.Unlock()
		s := r.service.devices.said[device]
		return s != nil && s.order.Newest() == sequence
	})
}

func (r *rig) health() string { return strings.Join(r.service.Health(), "\n") }

// The device has another range than the evaluator: both sides learn which field it is,
// with both values, and the evaluator is unhealthy until they agree.
func TestLayoutsDiffer(t *testing.T) {
	r := newRig(t, storeConfig(t, filepath.Join(t.TempDir(), "store"),
		prog("mean", "mean(x)", inputs("d1/count/temp"))))
	rc := r.receipts("d1")
	other := stream("count", 0)
	other.Channels[1].Range = [2]float64{-4, 40}
	unread := stream("spare", 0)
	st := transport.Status{Online: true, KeyID: r.keys.KeyID, KeyEpoch: r.keys.Epoch,
		Streams: []transport.StreamStatus{daemon.DescribeStream(other), daemon.DescribeStream(unread)}}
	if r.health() != "" {
		t.Errorf("before: %s", r.health())
	}
	r.announce("d1", st, signer(t, "d1"), 1)
	r.heard("d1", 1)
	const want = "stream count, channels[1].range: the device has [-4, 40], the evaluator [-4, 4]"
	if got := r.health(); !strings.Contains(got, "device d1: "+want) || strings.Contains(got, "spare") {
		t.Errorf("health: %q", got)
	}
	w := r.window("d1", "count", 1, time.Unix(1000, 0), numbers(8, 1, 1), numbers(8, 0, 0))
	w.meta.Layout = other.LayoutHash()
	it := rc.expect(r.sendWindow(w), transport.Refused, "wrong_layout")
	if it.Detail != want {
		t.Errorf("the device is told %q", it.Detail)
	}
	r.expectRefusal("wrong_layout")
	if got := r.health(); !strings.Contains(got, "nothing of stream d1/count is taken, 1 windows were refused: "+
		"wrong_layout: "+want) {
		t.Errorf("health: %q", got)
	}
	if d := r.service.State().Devices; len(d) != 1 || !d[0].Online || len(d[0].Differs) != 1 {
		t.Errorf("state: %+v", d)
	}
	// An earlier message that somebody kept changes nothing; a newer one does.
	st.Streams[0] = daemon.DescribeStream(stream("count", 0))
	r.announce("d1", st, signer(t, "d1"), 0)
	r.announce("d1", st, signer(t, "d1"), 3)
	r.heard("d1", 3)
	w = r.window("d1", "count", 2, time.Unix(2000, 0), numbers(8, 1, 1), numbers(8, 0, 0))
	rc.expect(r.sendWindow(w), transport.Taken, "")
	r.expect("mean", average(numbers(8, 1, 1)))
	if got := r.health(); got != "" {
		t.Errorf("after: %q", got)
	}
}

// Other mismatches between a device and its evaluator are named with both sides too.
func TestMismatchesAreNamed(t *testing.T) {
	r := newRig(t, storeConfig(t, filepath.Join(t.TempDir(), "store"),
		prog("mean", "mean(x)", inputs("d1/count/temp"))))
	rc := r.receipts("d1")
	has := func(what, got string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %q lacks %q", what, got, w)
			}
		}
	}
	send := func(seq uint64, change func(*reading)) [32]byte {
		w := r.window("d1", "count", seq, time.Unix(int64(seq)*1000, 0), numbers(8, 1, 1), numbers(8, 0, 0))
		change(w)
		return r.sendWindow(w)
	}
	mine, theirs := signer(t, "renewed"), signer(t, "d1").PublicText()
	it := rc.expect(send(1, func(w *reading) { w.signer = mine }), transport.Refused, "unknown_signer")
	has("unknown signer", it.Detail, theirs, "is signed with key id")
	has("unknown signer", r.health(), "unknown_signer", theirs)
	it = rc.expect(send(1, func(w *reading) { w.meta.KeyEpoch++ }), transport.Refused, "wrong_epoch")
	has("epoch", it.Detail, "this evaluator has epoch 3 of key set", "(edge12-d1)")
	it = rc.expect(send(1, func(w *reading) { w.meta.KeyID[0]++ }), transport.Refused, "wrong_key")
	has("key", it.Detail, "this evaluator has epoch 3 of key set")
	it = rc.expect(send(1, func(w *reading) { w.meta.Layout[0]++ }), transport.Refused, "wrong_layout")
	has("unknown layout", it.Detail, "hencedge check")
	rc.ask("d1", transport.ReadingTopic(transport.DefaultPrefix, "d1", "sys"), transport.ObjectID([]byte("x")), 3, 100)
	it = rc.expect(transport.ObjectID([]byte("x")), transport.Refused, transport.ReasonUnread)
	has("unread", it.Detail, "of d1 its programs read count")
	has("health", r.health(), "nothing of stream d1/count is taken, 4 windows were refused: wrong_layout")

	sys := stream("sys", 0)
	r.announce("d1", transport.Status{Online: true, KeyID: [16]byte{9}, KeyEpoch: 1,
		Streams: []transport.StreamStatus{daemon.DescribeStream(sys)}}, signer(t, "d1"), 1)
	r.heard("d1", 1)
	has("status", r.health(), "device d1: stream count is read by programs, and the device publishes sys",
		"device d1: the device encrypts under epoch 1 of key set 09000000; this evaluator has epoch 3")
	// Offline, it is no reason any more; what it sent still is.
	r.announce("d1", transport.Status{KeyID: [16]byte{9}, KeyEpoch: 1}, signer(t, "d1"), 2)
	r.heard("d1", 2)
	if got := r.health(); strings.Contains(got, "device d1") || !strings.Contains(got, "nothing of stream") {
		t.Errorf("offline: %q", got)
	}
}

// A device that signs with another key than the one that is configured cannot ask in
// the usual way; it is told why, and not at the rate at which somebody asks.
func TestStrangerAsks(t *testing.T) {
	now := time.Unix(1000, 0)
	cfg := storeConfig(t, filepath.Join(t.TempDir(), "store"), prog("mean", "mean(x)", inputs("d1/count/temp")))
	r := newRig(t, cfg, func(d *Deps) { d.Now = func() time.Time { return now } })
	rc := r.receipts("d1")
	id := transport.ObjectID([]byte("x"))
	for range 3 {
		body, err := transport.MarshalAsk(transport.Ask{Items: []transport.AskItem{{Object: id,
			Topic: transport.ReadingTopic(transport.DefaultPrefix, "d1", "count"), Total: 1, Size: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := transport.Seal(transport.Meta{Kind: transport.KindAsk, Device: "d1"}, body, signer(t, "renewed"))
		if err != nil {
			t.Fatal(err)
		}
		payload, err := transport.Whole(sealed, 0)
		if err != nil {
			t.Fatal(err)
		}
		r.publish(transport.AskTopic(transport.DefaultPrefix, "d1"), payload)
		r.expectRefusal("unknown_signer")
	}
	it := rc.expect(id, transport.Refused, "unknown_signer")
	if !strings.Contains(it.Detail, signer(t, "d1").PublicText()) {
		t.Errorf("told %q", it.Detail)
	}
	if len(rc.items) > 0 {
		t.Error("every question of a stranger is answered")
	}
}

// A device that was never heard is what another topic prefix looks like from here.
func TestSilentDevices(t *testing.T) {
	var log strings.Builder
	cfg := testConfig(t, prog("mean", "mean(x)", map[string]string{"x": "d1/count/temp"}))
	r, err := newRoster(cfg, &reporter{log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	r.single[streamID{"d1", "count"}] = true
	d, err := newDevices(cfg, nil, r)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Unix(1000, 0)
	d.tellSilent(start) // no connection yet
	d.since = start
	d.tellSilent(start.Add(silentAfter - 1))
	if log.Len() > 0 {
		t.Errorf("too early: %s", &log)
	}
	d.tellSilent(start.Add(silentAfter))
	d.tellSilent(start.Add(2 * silentAfter))
	if n := strings.Count(log.String(), "topic_prefix=hencedge/v1"); n != 1 ||
		!strings.Contains(log.String(), "devices=d1") {
		t.Errorf("%d lines: %s", n, &log)
	}
	if st, more := d.deviceStates(); more != 0 || len(st) != 1 || st[0].Heard {
		t.Errorf("%+v", st)
	}
}

// Places in the configuration's file are told where it came from one.
func TestDifferencesHavePlaces(t *testing.T) {
	cfg, err := config.LoadEvaluator(filepath.Join("..", "config", "examples", "evaluator.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	d := &devices{cfg: cfg, roster: &roster{cfg: cfg, single: map[streamID]bool{{"board1", "system"}: true}}}
	device := cfg.Streams[0].Stream
	device.Channels = append([]config.Channel(nil), device.Channels...)
	device.Channels[2].Range[1] = 100
	got := d.differences("board1", &transport.Status{Streams: []transport.StreamStatus{daemon.DescribeStream(device)}})
	if len(got) != 1 || !strings.HasPrefix(got[0], "stream system, channels[2].range: the device has [0, 100], the "+
		"evaluator [0, 16] (evaluator.yaml:") {
		t.Errorf("%q", got)
	}
}
