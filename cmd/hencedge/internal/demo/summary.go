package demo

import (
	"slices"
	"time"
)

// Summary closes the demo. MaxError and Bound belong to the one result that
// came closest to its bound, or farthest above it: WorstRatio is their quotient.
type Summary struct {
	Type       string  `json:"type"` // "summary"
	OK         bool    `json:"ok"`   // there were results, and every error is within its bound
	MaxError   float64 `json:"max_error"`
	Bound      float64 `json:"bound"`
	WorstRatio float64 `json:"worst_ratio"`
	Worst      string  `json:"worst_program"`
	Exceeded   int     `json:"exceeded"` // results outside their bound

	Windows     int     `json:"windows"`
	Results     int     `json:"results"`
	Params      string  `json:"params"`
	Backend     string  `json:"backend"`
	Uploaded    int     `json:"bytes_up"`   // sealed windows
	Downloaded  int     `json:"bytes_down"` // sealed results
	Encrypt     float64 `json:"encrypt_ms"` // medians
	Evaluate    float64 `json:"evaluate_ms"`
	Latency     float64 `json:"latency_ms"`
	FirstWindow float64 `json:"first_window_seconds"` // from the start to the first decrypted window
	Duration    float64 `json:"seconds"`

	Programs []ProgramSummary `json:"programs"`

	start                      time.Time
	encrypt, evaluate, latency []float64
}

// ProgramSummary is the worst result of one program.
type ProgramSummary struct {
	Name     string  `json:"name"`
	MaxError float64 `json:"max_error"`
	Bound    float64 `json:"bound"`
}

func newSummary(c Cast, start time.Time) *Summary {
	s := &Summary{Type: "summary", Params: c.Params, Backend: c.Backend, start: start}
	for _, p := range c.Programs {
		s.Programs = append(s.Programs, ProgramSummary{Name: p.Name, Bound: p.Bound})
	}
	return s
}

// add counts a row; rows come window by window.
func (s *Summary) add(r Row) {
	if s.Results == 0 {
		s.FirstWindow = time.Since(s.start).Seconds()
	}
	if r.Window > s.Windows {
		s.Windows = r.Window
		s.Uploaded += r.Uploaded
		s.encrypt = append(s.encrypt, r.Encrypt)
	}
	s.Results++
	s.Downloaded += r.Downloaded
	s.evaluate = append(s.evaluate, r.Evaluate)
	s.latency = append(s.latency, r.Latency)
	if !r.OK {
		s.Exceeded++
	}
	// A bound of zero would be a promise of exactness.
	ratio := r.Error
	if r.Bound > 0 {
		ratio = r.Error / r.Bound
	}
	if s.Results == 1 || ratio > s.WorstRatio {
		s.WorstRatio, s.MaxError, s.Bound, s.Worst = ratio, r.Error, r.Bound, r.Program
	}
	for i := range s.Programs {
		if p := &s.Programs[i]; p.Name == r.Program {
			p.MaxError = max(p.MaxError, r.Error)
		}
	}
}

// finish computes what needs all rows.
func (s *Summary) finish() {
	s.OK = s.Results > 0 && s.Exceeded == 0
	s.Encrypt, s.Evaluate, s.Latency = median(s.encrypt), median(s.evaluate), median(s.latency)
	s.Duration = time.Since(s.start).Seconds()
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
