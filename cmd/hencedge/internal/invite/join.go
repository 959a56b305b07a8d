//go:build !evaluatoronly

package invite

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/enroll"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/systemd"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/mqtt"
)

// joinFlags are those of "agent join".
type joinFlags struct {
	dir, state string
	device     string
	interval   time.Duration
	sources    []string
	start      bool
}

// JoinCommand returns "agent join".
func JoinCommand(c *cli.App) *cobra.Command {
	a := &app{c}
	var f joinFlags
	cmd := &cobra.Command{
		Use:   "join TOKEN",
		Short: "join a class of devices with a token of \"hencedge invite\"",
		Long: `join makes this device's signing key, if there is none, asks the operator to be let in,
and shows the fingerprint that the operator compares. Once approved it checks the answer
against the token, keeps the public keys, and writes agent.yaml: the streams of the class,
each channel with the sensor of that name that "hencedge agent discover" finds, or the
source that --source gives. It never overwrites an agent.yaml. Ctrl-C takes the request
back. TOKEN "-" is standard input.

Of the broker's certificate the token has only the authority's fingerprint. So the broker
is checked once the answer has brought the authority: before that, whoever is between
could see the guests' password, if the token has one, and nothing else.`,
		Example: `  sudo hencedge agent join hj1-... --start
  hencedge agent join - --dir board --state board/state --source motor/load='{type: load}'`,
		Args: cli.ExactArgs("TOKEN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := args[0]
			if text == "-" {
				raw, err := a.ReadInput("-")
				if err != nil {
					return err
				}
				text = string(raw)
			}
			token, err := enroll.ParseToken(text)
			if err != nil {
				return cli.UsageHint(cmd, err)
			}
			return a.join(cmd.Context(), &f, token)
		},
	}
	cmd.Flags().StringVar(&f.dir, "dir", filepath.Dir(systemd.Agent.Config()),
		"directory for agent.yaml, the broker's authority and the public keys")
	cmd.Flags().StringVar(&f.state, "state", systemd.Agent.StateDir(), "directory of the agent's state and signing key")
	cmd.Flags().StringVar(&f.device, "device", "", "name of this device (default the token's, or the host name)")
	cmd.Flags().DurationVar(&f.interval, "interval", time.Second,
		"time between samples of streams whose windows are by count")
	cmd.Flags().StringArrayVar(&f.sources, "source", nil,
		"STREAM/CHANNEL=SOURCE: the source of a channel, as in agent.yaml; may be repeated")
	cmd.Flags().BoolVar(&f.start, "start", false, "start the service "+systemd.Agent.Name()+" at the end")
	return cmd
}

func (a *app) join(ctx context.Context, f *joinFlags, token *enroll.Token) error {
	sources, err := f.given()
	if err != nil {
		return cli.Usage(err)
	}
	if f.interval < config.MinInterval || f.interval > config.MaxInterval {
		return cli.Usagef("--interval %s: use %s to %s", f.interval, config.MinInterval, config.MaxInterval)
	}
	if f.device == "" {
		f.device = deviceName(token)
	}
	if !config.ValidName(f.device) {
		return cli.Usagef("%q is no name for a device: choose one of letters, digits, '_', '.' and '-' with --device",
			f.device)
	}
	if f.start && filepath.Join(f.dir, "agent.yaml") != systemd.Agent.Config() {
		return cli.Usagef("--start is for the service, whose configuration is %s", systemd.Agent.Config())
	}
	if err := token.Admits(f.device, time.Now()); err != nil {
		return cli.Usage(err)
	}
	h := &home{dir: f.dir, state: f.state}
	if err := h.prepare(); err != nil {
		return err
	}
	defer h.release()
	key, err := h.signingKey()
	if err != nil {
		return err
	}
	defer key.Wipe()
	ctx, stop := context.WithDeadlineCause(ctx, token.Expires, enroll.ErrExpired)
	defer stop()
	client, witness, err := a.connect(ctx, token, key)
	if err != nil {
		return err
	}
	defer cli.CloseClient(client)
	board, err := enroll.NewBoard(enroll.BoardOptions{Client: client, Token: token, Key: key, Device: f.device,
		Host: hostText(), Doubt: func(err error) { a.Remark(fmt.Sprintf("an answer does not count: %v", err)) }})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Std.Err, "device      %s\nfingerprint %s\nasked to join; waiting for \"hencedge enroll approve %s\" "+
		"at the operator, who compares this fingerprint\n", f.device, board.Fingerprint(), f.device)
	w, err := board.Join(ctx)
	if err != nil {
		return notJoined(ctx, err)
	}
	todo, err := h.keep(f, token, w, witness, sources)
	if err != nil {
		return err
	}
	if err := board.Done(ctx); err != nil {
		a.Remark(fmt.Sprintf("the operator could not be told: %v", err))
	}
	return a.joined(f, h, w, todo)
}

// notJoined says why a board was not let in.
func notJoined(ctx context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), enroll.ErrExpired):
		return fmt.Errorf("%w before anyone answered", enroll.ErrExpired)
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted; the request was taken back")
	}
	return err
}

// joined says what is left to do, and starts the service.
func (a *app) joined(f *joinFlags, h *home, w *enroll.Welcome, todo todo) error {
	fmt.Fprintf(a.Std.Err, "joined the class %s; wrote %s\n", w.Class, h.config())
	var wrong []string
	if len(todo.unknown) > 0 {
		wrong = append(wrong, fmt.Sprintf("--source names %s, which the class does not have",
			strings.Join(todo.unknown, ", ")))
	}
	if len(todo.missing) > 0 {
		wrong = append(wrong, "no sensor was found for "+strings.Join(todo.missing, ", "))
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s: complete \"source\" in %s (\"hencedge agent discover\" lists sensors), then run "+
			"\"hencedge agent check\"", strings.Join(wrong, ", and "), h.config())
	}
	cfg, err := config.LoadAgent(h.config())
	if err == nil {
		err = plan.Check(cfg, plan.Options{})
	}
	if err != nil {
		return fmt.Errorf("%s needs a correction: %w", h.config(), err)
	}
	if !f.start {
		fmt.Fprintf(a.Std.Err, "start it with: systemctl start %s, or hencedge agent run -c %s\n", systemd.Agent.Name(),
			h.config())
		return nil
	}
	if out, err := exec.Command("systemctl", "start", systemd.Agent.Name()).CombinedOutput(); err != nil {
		return fmt.Errorf("systemctl start %s: %w: %s", systemd.Agent.Name(), err, strings.TrimSpace(string(out)))
	}
	fmt.Fprintf(a.Std.Err, "%s runs\n", systemd.Agent.Name())
	return nil
}

// connect connects as a guest. The witness is nil if the system's authorities, or nobody,
// vouch for the broker.
func (a *app) connect(ctx context.Context, t *enroll.Token, key *transport.SigningKey) (transport.Client,
	*enroll.Witness, error) {
	log, err := a.Logger()
	if err != nil {
		return nil, nil, err
	}
	b := config.Broker{URL: t.Broker.URL}
	at, err := b.Endpoint()
	if err != nil {
		return nil, nil, err
	}
	o := mqtt.Options{URL: b.URL, Insecure: t.Broker.Insecure, ClientID: "join-" + enroll.BoardID(key.Public()),
		Username: t.Broker.Username, Live: true, Logger: log}
	if t.Broker.Password != "" {
		o.Password = func() (string, error) { return t.Broker.Password, nil }
	}
	if t.Broker.ALPN != "" {
		o.ALPN = []string{t.Broker.ALPN}
	}
	conf, witness := guestTLS(t, at)
	o.TLS = conf
	client, err := mqtt.Dial(ctx, o)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to %s: %w", o.URL, err)
	}
	return client, witness, nil
}

// guestTLS returns how a guest checks the broker, nil without TLS.
func guestTLS(t *enroll.Token, at config.Endpoint) (*tls.Config, *enroll.Witness) {
	switch name := cmp.Or(t.Broker.ServerName, at.Host); {
	case !at.TLS:
		return nil, nil
	case t.CA == (enroll.Print{}):
		return &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name}, nil
	default:
		w := enroll.NewWitness(name)
		return w.TLS(), w
	}
}

// given reads --source.
func (f *joinFlags) given() (map[string]string, error) {
	out := map[string]string{}
	for _, s := range f.sources {
		channel, source, ok := strings.Cut(s, "=")
		if !ok || strings.Count(channel, "/") != 1 || !strings.HasPrefix(source, "{") ||
			strings.ContainsAny(source, "\r\n") {
			return nil, fmt.Errorf("--source %q: use STREAM/CHANNEL={type: ...}", s)
		}
		out[channel] = source
	}
	return out, nil
}

// deviceName returns the token's name for the device, or the host name as far as it can be one.
func deviceName(t *enroll.Token) string {
	if t.Device != "" {
		return t.Device
	}
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	return host
}

// hostText tells the operator what the board is.
func hostText() string {
	host, err := os.Hostname()
	if err != nil {
		host = "a board"
	}
	plain := strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return '?'
		}
		return r
	}, host)
	return fmt.Sprintf("%.64s, %s/%s", plain, runtime.GOOS, runtime.GOARCH)
}

// todo is what a person has to correct in agent.yaml.
type todo struct {
	missing []string // channels that have no source
	unknown []string // those of --source that the class does not have
}

// sourcesOf returns the source of each channel of the streams by "stream/channel", and what is
// left to do. found are the sensors of this machine.
func sourcesOf(streams []config.Stream, given map[string]string, found []sensor.Found) (out map[string]string,
	left todo) {
	out = map[string]string{}
	for _, s := range streams {
		for _, ch := range s.Channels {
			id := s.Name + "/" + ch.Name
			if text, ok := given[id]; ok {
				out[id] = text
				continue
			}
			for _, f := range found {
				if f.Name == ch.Name && f.Unit == ch.Unit {
					out[id] = f.Source.YAML()
				}
			}
			if out[id] == "" {
				left.missing = append(left.missing, id)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(given)) {
		if _, ok := out[id]; !ok {
			left.unknown = append(left.unknown, id)
		}
	}
	return out, left
}

// checkExport verifies what the operator sent with the key holder whom the token names.
func checkExport(dir string, holder enroll.Print) error {
	trust, err := keyset.Trusted(holder.String())
	if err != nil {
		return err
	}
	export, err := keyset.OpenExport(dir, trust)
	if err == nil {
		err = export.Verify()
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: the answer lacks a file", enroll.ErrForged)
	}
	return err
}
