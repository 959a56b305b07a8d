package loadbench

import (
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/benchmark"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/evaluator"
)

// Run puts an evaluator under load and emits one record per load: at Options.Rate or the
// highest rate, then, with Half, at half of the highest. It fails if a single result is lost,
// doubled, or beyond its promised error, and with ErrOptions if the options cannot work.
func Run(ctx context.Context, o Options, emit func(benchmark.LoadRecord) error) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	b, err := newBed(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	defer evaluator.TuneMemory(b.cfg)() // as in a service
	h, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	pace, err := h.warmUp(ctx)
	if err != nil {
		return err
	}
	r, err := h.measure(ctx, pace, o.Rate, cmp.Or(map[bool]string{true: benchmark.LoadRate}[o.Rate > 0],
		benchmark.LoadMax))
	if err == nil {
		err = emit(r)
	}
	if err != nil || !o.Half {
		return err
	}
	pace.windows = r.WindowsPerS
	if r, err = h.measure(ctx, pace, r.WindowsPerS/2, benchmark.LoadHalf); err != nil {
		return err
	}
	return emit(r)
}

// pace is what the warm-up measured.
type pace struct {
	windows     float64       // per second
	results     float64       // per window
	resultBytes float64       // per result
	decrypt     time.Duration // to verify and decrypt one result, using all processors
}

// Bounds of the warm-up.
const (
	firstWindows = 64
	warmTime     = 500 * time.Millisecond
)

// warmUp feeds ever longer segments until one takes long enough to show how fast the service
// is. It checks every result.
func (h *house) warmUp(ctx context.Context) (p pace, err error) {
	n := len(h.devices)
	for rounds := max(firstWindows/n, 1); ; rounds *= 4 {
		rounds = min(rounds, h.mostRounds())
		s, err := h.run(ctx, load{rounds: rounds, limit: time.Hour, fill: time.Hour, one: 1, before: -1})
		if err != nil {
			return p, err
		}
		took := s.end.at.Sub(s.start.at)
		results := float64(s.end.results - s.start.results)
		p = pace{windows: float64(s.fed) / took.Seconds(), results: results / float64(s.fed),
			resultBytes: float64(s.end.bytesOut-s.start.bytesOut) / max(results, 1),
			decrypt:     s.checked.took / time.Duration(max(s.checked.results, 1))}
		if took >= warmTime || rounds == h.mostRounds() {
			return p, nil
		}
	}
}

// mostRounds returns how many windows per device fit into three quarters of the free memory.
// The last quarter is for results that wait to be decrypted.
func (h *house) mostRounds() int {
	return int(h.free() / 4 * 3 / int64(h.slotBytes()*len(h.devices)))
}

// A segment counts after fillPart of its time, but not before fillTime: a service that
// gathers windows needs that long to reach its pace.
const (
	fillPart = 0.15
	fillTime = 300 * time.Millisecond
)

// measure runs segments until they have measured for Options.Length.
func (h *house) measure(
	ctx context.Context,
	p pace,
	rate float64,
	method string,
) (r benchmark.LoadRecord, err error) {
	gpus := h.watchGPUs(ctx)
	if gpus != nil {
		defer gpus.stop()
	}
	speed := cmp.Or(rate, p.windows)
	one := h.checkEvery(p, speed)
	var list []*segment
	for left := h.o.Length; left > h.o.Length/50 && len(list) < 1000; {
		l := h.size(left, speed, rate)
		l.one, l.before = one, h.o.Length-left
		if method == benchmark.LoadHalf {
			l.before += h.o.Length
		}
		if len(list) == 0 {
			h.tell(l, one)
		}
		s, err := h.profiled(ctx, l, len(list) == 0 && method != benchmark.LoadHalf)
		if err != nil {
			return r, err
		}
		list = append(list, s)
		left -= s.to.at.Sub(s.from.at)
	}
	h.progress(h.o.Length, map[bool]time.Duration{true: h.o.Length}[method == benchmark.LoadHalf])
	r = h.record(list, one)
	r.Method, r.Rate, r.GPUBusy = method, rate, gpus.between(list)
	return r, nil
}

// size returns a segment for the time that is left, or a shorter one if the memory does not
// hold its windows.
func (h *house) size(left time.Duration, speed, rate float64) load {
	n := len(h.devices)
	limit := max(time.Duration(float64(left)/(1-fillPart)), left+fillTime)
	spare := 1.0
	if rate == 0 {
		spare = 1.4 // the service may be faster than in the warm-up
	}
	rounds := int(math.Ceil(speed*spare*limit.Seconds()/float64(n))) + 1
	if most := h.mostRounds(); rounds > most {
		rounds = most
		limit = min(limit, time.Duration(float64(rounds*n)/speed*float64(time.Second)))
	}
	// However short the segment, at least half of it is measured.
	fill := min(max(time.Duration(fillPart*float64(limit)), fillTime), limit/2)
	return load{rounds: rounds, limit: limit, fill: fill, rate: rate}
}

// shortSegment is the length below which the ends of a segment distort the result.
const shortSegment = 2 * time.Second

// tell remarks how many windows are prepared and which results are decrypted.
func (h *house) tell(l load, one int64) {
	windows := l.rounds * len(h.devices)
	which := "all results"
	if one > 1 {
		which = "one in " + cli.Plural(int(one), "result") + " of each program"
	}
	h.remark("up to %d signed windows are prepared at a time, %s outside of the heap; %s are decrypted", windows,
		cli.Bytes(int64(windows*h.slotBytes())), which)
	if l.limit < shortSegment && l.limit < h.o.Length {
		h.remark(
			"the memory holds windows for %v at a time: with more --memory, queues that fill and empty weigh less",
			l.limit.Round(time.Millisecond),
		)
	}
}

// checkEvery returns K: one in K results of each program is decrypted. It is chosen so that
// decryption takes about as long as the load, and that the kept results fit into a quarter of
// the memory.
func (h *house) checkEvery(p pace, speed float64) int64 {
	results := speed * p.results * h.o.Length.Seconds()
	byTime := results * p.decrypt.Seconds() / h.o.Length.Seconds()
	byMemory := results * p.resultBytes / float64(h.free()/4)
	return int64(math.Ceil(max(byTime, byMemory, 1)))
}

// profiled runs a segment. The first one writes a processor profile, if one is wanted.
func (h *house) profiled(ctx context.Context, l load, first bool) (s *segment, err error) {
	if h.o.Profile == "" || !first {
		return h.run(ctx, l)
	}
	f, err := os.Create(h.o.Profile)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	l.profile = f
	return h.run(ctx, l)
}

// record adds segments up to a record.
func (h *house) record(list []*segment, one int64) benchmark.LoadRecord {
	p, ctx := h.o.Params, h.contexts[0]
	b := ctx.Ring().Backend()
	r := benchmark.LoadRecord{Op: benchmark.OpEvaluator, Params: p.Name(), LogN: p.LogN(),
		Limbs: p.LimbsAt(h.meta.Level), Dnum: p.Dnum(h.meta.Level), Backend: b.Name(), Device: b.Device(),
		GPUs: len(h.o.GPUs), Cores: runtime.GOMAXPROCS(0), Workers: cmp.Or(h.o.Workers, runtime.GOMAXPROCS(0)),
		Broker: cmp.Or(h.o.Broker, "none"), Devices: len(h.devices), Programs: expressions(h.given),
		Samples: h.o.Samples, Channels: h.o.Channels, Rotation: h.o.Windows, Seeded: h.o.Seeded, Compact: h.o.Compact,
		Pack: h.o.Pack, Places: h.o.Places,
		Segments: len(list), Prepared: int64(len(h.arena.memory)), CheckEvery: one,
		CiphertextBytes: int(h.ciphertextBytes())}
	var service, outside time.Duration
	var fed, bytesIn, bytesOut, launches float64
	stages := map[string]stage{}
	var delays []time.Duration
	for _, s := range list {
		results := s.to.results - s.from.results
		r.Seconds += s.to.at.Sub(s.from.at).Seconds()
		r.Results += results
		r.Windows += float64(results) * float64(s.fed) / float64(s.end.results-s.start.results)
		fed += float64(s.fed)
		bytesIn += float64(s.bytesIn)
		bytesOut += float64(s.to.bytesOut - s.from.bytesOut)
		outside += s.to.outside - s.from.outside
		service += s.to.process - s.from.process
		launches += float64(s.to.launches - s.from.launches)
		for name, at := range s.to.stages {
			sum, was := stages[name], s.from.stages[name]
			stages[name] = stage{sum.seconds + at.seconds - was.seconds, sum.count + at.count - was.count}
		}
		for _, d := range s.delays {
			delays = append(delays, d.took)
		}
		r.Checked += s.checked.results
		r.WorstRatio = max(r.WorstRatio, s.checked.worst)
	}
	service -= outside
	r.WindowsPerS, r.ResultsPerS = r.Windows/r.Seconds, float64(r.Results)/r.Seconds
	r.CPU, r.FeederCPU = milliseconds(service)/r.Windows, milliseconds(outside)/r.Windows
	r.Launches = launches / r.Windows
	r.BytesIn, r.BytesOut = bytesIn/fed, bytesOut/r.Windows
	r.BytesInPerS, r.BytesOutPerS = r.BytesIn*r.WindowsPerS, r.BytesOut*r.WindowsPerS
	r.Latency = quantiles(delays)
	for _, name := range benchmark.StageNames() {
		if s := stages[name]; s.count > 0 {
			r.Stages = append(r.Stages, benchmark.Stage{Name: name, MeanUS: 1e6 * s.seconds / float64(s.count),
				PerWindow: float64(s.count) / r.Windows})
		}
	}
	return r
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// quantiles returns the quantiles of delays, which it sorts.
func quantiles(delays []time.Duration) (q benchmark.Quantiles) {
	if len(delays) == 0 {
		return q
	}
	slices.Sort(delays)
	at := func(percent int) float64 { return milliseconds(delays[(percent*len(delays)+99)/100-1]) }
	return benchmark.Quantiles{P50: at(50), P90: at(90), P99: at(99)}
}
