package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hencedge/hencedge/agent"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/keyholder"
)

// matcher joins the plaintext of a window at the agent, the measurements of the evaluator,
// and the result that the key holder decrypted. A result names its window by the hash of
// the sealed reading.
type matcher struct {
	stage  *stage
	stream config.Stream
	inbox  chan any // agent.Observation, evaluator.Event, arrival or error

	enough  func() // called once all windows that will be shown were sampled
	windows map[[32]byte]*shown
	count   int   // full windows so far
	refused error // a refusal after that, of what the agent sent at its end
	events  map[[32]byte]evaluator.Event
	results map[[32]byte]arrival
}

// arrival is a decrypted result and when it was.
type arrival struct {
	*keyholder.Result
	at time.Time
}

// shown is a window with its rows so far, by program.
type shown struct {
	number int
	obs    agent.Observation
	rows   map[string]Row
}

func newMatcher(s *stage) *matcher {
	return &matcher{
		stage: s, stream: s.agent.Streams[0], inbox: make(chan any, 64),
		windows: map[[32]byte]*shown{}, events: map[[32]byte]evaluator.Event{}, results: map[[32]byte]arrival{},
	}
}

// send hands something in; it gives up when ctx ends.
func (m *matcher) send(ctx context.Context, v any) {
	select {
	case m.inbox <- v:
	case <-ctx.Done():
	}
}

// run shows the rows of every complete window, in order, until there are
// enough, ctx ends (no error), or something breaks.
func (m *matcher) run(ctx context.Context, ended <-chan error, show func(Row) error) error {
	next, limit := 1, m.stage.o.Windows
	complete := map[int][]Row{}
	timer := time.NewTimer(m.patience())
	defer timer.Stop()
	for limit < 0 || next <= limit {
		var v any
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-timer.C:
			return errors.Join(fmt.Errorf("no result for %v", m.patience()), m.refused)
		case v = <-m.inbox:
		}
		rows, number, err := m.take(v)
		if err != nil {
			return err
		}
		if rows == nil {
			continue
		}
		timer.Reset(m.patience())
		complete[number] = rows
		for ; complete[next] != nil && (limit < 0 || next <= limit); next++ {
			for _, r := range complete[next] {
				if err := show(r); err != nil {
					return err
				}
			}
			delete(complete, next)
		}
	}
	return nil
}

// sampled reports whether every window that will be shown is there.
func (m *matcher) sampled() bool { return m.stage.o.Windows > 0 && m.count >= m.stage.o.Windows }

// patience leaves time for a whole window.
func (m *matcher) patience() time.Duration {
	return m.stage.o.wait() + 2*m.stage.o.Interval*time.Duration(m.stage.o.Samples)
}

// take adds one piece and returns the rows of the window that it completes.
func (m *matcher) take(v any) (rows []Row, number int, err error) {
	var id [32]byte
	switch v := v.(type) {
	case error:
		if !m.sampled() {
			return nil, 0, v
		}
		m.refused = v
		return nil, 0, nil
	case agent.Observation:
		// An observation is always here before the results of its window.
		if int(v.Meta.Samples) != m.stage.o.Samples || m.sampled() {
			return nil, 0, nil // cut short by the end, or not shown
		}
		m.count++
		m.windows[v.Object] = &shown{number: m.count, obs: v, rows: map[string]Row{}}
		if m.sampled() {
			m.enough()
		}
		return nil, 0, nil
	case evaluator.Event:
		id = v.ID
		m.events[id] = v
	case arrival:
		id = v.ID
		m.results[id] = v
	default:
		return nil, 0, fmt.Errorf("unexpected %T", v)
	}
	ev, evaluated := m.events[id]
	res, decrypted := m.results[id]
	if !evaluated || !decrypted {
		return nil, 0, nil
	}
	delete(m.events, id)
	delete(m.results, id)
	if len(res.Inputs) != 1 {
		return nil, 0, fmt.Errorf("program %s: %d inputs, must be 1", res.Program, len(res.Inputs))
	}
	w := m.windows[res.Inputs[0]]
	if w == nil {
		return nil, 0, nil // of a window that is not shown
	}
	row, err := m.row(w, res, ev)
	if err != nil {
		return nil, 0, err
	}
	w.rows[row.Program] = row
	if len(w.rows) < len(m.stage.cast.Programs) {
		return nil, 0, nil
	}
	delete(m.windows, w.obs.Object)
	for _, p := range m.stage.cast.Programs {
		rows = append(rows, w.rows[p.Name])
	}
	return rows, w.number, nil
}

// row compares a result with the truth.
func (m *matcher) row(w *shown, res arrival, ev evaluator.Event) (Row, error) {
	i := slices.IndexFunc(m.stage.plan.Programs, func(p evaluator.Planned) bool { return p.Name == res.Program })
	if i < 0 {
		return Row{}, fmt.Errorf("a result of the unknown program %q", res.Program)
	}
	circuit, cfg, cast := m.stage.plan.Programs[i].Circuit, m.stage.evaluator.Programs[i], m.stage.cast.Programs[i]
	inputs := map[string][]float64{}
	for name, ref := range cfg.Inputs {
		k := m.stream.ChannelIndex(ref[strings.LastIndexByte(ref, '/')+1:])
		if k < 0 || k >= len(w.obs.Values) {
			return Row{}, fmt.Errorf("program %s: the window has no channel %s", res.Program, ref)
		}
		inputs[program.VarKey(name, 0)] = w.obs.Values[k]
	}
	truth, err := circuit.Reference(inputs)
	if err != nil {
		return Row{}, err
	}
	if len(truth) != len(res.Values) {
		return Row{}, fmt.Errorf("program %s: %d values, must be %d", res.Program, len(res.Values), len(truth))
	}
	row := Row{
		Window: w.number, Channel: cast.Channel, Program: res.Program, Unit: cast.Unit,
		Decrypted: res.Values, Truth: truth, result: res.Result,
		Bound: res.Bound, Uploaded: w.obs.Sealed, Downloaded: len(res.Sealed),
		Encrypt: milliseconds(w.obs.Encrypt), Evaluate: milliseconds(ev.Evaluate),
		Latency: milliseconds(res.at.Sub(time.Unix(0, w.obs.Meta.End))),
	}
	for k := range truth {
		row.Error = math.Max(row.Error, math.Abs(res.Values[k]-truth[k]))
	}
	// A NaN must fail. The bound in the result must not exceed the one that explain
	// promised.
	row.OK = row.Error <= row.Bound && row.Bound <= cast.Bound
	if math.IsNaN(row.Error) || math.IsInf(row.Error, 0) {
		return row, errors.New("program " + res.Program + ": the error is not a number")
	}
	return row, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
