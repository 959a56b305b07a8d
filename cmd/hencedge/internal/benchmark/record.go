// Package benchmark times every kernel and operation of hencedge over every
// parameter set and checks what each timed kernel computed.
//
// Method: a case owns several sets of random inputs, together larger than
// twice the last-level cache, and each timed call takes the next set, so that
// operands come from memory as they do in a running pipeline (--cached keeps
// one set instead). Calls before the clock starts warm up. Each call is timed on
// its own; a record holds the median, the 95th percentile and the
// least of the calls. After the timing one result is compared with a path that
// shares no code with the kernel (check.go).
package benchmark

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Record is one line of "hencedge bench --json".
type Record struct {
	Op string `json:"op"` // one of Ops
	// Hadamard method, n2 of the transform, or variant; for copy: the operation whose traffic it has
	Method   string  `json:"method"`
	Params   string  `json:"params"`   // named parameter set, or the shape of a bare ring
	LogN     int     `json:"logN"`     // ring degree 2^logN
	Limbs    int     `json:"limbs"`    // limbs of the input
	Dnum     int     `json:"dnum"`     // digits of key switching, 0 where the set has none
	Batch    int     `json:"batch"`    // polynomials or ciphertexts per call
	Backend  string  `json:"backend"`  // cutrantt backend
	Device   string  `json:"device"`   // hardware in words
	Workers  int     `json:"workers"`  // CPU workers per operation
	N2       int     `json:"n2"`       // columns of the layout
	Resident string  `json:"resident"` // "memory" or "cache": where inputs come from
	Clock    string  `json:"clock"`    // "device": events on the GPU; "host": the call, waiting included
	Iters    int     `json:"iters"`    // timed calls
	MedianUS float64 `json:"median_us"`
	P95US    float64 `json:"p95_us"`
	MinUS    float64 `json:"min_us"`
	Bytes    int64   `json:"bytes"` // least traffic of one call: operands read once, results written once

	// CiphertextBytes is what one ciphertext that was made takes on the wire, packed
	// (henc.Context.MarshalCiphertext); 0 for operations that encrypt nothing.
	CiphertextBytes int `json:"ciphertext_bytes,omitempty"`

	// Of the same call by the host's clock, where Clock is "device".
	WallUS    float64 `json:"wall_us,omitempty"`
	WallP95US float64 `json:"wall_p95_us,omitempty"`
	// GraphCalls is how many calls were queued together as one graph, so that the device
	// did not wait for the host between them; 0 where the host queued kernel by kernel.
	GraphCalls int `json:"graph_calls,omitempty"`
	// CopyUS is the median of a copy of Bytes bytes, measured in the same run, and
	// OfCopy the median over it: the distance to the memory's limit.
	CopyUS   float64            `json:"copy_us,omitempty"`
	OfCopy   float64            `json:"of_copy,omitempty"`
	Launches float64            `json:"launches,omitempty"` // kernels per call
	Split    map[string]float64 `json:"split_us,omitempty"` // medians of the parts of a call
}

// The clocks of a record.
const (
	ClockHost   = "host"
	ClockDevice = "device"
)

// Ops lists the operations in the order in which they are reported.
func Ops() []string {
	return []string{
		"ntt", "intt", "hadamard", "encode", "henc_pk", "henc_seeded", "decrypt", "decode",
		"hadd", "cmult", "hmult", "hmult_rescale", "rescale", "hrotate", "bootstrap", "henc", "copy",
	}
}

// stats are the times of one case.
type stats struct {
	iters                int
	median, p95, fastest time.Duration
}

// maxIters bounds the memory of the samples and the time of tiny kernels.
const maxIters = 20000

// measure calls f(0), f(1), ... f(sets-1), f(0), ... First untimed: two calls,
// and more until a quarter of minTime is over or every set was used. Then, on
// from there, for at least minTime and three calls, timed one by one.
func measure(ctx context.Context, minTime time.Duration, sets int, f func(set int) error) (stats, error) {
	next := 0
	for start := time.Now(); next < 2 || (next < sets && time.Since(start) < minTime/4); next++ {
		if err := ctx.Err(); err != nil {
			return stats{}, err
		}
		if err := f(next % sets); err != nil {
			return stats{}, err
		}
	}
	var samples []time.Duration
	var total time.Duration
	for ; len(samples) < maxIters && (total < minTime || len(samples) < 3); next++ {
		if err := ctx.Err(); err != nil {
			return stats{}, err
		}
		start := time.Now()
		err := f(next % sets)
		d := time.Since(start)
		if err != nil {
			return stats{}, err
		}
		samples = append(samples, d)
		total += d
	}
	return summarise(samples), nil
}

// summarise sorts samples in place; there must be at least one.
func summarise(samples []time.Duration) stats {
	slices.SortFunc(samples, cmp.Compare[time.Duration])
	n := len(samples)
	median := samples[n/2]
	if n%2 == 0 {
		median = (samples[n/2-1] + samples[n/2]) / 2
	}
	return stats{iters: n, median: median, p95: samples[(95*n+99)/100-1], fastest: samples[0]}
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func (s stats) fill(r *Record) {
	r.Iters, r.MedianUS, r.P95US, r.MinUS = s.iters, us(s.median), us(s.p95), us(s.fastest)
}

// errWrong is a kernel that computed the wrong thing.
func errWrong(op, where string, got, want any) error {
	return fmt.Errorf("%s computed a wrong result: %s is %v, must be %v", op, where, got, want)
}
