package keyholder

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/keyholder/alert"
	"github.com/hencedge/hencedge/keyholder/outlet"
	"github.com/hencedge/hencedge/transport"
)

// Check reports whether results could be read with this configuration. It looks at the
// key set and the permissions of its secrets, the evaluators' keys, the broker's TLS files
// and password, the directory of the state, and what the receivers of alarms and the database
// of results need. It changes nothing and does not connect.
// It returns all mistakes as one *config.Errors, each with its place in the file.
func Check(cfg *config.KeyHolder) error {
	c := &checker{cfg: cfg}
	if signers, err := Signers(cfg.Evaluators); err != nil {
		c.fail("evaluators", "copy the line that `hencedge keys identity` prints for the evaluator", err)
	} else {
		c.keySet(signers)
	}
	if t := cfg.Traces; t != nil {
		daemon.CheckWeb(&t.HTTP, "the user that reads results", "traces.", c.fail)
	}
	daemon.CheckBroker(cfg.Broker, "the user that reads results", "", c.fail)
	c.state()
	if cfg.Alerts != nil {
		alert.Check(cfg.Alerts, c.fail)
	}
	if cfg.History != nil {
		c.history(cfg.History)
	}
	return c.errs.Err()
}

// Warnings returns what works in a configuration but is probably not meant.
func Warnings(cfg *config.KeyHolder) []string {
	var out []string
	if cfg.Receipts && cfg.State == "" {
		out = append(out, "receipts without state: after a restart, results that were read before are read again")
	}
	if cfg.Alerts != nil {
		out = append(out, alert.Warnings(cfg.Alerts, cfg.Broker)...)
	}
	return append(out, SinkWarnings(cfg)...)
}

// SinkWarnings names the sinks of results at the broker that evaluators use.
func SinkWarnings(cfg *config.KeyHolder) (out []string) {
	if cfg.History == nil {
		return nil
	}
	for i := range cfg.History.Sinks {
		if s := &cfg.History.Sinks[i]; s.MQTT != nil && outlet.At(s.MQTT, cfg.Broker) {
			out = append(out, fmt.Sprintf("sink %s publishes results in clear at %s, the broker that the "+
				"evaluator uses; use another broker, or see that nobody else can subscribe to %s/#", s.Name,
				s.MQTT.URL, s.MQTT.Topic))
		}
	}
	return out
}

type checker struct {
	cfg  *config.KeyHolder
	errs config.Errors
}

func (c *checker) fail(path, remedy string, err error) {
	c.errs.Add(c.cfg.Problem(path, err.Error(), remedy))
}

// keySet loads every secret key, as reading results does.
func (c *checker) keySet(signers map[string][]ed25519.PublicKey) {
	remedy := "correct the path, or make a key set with `hencedge keys new`"
	set, err := Open(c.cfg.KeySet)
	var r *Reader
	if err == nil {
		r, err = NewReader(set, ReaderOptions{Signers: signers, Archive: true})
	}
	if err == nil {
		defer r.Close()
		remedy = "do as the message says, as the file's owner, or bring the file back from a copy"
		err = r.Load()
	}
	if err == nil && c.cfg.Receipts {
		var k *transport.SigningKey
		if k, err = transport.LoadSigningKey(filepath.Join(set.dir, signerFile)); err == nil {
			k.Wipe()
		}
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrPermissions) {
		remedy = "do as the message says, as the owner of the key set, and run this as that user"
	}
	if err != nil {
		c.fail("key_set", remedy, err)
	}
}

// history looks at what the database of results and its sinks need.
func (c *checker) history(h *config.History) {
	if h.Postgres != nil {
		c.postgres(h.Postgres)
	}
	for i := range h.Sinks {
		at := fmt.Sprintf("history.sinks[%d].", i)
		if s := &h.Sinks[i]; s.MQTT != nil {
			outlet.CheckMQTT(s.MQTT, at+"mqtt.", c.fail)
		} else if s.Influx != nil {
			outlet.CheckWeb(s.Influx, at+"influx.", c.fail)
		} else if s.RemoteWrite != nil {
			outlet.CheckWeb(s.RemoteWrite, at+"remote_write.", c.fail)
		}
	}
}

// postgres looks at what a connection to the database of results needs.
func (c *checker) postgres(p *config.Postgres) {
	const at = "history.postgres."
	if field, err := daemon.WebFiles(&config.HTTP{CA: p.CA, Cert: p.Cert, Key: p.Key}).Check(); err != nil {
		remedy := "correct the path or the file"
		if errors.Is(err, fs.ErrPermission) {
			remedy = "let the user that reads results read the file and enter its directory"
		}
		c.fail(at+field, remedy, err)
	}
	password, err := p.Password.Resolve()
	if err != nil {
		c.fail(at+"password", p.Password.Available(), err)
	}
	clear(password)
}

// state looks at the directory of the state file.
func (c *checker) state() {
	if c.cfg.State == "" {
		return
	}
	dir := filepath.Dir(c.cfg.State)
	switch err := unix.Access(dir, unix.W_OK|unix.X_OK); {
	case errors.Is(err, fs.ErrNotExist):
		c.fail("state", "make it, for the user that reads results", fmt.Errorf("the directory %s does not exist", dir))
	case errors.Is(err, unix.EROFS):
		c.fail("state", "choose a place that can be written", fmt.Errorf(
			"the directory %s is on a file system that is mounted read-only", dir))
	case err != nil:
		c.fail("state", "give the directory to the user that reads results", fmt.Errorf(
			"the directory %s cannot be written: %w", dir, err))
	}
}
