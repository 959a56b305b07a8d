//go:build !nostore

package invite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/enroll"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
)

// inviteFlags are those of "invite".
type inviteFlags struct {
	place         deskFlags
	class, device string
	url           string
	guest         string
	password      string
	valid         time.Duration
	showQR        bool
}

// maxValid bounds how long a token is good.
const maxValid = 365 * 24 * time.Hour

// Command returns "invite".
func Command(c *cli.App) *cobra.Command {
	a := &app{c}
	var f inviteFlags
	cmd := &cobra.Command{
		Use:   "invite",
		Short: inviteShort,
		Long: `invite prints a token for one board: where the broker is, the fingerprints of its
authority, of the key holder and of the operator, a secret, and an expiry. On a terminal
it shows the token as a QR code too. On the board "hencedge agent join TOKEN" asks with
it, and "hencedge enroll approve" here lets the board in. Whoever has the token can ask,
once, until it expires; the operator compares fingerprints before approving.

--dir holds what the operator needs: operator.key, made at the first use, the invitations,
and in agent-keys what "hencedge keys export --role agent" wrote at the key holder.

--guest and --guest-password are a user of the broker who may use the topics of enrolment
only. They stand in the token.`,
		Example: `  hencedge invite --class pump
  hencedge invite -c /etc/hencedge/evaluator.yaml --class pump --device pump17 --valid 2h
  hencedge invite --class pump --guest join --guest-password file:join.password`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.invite(cmd, &f) },
	}
	f.place.register(cmd)
	cmd.Flags().StringVar(&f.class, "class", "", "the class that the board joins, one of the evaluator's")
	cmd.Flags().StringVar(&f.device, "device", "", "the name that the board must have (default: its own choice)")
	cmd.Flags().StringVar(&f.url, "broker", "", "URL of the broker as the board sees it (default the evaluator's)")
	cmd.Flags().StringVar(&f.guest, "guest", "", "user name with which the board asks at the broker")
	cmd.Flags().StringVar(&f.password, "guest-password", "",
		"where that user's password is: file:PATH, env:NAME or cred:NAME")
	cmd.Flags().DurationVar(&f.valid, "valid", 24*time.Hour, "how long the token is good")
	cmd.Flags().BoolVar(&f.showQR, "qr", false, "show the QR code even if standard error is no terminal")
	a.JSONFlag(cmd, "one JSON object")
	return cmd
}

func (a *app) invite(cmd *cobra.Command, f *inviteFlags) error {
	if f.valid < time.Minute || f.valid > maxValid {
		return cli.UsageHint(cmd, fmt.Errorf("--valid %s: use 1m to %s", f.valid, maxValid))
	}
	if f.device != "" && !config.ValidName(f.device) {
		return cli.Usagef("--device: invalid name %q", f.device)
	}
	cfg, err := config.LoadEvaluator(f.place.file)
	if err != nil {
		return cli.Usage(err)
	}
	if _, err := streamsOf(cfg, f.class); err != nil {
		return cli.UsageHint(cmd, err)
	}
	if _, err := enrolledDir(cfg); err != nil {
		return cli.Usage(err)
	}
	_, holder, err := agentKeys(f.place.keys(), cfg)
	if err != nil {
		return err
	}
	book, err := f.place.book()
	if err != nil {
		return err
	}
	operator, err := f.place.operatorKey(a.App)
	if err != nil {
		return err
	}
	defer operator.Wipe()
	token := &enroll.Token{Expires: time.Now().Add(f.valid).Truncate(time.Second).UTC(), Secret: enroll.NewSecret(),
		Operator: enroll.PrintOf(operator.Public()), Holder: holder, Device: f.device}
	if token.Broker, err = f.broker(cfg); err != nil {
		return err
	}
	if ca, err := authority(cfg); err != nil {
		return err
	} else if ca != nil {
		if token.CA, err = enroll.Authority(ca); err != nil {
			return fmt.Errorf("%s: %w", cfg.Broker.CA, err)
		}
	}
	text, err := token.Text()
	if err != nil {
		return err
	}
	id := token.Secret.ID()
	if err := book.Add(enroll.Invitation{ID: id, Secret: token.Secret, Class: f.class, Device: f.device,
		Created: time.Now().UTC(), Expires: token.Expires}); err != nil {
		return err
	}
	return a.showToken(f, token, text)
}

// broker returns where the board asks.
func (f *inviteFlags) broker(cfg *config.Evaluator) (enroll.Broker, error) {
	b := cfg.Broker
	if f.url != "" {
		b.URL = f.url
	}
	if _, err := b.Endpoint(); err != nil {
		return enroll.Broker{}, cli.Usagef("--broker: %w", err)
	}
	out := enroll.Broker{URL: b.URL, Prefix: b.TopicPrefix, ServerName: b.ServerName, Insecure: b.Insecure,
		Username: f.guest}
	if len(b.ALPN) > 0 {
		out.ALPN = b.ALPN[0]
	}
	if f.password != "" {
		secret, err := config.Secret(f.password).Resolve()
		if err != nil {
			return out, cli.Usagef("--guest-password: %w", err)
		}
		out.Password = string(secret)
	}
	return out, nil
}

// showToken prints the token on standard output, and what it is on standard error.
func (a *app) showToken(f *inviteFlags, t *enroll.Token, text string) error {
	if a.JSON {
		out := struct {
			Token      string    `json:"token"`
			Invitation string    `json:"invitation"`
			Class      string    `json:"class"`
			Device     string    `json:"device,omitempty"`
			Expires    time.Time `json:"expires"`
			Operator   string    `json:"operator"`
			Holder     string    `json:"holder"`
		}{text, t.Secret.ID(), f.class, f.device, t.Expires, t.Operator.String(), t.Holder.String()}
		return cli.JSONLine(a.Std.Out, out)
	}
	e := a.Std.Err
	fmt.Fprintf(e, "invitation %s for one board of class %s, until %s\n", t.Secret.ID(), f.class,
		t.Expires.Format(time.RFC3339))
	fmt.Fprintf(e, "operator   %s\nkey holder %s\n", t.Operator, t.Holder)
	if file, ok := e.(*os.File); f.showQR || ok && cli.IsTerminal(file) {
		code, err := qrCode(strings.ToUpper(text))
		if err != nil {
			return err
		}
		fmt.Fprint(e, code)
	}
	if _, err := fmt.Fprintln(a.Std.Out, text); err != nil {
		return err
	}
	_, err := fmt.Fprintf(e, "on the board: hencedge agent join TOKEN\nthen here:    hencedge enroll list\n")
	return err
}

// authority returns the PEM file of the broker's authority, nil for the system's.
func authority(cfg *config.Evaluator) ([]byte, error) {
	if cfg.Broker.CA == "" {
		return nil, nil
	}
	return os.ReadFile(cfg.Broker.CA)
}

// streamsOf returns the streams of a class as a board gets them: the body of a status.
func streamsOf(cfg *config.Evaluator, class string) ([]byte, error) {
	c := cfg.Class(class)
	if c == nil {
		var names []string
		for _, k := range cfg.Classes {
			names = append(names, k.Name)
		}
		if class == "" {
			return nil, fmt.Errorf("--class names a class of the evaluator: %s", strings.Join(names, ", "))
		}
		return nil, fmt.Errorf("there is no class %q, but %s", class, strings.Join(names, ", "))
	}
	var s transport.Status
	for _, stream := range c.Streams {
		if stream.Compact() > 0 {
			return nil, fmt.Errorf("the stream %q is compact: its key is a secret of the board and the key holder "+
				"(hencedge keys device), which must not pass through an operator", stream.Name)
		}
		s.Streams = append(s.Streams, daemon.DescribeStream(stream))
	}
	return transport.MarshalStatus(s)
}

// enrolledDir returns the directory where the evaluator looks for devices.
func enrolledDir(cfg *config.Evaluator) (string, error) {
	for _, path := range cfg.Enrolled {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path, nil
		}
	}
	return "", errors.New("\"enrolled\" in the evaluator's file names no directory, into which devices could be " +
		"written: add \"enrolled: devices.d\" and make it")
}

// exportFiles are what a board gets of an export.
var exportFiles = []string{keyset.ManifestFile, keyset.SignedManifestFile, keyset.PublicFile}

// agentKeys reads an export for agents and verifies that the key holder whom the evaluator
// trusts has signed it. It refuses one with secrets.
func agentKeys(dir string, cfg *config.Evaluator) (files map[string][]byte, holder enroll.Print, err error) {
	trust, err := keyset.Trusted(cfg.Keys.Holder...)
	if err != nil {
		return nil, holder, cli.Usagef("keys.holder in the evaluator's file: %w", err)
	}
	export, err := keyset.OpenExport(dir, trust)
	if err == nil {
		err = export.Verify()
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; put there what \"hencedge keys export --role agent\" writes", err)
	}
	if err != nil {
		return nil, holder, fmt.Errorf("keys for agents in %s: %w", dir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, holder, err
	}
	files = map[string][]byte{}
	for _, e := range entries {
		if !slices.Contains(exportFiles, e.Name()) {
			return nil, holder, fmt.Errorf("keys for agents in %s: %s does not belong into an export for any board: "+
				"use what \"hencedge keys export --role agent\" writes, without --device and --symmetric", dir,
				e.Name())
		}
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, holder, err
		}
	}
	return files, enroll.PrintOf(export.Holder), nil
}
