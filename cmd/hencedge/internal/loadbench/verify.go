package loadbench

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/keyholder"
)

// verified sums up the decrypted results.
type verified struct {
	results int64
	worst   float64 // largest error divided by its bound
	took    time.Duration
}

// verify verifies and decrypts the kept results, as the key holder does, and compares each
// value with the plaintext answer. It fails if an error exceeds its promise.
func (c *checker) verify() (v verified, err error) {
	c.copying.Wait()
	list := c.taken()
	start := time.Now()
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range list {
		g.Go(func() error {
			worst, err := c.verifyOne(list[i])
			mu.Lock()
			defer mu.Unlock()
			v.results += int64(len(list[i].results))
			v.worst = max(v.worst, worst)
			return err
		})
	}
	err = g.Wait()
	v.took = time.Since(start)
	return v, err
}

// verifyOne verifies and decrypts an object, and compares those of its results that count.
func (c *checker) verifyOne(k *kept) (worst float64, err error) {
	all, refused, err := c.bed.reader.ReadAll(k.topic, k.sealed)
	if err = errors.Join(append(refused, err)...); err != nil {
		return 0, err
	}
	for i := range k.results {
		r := &k.results[i]
		e, err := c.compare(all[r.at], r)
		if err != nil {
			return 0, err
		}
		worst = max(worst, e)
	}
	return worst, nil
}

// compare returns the largest error of a decrypted result as a part of its bound, and fails
// if one is beyond it.
func (c *checker) compare(res *keyholder.Result, r *keptResult) (worst float64, err error) {
	truth, err := r.program.planned.Circuit.Reference(c.bed.plain(r))
	if err != nil {
		return 0, err
	}
	if res.Program != r.program.planned.Name || len(truth) != len(res.Values) {
		return 0, fmt.Errorf("program %s: %d values, want %d of %s", res.Program, len(res.Values), len(truth),
			r.program.planned.Name)
	}
	for i, want := range truth {
		e := math.Abs(res.Values[i] - want)
		if !(e <= res.Bound) {
			return 0, fmt.Errorf("program %s, result %d, value %d: %g, want %g within the promised %g", res.Program,
				res.Sequence, i, res.Values[i], want, res.Bound)
		}
		if res.Bound > 0 {
			worst = max(worst, e/res.Bound)
		}
	}
	return worst, nil
}

// plain returns the plaintext windows of a result, by variable and lag.
func (b *bed) plain(k *keptResult) map[string][]float64 {
	out := map[string][]float64{}
	for i, in := range k.program.inputs {
		bodies := b.devices[k.inputs[i].device].bodies
		values := bodies[k.inputs[i].n%int64(len(bodies))].values
		for name, ref := range k.program.config.Inputs {
			device, rest := "", ref
			if k.program.config.For == "" {
				device, rest, _ = strings.Cut(ref, "/")
			}
			_, channel, _ := strings.Cut(rest, "/")
			if device == in.Device {
				out[program.VarKey(name, in.Lag)] = values[b.stream.ChannelIndex(channel)]
			}
		}
	}
	return out
}
