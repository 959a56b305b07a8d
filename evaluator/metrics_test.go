package evaluator

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/transport"
)

func TestMetrics(t *testing.T) {
	cfg := testConfig(t, prog("mean", "mean(x)", map[string]string{"x": "d1/count/temp"}))
	cfg.Metrics.Listen = testrig.FreeAddress(t)
	r := newRig(t, cfg)
	r.sendWindow(r.window("d1", "count", 1, epoch, numbers(8, 1, 1), numbers(8, 0, 0)))
	r.expect("mean", average(numbers(8, 1, 1)))
	bad := r.window("d1", "count", 2, epoch, numbers(8, 1, 1), numbers(8, 0, 0))
	bad.meta.KeyEpoch++
	r.sendWindow(bad)
	r.expectRefusal("wrong_epoch")
	resp, err := http.Get("http://" + cfg.Metrics.Listen + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"hencedge_evaluator_windows_accepted_total 1",
		`hencedge_evaluator_results_total{program="mean"} 1`,
		`hencedge_evaluator_results_failed_total{program="mean"} 0`,
		`hencedge_evaluator_refused_total{reason="wrong_epoch"} 1`,
		`hencedge_evaluator_refused_total{reason="bad_signature"} 0`,
		`hencedge_evaluator_promised_error{program="mean"} `,
		"hencedge_evaluator_boot_epoch ",
		"hencedge_evaluator_batches_total 1",
		`hencedge_evaluator_stage_seconds_count{stage="receive"} 2`,
		`hencedge_evaluator_stage_seconds_count{stage="queue"} 2`,
		`hencedge_evaluator_stage_seconds_count{stage="verify"} 1`,
		`hencedge_evaluator_stage_seconds_count{stage="decode"} 1`,
		`hencedge_evaluator_stage_seconds_count{stage="store"} 0`,
		`hencedge_evaluator_stage_seconds_count{stage="join"} 1`,
		`hencedge_evaluator_stage_seconds_count{stage="wait"} 1`,
		`hencedge_evaluator_stage_seconds_count{stage="compute"} 1`,
		`hencedge_evaluator_stage_seconds_count{stage="order"} 0`,
		`hencedge_evaluator_stage_seconds_count{stage="seal"} 1`,
		`hencedge_evaluator_stage_seconds_count{stage="publish"} 1`,
	} {
		if !strings.Contains(string(body), line) {
			t.Errorf("no line %q in\n%s", line, body)
		}
	}
}

// TestStatus: the service announces itself, and its orderly stop.
func TestStatus(t *testing.T) {
	cfg := testConfig(t, prog("mean", "mean(x)", map[string]string{"x": "d1/count/temp"}))
	r := newRig(t, cfg, func(d *Deps) { d.Version = "1.2.3" })
	trust := transport.NewTrustStore()
	if err := trust.AddDevice("cloud", signer(t, "cloud").Public()); err != nil {
		t.Fatal(err)
	}
	v, err := transport.NewVerifier(transport.VerifierOptions{Trust: trust,
		Kinds: []transport.Kind{transport.KindStatus}})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan *transport.Status, 4)
	recv := transport.NewReceiver(transport.Limits{}, func(s transport.Staged) error {
		defer s.Done()
		topic, sealed := s.Topic, s.Sealed
		obj, err := v.OpenFrom(topic, sealed)
		if err != nil {
			t.Error(err)
			return nil
		}
		st, err := transport.UnmarshalStatus(obj.Body)
		if err != nil {
			t.Error(err)
			return nil
		}
		seen <- st
		return nil
	})
	ctx := testrig.Context(t)
	if err := r.device.Subscribe(ctx, transport.StatusTopic(cfg.Broker.TopicPrefix, "cloud"),
		func(d transport.Delivery) { _ = recv.Feed(d.Topic, d.Payload); d.Ack() }); err != nil {
		t.Fatal(err)
	}
	next := func(online bool) {
		t.Helper()
		if st := testrig.Receive(t, "a status", seen); st.Online != online || st.Version != "1.2.3" {
			t.Errorf("status %+v", st)
		}
	}
	next(true) // retained
	r.stop()
	next(false)
}

// TestStopFinishes: what was taken before the stop is still answered.
func TestStopFinishes(t *testing.T) {
	r := newRig(t, testConfig(t, prog("mean", "mean(x)", map[string]string{"x": "d1/count/temp"})))
	const n = 5
	for seq := range uint64(n) {
		r.sendWindow(r.window("d1", "count", seq+1, epoch, numbers(8, 1, 1), numbers(8, 0, 0)))
	}
	testrig.Eventually(t, "all windows to be accepted", func() bool { return r.service.Stats().Accepted == n })
	r.stop()
	for range n {
		r.expect("mean", average(numbers(8, 1, 1)))
	}
	if s := r.service.Stats(); s.Results != n || s.Failed != 0 {
		t.Errorf("stats %+v", s)
	}
	if err := r.service.Run(context.Background()); err == nil {
		t.Error("a service ran twice")
	}
}
