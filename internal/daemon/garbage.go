package daemon

import (
	"math"
	"math/bits"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// AllowGarbage lets garbage grow to most bytes before it is collected, or to as many as are in use where these are
// more, which is what Go does by default. A process that keeps little and replaces it often then collects far less
// often, and its memory stays below what is in use and the larger of both.
//
// It is for a process with one role. A further call replaces the bound, and end goes back to Go's default. GOGC in
// the environment wins: AllowGarbage does nothing then. GOMEMLIMIT holds beside it.
func AllowGarbage(most int64) (end func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	garbage.allow(most)
	return func() { garbage.allow(0) }
}

// garbage is the bound of this process.
var garbage garbageBound

// garbageBound keeps the collector's percentage at what the bound is of the memory in use. That changes with every
// collection, after which a cleanup sets it anew.
type garbageBound struct {
	mu      sync.Mutex
	most    int64
	watched bool // a cleanup comes after the next collection
	percent int  // that was set; 0: none was
}

func (g *garbageBound) allow(most int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.most = most
	g.set()
	g.watch()
}

// watch calls collected after the next collection. The caller holds the lock.
func (g *garbageBound) watch() {
	if g.watched || g.most == 0 {
		return
	}
	g.watched = true
	dies := new([64]byte) // in memory of its own: the runtime packs smaller objects together
	runtime.AddCleanup(dies, (*garbageBound).collected, g)
}

func (g *garbageBound) collected() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.watched = false
	g.set()
	g.watch()
}

// set sets the percentage for what was in use at the last collection. The caller holds the lock.
func (g *garbageBound) set() {
	if p := percentOf(g.most, inUse()); p != g.percent {
		debug.SetGCPercent(p)
		g.percent = p
	}
}

// defaultPercent is Go's: as much garbage as there is in use.
const defaultPercent = 100

// percentOf returns the percentage of used bytes that most bytes are, at least the default. It rounds down to three
// binary digits, so that it stays the same while the memory in use changes a little.
func percentOf(most, used int64) int {
	p := float64(most) / float64(used) * 100
	if p <= defaultPercent {
		return defaultPercent
	}
	n := uint32(min(p, math.MaxInt32))
	drop := bits.Len32(n) - 3
	return max(int(n>>drop<<drop), defaultPercent)
}

// leastInUse is what the runtime takes the percentage of at least.
const leastInUse = 4 << 20

// inUse returns what the runtime takes the percentage of, as of the last collection.
func inUse() (n int64) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"},
		{Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			n += int64(s.Value.Uint64())
		}
	}
	return max(n, leastInUse)
}

// MachineMemory returns the memory of this machine, or of its container, in bytes; 0: it is unknown.
func MachineMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	total := int64(info.Totalram) * int64(info.Unit)
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil { // of a container
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			total = min(total, limit)
		}
	}
	return total
}
