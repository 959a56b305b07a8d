package config

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // boards may lack the system's time zones

	"github.com/hencedge/hencedge/config/internal/yamlx"
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

// Ack says when a window counts as delivered.
type Ack string

// The acknowledgement levels.
const (
	AckBroker    Ack = "broker"    // the broker has acknowledged it
	AckEvaluator Ack = "evaluator" // the evaluator has signed a receipt
	AckKeyHolder Ack = "keyholder" // of results: the key holder has signed a receipt
)

// Delivery says how windows leave the agent. All fields are optional.
type Delivery struct {
	// Ack holds for every stream that Streams does not name.
	Ack Ack `yaml:"ack"`
	// Evaluators are the signers whose receipts count.
	Evaluators []Device `yaml:"evaluators"`
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

// alone refuses a directory of the spool that also holds other files of the agent.
func (c *checker) alone(path, dir string, a *Agent) {
	for _, other := range []struct{ what, file string }{{"state", a.State}, {"signing_key", a.SigningKey}} {
		if dir != "" && other.file != "" && filepath.Dir(other.file) == filepath.Clean(dir) {
			c.fail(path, "the directory also holds "+other.what, "give the spool a directory of its own, such as "+filepath.Join(dir, "spool"))
		}
	}
}

// delivery checks spool and delivery of an agent.
func (c *checker) delivery(a *Agent) {
	if s := a.Spool; s != nil {
		between(c, "spool.bytes", s.Bytes, MiB, 1024*GiB)
		between(c, "spool.age", s.Age, time.Minute, 10*365*24*time.Hour)
		if s.Mirror != "" && s.Mirror == s.Dir {
			c.fail("spool.mirror", "the mirror is the spool's own directory", "use another directory, best on another disk")
		}
		c.alone("spool.dir", s.Dir, a)
		c.alone("spool.mirror", s.Mirror, a)
	}
	d := &a.Delivery
	oneOf(c, "delivery.ack", d.Ack, AckBroker, AckEvaluator)
	c.retries("delivery", d.ReceiptTimeout, d.RetryMin, d.RetryMax)
	if d.Bandwidth != 0 {
		between(c, "delivery.bandwidth", d.Bandwidth, KiB, 4*GiB)
	}
	if !(d.LiveShare >= 0 && d.LiveShare <= 1) {
		c.fail("delivery.live_share", fmt.Sprintf("%v is not a share", d.LiveShare), "use a number from 0 (in order) to 1")
	}
	between(c, "delivery.live_age", d.LiveAge, time.Second, 24*time.Hour)
	c.signers("delivery.evaluators", "evaluator", d.Evaluators)
	receipts := d.Ack == AckEvaluator
	names := make([]string, len(a.Streams))
	for i, s := range a.Streams {
		names[i] = s.Name
	}
	seen := map[string]int{}
	for i, s := range d.Streams {
		p := fmt.Sprintf("delivery.streams[%d]", i)
		receipts = receipts || s.Ack == AckEvaluator
		oneOf(c, p+".ack", s.Ack, AckBroker, AckEvaluator)
		if s.Full != "" {
			oneOf(c, p+".full", s.Full, QueueDropOldest, QueueDropNewest, QueueBlock)
		}
		if s.Bytes != 0 {
			between(c, p+".bytes", s.Bytes, KiB, 1024*GiB)
		}
		if s.Age != 0 {
			between(c, p+".age", s.Age, time.Minute, 10*365*24*time.Hour)
		}
		if j, dup := seen[s.Stream]; dup {
			c.fail(p+".stream", fmt.Sprintf("the stream %q is already in delivery.streams[%d]", s.Stream, j), "keep one of them")
		} else if known := contains(names, s.Stream); !known && c.sound("streams", p+".stream") {
			c.fail(p+".stream", fmt.Sprintf("there is no stream %q", s.Stream), yamlx.SuggestValue(s.Stream, names))
		}
		seen[s.Stream] = i
	}
	if receipts && len(d.Evaluators) == 0 && c.sound("delivery.evaluators") {
		c.fail("delivery", "\"evaluators\" is missing: nobody's receipts would count", "add 'evaluators: [{name: ..., public_key: \"ed25519:...\"}]', or write ack: broker")
	}
	for i := range d.Hours {
		c.hours(fmt.Sprintf("delivery.hours[%d]", i), &d.Hours[i])
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// retries checks the times of a delivery.
func (c *checker) retries(path string, receipt, lo, hi Duration) {
	between(c, path+".receipt_timeout", receipt, 100*time.Millisecond, time.Hour)
	between(c, path+".retry_min", lo, 10*time.Millisecond, time.Hour)
	between(c, path+".retry_max", hi, 10*time.Millisecond, 24*time.Hour)
	if hi < lo && c.sound(path+".retry_min", path+".retry_max") {
		c.fail(path+".retry_max", fmt.Sprintf("%s is below retry_min, %s", yamlx.ShowDuration(hi), yamlx.ShowDuration(lo)), fmt.Sprintf("use %s or more, or a shorter retry_min", yamlx.ShowDuration(lo)))
	}
}

func (c *checker) store(s *Store) {
	between(c, "store.bytes", s.Bytes, MiB, 1024*GiB)
	between(c, "store.remember", s.Remember, 1024, 1<<24)
	oneOf(c, "store.results", s.Results, AckBroker, AckKeyHolder)
	c.retries("store", s.ReceiptTimeout, s.RetryMin, s.RetryMax)
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func (c *checker) hours(path string, h *Hours) {
	const remedy = "write hours and minutes, such as \"22:00\", in quotes"
	from, err := clockTime(h.From)
	if err != nil {
		c.fail(path+".from", err.Error(), remedy)
	}
	to, err2 := clockTime(h.To)
	if err2 != nil {
		c.fail(path+".to", err2.Error(), remedy)
	}
	if err == nil && err2 == nil && from == to {
		c.fail(path+".to", "it ends when it begins", "write another time, or remove the entry to send at any time")
	}
	seen := map[string]bool{}
	for i, d := range h.Days {
		p := fmt.Sprintf("%s.days[%d]", path, i)
		if !contains(weekdays, d) {
			c.fail(p, fmt.Sprintf("unknown day %q", d), "use mon, tue, wed, thu, fri, sat or sun")
		} else if seen[d] {
			c.fail(p, fmt.Sprintf("%s is there twice", d), "keep one of them")
		}
		seen[d] = true
	}
	if _, err := time.LoadLocation(h.Zone); err != nil || h.Zone == "" {
		c.fail(path+".zone", fmt.Sprintf("unknown time zone %q", h.Zone), "use a name such as Europe/Berlin, UTC or Local")
	}
}

// clockTime reads "22:00" as the time since midnight; "24:00" is the end of the day.
func clockTime(s string) (Duration, error) {
	h, m, ok := strings.Cut(s, ":")
	hour, err := strconv.ParseUint(h, 10, 8)
	minute, err2 := strconv.ParseUint(m, 10, 8)
	if !ok || len(h) != 2 || len(m) != 2 || err != nil || err2 != nil || minute > 59 || hour > 24 || hour == 24 && minute > 0 {
		return 0, fmt.Errorf("%q is not a time of day", s)
	}
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute, nil
}

// Window gives the hours as times since midnight, the days on which they begin
// (all of them when none is named) and the time zone. The hours are checked.
func (h Hours) Window() (from, to Duration, days [7]bool, zone *time.Location, err error) {
	if from, err = clockTime(h.From); err == nil {
		to, err = clockTime(h.To)
	}
	if err == nil {
		zone, err = time.LoadLocation(h.Zone)
	}
	for i, name := range weekdays {
		days[i] = len(h.Days) == 0 || contains(h.Days, name)
	}
	return from, to, days, zone, err
}
