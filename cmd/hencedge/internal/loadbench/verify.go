package loadbench

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hencedge/hencedge/evaluator/program"
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
	c.mu.Lock()
	list := c.kept
	c.kept = nil
	c.mu.Unlock()
	start := time.Now()
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range list {
		g.Go(func() error {
			worst, err := c.verifyOne(&list[i])
			mu.Lock()
			defer mu.Unlock()
			v.results++
			v.worst = max(v.worst, worst)
			return err
		})
	}
	err = g.Wait()
	v.took = time.Since(start)
	return v, err
}

func (c *checker) verifyOne(k *kept) (worst float64, err error) {
	res, err := c.bed.reader.Read(k.topic, k.sealed)
	if err != nil {
		return 0, err
	}
	truth, err := k.program.planned.Circuit.Reference(c.bed.plain(k))
	if err != nil {
		return 0, err
	}
	if len(truth) != len(res.Values) {
		return 0, fmt.Errorf("program %s: %d values, want %d", res.Program, len(res.Values), len(truth))
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
func (b *bed) plain(k *kept) map[string][]float64 {
	out := map[string][]float64{}
	for i, in := range k.program.inputs {
		bodies := b.devices[k.inputs[i].device].bodies
		values := bodies[k.inputs[i].n%int64(len(bodies))].values
		for name, ref := range k.program.config.Inputs {
			device, rest, _ := strings.Cut(ref, "/")
			_, channel, _ := strings.Cut(rest, "/")
			if device == in.Device {
				out[program.VarKey(name, in.Lag)] = values[b.stream.ChannelIndex(channel)]
			}
		}
	}
	return out
}
