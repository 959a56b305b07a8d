//go:build !evaluatoronly

package invite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/enroll"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/systemd"
	"github.com/hencedge/hencedge/transport"
)

// home is where a board keeps what it got.
type home struct {
	dir   string     // agent.yaml, ca.pem, agent-keys
	state string     // signing.key, broker.password
	locks []*os.File // of both
}

func (h *home) config() string   { return filepath.Join(h.dir, "agent.yaml") }
func (h *home) ca() string       { return filepath.Join(h.dir, "ca.pem") }
func (h *home) keys() string     { return filepath.Join(h.dir, "agent-keys") }
func (h *home) signing() string  { return filepath.Join(h.state, "signing.key") }
func (h *home) password() string { return filepath.Join(h.state, "broker.password") }

// joining is there while the answer is written, before anything of it, until agent.yaml is there.
func (h *home) joining() string { return filepath.Join(h.dir, ".joining") }

// prepare makes the directories, and locks them until release. It fails if another join works
// there, or if the board has a configuration or keys already, other than those of a join that was
// killed.
func (h *home) prepare() (err error) {
	if err := h.lock(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			h.release()
		}
	}()
	if err := h.clearUp(); err != nil {
		return err
	}
	for _, path := range []string{h.config(), h.keys()} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists: this board has joined, or was configured by hand; move it away to join anew",
				path)
		}
	}
	return nil
}

// lock makes the directories and locks them: one join at a time makes a key and asks.
func (h *home) lock() error {
	h.release()
	if err := errors.Join(os.MkdirAll(h.dir, 0o755), os.MkdirAll(h.state, 0o700)); err != nil {
		return err
	}
	for _, path := range []string{filepath.Join(h.dir, ".join.lock"), filepath.Join(h.state, "join.lock")} {
		f, err := durable.LockFile(path)
		if err != nil {
			h.release()
			if errors.Is(err, durable.ErrLocked) {
				return fmt.Errorf("another \"agent join\" works in %s: wait until it has ended", filepath.Dir(path))
			}
			return err
		}
		h.locks = append(h.locks, f)
	}
	return nil
}

// release lets others join in the directories.
func (h *home) release() {
	for _, f := range h.locks {
		f.Close()
	}
	h.locks = nil
}

// clearUp removes the keys of a join that was killed before it had written agent.yaml.
func (h *home) clearUp() error {
	if _, err := os.Lstat(h.joining()); err != nil {
		return nil
	}
	if _, err := os.Lstat(h.config()); errors.Is(err, fs.ErrNotExist) {
		if err := h.removeKeys(); err != nil {
			return err
		}
	}
	return os.Remove(h.joining())
}

// removeKeys removes what writeKeys made, finished or not.
func (h *home) removeKeys() error {
	parts, err := filepath.Glob(filepath.Join(h.dir, unfinishedKeys))
	if err != nil {
		return err
	}
	for _, path := range append(parts, h.keys()) {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return durable.SyncDir(h.dir)
}

// unfinishedKeys is the pattern of the directories in which an export becomes whole.
const unfinishedKeys = ".agent-keys-*"

// signingKey loads the device's key. It makes one if the board has none and no state.
func (h *home) signingKey() (*transport.SigningKey, error) {
	key, err := transport.LoadSigningKey(h.signing())
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if _, err := os.Lstat(filepath.Join(h.state, "state")); err == nil {
		return nil, fmt.Errorf("%s has a state and no signing key: its key was lost; move the directory away to start "+
			"as a new device", h.state)
	}
	if key, err = transport.NewSigningKey(); err != nil {
		return nil, err
	}
	return key, key.Save(h.signing())
}

// keep checks an answer, and writes all of it: agent.yaml last. It returns what is left
// to do. What a kill leaves of it, prepare removes.
func (h *home) keep(f *joinFlags, t *enroll.Token, w *enroll.Welcome, witness *enroll.Witness,
	given map[string]string) (left todo, err error) {
	if witness != nil {
		if err := witness.Check(w.CA, t.CA); err != nil {
			return left, err
		}
	}
	streams, err := streamsFrom(w.Streams)
	if err != nil {
		return left, err
	}
	if witness != nil {
		if err := h.writeCA(w.CA); err != nil {
			return left, err
		}
	}
	if err := writePublic(h.joining(), nil); err != nil {
		return left, err
	}
	defer func() {
		if clearing := h.clearUp(); err == nil { // after an error the board can join again
			err = clearing
		}
	}()
	if err := h.writeKeys(w, t.Holder); err != nil {
		return left, err
	}
	if w.Password != "" {
		if err := durable.WriteFile(h.password(), []byte(w.Password+"\n")); err != nil {
			return left, err
		}
	}
	sources, left := sourcesOf(streams, given, sensor.Discover())
	text := h.yaml(f, t, w, witness != nil, streams, sources)
	if err := h.handOver(); err != nil {
		return left, err
	}
	return left, writePublic(h.config(), text)
}

// streamsFrom reads the streams of an answer.
func streamsFrom(b []byte) (out []config.Stream, err error) {
	s, err := transport.UnmarshalStatus(b)
	if err != nil {
		return nil, fmt.Errorf("the streams in the answer: %w", err)
	}
	for _, st := range s.Streams {
		stream, ok := daemon.DescribedStream(st)
		if !ok || st.Packing != config.PackingReal && !stream.Histogram() && !stream.Whole() {
			return nil, fmt.Errorf("%w: the stream %q in the answer has no channels, or the packing %q, which boards "+
				"with a token cannot have", enroll.ErrMalformed, st.Name, st.Packing)
		}
		out = append(out, stream)
	}
	return out, nil
}

// writeKeys writes the export, which appears only once it is verified.
func (h *home) writeKeys(w *enroll.Welcome, holder enroll.Print) error {
	dir, err := os.MkdirTemp(h.dir, unfinishedKeys)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for name, content := range w.Files {
		if err := writePublic(filepath.Join(dir, name), content); err != nil {
			return err
		}
	}
	if err := checkExport(dir, holder); err != nil {
		return fmt.Errorf("the keys in the answer: %w", err)
	}
	if err := os.Rename(dir, h.keys()); err != nil {
		return err
	}
	return durable.SyncDir(h.dir)
}

// writeCA keeps the authority, unless there is another one.
func (h *home) writeCA(text []byte) error {
	old, err := os.ReadFile(h.ca())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return writePublic(h.ca(), text)
	case err != nil:
		return err
	case !bytes.Equal(old, text):
		return fmt.Errorf("%s holds another authority than the operator's: move it away", h.ca())
	}
	return nil
}

func writePublic(path string, content []byte) error {
	return durable.WriteFrom(path, 0o644, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// handOver gives the service's user what root made for it.
func (h *home) handOver() error {
	if os.Geteuid() != 0 || h.state != systemd.Agent.StateDir() {
		return nil
	}
	u, err := user.Lookup(systemd.Agent.Name())
	if err != nil {
		return nil // without the package: whoever runs the agent owns its files
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	for _, path := range []string{h.state, h.signing(), h.password()} {
		if err := os.Lchown(path, uid, gid); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// yaml returns agent.yaml.
func (h *home) yaml(f *joinFlags, t *enroll.Token, w *enroll.Welcome, ca bool, streams []config.Stream,
	sources map[string]string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Written by \"hencedge agent join\": class %s.\ndevice: %s\nbroker:\n  url: %q\n", w.Class,
		f.device, t.Broker.URL)
	line := func(format, value string) {
		if value != "" {
			fmt.Fprintf(&b, format, value)
		}
	}
	if ca {
		line("  ca: %q\n", filepath.Base(h.ca()))
	}
	if t.Broker.Insecure {
		b.WriteString("  insecure: true\n")
	}
	line("  server_name: %q\n", t.Broker.ServerName)
	line("  alpn: [%q]\n", t.Broker.ALPN)
	line("  topic_prefix: %q\n", t.Broker.Prefix)
	line("  username: %q\n", w.Username)
	if w.Password != "" {
		line("  password: %q\n", "file:"+absolute(h.password()))
	}
	fmt.Fprintf(&b, "keys: {public_key: %q, holder: %s}\n", filepath.Join(filepath.Base(h.keys()), "public.key"),
		t.Holder)
	fmt.Fprintf(&b, "signing_key: %q\nstate: %q\nspool: {dir: %q}\nstreams:\n", absolute(h.signing()),
		absolute(filepath.Join(h.state, "state")), absolute(filepath.Join(h.state, "spool")))
	for i := range streams {
		writeStream(&b, &streams[i], f.interval, sources)
	}
	return []byte(b.String())
}

// absolute returns a path that does not depend on the directory of agent.yaml.
func absolute(path string) string {
	if out, err := filepath.Abs(path); err == nil {
		return out
	}
	return path
}

// writeStream writes a stream of agent.yaml. every is the interval of windows by count.
func writeStream(b *strings.Builder, s *config.Stream, every time.Duration, sources map[string]string) {
	window := fmt.Sprintf("samples: %d", s.Window.Samples)
	if s.Window.ByTime() {
		every = time.Duration(s.Window.Every) / time.Duration(max(1, s.Window.Samples))
		window = fmt.Sprintf("every: %s, %s", time.Duration(s.Window.Every), window)
	}
	fmt.Fprintf(b, "  - name: %s\n    interval: %s\n    window: {%s}\n    params: %s\n", s.Name, every, window,
		s.Params)
	if s.Histogram() || s.Whole() { // modes that are called as their packing
		fmt.Fprintf(b, "    mode: %s\n", s.Packing)
	}
	if s.LogScale != 0 {
		fmt.Fprintf(b, "    log_scale: %d\n", s.LogScale)
	}
	if s.Places != 0 {
		fmt.Fprintf(b, "    places: %d\n", s.Places)
	}
	b.WriteString("    channels:\n")
	for _, c := range s.Channels {
		fmt.Fprintf(b, "      - {name: %s, unit: %q, range: [%s, %s]", c.Name, c.Unit, config.FormatNumber(c.Range[0]),
			config.FormatNumber(c.Range[1]))
		if s.Histogram() || s.Whole() {
			fmt.Fprintf(b, ", resolution: %s", config.FormatNumber(c.Resolution))
		}
		if text := sources[s.Name+"/"+c.Name]; text != "" {
			fmt.Fprintf(b, ", source: %s}\n", text)
		} else {
			b.WriteString("} # add a source\n")
		}
	}
}
