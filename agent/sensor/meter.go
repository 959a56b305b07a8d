package sensor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/agent/input"
	"github.com/hencedge/hencedge/agent/input/power"
)

const (
	// powerEvery and counterEvery are how often energy is read, on average. Readings are
	// rare, since waking up costs more than reading. Power is read at random moments, so
	// that the rhythm of the windows does not bias its integral. A counter loses nothing
	// between readings, and even the fastest takes minutes to wrap.
	powerEvery   = 4 * time.Second
	counterEvery = 10 * time.Second
	// recentSpan is what recent figures cover, in steps of recentStep.
	recentSpan = 5 * time.Minute
	recentStep = 10 * time.Second
	// cpuEvery is how often processor time is read: /proc/stat is not cheap.
	cpuEvery = 10 * time.Second
	// shareAfter is how much processor time all processes must have used before the
	// agent's share is reported: /proc/stat counts in steps of 10 ms.
	shareAfter = time.Second
	userHz     = 100 // ticks a second in /proc/stat on every architecture that we build for
)

// Energy is what the board spent while the agent ran, measured by a sensor of the board.
// All figures cover the same time, of length Seconds: that in which the sensor could be
// read.
type Energy struct {
	Sensor string      `json:"sensor,omitempty"` // empty: nothing is measured
	Scope  power.Scope `json:"scope,omitempty"`
	Reason string      `json:"reason,omitempty"` // why nothing is measured
	// Joules of all that the sensor covers, idle or not, whoever spent them.
	Joules   float64 `json:"joules,omitempty"`
	Seconds  float64 `json:"seconds,omitempty"`
	Readings uint64  `json:"readings,omitempty"` // samples of all streams that went into windows
	Windows  uint64  `json:"windows,omitempty"`
	// PerReading and PerWindow divide Joules by the counts above, 0 before the first.
	PerReading float64      `json:"joules_per_reading,omitempty"`
	PerWindow  float64      `json:"joules_per_window,omitempty"`
	Recent     RecentEnergy `json:"recent,omitzero"`
	// Share is the processor time of the agent's process divided by the busy time of all
	// processors. Own estimates the agent's part of the energy as Joules * Share, so that
	// idle power is split among processes too. Both are absent below a second of busy
	// time, and if a GPU encrypts, whose work is not processor time.
	Share *float64 `json:"own_cpu_share,omitempty"`
	Own   *float64 `json:"own_joules_estimate,omitempty"`

	Failures  uint64 `json:"failures,omitempty"` // readings of the sensor that failed
	LastError string `json:"last_error,omitempty"`
}

// RecentEnergy is about the last five minutes, or the time since the start.
type RecentEnergy struct {
	Seconds    float64 `json:"seconds"`
	Watts      float64 `json:"watts"`
	PerReading float64 `json:"joules_per_reading,omitempty"`
}

// String returns one line for people.
func (e Energy) String() string {
	if e.Sensor == "" {
		return e.Reason
	}
	out := fmt.Sprintf("%s, %s: %.4g J in %v", e.Sensor, e.Scope, e.Joules,
		time.Duration(e.Seconds*float64(time.Second)).Round(time.Second))
	if e.Recent.Seconds > 0 {
		out += fmt.Sprintf(", %.3g W lately", e.Recent.Watts)
	}
	if e.PerReading > 0 {
		out += fmt.Sprintf("; %.3g J per reading", e.PerReading)
	}
	if e.PerWindow > 0 {
		out += fmt.Sprintf(", %.3g J per window", e.PerWindow)
	}
	if e.Share != nil {
		out += fmt.Sprintf("; own part about %.3g J (%.2g %% of the busy processor time)", *e.Own, 100**e.Share)
	}
	if e.Failures > 0 {
		out += fmt.Sprintf("; %d readings failed, the last: %s", e.Failures, e.LastError)
	}
	return out
}

// Meter counts what the board spends. Its methods are safe for concurrent use.
type Meter struct {
	mu     sync.Mutex
	sensor *power.Energy // nil: none
	reason string
	work   func() Work
	cpu    func() processorTime // so far
	gpu    func() bool          // a GPU encrypts

	base     Work // at the last reading that succeeded
	total    spent
	recent   []spent // of total, at least recentStep apart
	cpuBase  processorTime
	cpuAt    time.Duration // of cpuBase
	cpuTotal processorTime // in the time covered, up to cpuAt
	failures uint64
	last     string
}

// Work is what was done so far.
type Work struct {
	Readings uint64 // samples that went into windows
	Windows  uint64
}

// spent are the figures that grow while energy is counted.
type spent struct {
	joules, seconds float64
	work            Work
}

// processorTime is the processor time of this process and of all processes.
type processorTime struct{ own, busy time.Duration }

// OpenMeter finds the power sensor of a machine; without one the report says why. work
// returns what was done so far, and gpu whether a GPU did part of it.
func OpenMeter(m Machine, work func() Work, gpu func() bool) *Meter {
	e := &Meter{work: work, gpu: gpu, cpu: func() processorTime { return processorTime{ProcessTime(), m.busyTime()} }}
	var err error
	if e.sensor, err = within(openPatience,
		func() (*power.Energy, error) { return power.OpenEnergy(m.Root) }); err != nil {
		e.reason = strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", "; "), input.ErrNoSensor.Error()+": ")
	}
	return e
}

// NoMeter returns a meter that counts nothing, for the reason that its report gives.
func NoMeter(reason string) *Meter { return &Meter{reason: reason} }

// Start counts energy until stop is called. Then the sensor is read once more, unless it
// hangs.
func (e *Meter) Start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		e.count(ctx)
	}()
	return func() {
		cancel()
		select {
		case <-counted:
		case <-time.After(openPatience):
		}
	}
}

// ProcessTime returns the processor time of this process.
func ProcessTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// busyTime returns the processor time of all processes and interrupts, 0 when it
// cannot be read. What a hypervisor stole was not spent here.
func (m Machine) busyTime() time.Duration {
	times, _, err := m.cpuTimes("total")
	if err != nil {
		return 0
	}
	ticks := 0.0
	for i, f := range cpuFields {
		if f != "idle" && f != "iowait" && f != "steal" {
			ticks += times[i]
		}
	}
	return time.Duration(ticks / userHz * float64(time.Second))
}

// count reads the sensor until ctx ends. It uses real time, since energy is real too.
func (e *Meter) count(ctx context.Context) {
	if e.sensor == nil {
		return
	}
	every := powerEvery
	if e.sensor.Counter {
		every = counterEvery
	}
	start := time.Now()
	e.add(0)
	pause := func() time.Duration { return every*3/4 + rand.N(every/2) }
	t := time.NewTimer(pause())
	defer t.Stop()
	for {
		select {
		case <-t.C:
			e.add(time.Since(start))
			t.Reset(pause())
		case <-ctx.Done():
			e.add(time.Since(start))
			return
		}
	}
}

// add reads the sensor at a monotonic time. It counts readings, windows and processor
// time only for the time that the energy covers. Processor time lags by up to cpuEvery.
func (e *Meter) add(now time.Duration) {
	joules, seconds, err := e.sensor.Add(now) // not under the lock: a bus may be slow
	work := e.work()
	// A reading that covers nothing begins a new span.
	begins := err == nil && seconds == 0
	var cpu processorTime
	readsCPU := begins || err == nil && now-e.cpuAt >= cpuEvery
	if readsCPU {
		cpu = e.cpu()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.failures++
		e.last = err.Error()
		return
	}
	if seconds > 0 {
		e.total.joules += joules
		e.total.seconds += seconds
		e.total.work.Readings += work.Readings - e.base.Readings
		e.total.work.Windows += work.Windows - e.base.Windows
	}
	e.base = work
	if readsCPU {
		if !begins {
			e.cpuTotal.own += max(0, cpu.own-e.cpuBase.own)
			e.cpuTotal.busy += max(0, cpu.busy-e.cpuBase.busy)
		}
		e.cpuBase, e.cpuAt = cpu, now
	}
	if n := len(e.recent); n == 0 || e.total.seconds-e.recent[n-1].seconds >= recentStep.Seconds() {
		e.recent = append(e.recent, e.total)
	}
	for len(e.recent) > 2 && e.total.seconds-e.recent[1].seconds >= recentSpan.Seconds() {
		e.recent = append(e.recent[:0], e.recent[1:]...)
	}
}

// Report returns what was counted so far.
func (e *Meter) Report() Energy {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sensor == nil {
		return Energy{Reason: e.reason}
	}
	t := e.total
	out := Energy{Sensor: e.sensor.Sensor, Scope: e.sensor.Scope, Joules: t.joules, Seconds: t.seconds,
		Readings: t.work.Readings,
		Windows:  t.work.Windows, Failures: e.failures, LastError: e.last}
	out.PerReading, out.PerWindow = per(t.joules, t.work.Readings), per(t.joules, t.work.Windows)
	if len(e.recent) > 0 {
		first := e.recent[0]
		if dt := t.seconds - first.seconds; dt > 0 {
			j := t.joules - first.joules
			out.Recent = RecentEnergy{Seconds: dt, Watts: j / dt,
				PerReading: per(j, t.work.Readings-first.work.Readings)}
		}
	}
	if c := e.cpuTotal; c.busy >= shareAfter && c.own > 0 && !e.gpu() {
		share := min(1, float64(c.own)/float64(c.busy))
		own := t.joules * share
		out.Share, out.Own = &share, &own
	}
	return out
}

func per(joules float64, n uint64) float64 {
	if n == 0 {
		return 0
	}
	return joules / float64(n)
}
