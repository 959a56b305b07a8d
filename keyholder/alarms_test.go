package keyholder

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/testrig"
	"github.com/hencedge/hencedge/keyholder/alert"
)

// Alarms change nothing of what leaves a key holder for its evaluators. Of two with different
// secret keys one has alarms, whose receiver never answers; both publish the same bytes in
// the same order.
func TestAlarmsHoldUpNothing(t *testing.T) {
	s, signer := newSet(t), signingKey(t)
	if err := os.Remove(s.dir + "/" + approvalsFile); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	s.params = tinyParams(t)
	ctx, err := henc.NewContext(s.params)
	if err != nil {
		t.Fatal(err)
	}
	var keys [2]*secret.Key
	for i := range keys {
		if keys[i], err = secret.Generate(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	c := newCrafter(t, s, ctx, keys[0], signer)
	quiet, loud := newSide(t, s, keys[1], c), newSide(t, s, keys[0], c)
	cfg := &config.Alerts{Rules: []config.AlertRule{{Name: "any", Program: "mean", When: "value > 0", For: 1,
		ClearFor:  1,
		Undecided: config.UndecidedKeep, Severity: "info", Per: "device"}},
		Receivers: []config.Receiver{{Name: "deaf", Command: []string{"/bin/sleep", "10000"}}}}
	state := filepath.Join(t.TempDir(), "state")
	alarms, err := alert.Open(alert.Options{Config: cfg, Holder: "home", State: state, Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- alarms.Run(running) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		alarms.Close()
	}()
	read := loud.w.o.OnResult
	minute := 0
	loud.w.o.OnResult = func(r *Result) error {
		minute++ // crafted windows all begin at the same time
		start := r.Start.Add(time.Duration(minute) * time.Minute)
		if err := alarms.Observe(t.Context(), &alert.Result{Program: r.Program, Start: start, End: start,
			Values: r.Values,
			Bound:  r.Bound}); err != nil {
			return err
		}
		return read(r)
	}
	const count = 320
	for i := range uint64(count) {
		o := c.crafted(i)
		quiet.step(t, c, i, o)
		loud.step(t, c, i, o)
	}
	if quiet.out.count == 0 || quiet.out.count != loud.out.count || quiet.n != loud.n ||
		string(quiet.out.h.Sum(nil)) != string(loud.out.h.Sum(nil)) {
		t.Errorf("%d and %d messages, %d and %d results", quiet.out.count, loud.out.count, quiet.n, loud.n)
	}
	r, err := alert.ReadReport(cfg, state, time.Now())
	if err != nil || r.Waiting["deaf"] < 5 {
		t.Errorf("%+v, %v: the test shows nothing", r, err)
	}
}
