package doctor

import (
	"time"
)

// Check is the outcome of one check.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`           // what was found
	Remedy string `json:"remedy,omitempty"` // what to do about it
}

// Status of one check.
type Status string

// The statuses. Only Fail makes the whole examination fail.
const (
	OK   Status = "ok"
	Info Status = "info"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Options say what to examine. The zero value examines the machine alone.
type Options struct {
	Agent     string        // configuration file of an agent
	Evaluator string        // configuration file of an evaluator
	KeyHolder string        // configuration file of a key holder
	Offline   bool          // do not try to reach the broker
	Timeout   time.Duration // for the broker; 0 means 10 s
	Proc      string        // where proc is mounted; "" means /proc
	// Roots are where an agent's files are looked for keys that decrypt; nil means
	// ReadRoots.
	Roots []string
	// Progress is told how much of a long check is done: "files" that were looked at, of which
	// nobody knows how many there are (total 0), or "bytes" of keys. The examination ends if it
	// fails. It may be nil.
	Progress func(what string, done, total int64) error
}
