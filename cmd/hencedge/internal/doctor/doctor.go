// Package doctor examines a machine and the files of a role for what would
// make hencedge fail or leak: clock, memory, swap and core dumps, file
// permissions, secrets where none belong, and the way to the broker.
package doctor

import (
	"context"
	"time"
)

// Status of one check.
type Status string

// The statuses. Only Fail makes the whole examination fail.
const (
	OK   Status = "ok"
	Info Status = "info"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Check is the outcome of one check.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`           // what was found
	Remedy string `json:"remedy,omitempty"` // what to do about it
}

// Report is the outcome of an examination.
type Report struct {
	OK     bool    `json:"ok"` // no check failed
	Checks []Check `json:"checks"`
}

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
}

// Examine runs every check that o asks for. It fails only when ctx ends.
func Examine(ctx context.Context, o Options) (*Report, error) {
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	if o.Roots == nil {
		o.Roots = ReadRoots()
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	r := &Report{Checks: machine(o.Proc, time.Now())}
	r.Checks = append(r.Checks, roles(ctx, o)...)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.OK = true
	for _, c := range r.Checks {
		r.OK = r.OK && c.Status != Fail
	}
	return r, nil
}
