package loadbench

import (
	"fmt"
	"time"

	"github.com/hencedge/hencedge/internal/meter"
)

// snapshot is what has been counted up to a moment.
type snapshot struct {
	at                time.Time
	results, bytesOut int64
	process           time.Duration // processor time of this process
	outside           time.Duration // the part of it for feeding and checking
	stages            map[string]stage
	launches          uint64 // of kernels
}

// stage is how many windows or results passed a stage, and how long that took altogether.
type stage struct {
	seconds float64
	count   uint64
}

// The metric of the stages, and the stage that every window begins with.
const (
	stageMetric = "hencedge_evaluator_stage_seconds"
	firstStage  = "receive"
)

func (h *house) snapshot() (s snapshot, err error) {
	s.at = time.Now()
	s.results, s.bytesOut = h.checker.counts()
	if s.process, err = processTime(); err != nil {
		return s, err
	}
	s.outside = time.Duration(h.outside.feeding.Load() + h.outside.checking.Load())
	families, err := h.registry.Gather()
	if err != nil {
		return s, fmt.Errorf("metrics: %w", err)
	}
	s.stages = map[string]stage{}
	for _, f := range families {
		if f.GetName() != stageMetric {
			continue
		}
		for _, m := range f.GetMetric() {
			s.stages[m.GetLabel()[0].GetValue()] = stage{
				m.GetHistogram().GetSampleSum(),
				m.GetHistogram().GetSampleCount(),
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.contexts {
		if m, ok := c.Ring().(meter.Meter); ok {
			s.launches += m.Launches()
		}
	}
	return s, nil
}
