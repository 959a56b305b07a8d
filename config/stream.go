package config

import "time"

// Limits of layouts.
const (
	MaxChannels = 1024  // channels of one stream
	MaxSamples  = 32768 // samples of one window: the slots of the largest ring
	MaxSlots    = 32768 // channels times stride, before the parameters are known
)

// MaxLateness bounds Stream.Lateness, and with it what waits in memory.
const MaxLateness = time.Hour

// PackingReal puts one real sample into the real part of one slot.
const PackingReal = "real"

// PackingHistogram puts counts of samples into the slots: see Grid.
const PackingHistogram = "histogram"

// PackingSteps encrypts one row of readings as whole steps of their resolutions: see Channel.StepGrid.
const PackingSteps = "steps"

// PackingDigits encrypts the samples of one channel as whole steps of its resolution, in digits that are compared.
const PackingDigits = "digits"

// MaxSteps is the most steps of a channel in a stream of mode steps or digits.
const MaxSteps = 1<<16 - 1

// The packings of compact windows by precision, in bits: see Stream.Compact.
const (
	PackingCompact12 = "compact-12"
	PackingCompact16 = "compact-16"
)

// MaxCompact is the most slots of a compact window: the coefficients of a board's ring.
const MaxCompact = 4096

// minCompact is henc/compact's MinReadings.
const minCompact = 64

// HistogramLogScale is Stream.LogScale of a histogram that gives none. With the 60 bits of
// edge12-add it leaves room for the sum of 65536 windows.
const HistogramLogScale = 42

// Limits of Stream.Interval.
const (
	MinInterval = time.Millisecond
	MaxInterval = 24 * time.Hour
)

// A Stream is one series of windows of one device. The agent and the evaluator
// hold the same description; LayoutHash binds the two.
type Stream struct {
	// Name is unique on its device, [A-Za-z0-9_.-]{1,64}.
	Name string `yaml:"name" cfg:"required"`
	// Interval is the time between samples (agent only; not part of the
	// layout). Unused with Replay.
	Interval Duration `yaml:"interval"`
	// Window says when a window is complete.
	Window Window `yaml:"window" cfg:"required"`
	// OnGap says what becomes of samples that were never taken (agent only).
	OnGap Gap `yaml:"on_gap"`
	// Lateness is how long samples of a replay or of messages with their own time
	// may come after younger ones and
	// still find their place; later ones are left out (agent only).
	Lateness Duration `yaml:"lateness"`
	// Mode says what a window holds: its samples, or counts of them by value.
	Mode Mode `yaml:"mode"`
	// Precision of compact windows: samples are exact to 2^-Precision of half their range, 12 or 16.
	Precision int `yaml:"precision"`
	// Params names the parameter set, such as "edge12-d1".
	Params string `yaml:"params" cfg:"required"`
	// LogScale is log2 of the encoding scale; 0 means the parameters' own.
	LogScale int `yaml:"log_scale"`
	// Level is the level at which windows are encrypted; nil means the
	// parameters' highest. Lower levels are smaller on the wire and allow fewer
	// multiplications. It is not part of the layout.
	Level *int `yaml:"level" cfg:"zero"`
	// Places is how many windows of different devices share the slots of one ciphertext
	// after the evaluator has added them up: a power of two. 0: windows are not added up.
	Places int `yaml:"places"`
	// Packing follows from Mode and Precision: PackingReal, PackingHistogram, PackingCompact12,
	// PackingCompact16, PackingSteps or PackingDigits. It is not configured; descriptions that peers send carry it.
	Packing string
	// Replay, when set, takes samples and timestamps from a file instead of
	// live sensors (agent only).
	Replay *Replay `yaml:"replay"`
	// Events, when set, makes samples of messages instead of taking them at an
	// interval (agent only).
	Events *Events `yaml:"events"`
	// Channels are the sensors that share a window, in slot order.
	Channels []Channel `yaml:"channels" cfg:"required"`
}

// A Channel is one physical quantity.
type Channel struct {
	Name string `yaml:"name" cfg:"required"`
	// Unit is the physical unit of Range and of results, such as "degC".
	Unit string `yaml:"unit" cfg:"required"`
	// Range is the physical minimum and maximum. A value x is encrypted as
	// u = (x-mid)/half in [-1, 1], see Affine.
	Range [2]float64 `yaml:"range" cfg:"required"`
	// Resolution is the width of a bin in a stream of mode histogram, and of a step in one of mode steps or digits, in
	// Unit. Range holds a whole number of them.
	Resolution float64 `yaml:"resolution"`
	// Source is where the agent reads it; nil in evaluator files (they may
	// carry one, it is checked and ignored). Not part of the layout.
	Source *Source `yaml:"source"`
	// OnMissing says what a failed read becomes; OnRange what a value outside
	// Range becomes (agent only).
	OnMissing Missing `yaml:"on_missing"`
	OnRange   Outside `yaml:"on_range"`
	// MissingValue is the physical value that MissingMark writes.
	MissingValue *float64 `yaml:"missing_value" cfg:"zero"`
}

// Mode says what a window holds.
type Mode string

const (
	// ModeSamples encrypts every sample. The default.
	ModeSamples Mode = "samples"
	// ModeHistogram encrypts how many samples lie above each edge of the channel's bins.
	ModeHistogram Mode = "histogram"
	// ModeCompact sends a few bytes for each sample, which the evaluator bootstraps.
	ModeCompact Mode = "compact"
	// ModeSteps encrypts one sample of every channel as whole numbers, for models.
	ModeSteps Mode = "steps"
	// ModeDigits encrypts every sample of one channel as a whole number, to be compared with another device's.
	ModeDigits Mode = "digits"
)

// Missing is the policy for a sample that could not be read.
type Missing string

const (
	// MissingHold repeats the last good value of the channel. Until the first
	// good value the whole sample of the stream is skipped. The default.
	MissingHold Missing = "hold"
	// MissingSkip leaves out the sample of every channel of the stream at this
	// tick.
	MissingSkip Missing = "skip"
	// MissingMark writes MissingValue, which programs can tell apart.
	MissingMark Missing = "mark"
)

// Gap is the policy for samples that were never taken: ticks that passed while
// the machine slept or a sensor took too long.
type Gap string

const (
	// GapIgnore leaves them out. The default.
	GapIgnore Gap = "ignore"
	// GapMark puts missing samples in their place, as far as they belong to the
	// present window; OnMissing says what they become.
	GapMark Gap = "mark"
	// GapEnd ends the window, so that none spans a gap.
	GapEnd Gap = "end"
)

// Outside is the policy for a value outside the channel's range.
type Outside string

const (
	// OutsideClamp moves it to the nearer end of the range and counts it. The
	// default.
	OutsideClamp Outside = "clamp"
	// OutsideMissing treats it as a failed read.
	OutsideMissing Outside = "missing"
)

// A Window says when a window is complete. With Every == 0 it is complete after
// Samples samples. With Every > 0 windows are the half-open intervals
// [k*Every, (k+1)*Every) of Unix time, so that windows of different devices
// line up, and Samples is the most that one holds; the number present travels
// with the window.
type Window struct {
	Samples int      `yaml:"samples"`
	Every   Duration `yaml:"every"`
	// Fill takes as many samples as the slots of the parameters hold; Samples
	// is then set from them (SlotsOf).
	Fill bool `yaml:"fill"`
}

// ByTime reports whether windows end by time instead of by count.
func (w Window) ByTime() bool { return w.Every > 0 }

// Replay reads samples with their original timestamps from a file.
type Replay struct {
	File string `yaml:"file" cfg:"required,path"`
	// Format is "csv" or "ndjson"; by default from the file's extension.
	Format string `yaml:"format"`
	// Time is the column or field of the timestamp and TimeFormat its form:
	// "rfc3339", "unix" (seconds, fractions allowed), "unix_ms", "unix_ns", or a
	// layout (see TimeLayouts).
	Time       string `yaml:"time" cfg:"required"`
	TimeFormat string `yaml:"time_format"`
	// Timezone is the zone of timestamps by a layout without one; default UTC.
	Timezone string `yaml:"timezone"`
	// Decimal is the decimal mark of cells of CSV: "." or ",".
	Decimal string `yaml:"decimal"`
	// BadCells says what becomes of cells that are not numbers.
	BadCells BadCells `yaml:"bad_cells"`
	// Delimiter of CSV, one character, default ",". "tab" is a tab.
	Delimiter string `yaml:"delimiter" cfg:"blank"`
	// Speed is "realtime" (wait as long as the timestamps are apart), "fast"
	// (do not wait) or a positive factor such as "10x".
	Speed string `yaml:"speed"`
}

// BadCells is the policy for cells of a replay file that are neither empty nor numbers.
type BadCells string

const (
	// BadFail ends the stream with an error. The default.
	BadFail BadCells = "fail"
	// BadSkip leaves their row out.
	BadSkip BadCells = "skip"
	// BadMissing makes them missing samples; a row without a time is left out.
	BadMissing BadCells = "missing"
)

// Events makes a stream of the messages of an input: each message is one sample
// of every channel, at the time that stands in it.
type Events struct {
	// From names the input: mqtt, or serial with lines of JSON. The channels
	// read the same input and, of mqtt, the same topic.
	From string `yaml:"from" cfg:"required"`
	// Time is the path of the timestamp in the message, and TimeFormat its form
	// (see Replay); without it a sample has the time at which it arrived.
	Time       string `yaml:"time"`
	TimeFormat string `yaml:"time_format"`
}

// Topic returns the topic filter that the channels of an event stream share.
func (s Stream) Topic() string {
	for _, ch := range s.Channels {
		if ch.Source != nil {
			return ch.Source.Topic
		}
	}
	return ""
}
