package evaluator

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/store"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

// hostile spoils an honest window before it is sealed, or its sealed bytes, or
// its first chunk.
type hostile struct {
	name   string
	reason string
	window func(r *rig, w *reading)
	sealed func(r *rig, b []byte) []byte
	chunk  func(r *rig, c *transport.Chunk)
	twice  bool // send the same again: only that is refused
}

var hostiles = []hostile{
	{name: "flipped bit", reason: "bad_signature", sealed: func(_ *rig, b []byte) []byte {
		b[len(b)/2] ^= 1
		return b
	}},
	{name: "cut short", reason: "truncated", sealed: func(_ *rig, b []byte) []byte { return b[:len(b)-100] }},
	{name: "noise", reason: "malformed", sealed: func(_ *rig, b []byte) []byte {
		return bytes.Repeat([]byte{0xff}, 200)
	}},
	{name: "too large", reason: "too_large", sealed: func(r *rig, b []byte) []byte {
		return append(b, make([]byte, int(r.cfg.Limits.Object))...)
	}},
	{name: "older format, by another hand", reason: "bad_signature", sealed: func(r *rig, b []byte) []byte {
		i := bytes.LastIndex(b, []byte{0x00, transport.Version, 0x01, byte(transport.KindReading)})
		if i < 0 {
			r.t.Fatal("the header is not where the test expects it")
		}
		b[i+1] = 0
		return b
	}},
	{name: "chunk with other bytes", reason: "hash_mismatch", chunk: func(_ *rig, c *transport.Chunk) {
		c.Data[0] ^= 1
	}},
	{name: "replayed object", reason: "replayed", twice: true},
	{name: "replayed number", reason: "replayed", window: func(_ *rig, w *reading) { w.meta.Sequence = 1 }},
	{name: "foreign signer", reason: "unknown_signer", window: func(r *rig,
		w *reading) {
		w.signer = signer(r.t, "stranger")
	}},
	{name: "in the name of another device", reason: "unknown_signer",
		window: func(r *rig, w *reading) { w.meta.Device = "d2" }},
	{name: "on the topic of another stream", reason: "wrong_topic", window: func(r *rig, w *reading) {
		w.meta.Stream = "time"
	}},
	{name: "result as a reading", reason: "wrong_kind", window: func(_ *rig, w *reading) {
		w.meta.Kind, w.meta.Program = transport.KindResult, "mean"
	}},
	{name: "other key set", reason: "wrong_key", window: func(_ *rig, w *reading) { w.meta.KeyID[0] ^= 1 }},
	{name: "other epoch", reason: "wrong_epoch", window: func(_ *rig, w *reading) { w.meta.KeyEpoch++ }},
	{name: "other parameters", reason: "wrong_params", window: func(_ *rig, w *reading) { w.meta.Params[0] ^= 1 }},
	{name: "other layout", reason: "wrong_layout", window: func(_ *rig, w *reading) { w.meta.Layout[0] ^= 1 }},
	{name: "level of the body differs", reason: "body_mismatch", window: func(_ *rig, w *reading) { w.meta.Level-- }},
	{name: "scale of the body differs", reason: "body_mismatch", window: func(_ *rig, w *reading) {
		w.meta.Scale *= 2
	}},
	{name: "no samples", reason: "samples", window: func(_ *rig, w *reading) { w.meta.Samples = 0 }},
	{name: "more samples than fit", reason: "samples", window: func(_ *rig, w *reading) { w.meta.Samples = 9 }},
	{name: "another scale", reason: "input_mismatch", window: func(r *rig,
		w *reading) {
		w.encrypt(r, 1, w.meta.Scale/2)
	}},
	{name: "residue above its modulus", reason: "residue_range", window: func(r *rig, w *reading) {
		for i := range 8 {
			w.body[len(w.body)-100-i] = 0xff
		}
	}},
	{name: "no randomness", reason: "degenerate", window: func(r *rig, w *reading) {
		clear(w.body[len(w.body)-r.ctx.Parameters().PackedBytes(w.meta.Level):])
	}},
	{name: "body cut short", reason: "body_truncated", window: func(_ *rig,
		w *reading) {
		w.body = w.body[:len(w.body)-1]
	}},
	{name: "body of another version", reason: "body_version", window: func(_ *rig, w *reading) { w.body[1] = 0 }},
	{name: "body is noise", reason: "body_malformed", window: func(_ *rig,
		w *reading) {
		w.body = bytes.Repeat([]byte{0xff}, 64)
	}},
	{name: "body of other parameters", reason: "wrong_params", window: func(r *rig, w *reading) {
		hash := r.ctx.Parameters().Hash()
		i := bytes.Index(w.body, hash[:])
		if i < 0 {
			r.t.Fatal("the body does not hold the parameter hash")
		}
		w.body[i] ^= 1
	}},
}

// encrypt replaces the body by another ciphertext.
func (w *reading) encrypt(r *rig, level int, scale float64) {
	ct, err := r.enc.EncryptReal([]float64{0.5}, level, scale, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if w.body, err = r.ctx.MarshalCiphertext(ct); err != nil {
		r.t.Fatal(err)
	}
	w.meta.Level, w.meta.Scale = ct.Level, ct.Scale
}

// TestHostile sends each bad message and then a good one: the bad one is refused
// and counted under its own reason, the good one is answered correctly.
func TestHostile(t *testing.T) {
	r := newRig(t, testConfig(t, prog("mean", "mean(x)", map[string]string{"x": "d1/count/temp"})))
	seq := uint64(1)
	good := func() {
		t.Helper()
		temp := numbers(8, 5+float64(seq), 0.75)
		r.sendWindow(r.window("d1", "count", seq, epoch, temp, numbers(8, 0, 0)))
		seq++
		r.expect("mean", average(temp))
	}
	good()
	for _, h := range hostiles {
		t.Run(h.name, func(t *testing.T) {
			before := r.service.Stats().Refused
			w := r.window("d1", "count", seq, epoch, numbers(8, 1, 1), numbers(8, 0, 0))
			seq++
			if h.window != nil {
				h.window(r, w)
			}
			sealed := r.seal(w)
			if h.sealed != nil {
				sealed = h.sealed(r, sealed)
			}
			r.sendChunks(w.topic, sealed, h.chunk)
			if h.twice {
				r.expect("mean", average(numbers(8, 1, 1)))
				r.sendChunks(w.topic, sealed, nil)
			}
			r.expectRefusal(h.reason)
			after := r.service.Stats().Refused
			want := maps.Clone(before)
			want[h.reason]++
			if !maps.Equal(after, want) {
				t.Errorf("counted %v, want %v", after, want)
			}
			good()
		})
	}
	if s := r.service.Stats(); s.Failed != 0 || s.Results != s.Accepted {
		t.Errorf("stats %+v", s)
	}
}

// sendChunks sends an object in chunks of which the first may be spoilt.
func (r *rig) sendChunks(topic string, sealed []byte, spoil func(*rig, *transport.Chunk)) {
	r.t.Helper()
	pieces, err := transport.Split(sealed, int(r.cfg.Broker.ChunkSize))
	if err != nil {
		r.t.Fatal(err)
	}
	if len(sealed) > int(r.cfg.Limits.Object) {
		pieces = pieces[:1] // every one of them is refused
	}
	for i := range pieces {
		if spoil != nil && i == 0 {
			spoil(r, &pieces[i])
		}
		b, err := pieces[i].Marshal()
		if err != nil {
			r.t.Fatal(err)
		}
		r.publish(topic, b)
	}
}

func TestBadChunks(t *testing.T) {
	r := newRig(t, testConfig(t, prog("mean", "mean(x)", map[string]string{"x": "d1/count/temp"})))
	w := r.window("d1", "count", 1, epoch, numbers(8, 1, 1), numbers(8, 0, 0))
	topic := w.topic
	r.publish(topic, []byte("hello"))
	r.expectRefusal("malformed")
	r.publish(topic, []byte{0x86})
	r.expectRefusal("truncated")
	r.sendWindow(w)
	r.expect("mean", average(numbers(8, 1, 1)))
}

func TestTimeWindows(t *testing.T) {
	r := newRig(t, testConfig(t, prog("mean", "mean(x)", map[string]string{"x": "d1/time/temp"})))
	first := numbers(8, 10, 1)
	send := func(seq uint64, start time.Time, change func(*reading)) {
		w := r.window("d1", "time", seq, start, first, numbers(8, 0, 0))
		if change != nil {
			change(w)
		}
		r.sendWindow(w)
	}
	send(1, epoch, nil)
	r.expect("mean", average(first))
	// The device was stopped within the interval: the other part of its samples.
	w := r.window("d1", "time", 2, epoch, numbers(3, 50, 1), numbers(3, 0, 0))
	r.sendWindow(w)
	r.expect("mean", average(numbers(3, 50, 1)))
	send(3, epoch.Add(time.Millisecond), nil)
	r.expectRefusal("off_grid")
	send(4, epoch.Add(time.Second), func(w *reading) { w.meta.End++ })
	r.expectRefusal("off_grid")
	send(5, epoch.Add(2*time.Second), nil)
	r.expect("mean", average(first))
}

// TestKeyOverlap: readings under a retired epoch are refused once the overlap is
// over, and a result never mixes epochs.
func TestKeyOverlap(t *testing.T) {
	old := *testHolder(t).keys
	old.Epoch = 2
	old.KeyID[0] ^= 0xff
	cfg := testConfig(t, prog("change", "mean(x) - mean(prev(x))", map[string]string{"x": "d1/count/temp"}))
	r := newRig(t, cfg, func(d *Deps) {
		d.Keys = append(d.Keys, engine.Keys{Context: d.Keys[0].Context,
			Evaluation:  &henc.EvaluationKeys{Relin: old.Relin, Galois: old.Galois, KeyID: old.KeyID, Epoch: 2},
			AcceptUntil: epoch.Add(time.Hour)})
	})
	send := func(seq uint64, start time.Time, oldKey bool) {
		w := r.window("d1", "count", seq, start, numbers(8, 10, 1), numbers(8, 0, 0))
		if oldKey {
			w.meta.KeyID, w.meta.KeyEpoch = old.KeyID, 2
		}
		r.sendWindow(w)
	}
	send(1, epoch, true)
	send(2, epoch, false)
	r.expectRefusal("key_change")
	if h := r.health(); !strings.Contains(h, "program change: results were not made") {
		t.Errorf("health: %s", h)
	}
	send(3, epoch, false)
	r.expect("change", 0)
	send(4, epoch.Add(2*time.Hour), true)
	r.expectRefusal("wrong_epoch")
}

func TestPartialWindowOfWeights(t *testing.T) {
	weights := "[1, 2, 3, 4, 5, 6, 7, 8]"
	r := newRig(t, testConfig(t, config.Program{Name: "dot", Expr: "dot(x, " + weights + ")",
		Inputs: map[string]string{"x": "d1/count/temp"}}))
	r.sendWindow(r.window("d1", "count", 1, epoch, numbers(5, 1, 1), numbers(5, 0, 0)))
	r.expectRefusal("partial_window")
	r.sendWindow(r.window("d1", "count", 2, epoch, numbers(8, 1, 1), numbers(8, 0, 0)))
	r.expect("dot", 204)
	if s := r.service.Stats(); s.Failed != 1 || s.Results != 1 || s.Bytes == 0 {
		t.Errorf("stats %+v", s)
	}
}

// TestUnjoined: a window that leaves without its partner is reported.
func TestUnjoined(t *testing.T) {
	cfg := testConfig(t, prog("difference", "mean(x) - mean(y)",
		map[string]string{"x": "d1/time/temp", "y": "d2/time/temp"}))
	cfg.Join.Windows = 1
	r := newRig(t, cfg)
	for i := range 2 {
		r.sendWindow(r.window("d1", "time", uint64(i+1), epoch.Add(time.Duration(i)*time.Second), numbers(8, 10, 1),
			numbers(8, 0, 0)))
		// Several windows are opened at once: the first that is ready goes first.
		testrig.Eventually(t, "the window to be accepted",
			func() bool { return r.service.Stats().Accepted > uint64(i) })
	}
	r.expectRefusal("unjoined")
	r.sendWindow(r.window("d2", "time", 1, epoch.Add(time.Second), numbers(8, 30, 1), numbers(8, 0, 0)))
	r.expect("difference", -20)
}

// TestJoinMissesUsedWindow: a window that one program has used and that leaves before its
// partner of a join came is counted, and health names the join.
func TestJoinMissesUsedWindow(t *testing.T) {
	cfg := testConfig(t, prog("alone", "mean(x)", map[string]string{"x": "d1/time/temp"}),
		prog("difference", "mean(x) - mean(y)", map[string]string{"x": "d1/time/temp", "y": "d2/time/temp"}))
	cfg.Join.Windows = 1
	r := newRig(t, cfg)
	for i := range 2 {
		start := epoch.Add(time.Duration(i) * time.Second)
		r.sendWindow(r.window("d1", "time", uint64(i+1), start, numbers(8, 10, 1), numbers(8, 0, 0)))
		testrig.Eventually(t, "a result", func() bool { return r.service.Stats().Results > uint64(i) })
	}
	testrig.Eventually(t, "a refusal", func() bool { return r.service.Stats().Refused["unjoined"] > 0 })
	testrig.Eventually(t, "a reason in health", func() bool { return r.health() != "" }) // the count comes first
	if h := r.health(); !strings.Contains(h, "program difference: results were not made") ||
		strings.Contains(h, "alone") {
		t.Errorf("health: %s", h)
	}
}

// TestUnmadeIsToldForAWhile: results that a rotation costs a join are in health, until they
// are old; what a stop interrupts is made later.
func TestUnmadeIsToldForAWhile(t *testing.T) {
	var u unmade
	u.note("both", Reason(ErrKeyChange), epoch)
	u.note("both", Reason(ErrKeyChange), epoch.Add(time.Second))
	if h := u.health(epoch.Add(time.Minute)); len(h) != 1 || !strings.Contains(h[0], "program both") ||
		!strings.Contains(h[0], "2 key_change") {
		t.Errorf("health: %v", h)
	}
	if h := u.health(epoch.Add(time.Second + unmadeFor)); len(h) > 0 {
		t.Errorf("after a while: %v", h)
	}
	for _, n := range "abcdef" {
		u.note(string(n), "unjoined", epoch.Add(time.Minute))
	}
	if h := u.health(epoch.Add(time.Minute)); len(h) != maxUnmade+1 {
		t.Errorf("%d reasons", len(h))
	}
	for _, err := range []error{fmt.Errorf("stopped: %w", context.Canceled), store.ErrBusy} {
		if final(err) {
			t.Errorf("%v is final", err)
		}
	}
}

// TestLostByAge: the housekeeping drops what waited too long.
func TestLostByAge(t *testing.T) {
	cfg := testConfig(t, prog("difference", "mean(x) - mean(y)",
		map[string]string{"x": "d1/time/temp", "y": "d2/time/temp"}))
	cfg.Join.Timeout = time.Second
	clock := testrig.NewClock(epoch)
	r := newRig(t, cfg, func(d *Deps) { d.Now = clock.Now })
	r.sendWindow(r.window("d1", "time", 1, epoch, numbers(8, 10, 1), numbers(8, 0, 0)))
	testrig.Eventually(t, "the window to be accepted", func() bool { return r.service.Stats().Accepted > 0 })
	clock.Advance(time.Hour)
	r.expectRefusal("unjoined")
}

// TestReplayAcrossRestart: what one process took, the next one refuses.
func TestReplayAcrossRestart(t *testing.T) {
	cfg := testConfig(t, prog("mean", "mean(x)", map[string]string{"x": "d1/count/temp"}))
	r := newRig(t, cfg)
	w := r.window("d1", "count", 1, epoch, numbers(8, 1, 1), numbers(8, 0, 0))
	sealed := r.seal(w)
	r.send(w.topic, sealed)
	r.expect("mean", average(numbers(8, 1, 1)))
	r.stop()
	state := cfg.State
	next := newRigAt(t, cfg, state)
	next.send(w.topic, sealed)
	next.expectRefusal("replayed")
	next.sendWindow(next.window("d1", "count", 2, epoch, numbers(8, 2, 1), numbers(8, 0, 0)))
	obj := next.expect("mean", average(numbers(8, 2, 1)))
	if obj.Meta.Sequence != 1 || obj.Meta.BootEpoch <= uint64(epoch.Unix()) {
		t.Errorf("header %+v", obj.Meta)
	}
}
