package evaluator

import (
	"errors"
	"log/slog"
	"time"

	"github.com/hencedge/hencedge/transport"
)

// reporter counts and reports what a service does, and what it refuses.
type reporter struct {
	log       *slog.Logger
	now       func() time.Time
	onRefused func(reason string, err error) // may be nil
	tally     tally
	reports   transport.LogLimit
	unmade    unmade // results of programs
}

// refuse counts and reports a refusal.
func (r *reporter) refuse(topic string, err error) {
	r.report(r.tally.refuse(err), topic, err)
}

// report tells of a refusal that was counted, of each reason once a second at most.
func (r *reporter) report(reason, topic string, err error) {
	if ok, skipped := r.reports.Allow(reason, r.now()); ok {
		r.log.Warn("refused", "reason", reason, "topic", topic, "error", err, "more", skipped)
	}
	if r.onRefused != nil {
		r.onRefused(reason, err)
	}
}

// lost reports a window that left before every program had made its result of it.
func (r *reporter) lost(w *window) {
	for _, program := range w.missed {
		r.unmade.note(program, Reason(ErrUnjoined), r.now())
	}
	r.refuse("", unjoined(w))
}

// failed reports a result that could not be made or sent.
func (r *reporter) failed(j *job, err error) {
	r.tally.failure(j.prog.planned.Name)
	if final(err) {
		r.unmade.note(j.prog.planned.Name, Reason(err), r.now())
	}
	r.refuse(j.prog.planned.Name, err)
}

// toldTwice logs the first sign of a second board.
func (r *reporter) toldTwice(m *transport.Meta) {
	r.log.Error(
		"two boards send with one identity, or a board lost its state while its clock was wrong: their windows "+
			"cannot be told apart; give each board its own signing key and name",
		"device", m.Device, "stream", m.Stream, "boot_epoch", m.BootEpoch, "sequence", m.Sequence)
}

// ErrConfig: the configuration cannot be served; the message says why.
var ErrConfig = errors.New("evaluator configuration")

// ErrAbsent: the configuration is sound, and something that it names cannot be
// used now: a key, a secret, a directory. It may be there later, so that trying
// again is worth it, unlike with other mistakes.
var ErrAbsent = errors.New("something that the configuration names is absent")

// Reasons for refusals besides those of package transport.
var (
	// ErrSamples: a window says that it holds more samples than it can.
	ErrSamples = errors.New("wrong number of samples")
	// ErrWindow: a window by time does not lie on the common grid.
	ErrWindow = errors.New("window is off the grid")
	// ErrDuplicate: there is another window of the same number.
	ErrDuplicate = errors.New("second window for the same place")
	// ErrKeyChange: inputs of one result are under different keys.
	ErrKeyChange = errors.New("inputs are under different keys")
	// ErrPlace: a window says that it stands at a place that its stream does not have.
	ErrPlace = errors.New("no such place in the slots")
	// ErrPlaceChange: windows of one result stand at different places.
	ErrPlaceChange = errors.New("inputs stand at different places in the slots")
	// ErrUnjoined: a window left without all that it was to be joined with.
	ErrUnjoined = errors.New("window left without its partners")
)
