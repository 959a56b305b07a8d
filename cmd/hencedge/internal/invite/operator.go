//go:build !nostore && !evaluatoronly

package invite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/enroll"
	"github.com/hencedge/hencedge/keyholder/console"
	"github.com/hencedge/hencedge/transport"
)

// Operator is the desk of the page of results: it does what "enroll list", "approve" and "refuse"
// do, for as long as Run lasts. It is safe for concurrent use.
type Operator struct {
	flags deskFlags
	log   *slog.Logger

	answering sync.Mutex // one answer at a time
	mu        sync.Mutex
	desk      *desk // nil: not connected
	trouble   string
	changed   chan struct{} // closed at each change
}

// NewOperator returns the desk of a configuration. Call Run.
func NewOperator(e *config.ConsoleEnrolment, log *slog.Logger) *Operator {
	return &Operator{flags: flagsOf(e), log: log, trouble: "the operator's side is not connected yet",
		changed: make(chan struct{})}
}

func flagsOf(e *config.ConsoleEnrolment) deskFlags {
	return deskFlags{file: e.Evaluator, dir: e.Dir, agentKeys: e.Keys, user: e.Username, password: string(e.Password)}
}

// existingKey loads the operator's key, nil if there is none.
func (f *deskFlags) existingKey() (*transport.SigningKey, error) {
	key, err := transport.LoadSigningKey(filepath.Join(f.place(), keyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return key, err
}

// hasKey reports whether there is an operator's key by now.
func (f *deskFlags) hasKey() bool {
	_, err := os.Stat(filepath.Join(f.place(), keyFile))
	return err == nil
}

// CheckOperator checks the files that a configuration names for requests of boards. It changes
// nothing and does not connect.
func CheckOperator(e *config.ConsoleEnrolment) error {
	if e == nil {
		return nil
	}
	f := flagsOf(e)
	cfg, err := config.LoadEvaluator(f.file)
	if err != nil {
		return fmt.Errorf("console.enrolment.evaluator: %w", err)
	}
	info, err := os.Stat(f.place())
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = fmt.Errorf("%s has mode %04o, and holds secrets: chmod 700 %s", f.place(), info.Mode().Perm(), f.place())
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; \"hencedge invite\" makes it", err)
	}
	if err != nil {
		return fmt.Errorf("console.enrolment.dir: %w", err)
	}
	key, err := f.existingKey()
	if err != nil {
		return fmt.Errorf("console.enrolment.dir: %w", err)
	}
	if key == nil {
		return nil // it only shows requests
	}
	key.Wipe()
	if _, err := enrolledDir(cfg); err != nil {
		return fmt.Errorf("console.enrolment.evaluator: %w", err)
	}
	if _, _, err := agentKeys(f.keys(), cfg); err != nil {
		return fmt.Errorf("console.enrolment.keys: %w", err)
	}
	return nil
}

// Times of an Operator.
const (
	retryEvery  = 10 * time.Second       // after a failure to connect
	calmTime    = 200 * time.Millisecond // in which changes become one
	expiryEvery = 5 * time.Minute        // for invitations that expire
	lookEvery   = 2 * time.Second        // for commands that run beside it and change the book
)

// Run connects, and follows what boards ask until ctx ends. It tries again for as long as the broker
// or a file is missing.
func (o *Operator) Run(ctx context.Context) {
	for ctx.Err() == nil {
		d, err := o.connect(ctx)
		if err != nil {
			if ctx.Err() == nil && o.set(nil, err.Error()) {
				o.log.Warn("the page cannot show boards that ask to join", "error", err)
			}
			pause(ctx, retryEvery)
			continue
		}
		o.set(d, "")
		o.follow(ctx, d)
		o.set(nil, "the operator's side is not connected")
		o.answering.Lock() // whoever answers uses the key
		d.close()
		o.answering.Unlock()
	}
}

func (o *Operator) connect(ctx context.Context) (*desk, error) {
	key, err := o.flags.existingKey()
	if err != nil {
		return nil, err
	}
	return o.flags.connect(ctx, o.log, key)
}

// set says which desk there is. It reports whether the trouble is new.
func (o *Operator) set(d *desk, trouble string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	fresh := o.trouble != trouble
	o.desk, o.trouble = d, trouble
	o.tell()
	return fresh
}

// tell wakes whoever waits for a change. o.mu is held.
func (o *Operator) tell() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// follow notes which boards have joined, and tells of changes, until ctx ends.
func (o *Operator) follow(ctx context.Context, d *desk) {
	clock, look := time.NewTicker(expiryEvery), time.NewTicker(lookEvery)
	defer clock.Stop()
	defer look.Stop()
	for {
		changed, stamp := d.Changed(), d.Book.Stamp()
		if d.Key != nil {
			o.answering.Lock()
			err := d.Tidy(ctx)
			o.answering.Unlock()
			if err != nil && ctx.Err() == nil {
				o.log.Warn("invitations could not be tidied up", "error", err)
			}
		}
		o.mu.Lock()
		o.tell()
		o.mu.Unlock()
		for same := true; same; {
			select {
			case <-changed:
				same = false
			case <-clock.C:
				same = false
			case <-look.C:
				same = d.Book.Stamp() == stamp
			case <-ctx.Done():
				return
			}
		}
		if pause(ctx, calmTime); ctx.Err() != nil || d.Key == nil && o.flags.hasKey() {
			return
		}
	}
}

// pause waits, until ctx ends at most.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Changed returns a channel that is closed when Requests may have another answer.
func (o *Operator) Changed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changed
}

// current returns the desk, with the evaluator's configuration as it is now.
func (o *Operator) current() (*desk, error) {
	o.mu.Lock()
	d, trouble := o.desk, o.trouble
	o.mu.Unlock()
	if d == nil {
		return nil, errors.New(trouble)
	}
	cfg, err := config.LoadEvaluator(o.flags.file)
	if err != nil {
		return nil, err
	}
	fresh := *d
	fresh.cfg = cfg
	return &fresh, nil
}

// Requests returns the invitations, and what boards ask.
func (o *Operator) Requests() (out console.Requests, err error) {
	out.Approve = "hencedge enroll approve -c " + o.flags.file + " --dir " + o.flags.place()
	out.Refuse = "hencedge enroll refuse -c " + o.flags.file + " --dir " + o.flags.place()
	o.mu.Lock()
	d := o.desk
	out.Trouble = o.trouble
	o.mu.Unlock()
	if d == nil {
		return out, nil
	}
	if !d.Client.Connected() {
		out.Trouble = "there is no connection to the broker: requests may be missing"
	}
	out.Answers = d.Key != nil
	lines, err := d.lines()
	if err != nil {
		return out, err
	}
	for _, l := range lines {
		out.List = append(out.List, console.Request{Invitation: l.Invitation, State: l.State, Class: l.Class,
			Device: l.Device, Fingerprint: l.Fingerprint, Host: l.Host, Asked: l.Asked, Expires: l.Expires,
			Rivals: l.Rivals, Waits: l.waits})
	}
	return out, nil
}

// exactly returns the request that somebody has seen and answers: that of a key, under a name.
func (d *desk) exactly(a *console.Answer) (*enroll.Pending, error) {
	list, err := d.Pending()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(p enroll.Pending) bool {
		return p.Invitation.ID == a.Invitation && p.Request.Device == a.Device &&
			p.Request.Fingerprint() == a.Fingerprint
	})
	if i < 0 {
		return nil, fmt.Errorf("%w: the board %s does not ask any more, or asks for something else", enroll.ErrUnknown,
			a.Device)
	}
	return &list[i], nil
}

// Approve lets a board in.
func (o *Operator) Approve(ctx context.Context, a *console.Answer) error {
	o.answering.Lock()
	defer o.answering.Unlock()
	d, err := o.current()
	if err != nil {
		return err
	}
	p, err := d.exactly(a)
	if err != nil {
		return err
	}
	file, err := d.check(p)
	if err != nil {
		return err
	}
	if err := d.letIn(ctx, p, &enroll.Welcome{Username: a.Username, Password: a.Password}, file); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tell()
	return nil
}

// Refuse tells a board that it is not let in.
func (o *Operator) Refuse(ctx context.Context, a *console.Answer) error {
	o.answering.Lock()
	defer o.answering.Unlock()
	d, err := o.current()
	if err != nil {
		return err
	}
	p, err := d.exactly(a)
	if err != nil {
		return err
	}
	return d.Refuse(ctx, p, a.Reason)
}
