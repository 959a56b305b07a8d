package config

import (
	"path/filepath"
	"strings"
	"time"
)

// Defaults of optional fields.
const (
	SchemaVersion      = 1
	DefaultTopicPrefix = "hencedge/v1"
	DefaultChunkSize   = 112 * KiB
	DefaultKeepAlive   = 60 * time.Second

	DefaultQueueObjects = 256
	DefaultQueueBytes   = 64 * MiB
	DefaultStopTimeout  = 30 * time.Second

	DefaultBatch   = 256
	DefaultLatency = 100 * time.Millisecond
	DefaultWithin  = 10 * time.Second

	DefaultJoinTimeout = 5 * time.Minute
	DefaultJoinWindows = 16

	DefaultLimitObject     = 32 * MiB
	DefaultLimitPending    = 256
	DefaultLimitMemory     = 256 * MiB
	DefaultLimitReassembly = 2 * time.Minute
)

// DefaultMuxLength is the length of a multiplexor in bits.
const DefaultMuxLength = 8

// Defaults of inputs.
const (
	DefaultEvery         = time.Second
	DefaultRetry         = time.Second
	DefaultRetryMax      = time.Minute
	DefaultPushedMaxAge  = 10 * time.Second
	DefaultMQTTMaxAge    = time.Minute
	DefaultModbusTimeout = time.Second
	DefaultHTTPTimeout   = 5 * time.Second
	DefaultExecTimeout   = 10 * time.Second
	DefaultBaud          = 9600
	DefaultSPISpeed      = 1_000_000
	DefaultReadMask      = 0x80
)

// Defaults of delivery.
const (
	DefaultSpoolBytes     = 1 * GiB
	DefaultSpoolAge       = 7 * 24 * time.Hour
	DefaultReceiptTimeout = 30 * time.Second
	DefaultSendRetryMin   = time.Second
	DefaultSendRetryMax   = time.Minute
	DefaultLiveAge        = time.Minute
	DefaultReconnectMax   = time.Minute
	DefaultStoreBytes     = 1 * GiB
	DefaultRemember       = 1 << 17
)

// DefaultSample is Traces.Sample where it is not given.
const DefaultSample = 0.01

func (t *Traces) setDefaults() {
	if t != nil {
		orDefault(&t.Sample, DefaultSample)
	}
}

// DefaultTrial is Remote.Trial where it is not given.
const DefaultTrial = 5 * time.Minute

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
	a.Traces.setDefaults()
	a.Remote.setDefaults()
	for i := range a.Streams {
		a.Streams[i].SetDefaults()
	}
	a.inputDefaults()
}

// defaultPolicy returns QueueDropOldest if a stream is live, to keep its sensors on time, else
// QueueBlock: files can wait, and nothing of them is lost.
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
	if e.Results != nil {
		orDefault(&e.Results.Within, DefaultWithin)
	}
	orDefault(&e.Batch, DefaultBatch)
	orDefault(&e.Latency, DefaultLatency)
	orDefault(&e.StopTimeout, DefaultStopTimeout)
	e.Log.setDefaults()
	e.Traces.setDefaults()
	for i := range e.Programs {
		if m := e.Programs[i].Model; m != nil {
			orDefault(&m.Scale, 1<<16)
		}
	}
	for i := range e.Streams {
		e.Streams[i].SetDefaults()
	}
	for i := range e.Classes {
		for k := range e.Classes[i].Streams {
			e.Classes[i].Streams[k].SetDefaults()
		}
	}
}

// SetDefaults fills every optional field that is zero.
func (k *KeyHolder) SetDefaults() {
	orDefault(&k.Version, SchemaVersion)
	k.Broker.setDefaults("keyholder-" + k.Name)
	orDefault(&k.Output, "table")
	k.Limits.setDefaults()
	k.Log.setDefaults()
	k.Traces.setDefaults()
	k.Alerts.setDefaults(k.Name)
	k.History.setDefaults(k.Name, k.State)
	k.Console.setDefaults()
}

// SetDefaults fills every optional field that is zero, and the capacity of a
// window by time from the interval.
func (s *Stream) SetDefaults() {
	orDefault(&s.Mode, ModeSamples)
	if s.Mode == ModeHistogram {
		orDefault(&s.Packing, PackingHistogram)
		orDefault(&s.LogScale, HistogramLogScale)
	}
	if s.Mode == ModeCompact {
		orDefault(&s.Precision, 12)
		orDefault(&s.Packing, map[int]string{12: PackingCompact12, 16: PackingCompact16}[s.Precision])
	}
	if s.Mode == ModeSteps {
		orDefault(&s.Packing, PackingSteps)
	}
	if s.Mode == ModeDigits {
		orDefault(&s.Packing, PackingDigits)
	}
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

// Broker returns the connection as the MQTT client takes it.
func (m MQTT) Broker() Broker {
	return Broker{URL: m.URL, Insecure: m.Insecure, ClientID: m.ClientID, CA: m.CA, Cert: m.Cert, Key: m.Key,
		ServerName: m.ServerName, Username: m.Username, Password: m.Password, KeepAlive: DefaultKeepAlive}
}

// inputDefaults fills the defaults of all inputs.
func (a *Agent) inputDefaults() {
	fastest := map[string]Duration{}
	for _, s := range a.Streams {
		for _, ch := range s.Channels {
			if ch.Source == nil || ch.Source.From == "" || s.Interval <= 0 {
				continue
			}
			if d, ok := fastest[ch.Source.From]; !ok || s.Interval < d {
				fastest[ch.Source.From] = s.Interval
			}
		}
	}
	for i := range a.Inputs {
		a.Inputs[i].setDefaults(a.Device, fastest[a.Inputs[i].Name])
	}
}

// setDefaults fills what is zero; fastest is the shortest interval of the
// streams that read the input, 0 when nobody does.
func (in *Input) setDefaults(device string, fastest Duration) {
	orDefault(&in.Retry, DefaultRetry)
	orDefault(&in.RetryMax, max(DefaultRetryMax, in.Retry))
	switch in.Type() {
	case SourceModbus:
		orDefault(&in.Timeout, DefaultModbusTimeout)
		if in.Modbus.Unit == nil {
			in.Modbus.Unit = new(1)
		}
		in.Modbus.Line.setDefaults()
	case SourceHTTP:
		orDefault(&in.Timeout, DefaultHTTPTimeout)
	case SourceExec:
		orDefault(&in.Timeout, DefaultExecTimeout)
	case SourceSerial:
		in.Serial.Line.setDefaults()
		if in.Serial.Format == "csv" {
			orDefault(&in.Serial.Delimiter, ",")
		}
	case SourceSPI:
		orDefault(&in.SPI.Speed, DefaultSPISpeed)
		if in.SPI.ReadMask == nil {
			in.SPI.ReadMask = new(DefaultReadMask)
		}
	case SourceMQTT:
		orDefault(&in.MQTT.ClientID, device+"-"+in.Name)
		orDefault(&in.MaxAge, DefaultMQTTMaxAge)
	}
	if in.Asked() {
		orDefault(&in.Every, fastest)
		orDefault(&in.Every, DefaultEvery)
	}
	if in.Polled() {
		orDefault(&in.MaxAge, 3*in.Every+in.Timeout)
	}
	if in.Pushed() {
		orDefault(&in.MaxAge, max(DefaultPushedMaxAge, 3*in.Every))
	}
}

func (l *Line) setDefaults() {
	orDefault(&l.Baud, DefaultBaud)
	orDefault(&l.DataBits, 8)
	orDefault(&l.Parity, "none")
	orDefault(&l.StopBits, 1)
}

// setPointDefaults fills what is zero.
func (s *Source) setPointDefaults() {
	switch s.Type {
	case SourceModbus:
		orDefault(&s.Table, "holding")
		if s.Table == "holding" || s.Table == "input" {
			orDefault(&s.Data, "uint16")
			orDefault(&s.Order, "big")
		}
	case SourceI2C, SourceSPI:
		orDefault(&s.Order, "big")
	case SourceCAN:
		orDefault(&s.Data, "unsigned")
		orDefault(&s.Order, "little")
		if s.Mux != nil {
			orNew(&s.MuxStart, 0)
			orNew(&s.MuxLength, DefaultMuxLength)
		}
	case SourcePower:
		orDefault(&s.Field, "power")
	case SourceGPU:
		orDefault(&s.Field, "load")
	}
}

func (s *Spool) setDefaults() {
	orDefault(&s.Bytes, DefaultSpoolBytes)
	orDefault(&s.Age, DefaultSpoolAge)
}

func (d *Delivery) setDefaults() {
	orDefault(&d.Ack, AckBroker)
	orDefault(&d.ReceiptTimeout, DefaultReceiptTimeout)
	orDefault(&d.RetryMin, DefaultSendRetryMin)
	orDefault(&d.RetryMax, max(DefaultSendRetryMax, d.RetryMin))
	orDefault(&d.LiveAge, DefaultLiveAge)
	for i := range d.Streams {
		orDefault(&d.Streams[i].Ack, d.Ack)
	}
	for i := range d.Hours {
		orDefault(&d.Hours[i].Zone, "Local")
	}
}

func (s *Store) setDefaults() {
	orDefault(&s.Bytes, DefaultStoreBytes)
	orDefault(&s.Remember, DefaultRemember)
	orDefault(&s.Results, AckBroker)
	orDefault(&s.ReceiptTimeout, DefaultReceiptTimeout)
	orDefault(&s.RetryMin, DefaultSendRetryMin)
	orDefault(&s.RetryMax, max(DefaultSendRetryMax, s.RetryMin))
}

func (r *Remote) setDefaults() {
	if r == nil {
		return
	}
	if r.Sections == nil {
		r.Sections = RemoteSections()
	}
	orDefault(&r.Trial, DefaultTrial)
}

// formatOf returns the replay format that a file's extension suggests, or "".
func formatOf(file string) string {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".csv", ".tsv":
		return "csv"
	case ".ndjson", ".jsonl":
		return "ndjson"
	}
	return ""
}

func orDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

func orNew(p **int, v int) {
	if *p == nil {
		*p = &v
	}
}
