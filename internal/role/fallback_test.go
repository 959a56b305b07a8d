package role

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/cutrantt"
)

// What takes over from a device follows the policy; a device is opened anew once a
// minute.
func TestFallback(t *testing.T) {
	failure := fmt.Errorf("device 3: %w", cutrantt.ErrDevice)
	good := func(name string) func() (string, error) { return func() (string, error) { return name, nil } }
	cpu, anew := good("cpu"), good("anew")
	gone := func() (string, error) { return "", errors.New("gone") }
	others := func() (string, int) { return "other", 1 }
	type to = Replacements[string]
	const useCPU, retry, stop = config.FallbackCPU, config.FallbackRetry, config.FallbackStop
	for name, c := range map[string]struct {
		policy config.FallbackPolicy
		to     to
		want   []string // of one failure a half minute after the other
	}{
		"processor":             {useCPU, to{Reopen: anew, Processor: cpu}, []string{"cpu", "cpu"}},
		"another device":        {useCPU, to{Others: others, Processor: cpu}, []string{"other"}},
		"anew":                  {retry, to{Reopen: anew, Processor: cpu}, []string{"anew", "cpu", "cpu", "anew"}},
		"anew, cannot":          {retry, to{Processor: cpu}, []string{"cpu", "cpu"}},
		"anew, fails":           {retry, to{Reopen: gone, Others: others, Processor: cpu}, []string{"other"}},
		"the processor fails":   {useCPU, to{Processor: gone}, []string{"!gone"}},
		"stop":                  {stop, to{Reopen: anew, Others: others, Processor: cpu}, []string{"!stopped"}},
		"anew, then the others": {retry, to{Reopen: anew, Others: others, Processor: cpu}, []string{"anew", "other"}},
	} {
		now := time.Duration(0)
		var stopped error
		f := Fallback[string]{Policy: c.policy, Log: slog.New(slog.DiscardHandler),
			Mono: func() time.Duration { return now }, Stop: func(err error) { stopped = err }}
		for i, want := range c.want {
			got, err := f.Replace("gpu", failure, c.to)
			switch {
			case want == "!stopped":
				if !errors.Is(err, ErrBackend) || !errors.Is(err, cutrantt.ErrDevice) || stopped == nil {
					t.Errorf("%s: %q, %v, stopped with %v", name, got, err, stopped)
				}
			case strings.HasPrefix(want, "!"):
				if err == nil || !strings.Contains(err.Error(), want[1:]) {
					t.Errorf("%s: %q, %v", name, got, err)
				}
			case got != want || err != nil || stopped != nil:
				t.Errorf("%s: failure %d: %q, %v, want %q", name, i, got, err, want)
			}
			now += 25 * time.Second
		}
	}
}

// A task goes on where replace says while devices fail, a bounded number of times; other
// errors end it.
func TestAttempt(t *testing.T) {
	next := func(failed int, _ error) (int, error) { return failed + 1, nil }
	var ran []int
	fails := func(below int, err error) func(int) error {
		return func(on int) error {
			if ran = append(ran, on); on < below {
				return err
			}
			return nil
		}
	}
	if err := Attempt(4, 0, fails(3, cutrantt.ErrMemory), next); err != nil || len(ran) != 4 {
		t.Errorf("%v after %v", err, ran)
	}
	if ran = nil; !errors.Is(Attempt(3, 0, fails(3, cutrantt.ErrDevice), next), cutrantt.ErrDevice) || len(ran) != 3 {
		t.Errorf("attempts on %v", ran)
	}
	other := errors.New("other")
	if ran = nil; !errors.Is(Attempt(3, 0, fails(3, other), next), other) || len(ran) != 1 {
		t.Errorf("attempts on %v", ran)
	}
	ran = nil
	err := Attempt(3, 0, fails(3, cutrantt.ErrDevice), func(int, error) (int, error) { return 0, other })
	if !errors.Is(err, other) || !errors.Is(err, cutrantt.ErrDevice) || len(ran) != 1 {
		t.Errorf("%v after %v", err, ran)
	}
}
