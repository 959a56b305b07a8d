// Package doctor examines a machine and the files of a role for what would
// make hencedge fail or leak: clock, memory, swap and core dumps, file
// permissions, secrets where none belong, and the way to the broker.
package doctor

import (
	"context"
	"time"
)

func (o *Options) tell(what string, done, total int64) error {
	if o.Progress == nil {
		return nil
	}
	return o.Progress(what, done, total)
}

// Report is the outcome of an examination.
type Report struct {
	OK     bool    `json:"ok"` // no check failed
	Checks []Check `json:"checks"`
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
