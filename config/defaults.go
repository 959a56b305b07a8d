package config

import "time"

// Defaults of optional fields.
const (
	SchemaVersion      = 1
	DefaultTopicPrefix = "hencedge/v1"
	DefaultChunkSize   = 112 * KiB
	DefaultKeepAlive   = 60 * time.Second

	DefaultQueueObjects = 256
	DefaultQueueBytes   = 64 * MiB
	DefaultStopTimeout  = 30 * time.Second

	DefaultJoinTimeout = 5 * time.Minute
	DefaultJoinWindows = 16

	DefaultLimitObject     = 32 * MiB
	DefaultLimitPending    = 256
	DefaultLimitMemory     = 256 * MiB
	DefaultLimitReassembly = 2 * time.Minute
)

func orDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// SetDefaults fills every optional field that is zero. Loading does it; call
// it on a configuration built in code.
func (a *Agent) SetDefaults() {
	orDefault(&a.Version, SchemaVersion)
	a.Broker.setDefaults("agent-" + a.Device)
	orDefault(&a.Keys.Mode, KeyModePublic)
	orDefault(&a.BackendFallback, FallbackCPU)
	orDefault(&a.Energy, EnergyAuto)
	orDefault(&a.Queue.Objects, DefaultQueueObjects)
	orDefault(&a.Queue.Bytes, DefaultQueueBytes)
	orDefault(&a.Queue.Full, a.defaultPolicy())
	if a.Spool != nil {
		a.Spool.setDefaults()
	}
	a.Delivery.setDefaults()
	orDefault(&a.StopTimeout, DefaultStopTimeout)
	a.Log.setDefaults()
	a.Remote.setDefaults()
	for i := range a.Streams {
		a.Streams[i].SetDefaults()
	}
	a.inputDefaults()
}

// defaultPolicy is to keep sensors on time, and not to lose anything of files,
// which can wait.
func (a *Agent) defaultPolicy() QueuePolicy {
	for _, s := range a.Streams {
		if s.Replay == nil {
			return QueueDropOldest
		}
	}
	return QueueBlock
}

// SetDefaults fills every optional field that is zero.
func (e *Evaluator) SetDefaults() {
	orDefault(&e.Version, SchemaVersion)
	e.Broker.setDefaults("evaluator-" + e.Name)
	orDefault(&e.BackendFallback, FallbackCPU)
	orDefault(&e.Join.Timeout, DefaultJoinTimeout)
	orDefault(&e.Join.Windows, DefaultJoinWindows)
	e.Limits.setDefaults()
	if e.Store != nil {
		e.Store.setDefaults()
	}
	orDefault(&e.StopTimeout, DefaultStopTimeout)
	e.Log.setDefaults()
	for i := range e.Streams {
		e.Streams[i].SetDefaults()
	}
}

// SetDefaults fills every optional field that is zero.
func (k *KeyHolder) SetDefaults() {
	orDefault(&k.Version, SchemaVersion)
	k.Broker.setDefaults("keyholder-" + k.Name)
	orDefault(&k.Output, "table")
	k.Limits.setDefaults()
	k.Log.setDefaults()
}

// SetDefaults fills every optional field that is zero, and the capacity of a
// window by time from the interval.
func (s *Stream) SetDefaults() {
	orDefault(&s.Packing, PackingReal)
	orDefault(&s.OnGap, GapIgnore)
	if s.Window.Fill && s.Window.Samples == 0 {
		s.Window.Samples = s.filling()
	}
	if s.Window.Samples == 0 && s.Window.Every > 0 && s.Interval > 0 {
		s.Window.Samples = int(min((s.Window.Every+s.Interval-1)/s.Interval, MaxSamples+1))
	}
	if e := s.Events; e != nil && e.Time != "" {
		orDefault(&e.TimeFormat, "rfc3339")
	}
	if r := s.Replay; r != nil {
		orDefault(&r.Format, formatOf(r.File))
		orDefault(&r.TimeFormat, "rfc3339")
		orDefault(&r.Speed, "realtime")
		orDefault(&r.BadCells, BadFail)
		if r.Format == "csv" {
			orDefault(&r.Delimiter, ",")
			orDefault(&r.Decimal, ".")
		}
	}
	for i := range s.Channels {
		c := &s.Channels[i]
		orDefault(&c.OnMissing, MissingHold)
		orDefault(&c.OnRange, OutsideClamp)
		if c.Source != nil {
			c.Source.setDefaults()
		}
	}
}

func (s *Source) setDefaults() {
	orDefault(&s.Scale, 1)
	switch s.Type {
	case SourceCPU:
		orDefault(&s.CPU, "total")
		orDefault(&s.Field, "busy")
	case SourceMemory:
		orDefault(&s.Field, "used_percent")
	case SourceLoad:
		orDefault(&s.Field, "1m")
	}
	s.setPointDefaults()
}

func (b *Broker) setDefaults(clientID string) {
	orDefault(&b.ClientID, clientID)
	orDefault(&b.TopicPrefix, DefaultTopicPrefix)
	orDefault(&b.ChunkSize, DefaultChunkSize)
	orDefault(&b.KeepAlive, DefaultKeepAlive)
	orDefault(&b.ReconnectMax, DefaultReconnectMax)
}

func (l *Limits) setDefaults() {
	orDefault(&l.Object, DefaultLimitObject)
	orDefault(&l.Pending, DefaultLimitPending)
	orDefault(&l.Memory, DefaultLimitMemory)
	orDefault(&l.Reassembly, DefaultLimitReassembly)
}

func (l *Log) setDefaults() {
	orDefault(&l.Level, "info")
	orDefault(&l.Format, "text")
}
