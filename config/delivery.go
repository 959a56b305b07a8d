package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // boards may lack the system's time zones
)

// Spool says where sealed windows wait on disk.
type Spool struct {
	// Dir is a directory of its own; it is made when its parent exists.
	Dir string `yaml:"dir" cfg:"required,path"`
	// Mirror is a directory for a second copy of every file, best on another
	// disk; empty means none.
	Mirror string `yaml:"mirror" cfg:"path"`
	// Bytes bounds the windows that wait, of all streams.
	Bytes Size `yaml:"bytes"`
	// Age is when a window that could not be delivered is dropped.
	Age Duration `yaml:"age"`
}

// Delivery says how windows leave the agent. All fields are optional.
type Delivery struct {
	// Ack holds for every stream that Streams does not name.
	Ack Ack `yaml:"ack"`
	// Evaluators are the signers whose receipts count.
	Evaluators []Signer `yaml:"evaluators"`
	// Streams are the streams that differ.
	Streams []StreamDelivery `yaml:"streams"`
	// ReceiptTimeout is the wait for a receipt before the agent asks.
	ReceiptTimeout Duration `yaml:"receipt_timeout"`
	// RetryMin and RetryMax bound the delay after a failure, which doubles.
	RetryMin Duration `yaml:"retry_min"`
	RetryMax Duration `yaml:"retry_max"`
	// Bandwidth is the most bytes a second that windows take; 0 is no bound.
	Bandwidth Size `yaml:"bandwidth"`
	// LiveShare is the part of the traffic, 0 to 1, that windows younger than
	// LiveAge get while older ones wait. 0 keeps every stream in order.
	LiveShare float64  `yaml:"live_share" cfg:"zero"`
	LiveAge   Duration `yaml:"live_age"`
	// Hours are when windows may be sent; none means always.
	Hours []Hours `yaml:"hours"`
}

// Ack says when a window counts as delivered.
type Ack string

// The acknowledgement levels.
const (
	AckBroker    Ack = "broker"    // the broker has acknowledged it
	AckEvaluator Ack = "evaluator" // the evaluator has signed a receipt
	AckKeyHolder Ack = "keyholder" // of results: the key holder has signed a receipt
)

// StreamDelivery is what differs for one stream.
type StreamDelivery struct {
	Stream string      `yaml:"stream" cfg:"required"`
	Ack    Ack         `yaml:"ack"`
	Full   QueuePolicy `yaml:"full"`
	Bytes  Size        `yaml:"bytes"`
	Age    Duration    `yaml:"age"`
}

// Hours is a part of the day.
type Hours struct {
	From string   `yaml:"from" cfg:"required"` // "22:00"
	To   string   `yaml:"to" cfg:"required"`   // "06:00"; before From: of the next day
	Days []string `yaml:"days"`                // mon, tue, ...: days on which it begins; none: every day
	Zone string   `yaml:"zone"`                // IANA time zone, or Local
}

// Store makes an evaluator answer for the windows that it took.
type Store struct {
	// Dir is a directory of its own, which must exist.
	Dir string `yaml:"dir" cfg:"required,path"`
	// Bytes bounds the windows that wait in it for the other inputs of a
	// program, and the results that wait to be delivered.
	Bytes Size `yaml:"bytes"`
	// Remember is how many windows and results are remembered by content id.
	Remember int `yaml:"remember"`
	// Results says when a result counts as delivered: broker or keyholder.
	Results        Ack      `yaml:"results"`
	ReceiptTimeout Duration `yaml:"receipt_timeout"`
	RetryMin       Duration `yaml:"retry_min"`
	RetryMax       Duration `yaml:"retry_max"`
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// clockTime reads "22:00" as the time since midnight; "24:00" is the end of the day.
func clockTime(s string) (Duration, error) {
	h, m, ok := strings.Cut(s, ":")
	hour, err := strconv.ParseUint(h, 10, 8)
	minute, err2 := strconv.ParseUint(m, 10, 8)
	if !ok || len(h) != 2 || len(m) != 2 || err != nil || err2 != nil || minute > 59 || hour > 24 || hour == 24 &&
		minute > 0 {
		return 0, fmt.Errorf("%q is not a time of day", s)
	}
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute, nil
}

// Window returns the hours as times since midnight, the days on which they begin
// (all of them when none is named) and the time zone. The hours are checked.
func (h Hours) Window() (from, to Duration, days [7]bool, zone *time.Location, err error) {
	if from, err = clockTime(h.From); err == nil {
		to, err = clockTime(h.To)
	}
	if err == nil {
		zone, err = time.LoadLocation(h.Zone)
	}
	for i, name := range weekdays {
		days[i] = len(h.Days) == 0 || slices.Contains(h.Days, name)
	}
	return from, to, days, zone, err
}

// QueuePolicy says what happens when the send queue is full.
type QueuePolicy string

// What a full queue does to a new window.
const (
	QueueDropOldest QueuePolicy = "drop_oldest"
	QueueDropNewest QueuePolicy = "drop_newest"
	QueueBlock      QueuePolicy = "block" // sampling waits
)

// A Signer is an evaluator whose signatures count.
type Signer struct {
	Name string `yaml:"name" cfg:"required"`
	// PublicKey is "ed25519:" and 32 bytes in standard base64.
	PublicKey string `yaml:"public_key" cfg:"required"`
}

// History is where "results serve" keeps decrypted results, and for how long.
type History struct {
	// File is the SQLite database; "" means State of the key holder with the suffix ".db".
	File string `yaml:"file" cfg:"path"`
	// Keep is how long results stay, from the end of their window.
	Keep Duration `yaml:"keep"`
	// KeepBytes bounds the database; the oldest results make room.
	KeepBytes Size `yaml:"keep_bytes"`
}

// Defaults of History.
const (
	DefaultKeep      = 10 * 365 * 24 * time.Hour
	DefaultKeepBytes = 4 * GiB
	historySuffix    = ".db"
)

// Kept returns History with its defaults, also where the file has no such block. File is empty
// if neither a database nor a state is configured.
func (k *KeyHolder) Kept() History {
	h := History{}
	if k.History != nil {
		h = *k.History
	}
	h.setDefaults(k.State)
	return h
}

// setDefaults fills every optional field that is zero.
func (h *History) setDefaults(state string) {
	if h == nil {
		return
	}
	if state != "" {
		orDefault(&h.File, state+historySuffix)
	}
	orDefault(&h.Keep, DefaultKeep)
	orDefault(&h.KeepBytes, DefaultKeepBytes)
}
