// Package remote keeps the configuration that an operator sent to a device: what is in
// use, what is on trial, and why the last one was refused.
package remote

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/transport"
)

// Remote keeps the configurations that an operator sent: the one in use, the version that
// was tried last, and the one that waits for a reload. Its file is <state>.remote, beside
// the agent's state.
type Remote struct {
	Tell chan string // asks for a reload
	now  func() time.Time

	mu      sync.Mutex
	file    stored
	read    bool
	cfg     *config.Agent // of the last load, for its keys and its name
	log     *slog.Logger
	pending []byte // sealed; checked, not yet in use
	leftOut bool   // what is kept does not fit the device's own file any more
	last    string // why the last message was refused
	reports transport.LogLimit
}

// stored is what outlives the process. Seen is stored before a version is tried, so that
// a version that crashes the agent is tried only once.
type stored struct {
	Seen    uint64 `json:"seen"`              // highest version tried
	Sealed  []byte `json:"sealed,omitempty"`  // that is in use
	Refused string `json:"refused,omitempty"` // why Seen is not
}

// Status is the part of `agent status` about remote configuration.
type Status struct {
	Seen    uint64 `json:"seen"`              // highest version tried
	InUse   uint64 `json:"in_use"`            // 0: none
	Refused string `json:"refused,omitempty"` // why the last message was
}

func New() *Remote { return &Remote{Tell: make(chan string, 1), now: time.Now} }

// maxRemoteFile bounds the file, bytes.
const maxRemoteFile = 1 << 20

func (r *Remote) path() string { return r.cfg.State + ".remote" }

// load reads the file once. It ignores a damaged one, with a warning.
func (r *Remote) load() {
	if r.read {
		return
	}
	r.read = true
	b, err := os.ReadFile(r.path())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil && len(b) > maxRemoteFile {
		err = fmt.Errorf("%d bytes", len(b))
	}
	if err == nil {
		err = json.Unmarshal(b, &r.file)
	}
	if err != nil {
		r.file = stored{}
		r.log.Warn("the stored remote configuration cannot be read and is not used", "file", r.path(), "error", err)
	}
	r.last = r.file.Refused
}

// save writes the file and returns when it is on disk.
func (r *Remote) save() error {
	b, err := json.Marshal(r.file)
	if err != nil {
		return err
	}
	if err := durable.WriteState(r.path(), append(b, '\n')); err != nil {
		return fmt.Errorf("store the remote configuration: %w", err)
	}
	return nil
}

// Receive takes a message from the broker. If the operator signed it for this device and
// it is newer than all before, Receive asks for a reload.
func (r *Remote) Receive(payload []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cfg == nil || r.cfg.Remote == nil {
		return
	}
	refuse := func(err error) {
		r.last = err.Error()
		r.log.Warn("a remote configuration is refused", "error", err)
	}
	msg, err := openRemote(r.cfg, payload)
	switch {
	case err != nil: // anybody can make these, and any number of them
		r.last = err.Error()
		if ok, more := r.reports.Allow(transport.Reason(err), r.now()); ok {
			r.log.Warn("a remote configuration is refused", "error", err, "more", more)
		}
		return
	case msg.Version <= r.file.Seen:
		if bytes.Equal(payload, r.file.Sealed) { // the retained one comes again with every connection
			return
		}
		if ok, more := r.reports.Allow("older", r.now()); ok {
			r.log.Info("an older remote configuration is ignored", "version", msg.Version,
				"seen", r.file.Seen, "more", more)
		}
		return
	case msg.Until != 0 && r.now().Unix() > msg.Until:
		refuse(fmt.Errorf("remote configuration %d was valid until %s; sign it again", msg.Version,
			time.Unix(msg.Until, 0).UTC().Format(time.RFC3339)))
		return
	}
	before := r.file
	r.file.Seen, r.file.Refused = msg.Version, fmt.Sprintf(
		"the agent ended before remote configuration %d had proved itself; publish it with a higher revision",
		msg.Version)
	if err := r.save(); err != nil {
		r.file = before
		refuse(err)
		return
	}
	r.pending, r.last = bytes.Clone(payload), ""
	select {
	case r.Tell <- fmt.Sprintf("remote configuration %d", msg.Version):
	default: // one is asked for already; it will find this message
	}
}

func openRemote(cfg *config.Agent, sealed []byte) (*transport.RemoteConfig, error) {
	pub, err := transport.ParsePublicKey(cfg.Remote.OperatorKey)
	if err != nil {
		return nil, err
	}
	return transport.OpenRemote(sealed, pub, cfg.Device)
}

// Apply returns the configuration of the file with the remote one, if any, on top. A bad
// pending one is an error and is forgotten. One in use that no longer fits the file is left
// out, with a warning.
func (r *Remote) Apply(cfg *config.Agent,
	log *slog.Logger) (out *config.Agent, sealed []byte, pending bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leftOut {
		r.leftOut, r.last = false, r.file.Refused
	}
	r.cfg, r.log = cfg, log
	if cfg.Remote == nil {
		return cfg, nil, false, nil
	}
	r.load()
	if r.pending != nil {
		out, err := overlaid(cfg, r.pending)
		if err != nil {
			r.forget(err)
			return nil, nil, false, err
		}
		return out, r.pending, true, nil
	}
	if r.file.Sealed == nil {
		return cfg, nil, false, nil
	}
	out, err = overlaid(cfg, r.file.Sealed)
	if err != nil {
		r.leave(err)
		return cfg, nil, false, nil
	}
	return out, r.file.Sealed, false, nil
}

// leave notes that the stored configuration is left out. A change of the file may bring it
// back.
func (r *Remote) leave(reason error) {
	r.leftOut, r.last = true, reason.Error()
	r.log.Warn("the stored remote configuration no longer fits; only the file is used", "error", reason)
}

// LeaveOut is leave for a reason that is found later.
func (r *Remote) LeaveOut(reason error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave(reason)
}

// forget drops the pending configuration and keeps the reason.
func (r *Remote) forget(reason error) {
	r.pending, r.last = nil, reason.Error()
	r.file.Refused = r.last
	if err := r.save(); err != nil { // the version is stored, so that it is not tried again
		r.log.Warn("cannot store why a remote configuration was refused", "error", err)
	}
}

func overlaid(cfg *config.Agent, sealed []byte) (*config.Agent, error) {
	msg, err := openRemote(cfg, sealed)
	if err != nil {
		return nil, err
	}
	return cfg.WithRemote(fmt.Sprintf("remote configuration %d", msg.Version), msg.Text)
}

// OnTrial puts c on trial with a pending configuration.
func (r *Remote) OnTrial(c *daemon.Candidate, sealed []byte, trial time.Duration) {
	c.Trial = trial
	c.Confirmed = func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		before := r.file
		r.file.Sealed = sealed
		latest := bytes.Equal(r.pending, sealed)
		if latest {
			r.file.Refused = ""
		}
		if err := r.save(); err != nil {
			r.file = before
			return err
		}
		if latest {
			r.pending = nil
		}
		r.log.Info("the remote configuration works and is kept")
		return nil
	}
	c.Failed = func(reason error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if bytes.Equal(r.pending, sealed) {
			r.forget(reason)
		} else {
			r.last = reason.Error()
		}
	}
}

// Discard forgets a pending configuration that turned out to be bad.
func (r *Remote) Discard(reason error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(reason)
}

// Status returns nil where the configuration has no remote section.
func (r *Remote) Status() *Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cfg == nil || r.cfg.Remote == nil {
		return nil
	}
	s := &Status{Seen: r.file.Seen, Refused: r.last}
	if r.file.Sealed != nil && !r.leftOut {
		if msg, err := openRemote(r.cfg, r.file.Sealed); err == nil {
			s.InUse = msg.Version
		}
	}
	return s
}

// Hash returns the hash of a file's text and what is laid on top of it.
func Hash(hash string, sealed []byte) string {
	if sealed == nil {
		return hash
	}
	sum := sha256.Sum256(append([]byte(hash), sealed...))
	return hex.EncodeToString(sum[:])
}
