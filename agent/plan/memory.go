package plan

import (
	"os"
	"runtime"
	"runtime/debug"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/henc"
)

// How the garbage collector is set for an agent: it runs when the heap has grown
// by a quarter, which costs little since almost all memory is numbers without
// pointers, and earlier where the heap comes near to what an agent with these
// parameters needs at its peak.
const (
	gcPercent = 25
	// binaryMemory is what is mapped of the binary, as measured.
	binaryMemory = 17 << 20
	// deadMemory is what the collector has not given back at the peak, as measured.
	deadMemory = 3 << 20
	memorySet  = 3 << 20 // of the runtime, the connection, small things
	// memorySlack is what the runtime counts towards its limit and never touches: room
	// that it has mapped ahead, spans between size classes. Without it small sets
	// live above their limit, and the collector and the return of pages to the system
	// never rest: at edge13-d3 and 10 Hz that was 4.5 % of a processor instead of 0.8 %,
	// and encryption took ten times as long, for pages that it had to ask for again.
	memorySlack = 8 << 20
)

// TuneMemory sets the garbage collector of this process for an agent with this
// configuration. It is for a process that is nothing but an agent. GOGC and
// GOMEMLIMIT in the environment win.
func TuneMemory(cfg *config.Agent) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if limit := memoryLimit(cfg, cpu.TableBytes); limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit + memorySlack)
	}
}

// TuneProcessors bounds the processors that this process uses at a time by the
// configuration: for sampling, encryption, packing and the collector together. Without a
// bound there, Go follows the machine and the CPU quota of its control group. It is for a
// process that is nothing but an agent. GOMAXPROCS in the environment wins.
func TuneProcessors(cfg *config.Agent) {
	switch {
	case os.Getenv("GOMAXPROCS") != "":
	case cfg.Workers > 0:
		runtime.GOMAXPROCS(cfg.Workers)
	default:
		runtime.SetDefaultGOMAXPROCS()
	}
}

// largestTables returns what tables of the transform take at most, on any machine.
func largestTables(n int) int { return 9 * n }

// memoryLimit returns what an agent needs at its peak, in bytes, without the binary:
// the prepared key (8 bytes a residue), the tables of the transform (for a limb of n
// residues tables(n)), one ciphertext as residues with its encoding, or its encoding
// with the sealed object, and what waits in memory. It is 0 for unknown parameters.
func memoryLimit(cfg *config.Agent, tables func(n int) int) int64 {
	limit := int64(memorySet)
	if cfg.Spool == nil {
		limit += int64(cfg.Queue.Bytes)
	}
	largest, keyed := int64(0), false
	if cfg.Keys.BoardKey != "" { // its secret, and what a window takes
		limit += int64(8*config.MaxCompact + tables(config.MaxCompact))
		largest = 32 * config.MaxCompact
	}
	for _, s := range cfg.Streams {
		if s.Compact() > 0 {
			continue
		}
		p, err := henc.Named(s.Params)
		if err != nil {
			return 0
		}
		limbs := int64(p.LimbsAt(p.MaxLevel()))
		if !keyed { // one key for all streams
			keyed = true
			limit += limbs * int64(8*p.N()+tables(p.N()))
			if p.Integers() { // the moduli of products
				limit += (limbs + 1) * int64(tables(p.N()))
			}
		}
		body := int64(p.CiphertextBytes(min(s.LevelAt(p.Depth()), p.Depth()),
			cfg.Keys.Mode == config.KeyModeSymmetric))
		largest = max(largest, body)
	}
	return limit + 2*largest
}
