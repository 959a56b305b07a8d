package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // boards may lack the system's time zones

	"github.com/hencedge/hencedge/config/internal/rule"
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

// History is the database in which "results serve" keeps decrypted results, and for how long.
type History struct {
	// File is the SQLite database; "" means State of the key holder with the suffix ".db".
	File string `yaml:"file" cfg:"path"`
	// Postgres takes the place of File; nil: the file it is.
	Postgres *Postgres `yaml:"postgres"`
	// Keep is how long results stay, from the end of their window.
	Keep Duration `yaml:"keep"`
	// KeepBytes bounds the database; the oldest results make room.
	KeepBytes Size `yaml:"keep_bytes"`
	// Tiers are kept beside the results, also when those are gone; nil means one of an hour.
	Tiers []Tier `yaml:"tiers"`
	// Sinks are told of each result, in the order of arrival.
	Sinks []Sink `yaml:"sinks"`
	// LastValues adds the newest value of each program and device to the metrics.
	LastValues bool `yaml:"last_values"`
}

// A Sink is told of results in clear. It has one of the blocks.
type Sink struct {
	Name string `yaml:"name" cfg:"required"`
	// Programs limits the results; none: all.
	Programs []string `yaml:"programs"`
	// MQTT gets each result as JSON at Topic/PROGRAM or Topic/PROGRAM/DEVICE.
	MQTT *AlertMQTT `yaml:"mqtt"`
	// Influx gets lines of InfluxDB's line protocol, with times in nanoseconds.
	Influx *HTTP `yaml:"influx"`
	// RemoteWrite gets samples by Prometheus remote write 1.0, at the end of each window.
	RemoteWrite *HTTP `yaml:"remote_write"`
}

// Postgres is a PostgreSQL database for results.
type Postgres struct {
	// URL is postgres://user@host:port/database?sslmode=MODE. The mode is verify-full,
	// verify-ca, require (no check of the certificate) or disable; without it verify-full, and
	// for this machine whatever the server offers. Without a host, host=DIRECTORY names that of
	// the server's socket.
	URL      string `yaml:"url" cfg:"required"`
	Password Secret `yaml:"password"`
	// CA is a PEM file of roots to trust instead of the system's. Cert and Key are the PEM
	// files of the client's certificate.
	CA   string `yaml:"ca" cfg:"path"`
	Cert string `yaml:"cert" cfg:"path"`
	Key  string `yaml:"key" cfg:"path"`
	// Insecure allows the modes require and disable to other machines.
	Insecure bool `yaml:"insecure"`
	// Schema is the schema of the tables; it is made if it does not exist.
	Schema string `yaml:"schema"`
}

// Local reports whether the database runs on this machine. The URL is checked.
func (p *Postgres) Local() bool { return hostOf(p.URL) == "" || toThisMachine(p.URL) }

// A Tier holds the results of each interval as one summary for each program and device: how
// many there are, and the mean, least and largest of their first values.
type Tier struct {
	// Every is the length of an interval; intervals begin at multiples of it since 1970.
	Every Duration `yaml:"every" cfg:"required"`
	// Keep is how long summaries stay, from the end of their interval.
	Keep Duration `yaml:"keep" cfg:"required"`
}

// Defaults of History.
const (
	defaultEvery     = time.Hour
	DefaultKeep      = 10 * 365 * 24 * time.Hour
	DefaultKeepBytes = 4 * GiB
	historySuffix    = ".db"
)

// Bounds of History.
const (
	maxTiers = 8
	maxSinks = 16
)

// sinkRules demand one type for each sink.
var sinkRules = []rule.Relation{{Then: rule.One("mqtt", "influx", "remote_write"), Tell: func(_ rule.Block,
	second string) (cause, remedy string) {
	if second == "" {
		return "the sink has no type", "add one block: mqtt, influx or remote_write"
	}
	return fmt.Sprintf("%q is given beside another type", second), `make two entries of "sinks"`
}}}

// history checks that tiers differ, and names of sinks.
func (c *checker) history(h *History) {
	if h == nil {
		return
	}
	names := make([]string, len(h.Sinks))
	for i := range h.Sinks {
		names[i] = h.Sinks[i].Name
	}
	c.unique("history.sinks", "sink", names)
	if len(names) > maxSinks {
		c.Fail("history.sinks", fmt.Sprintf("%d sinks, at most %d", len(names), maxSinks), "remove some")
	}
	if len(h.Tiers) > maxTiers {
		c.Fail("history.tiers", fmt.Sprintf("%d tiers, at most %d", len(h.Tiers), maxTiers), "remove some")
	}
	first := map[Duration]int{}
	for i, t := range h.Tiers {
		if j, dup := first[t.Every]; dup {
			c.Fail(fmt.Sprintf("history.tiers[%d].every", i), fmt.Sprintf("the same interval as history.tiers[%d]", j),
				"remove one of them")
			continue
		}
		first[t.Every] = i
	}
}

// Kept returns History with its defaults, also where the file has no such block. File is empty
// if it is not SQLite, or if neither a database nor a state is configured.
func (k *KeyHolder) Kept() History {
	h := History{}
	if k.History != nil {
		h = *k.History
	}
	h.setDefaults(k.Name, k.State)
	return h
}

// Console is the page that "results serve" shows in a browser.
type Console struct {
	// Listen is where the page is served: host:port, on this machine alone without Cert.
	Listen string `yaml:"listen"`
	// Cert and Key are the page's own certificate, which other machines need.
	Cert string `yaml:"cert" cfg:"path"`
	Key  string `yaml:"key" cfg:"path"`
	// Session is how long a login lasts.
	Session Duration `yaml:"session"`
	// KeepSealed bounds the sealed results that are kept for the proof view; the oldest make room.
	KeepSealed Size `yaml:"keep_sealed"`
	// Enrolment shows boards that ask to join a class; nil: the page does not know of them.
	Enrolment *ConsoleEnrolment `yaml:"enrolment"`
	// Devices are files, or directories of files, that list boards as Evaluator.Enrolled does; the page shows
	// what these boards say of themselves. With Enrolment it is empty: the evaluator's devices are these boards.
	Devices OneOrMore `yaml:"devices" cfg:"path,one"`
}

// ConsoleEnrolment names the operator's files on the machine of a key holder.
type ConsoleEnrolment struct {
	// Evaluator is the evaluator's configuration.
	Evaluator string `yaml:"evaluator" cfg:"required,path"`
	// Dir is the operator's directory. If it holds the operator's key, the page answers requests.
	Dir string `yaml:"dir" cfg:"path"`
	// Keys is the export for agents that boards get.
	Keys string `yaml:"keys" cfg:"path"`
	// Username and Password are the operator's at the broker instead of the evaluator's.
	Username string `yaml:"username"`
	Password Secret `yaml:"password"`
}

// Defaults of Console.
const (
	DefaultConsoleListen = "127.0.0.1:9470"
	DefaultSession       = 12 * time.Hour
	DefaultKeepSealed    = GiB
)

func (c *Console) setDefaults() {
	if c == nil {
		return
	}
	orDefault(&c.Listen, DefaultConsoleListen)
	orDefault(&c.Session, DefaultSession)
	orDefault(&c.KeepSealed, DefaultKeepSealed)
	if e := c.Enrolment; e != nil {
		orDefault(&e.Dir, filepath.Join(filepath.Dir(e.Evaluator), "enrolment"))
		orDefault(&e.Keys, filepath.Join(e.Dir, "agent-keys"))
	}
}

// setDefaults fills every optional field that is zero.
func (h *History) setDefaults(name, state string) {
	if h == nil {
		return
	}
	for i := range h.Sinks {
		if m := h.Sinks[i].MQTT; m != nil {
			orDefault(&m.ClientID, "results-"+name+"-"+h.Sinks[i].Name)
		}
	}
	switch {
	case h.Postgres != nil:
		orDefault(&h.Postgres.Schema, "hencedge")
	case state != "":
		orDefault(&h.File, state+historySuffix)
	}
	orDefault(&h.Keep, DefaultKeep)
	orDefault(&h.KeepBytes, DefaultKeepBytes)
	if h.Tiers == nil {
		h.Tiers = []Tier{{Every: defaultEvery, Keep: DefaultKeep}}
	}
}
