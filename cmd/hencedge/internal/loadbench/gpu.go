package loadbench

import (
	"bufio"
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// utilisation is what nvidia-smi reports: the share of its sampling period, up to a second,
// in which at least one kernel ran.
type utilisation struct {
	stop func()
	mu   sync.Mutex
	all  []reading
}

type reading struct {
	at    time.Time
	share float64
}

// watchGPUs reads the utilisation of GPUs several times a second until stop is called. It
// fails without nvidia-smi.
func watchGPUs(ctx context.Context, uuids []string) (*utilisation, error) {
	tool, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(
		ctx,
		tool,
		"--query-gpu=utilization.gpu",
		"--format=csv,noheader,nounits",
		"-lms",
		"200",
		"-i",
		strings.Join(uuids, ","),
	)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	u := new(utilisation)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if percent, err := strconv.ParseFloat(strings.TrimSpace(lines.Text()), 64); err == nil {
				u.mu.Lock()
				u.all = append(u.all, reading{time.Now(), percent / 100})
				u.mu.Unlock()
			}
		}
		_ = cmd.Wait() // it was killed
	}()
	u.stop = func() { cancel(); <-done }
	return u, nil
}

// between returns the mean of the readings in the intervals that count, or nil if there are
// no readings.
func (u *utilisation) between(list []*segment) *float64 {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	sum, n := 0.0, 0
	for _, r := range u.all {
		for _, s := range list {
			if r.at.After(s.from.at) && !r.at.After(s.to.at) {
				sum, n = sum+r.share, n+1
			}
		}
	}
	if n == 0 {
		return nil
	}
	mean := sum / float64(n)
	return &mean
}

// watchGPUs watches the GPUs of the service. It returns nil if there are none or if it cannot,
// and remarks why.
func (b *bed) watchGPUs(ctx context.Context) *utilisation {
	if len(b.o.GPUs) == 0 {
		return nil
	}
	u, err := watchGPUs(ctx, b.o.GPUs)
	if err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			err = errors.New("it is not installed")
		}
		b.remark("gpu_busy is not known: nvidia-smi: %v", err)
	}
	return u
}
