package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// operations in the order of the table. "ntt n2=16" and "intt n2=16" are our incomplete
// transforms, which leave out four levels, beside Lattigo's complete ones: products of
// what they leave cost more. Those of bfv are of exact integers, ours beside Lattigo's BFV, at shapes up to N = 2^14;
// encryption starts from an encoded plaintext, and decryption ends with slots.
var operations = []string{
	"encrypt pk", "encrypt seeded", "decrypt", "mul+relin", "rescale", "rotate", "encode", "decode", "ntt", "intt",
	"ntt n2=16", "intt n2=16",
	"bfv encrypt pk", "bfv decrypt", "bfv add", "bfv mul plain", "bfv mul+relin", "bfv rotate", "bfv encode",
}

// record is one line of the table and of the JSON file; times in microseconds.
type record struct {
	Shape      string  `json:"shape"`
	LogN       int     `json:"logN"`
	LogQ       int     `json:"logQ"`
	Dnum       int     `json:"dnum"`
	Op         string  `json:"op"`
	Rounds     int     `json:"rounds"`
	OursMedian float64 `json:"ours_median_us"`
	OursMin    float64 `json:"ours_min_us"`
	Lattigo    float64 `json:"lattigo_median_us"`
	LattigoMin float64 `json:"lattigo_min_us"`
	Ratio      float64 `json:"ratio"`     // of the medians: above 1 ours is faster
	RatioMin   float64 `json:"ratio_min"` // of the least times

	// Of bootstrappings only: the levels left, and the precision.
	OursLevels   int         `json:"ours_levels,omitempty"`
	TheirsLevels int         `json:"lattigo_levels,omitempty"`
	Precision    []precision `json:"precision,omitempty"`
}

// heading stands above the rows of records.
const heading = "|    | operation      |      ours |     least |   Lattigo |     least | ratio | least |\n" +
	"|----|----------------|-----------|-----------|-----------|-----------|-------|-------|"

// cpuTime is the processor time that the process has used: on a machine that is
// shared it counts the work and not the waiting.
func cpuTime() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	return time.Duration(t.Nano()), nil
}

// timed is the processor time of n calls of op.
func timed(op func() error, n int) (time.Duration, error) {
	start, err := cpuTime()
	if err != nil {
		return 0, err
	}
	for range n {
		if err := op(); err != nil {
			return 0, err
		}
	}
	end, err := cpuTime()
	return end - start, err
}

// compare runs f and g in turn, rounds times, each for about span a time.
func compare(f, g func() error, rounds int, span time.Duration) (r record, err error) {
	repeat := [2]int{}
	for i, op := range [2]func() error{f, g} {
		if err := op(); err != nil { // builds tables
			return r, err
		}
		once, err := timed(op, 1)
		if err != nil {
			return r, err
		}
		repeat[i] = max(1, int(span/max(1, once)))
	}
	var times [2][]float64
	for range rounds {
		for i, op := range [2]func() error{f, g} {
			runtime.GC()
			t, err := timed(op, repeat[i])
			if err != nil {
				return r, err
			}
			times[i] = append(times[i], t.Seconds()*1e6/float64(repeat[i]))
		}
	}
	slices.Sort(times[0])
	slices.Sort(times[1])
	r.Rounds = rounds
	r.OursMedian, r.OursMin = times[0][rounds/2], times[0][0]
	r.Lattigo, r.LattigoMin = times[1][rounds/2], times[1][0]
	r.Ratio, r.RatioMin = r.Lattigo/r.OursMedian, r.LattigoMin/r.OursMin
	return r, nil
}

func (r record) String() string {
	return fmt.Sprintf("| %-2s | %-14s | %9.1f | %9.1f | %9.1f | %9.1f | %5.2f | %5.2f |",
		r.Shape, r.Op, r.OursMedian, r.OursMin, r.Lattigo, r.LattigoMin, r.Ratio, r.RatioMin)
}
