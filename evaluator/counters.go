package evaluator

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/interval"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/evaluator/store"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/transport"
)

// tally is Stats under a lock.
type tally struct {
	mu sync.Mutex
	s  Stats
}

func (t *tally) change(f func(*Stats)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.s.Refused == nil {
		t.s.Refused, t.s.Programs = map[string]uint64{}, map[string]ProgramStats{}
	}
	f(&t.s)
}

// result counts a published result, failure one that was not.
func (t *tally) result(program string, bytes int, took time.Duration) {
	t.change(func(s *Stats) {
		s.Results++
		s.Bytes += uint64(bytes)
		p := s.Programs[program]
		s.Programs[program] = ProgramStats{p.Results + 1, p.Failed, p.Bytes + uint64(bytes), p.Evaluate + took}
	})
}

func (t *tally) failure(program string) {
	t.change(func(s *Stats) {
		s.Failed++
		p := s.Programs[program]
		p.Failed++
		s.Programs[program] = p
	})
}

func (t *tally) refuse(err error) string {
	label := Reason(err)
	t.change(func(s *Stats) { s.Refused[label]++ })
	return label
}

// snapshot adds the refusals of chunks.
func (t *tally) snapshot(chunks *transport.Counters) Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.s
	out.Refused, out.Programs = maps.Clone(t.s.Refused), maps.Clone(t.s.Programs)
	if out.Refused == nil {
		out.Refused = map[string]uint64{}
	}
	for label, n := range chunks.Snapshot() {
		if n > 0 {
			out.Refused[label] += n
		}
	}
	return out
}

// Stats counts what a service did since it started.
type Stats struct {
	Accepted uint64 // windows that passed every check
	Twins    uint64 // of these, of a second board with the same identity
	Results  uint64 // results that the broker acknowledged
	Failed   uint64 // evaluations or publications that failed
	Bytes    uint64 // of sealed results
	Batches  uint64 // runs of one or more results together
	Packs    uint64 // packs of results that were published
	// Fallbacks counts devices that failed, and jobs that exhausted their memory:
	// what was under way was computed again elsewhere.
	Fallbacks uint64
	Refused   map[string]uint64 // by Reason; only labels that were counted
	Programs  map[string]ProgramStats
}

// ProgramStats are the part of one program.
type ProgramStats struct {
	Results  uint64
	Failed   uint64
	Bytes    uint64
	Evaluate time.Duration // on ciphertexts, in all
}

// bodyReasons labels errors of the ciphertext itself and of the join. Labels of
// transport.Reason come first.
var bodyReasons = []struct {
	err   error
	label string
}{
	{henc.ErrTruncated, "body_truncated"},
	{henc.ErrLength, "body_length"},
	{henc.ErrSeed, "body_seed"},
	{henc.ErrVersion, "body_version"},
	{henc.ErrKind, "body_kind"},
	{henc.ErrTooLarge, "body_too_large"},
	{henc.ErrParams, "body_params"},
	{henc.ErrRange, "residue_range"},
	{henc.ErrDegenerate, "degenerate"},
	{henc.ErrDegree, "degree"},
	{henc.ErrDomain, "domain"},
	{henc.ErrLevel, "level"},
	{henc.ErrScale, "scale"},
	{henc.ErrMalformed, "body_malformed"},
	{engine.ErrNoDeviceKey, "no_device_key"},
	{henc.ErrNoKey, "no_key"},
	{program.ErrInput, "input_mismatch"},
	{program.ErrType, "partial_window"},
	{ErrSamples, "samples"},
	{ErrWindow, "off_grid"},
	{ErrDuplicate, "duplicate_window"},
	{interval.ErrLate, "late_window"},
	{engine.ErrLost, "sum_lost"},
	{ErrKeyChange, "key_change"},
	{ErrPlace, "place"},
	{ErrPlaceChange, "place_change"},
	{ErrUnjoined, "unjoined"},
	{store.ErrBusy, transport.ReasonBusy},
}

// Reason returns the metric label of a refusal: transport.Reason's where it has one,
// else the label of the ciphertext's or the join's fault, else "other".
func Reason(err error) string {
	if r := transport.Reason(err); r != transport.ReasonOther {
		return r
	}
	for _, b := range bodyReasons {
		if errors.Is(err, b.err) {
			return b.label
		}
	}
	return transport.ReasonOther
}

// Reasons lists every label that Reason can give.
func Reasons() []string {
	out := transport.Reasons()
	for _, b := range bodyReasons {
		out = append(out, b.label)
	}
	return out
}
