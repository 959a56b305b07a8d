package plan

// Prediction is what an agent will do to its device and its link. Rates are
// those of live streams; a replay has none.
type Prediction struct {
	Device string `json:"device"`
	Params string `json:"params"`
	LogN   int    `json:"log_n"`
	Slots  int    `json:"slots"`
	// KeyMode is "compact" where all streams are, so that there is only the board's key.
	KeyMode     string  `json:"key_mode"`
	BytesPerDay float64 `json:"bytes_per_day"`
	// MessagesPerDay counts MQTT messages, one per chunk.
	MessagesPerDay float64 `json:"messages_per_day"`
	// KeyBytes is the length of the file of the key that encrypts, BoardKeyBytes that of the key of compact windows;
	// KeyAbsent that one of them is not there yet, and one that was made for the plan took its place.
	KeyBytes      int64 `json:"key_bytes"`
	BoardKeyBytes int64 `json:"board_key_bytes,omitempty"`
	KeyAbsent     bool  `json:"key_absent,omitempty"`
	// CPU is the share of one processor that sampling, encryption and sealing take on
	// this machine, measured; delivery comes to it. Processors is how many the agent
	// uses. Link the share of the uplink, 0 where its rate is not known.
	CPU        float64         `json:"cpu"`
	Processors int             `json:"processors"`
	Link       float64         `json:"link,omitempty"`
	Streams    []StreamOutlook `json:"streams"`
	// EvaluationKeys is set by Needs.
	EvaluationKeys *EvaluationKeys `json:"evaluation_keys,omitempty"`
	// QueueSeconds is how long the broker may be away before windows of any live stream
	// are lost, or sampling waits where a full queue blocks.
	QueueSeconds float64 `json:"queue_s"`
	// StateWritesPerDay is how often the state file is written and flushed.
	StateWritesPerDay float64 `json:"state_writes_per_day"`
	// SpoolBytesPerDay are written into files of the spool, both copies, and
	// SpoolSyncsPerDay flushes of files and directories. 0 without a spool.
	SpoolBytesPerDay float64 `json:"spool_bytes_per_day,omitempty"`
	SpoolSyncsPerDay float64 `json:"spool_syncs_per_day,omitempty"`
	// DeviceBytesPerDay is about what wears the storage below the file system: what
	// ext4 writes for the spool and the state file, with its journal.
	DeviceBytesPerDay float64 `json:"device_bytes_per_day"`
	// MemoryBytes is what the process takes at its peak, about: with its binary,
	// and with the windows that wait where no spool keeps them on disk.
	MemoryBytes int64 `json:"memory_bytes"`
	// Open is the part of the time in which windows may be sent, 1 without hours.
	Open float64 `json:"open"`
	// Cap is the share of the bandwidth cap, 0 without one.
	Cap float64 `json:"cap,omitempty"`
	// Refusals say what cannot work, Warnings what deserves thought.
	Refusals []string `json:"refusals,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// StreamOutlook is the prediction for one stream. Sizes are exact for the next
// window: one was encrypted and sealed to find them. Later ones grow by at most
// 8 bytes, as the sequence number does.
type StreamOutlook struct {
	Name          string  `json:"name"`
	Level         int     `json:"level"`
	LogScale      float64 `json:"log_scale"`
	Samples       int     `json:"samples"`
	Bins          int     `json:"bins,omitempty"` // of the channel with the most, of a histogram
	SlotsUsed     int     `json:"slots_used"`
	Precision     int     `json:"precision,omitempty"` // of compact windows, in bits; 0: it is none
	Readings      int     `json:"readings,omitempty"`  // that a compact window sends
	RowBits       int     `json:"row_bits,omitempty"`  // of a row of whole numbers; 0: it is none
	Room          int     `json:"room,omitempty"`      // for samples of mode digits in a window; 0: it is none
	Places        int     `json:"places,omitempty"`    // that share a ciphertext; 0: none
	Place         int     `json:"place,omitempty"`     // of the device
	WindowSeconds float64 `json:"window_s"`            // 0 for a replay
	WindowsPerDay float64 `json:"windows_per_day"`
	BodyBytes     int     `json:"body_bytes"`   // ciphertext
	ObjectBytes   int     `json:"object_bytes"` // signed
	Chunks        int     `json:"chunks"`       // MQTT messages
	WireBytes     int     `json:"wire_bytes"`   // MQTT packets sent, without TLS, TCP and IP
	BytesPerDay   float64 `json:"bytes_per_day"`
	EncryptMs     float64 `json:"encrypt_ms"` // medians of a few, on this machine: encoding and encrypting
	SealMs        float64 `json:"seal_ms"`    // a window from its samples to its messages, encryption included
	SampleMs      float64 `json:"sample_ms"`  // a sample of all sensors of /sys and /proc that are here; 0 for others
	// QueueSeconds is how long the broker may be away before the stream loses windows.
	QueueSeconds float64 `json:"queue_s,omitempty"`
	// Duty is the share of one processor that the stream takes: processor time of
	// samples and sealing, per time of a window.
	Duty          float64 `json:"duty"`
	PrecisionBits float64 `json:"precision_bits"`
	// Programs read the stream and need ProgramLevel; see Prediction.Needs.
	Programs     []string         `json:"programs,omitempty"`
	ProgramLevel *int             `json:"program_level,omitempty"`
	Channels     []ChannelOutlook `json:"channels"`
	// Modes compares what a window takes as samples and as a histogram; Advice says which is
	// smaller, if that is not the one in use.
	Modes  []ModeOutlook `json:"modes,omitempty"`
	Advice string        `json:"advice,omitempty"`

	absent []string // sensors, with the reason
}

// ChannelOutlook is the predicted error of a fresh, decrypted sample; of a histogram that of a
// count, in counts.
type ChannelOutlook struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Error float64 `json:"error"` // standard deviation, in Unit
	Bound float64 `json:"bound"` // on all samples of a window, in Unit; see henc.NoiseModel.Max
}

// EvaluationKeys are those that the programs which read this device need: they are on
// the evaluator, not on the device.
type EvaluationKeys struct {
	Relinearise bool  `json:"relinearise"`
	Rotations   []int `json:"rotations,omitempty"`
	Count       int   `json:"count"`
	Bytes       int64 `json:"bytes"` // with seeds in place of uniform halves
}
