//go:build !amd64

package embed

// There is no vector code for this GOARCH.

func vectorized() bool { return false }

func (e *Embedding) vectorToSlots(_, _, _, _ []float64) {}

func (e *Embedding) vectorFromSlots(_, _, _, _ []float64) {}

func vectorScaleRound([]float64, float64) {}

func vectorMagnitude([]float64) (float64, bool) { return 0, false }
