package plan

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/delivery"
	"github.com/hencedge/hencedge/transport/spool"
)

const (
	// planRuns is how often a window is sealed, and a sample taken, to find the time.
	planRuns = 5
	// planPause is before each run: an agent finds its caches cold and its processor
	// asleep.
	planPause = 10 * time.Millisecond
	// stateBytes is what a write of the state file costs the disk, with its directory
	// and the journal.
	stateBytes = 16 << 10
)

// cost is what something takes, medians of planRuns.
type cost struct {
	wall time.Duration
	cpu  time.Duration // of all processors
}

// measured runs f planRuns times.
func measured(clock role.Clock, f func() error) (cost, error) {
	var walls, cpus []time.Duration
	for range planRuns {
		if err := clock.Sleep(context.Background(), planPause); err != nil {
			return cost{}, err
		}
		own, began := sensor.ProcessTime(), time.Now()
		if err := f(); err != nil {
			return cost{}, err
		}
		walls, cpus = append(walls, time.Since(began)), append(cpus, sensor.ProcessTime()-own)
	}
	slices.Sort(walls)
	slices.Sort(cpus)
	return cost{walls[planRuns/2], cpus[planRuns/2]}, nil
}

// sampling measures one sample of a live stream, and says which sensors are not
// there. Inputs are not asked: that could change a device, and their values are
// received beside the sampling. /sys and /proc are read as the agent reads them.
func sampling(s *seal.Stream, m sensor.Machine) (took cost, absent []string) {
	if s.Config.Replay != nil || s.Config.Events != nil {
		return cost{}, nil
	}
	r, errs := m.OpenPresent(s.Config)
	for i, err := range errs {
		if err != nil {
			absent = append(absent, fmt.Sprintf("stream %s: channel %s: %v", s.Config.Name, s.Config.Channels[i].Name,
				err))
		}
	}
	if r == nil {
		return cost{}, absent
	}
	defer r.Close()
	took, err := measured(m.Clock, func() error { return r.Read(context.Background(), func(int, float64, error) {}) })
	if err != nil {
		return cost{}, absent
	}
	return took, absent
}

// sealing measures a window from its samples to the messages, and gives the last one.
func sealing(k *seal.Keys, s *seal.Stream, w *source.Window, id seal.Identity, clock role.Clock,
	chunk int) (out *seal.Sealed, encrypt time.Duration, took cost, err error) {
	var encrypts []time.Duration
	took, err = measured(clock, func() error {
		if out, err = k.Seal(s, w, id, clock); err != nil {
			return err
		}
		encrypts = append(encrypts, out.Encrypt)
		_, err = transport.Split(out.Object, chunk)
		return err
	})
	if err != nil {
		return nil, 0, cost{}, err
	}
	slices.Sort(encrypts)
	return out, encrypts[len(encrypts)/2], took, nil
}

// milliseconds returns a time for a Prediction.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// wear predicts what reaches the device below the file system, a day: the spool's
// files with the journal, and the state file.
func (p *Prediction) wear(cfg *config.Agent, streams []*seal.Stream) {
	p.DeviceBytesPerDay = p.StateWritesPerDay * stateBytes
	if cfg.Spool == nil {
		return
	}
	copies := 1.0
	if cfg.Spool.Mirror != "" {
		copies = 2
	}
	for i, o := range p.Streams {
		size := spool.FileSize(o.Name, streams[i].Topic, 0, int64(o.ObjectBytes))
		p.SpoolBytesPerDay += copies * o.WindowsPerDay * float64(size)
		p.SpoolSyncsPerDay += copies * 2 * o.WindowsPerDay
		p.DeviceBytesPerDay += copies * o.WindowsPerDay * float64(spool.DeviceBytes(size, false))
	}
}

// machine refuses what this machine has no room for. Where the spool's directory is
// not there, the plan is for another one, and its disk is not judged.
func (p *Prediction) machine(cfg *config.Agent, m sensor.Machine) {
	if total := m.TotalMemory(); total > 0 && p.MemoryBytes > total {
		p.Refusals = append(p.Refusals,
			fmt.Sprintf("the agent takes about %d MiB of memory and this machine has %d; use smaller parameters or "+
				"a lower level",
				p.MemoryBytes>>20, total>>20))
	}
	if cfg.Spool == nil {
		return
	}
	for _, dir := range []string{cfg.Spool.Dir, cfg.Spool.Mirror} {
		var s unix.Statfs_t
		if dir == "" || unix.Statfs(dir, &s) != nil {
			continue
		}
		size, free := int64(s.Blocks)*int64(s.Bsize), int64(s.Bavail)*int64(s.Bsize)
		switch want := int64(cfg.Spool.Bytes); {
		case want > size:
			p.Refusals = append(p.Refusals,
				fmt.Sprintf("spool.bytes is %s and the disk of %s has %d MiB in all; lower it, or use another disk",
					cfg.Spool.Bytes, dir, size>>20))
		case want > free:
			p.Warnings = append(p.Warnings,
				fmt.Sprintf("spool.bytes is %s and the disk of %s has %d MiB left; windows wait in memory once it "+
					"is full", cfg.Spool.Bytes, dir, free>>20))
		}
	}
}

// Hours returns the times of day as the courier takes them; they are checked.
func Hours(list []config.Hours) (out []delivery.Hours, err error) {
	for _, h := range list {
		var o delivery.Hours
		if o.From, o.To, o.Days, o.Zone, err = h.Window(); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}
