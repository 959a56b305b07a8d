//go:build !nostore

package invite

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
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
	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/transport"
	"github.com/hencedge/hencedge/transport/mqtt"
)

// keyFile holds the key that signs answers, in the operator's directory.
const keyFile = "operator.key"

// deskFlags say with what an operator works.
type deskFlags struct {
	file, dir, agentKeys string
	user, password       string
}

func (f *deskFlags) register(cmd *cobra.Command) {
	cli.ConfigFlag(cmd, &f.file, "evaluator.yaml")
	cmd.Flags().StringVar(&f.dir, "dir", "",
		"directory of the operator, mode 0700 (default enrolment beside the configuration)")
	cmd.Flags().StringVar(&f.agentKeys, "keys", "", "export of keys for agents (default agent-keys in --dir)")
}

// registerBroker adds the flags of commands that connect.
func (f *deskFlags) registerBroker(cmd *cobra.Command) {
	f.register(cmd)
	cmd.Flags().StringVar(&f.user, "user", "", "the operator's user name at the broker (default the evaluator's)")
	cmd.Flags().StringVar(&f.password, "password", "",
		"where that user's password is: file:PATH, env:NAME or cred:NAME")
}

func (f *deskFlags) place() string {
	if f.dir != "" {
		return f.dir
	}
	return filepath.Join(filepath.Dir(f.file), "enrolment")
}

func (f *deskFlags) keys() string {
	if f.agentKeys != "" {
		return f.agentKeys
	}
	return filepath.Join(f.place(), "agent-keys")
}

func (f *deskFlags) book() (*enroll.Book, error) {
	return enroll.OpenBook(filepath.Join(f.place(), "invitations"))
}

// operatorKey loads the key that signs answers. It makes one where there is none.
func (f *deskFlags) operatorKey(c *cli.App) (*transport.SigningKey, error) {
	file := filepath.Join(f.place(), keyFile)
	key, err := transport.LoadSigningKey(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if key, err = transport.NewSigningKey(); err != nil {
		return nil, err
	}
	if err := key.Save(file); err != nil {
		return nil, err
	}
	c.Remark("made the operator's key " + file)
	return key, nil
}

// desk is an operator who is connected.
type desk struct {
	*enroll.Desk
	cfg   *config.Evaluator
	flags *deskFlags
	close func()
}

// open connects to the broker and finds what is asked. It removes what nobody needs any more.
func (f *deskFlags) open(ctx context.Context, a *app) (*desk, error) {
	log, err := a.Logger()
	if err != nil {
		return nil, err
	}
	key, err := f.operatorKey(a.App)
	if err != nil {
		return nil, err
	}
	d, err := f.connect(ctx, log, key)
	if err != nil {
		return nil, err
	}
	if err := d.Tidy(ctx); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// connect opens a desk under a client id of its own. The desk wipes the key, which may be nil.
func (f *deskFlags) connect(ctx context.Context, log *slog.Logger, key *transport.SigningKey) (d *desk, err error) {
	d = &desk{flags: f, close: func() {
		if key != nil {
			key.Wipe()
		}
	}}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.cfg, err = config.LoadEvaluator(f.file); err != nil {
		return nil, cli.Usage(err)
	}
	book, err := f.book()
	if err != nil {
		return nil, err
	}
	b := d.cfg.Broker
	b.ClientID = deskID(b.ClientID)
	if f.user != "" {
		b.Username, b.Password = f.user, config.Secret(f.password)
	}
	o, err := daemon.BrokerOptions(b, log)
	if err != nil {
		return nil, err
	}
	o.Live = true
	client, err := mqtt.Dial(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", o.URL, err)
	}
	wipe := d.close
	d.close = func() { cli.CloseClient(client); wipe() }
	d.Desk, err = enroll.OpenDesk(ctx, enroll.DeskOptions{Client: client, Prefix: b.TopicPrefix, Book: book, Key: key})
	return d, err
}

// deskID returns a client id of its own for each command: with one that is in use, the broker would
// end the other connection, of the evaluator or of a command that waits.
func deskID(evaluator string) string {
	return evaluator + "-enroll-" + strings.ToLower(rand.Text()[:8])
}

// EnrollCommand returns "enroll".
func EnrollCommand(c *cli.App) *cobra.Command {
	a := &app{c}
	return cli.Group("enroll", enrollShort,
		`Boards ask with a token of "hencedge invite". These commands show what they ask, and let
them in or refuse them. Compare the fingerprint with the one that the board shows before
you approve: whoever stole the token can ask too.`,
		a.listCommand(), a.approveCommand(), a.refuseCommand(), a.revokeCommand())
}

// line is what "enroll list" prints of a request, or of an invitation that nobody uses.
type line struct {
	Invitation  string    `json:"invitation"`
	State       string    `json:"state"`
	Class       string    `json:"class"`
	Device      string    `json:"device,omitempty"`
	Fingerprint string    `json:"fingerprint,omitempty"`
	Host        string    `json:"host,omitempty"`
	Asked       time.Time `json:"asked,omitzero"` // by the board's clock
	Expires     time.Time `json:"expires"`
	Rivals      int       `json:"rivals,omitempty"`

	waits bool // a request that can be answered
}

// The states of a request, beside those of its invitation.
const (
	stateAsks  = "asks"       // it waits for the operator
	stateAgain = "asks again" // it was answered, and the board did not get the answer
	stateLate  = "too late"
)

func (a *app) listCommand() *cobra.Command {
	var f deskFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "show invitations, and boards that ask",
		Long: `list shows every invitation: open (nobody asks), asks (a board waits for an answer),
approved (the board has not yet fetched its answer), asks again (it was interrupted before it
had its answer: approve it once more), joined, expired, or revoked (something still lies at
the broker). Expired ones that nobody used are forgotten. A board that asks when its
invitation has let another one in, or has expired, is too late.`,
		Example: "  hencedge enroll list -c /etc/hencedge/evaluator.yaml",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := f.open(cmd.Context(), a)
			if err != nil {
				return err
			}
			defer d.close()
			lines, err := d.lines()
			if err != nil {
				return err
			}
			return a.show(lines)
		},
	}
	f.registerBroker(cmd)
	a.JSONFlag(cmd, "one JSON object a line")
	return cmd
}

// lines returns what the list shows.
func (d *desk) lines() (out []line, err error) {
	asks, err := d.Pending()
	if err != nil {
		return nil, err
	}
	list, err := d.Book.List()
	if err != nil {
		return nil, err
	}
	for _, i := range list {
		l := line{Invitation: i.ID, State: i.State(time.Now()), Class: i.Class, Device: i.Device, Expires: i.Expires}
		if b := i.Board; b != nil {
			l.Device = b.Device
			if pub, err := transport.ParsePublicKey(b.PublicKey); err == nil {
				l.Fingerprint = transport.Fingerprint(pub)
			}
		}
		shown := false
		for _, p := range asks {
			if p.Invitation.ID != i.ID {
				continue
			}
			again := p.State == enroll.StateApproved && p.Again
			if p.State != enroll.StateOpen && !again && l.Fingerprint == p.Request.Fingerprint() {
				l.waits = p.State == enroll.StateApproved
				continue
			}
			one := l
			one.Device, one.Fingerprint = p.Request.Device, p.Request.Fingerprint()
			one.Host, one.Asked, one.Rivals = p.Request.Host, p.Request.Made, p.Rivals
			switch {
			case p.State == enroll.StateOpen:
				one.State, one.waits, shown = stateAsks, true, true
			case again:
				one.State, one.waits, shown = stateAgain, true, true
			default:
				one.State, one.waits = stateLate, false
			}
			out = append(out, one)
		}
		if !shown {
			out = append(out, l)
		}
	}
	return out, nil
}

func (a *app) show(lines []line) error {
	t := cli.NewTable(a.Std.Out, cli.Column{Title: "state", Width: 10}, cli.Column{Title: "device", Width: 12},
		cli.Column{Title: "class", Width: 8}, cli.Column{Title: "fingerprint", Width: 29},
		cli.Column{Title: "invitation", Width: 20}, cli.Column{Title: "expires", Width: 20}, cli.Column{Title: "from"})
	if !a.JSON {
		if err := t.Header(); err != nil {
			return err
		}
	}
	for _, l := range lines {
		var err error
		if a.JSON {
			err = cli.JSONLine(a.Std.Out, l)
		} else {
			err = t.Row(l.State, l.Device, l.Class, l.Fingerprint, l.Invitation, l.Expires.Format(time.RFC3339), l.Host)
		}
		if err != nil {
			return err
		}
		if l.Rivals > 0 {
			a.Remark(fmt.Sprintf("%d boards ask with the token of invitation %s: it may have been stolen; compare "+
				"fingerprints", l.Rivals+1, l.Invitation))
		}
	}
	return nil
}

// find returns the request of a device, or with a fingerprint.
func (d *desk) find(name string) (*enroll.Pending, error) {
	list, err := d.Pending()
	if err != nil {
		return nil, err
	}
	switch list = matching(list, name); len(list) {
	case 0:
		return nil, fmt.Errorf("%w: no board asks as %q; see \"hencedge enroll list\"", enroll.ErrUnknown, name)
	case 1:
		return &list[0], nil
	}
	return nil, fmt.Errorf("%d boards ask as %q: give the fingerprint of one", len(list), name)
}

// matching returns the requests with a fingerprint, or of a device of that name. What looks like
// a fingerprint is no name: a thief could call a device so.
func matching(list []enroll.Pending, name string) []enroll.Pending {
	text, err := transport.ParseFingerprint(name)
	return slices.DeleteFunc(list, func(p enroll.Pending) bool {
		if err == nil {
			return p.Request.Fingerprint() != text
		}
		return p.Request.Device != name
	})
}

// confirm asks on the terminal.
func (a *app) confirm(question string) bool {
	fmt.Fprintf(a.Std.Err, "%s [y/N] ", question)
	answer, err := bufio.NewReader(a.Std.In).ReadString('\n')
	return (err == nil || errors.Is(err, io.EOF)) &&
		slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
}

func (a *app) refuseCommand() *cobra.Command {
	var f deskFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "refuse DEVICE|FINGERPRINT",
		Short: "refuse the request of a board",
		Long: `refuse tells a board that waits that it is not let in. The token stays good for another
board: "hencedge enroll revoke" ends it.`,
		Example: "  hencedge enroll refuse pump17 --reason 'wrong building'",
		Args:    cli.ExactArgs("DEVICE|FINGERPRINT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := f.open(cmd.Context(), a)
			if err != nil {
				return err
			}
			defer d.close()
			p, err := d.find(args[0])
			if err != nil {
				return err
			}
			return d.Refuse(cmd.Context(), p, reason)
		},
	}
	f.registerBroker(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "what the board is told")
	return cmd
}

func (a *app) revokeCommand() *cobra.Command {
	var f deskFlags
	cmd := &cobra.Command{
		Use:   "revoke INVITATION",
		Short: "make a token worthless",
		Long: `revoke forgets an invitation, so that its token is worth nothing. If the broker cannot be
told, the token is worth nothing all the same, and the next command of this group does the
rest. Boards that ask with it are told. A device that was let in stays, as the command says:
take its file out of the evaluator's "enrolled" directory. If it has not fetched its answer
yet, it does not get it any more. Of "approve" and "revoke" at the same time one wins, and the
other says so.`,
		Example: "  hencedge enroll revoke 3f0c8a5be21d77c04e19",
		Args:    cli.ExactArgs("INVITATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := f.open(cmd.Context(), a)
			if err != nil {
				return err
			}
			defer d.close()
			board, err := d.Revoke(cmd.Context(), args[0])
			if board != nil {
				a.Remark(letInBefore(board))
			}
			return err
		},
	}
	f.registerBroker(cmd)
	return cmd
}

// letInBefore says what revoke leaves of a board.
func letInBefore(b *enroll.Admitted) string {
	what := "has joined"
	if !b.Joined {
		what = "was let in, and may not have fetched its answer"
	}
	return fmt.Sprintf("%s %s before the token was revoked: it stays until its file is taken out of the evaluator's "+
		"\"enrolled\" directory", b.Device, what)
}

// enrolledFile returns what the evaluator reads of a device.
func enrolledFile(device, key, fingerprint, class string) []byte {
	return fmt.Appendf(nil, "# fingerprint %s\n- name: %s\n  public_key: %s\n  class: %s\n", fingerprint, device, key,
		class)
}

// newFile returns the path for the file of a device. It fails if a file is there, which may list
// other devices, or if the evaluator would not read it.
func newFile(dir, device string) (string, error) {
	path := filepath.Join(dir, device+".yaml")
	if strings.HasPrefix(device, ".") {
		return "", fmt.Errorf("the evaluator would not read %s, whose name begins with a dot: let the board choose "+
			"another name", path)
	}
	switch _, err := os.Lstat(path); {
	case err == nil:
		return "", fmt.Errorf("%s is there and does not list the device %q: move it away, or let the board choose "+
			"another name", path, device)
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	return path, nil
}

// admit writes the file of a device.
func admit(path string, p *enroll.Pending) error {
	key := transport.FormatPublicKey(p.Request.PublicKey)
	return durable.WriteFrom(path, 0o644, func(w io.Writer) error {
		_, err := w.Write(enrolledFile(p.Request.Device, key, p.Request.Fingerprint(), p.Invitation.Class))
		return err
	})
}
