//go:build !nostore

package invite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/enroll"
	"github.com/hencedge/hencedge/transport"
)

// approveFlags are those of "enroll approve".
type approveFlags struct {
	place         deskFlags
	yes           bool
	fingerprint   string
	boardUser     string
	boardPassword string
	wait          time.Duration
}

func (a *app) approveCommand() *cobra.Command {
	var f approveFlags
	cmd := &cobra.Command{
		Use:   "approve DEVICE|FINGERPRINT",
		Short: "let a board in",
		Long: `approve shows the request of a board and, once you confirm that the board shows the same
fingerprint, lists the device for the evaluator and sends the board what it needs: the
public keys, the streams of its class, the broker's authority, and its user name and
password at the broker, if you give them. A running evaluator takes the device within a
few seconds.

The broker's own list of users is yours to change: make the user before you approve.`,
		Example: `  hencedge enroll approve pump17
  hencedge enroll approve pump17 --fingerprint k7qd2-4mzra-xxb3e-jq6hn-2hvwp --board-password file:pump17.password`,
		Args: cli.ExactArgs("DEVICE|FINGERPRINT"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.approve(cmd.Context(), &f, args[0]) },
	}
	f.place.registerBroker(cmd)
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask (for tests: nobody then compares the fingerprint)")
	cmd.Flags().StringVar(&f.fingerprint, "fingerprint", "",
		"the fingerprint that the board shows: approve it without asking, and no other")
	cmd.Flags().StringVar(&f.boardUser, "board-user", "",
		"the board's user name at the broker (default the device, with --board-password)")
	cmd.Flags().StringVar(&f.boardPassword, "board-password", "",
		"where the board's password is: file:PATH, env:NAME or cred:NAME")
	cmd.Flags().DurationVar(&f.wait, "wait", time.Minute, "how long to wait until the board has its answer")
	return cmd
}

func (a *app) approve(ctx context.Context, f *approveFlags, name string) error {
	w, err := f.credentials()
	if err != nil {
		return err
	}
	d, err := f.place.open(ctx, a)
	if err != nil {
		return err
	}
	defer d.close()
	p, err := d.find(name)
	if err != nil {
		return err
	}
	file, err := d.check(p)
	if err != nil {
		return err
	}
	if err := a.agreed(f, p); err != nil {
		return err
	}
	if err := d.letIn(ctx, p, w, file); err != nil {
		return err
	}
	fmt.Fprintf(a.Std.Err, "%s is enrolled in the class %s\n", p.Request.Device, p.Invitation.Class)
	waiting, stop := context.WithTimeout(ctx, f.wait)
	defer stop()
	switch err := d.Joined(waiting, p); {
	case errors.Is(err, context.DeadlineExceeded):
		a.Remark("the board has not yet fetched its answer, which waits for it at the broker; " +
			"\"hencedge enroll list\" shows when it has")
	case err != nil:
		return err
	default:
		fmt.Fprintf(a.Std.Err, "%s has joined\n", p.Request.Device)
	}
	return nil
}

// letIn answers a request that the operator has agreed to. file is what check returned.
func (d *desk) letIn(ctx context.Context, p *enroll.Pending, w *enroll.Welcome, file string) error {
	if err := d.fill(w, p); err != nil {
		return err
	}
	listed := false // by this call
	err := d.Approve(ctx, p, w, func() error {
		if file == "" {
			return nil // it is listed
		}
		err := admit(file, p)
		listed = err == nil
		return err
	})
	if listed && errors.Is(err, enroll.ErrRevoked) {
		return errors.Join(err, os.Remove(file))
	}
	return err
}

// credentials returns a Welcome with what the flags say.
func (f *approveFlags) credentials() (*enroll.Welcome, error) {
	w := &enroll.Welcome{Username: f.boardUser}
	if f.boardPassword != "" {
		secret, err := config.Secret(f.boardPassword).Resolve()
		if err != nil {
			return nil, cli.Usagef("--board-password: %w", err)
		}
		w.Password = string(secret)
	}
	return w, nil
}

// check fails if the device cannot be enrolled. It returns the path of its new file, or nothing
// if the device is listed already.
func (d *desk) check(p *enroll.Pending) (file string, err error) {
	if want := p.Invitation.Device; want != "" && want != p.Request.Device {
		return "", fmt.Errorf("the invitation %s is for the device %q, not for %q", p.Invitation.ID, want,
			p.Request.Device)
	}
	if p.Request.Device == d.cfg.Name {
		return "", fmt.Errorf("the evaluator has the name %q too: let the board choose another", d.cfg.Name)
	}
	known, ok := config.FindDevice(d.cfg, p.Request.Device)
	switch {
	case ok && known.PublicKey != transport.FormatPublicKey(p.Request.PublicKey):
		return "", fmt.Errorf("%s:%d lists a device %q with another key: take it out first, or let the board choose "+
			"another name", known.File, known.Line, known.Name)
	case ok && known.Class != p.Invitation.Class:
		return "", fmt.Errorf("%s:%d lists the device %q with the class %q, and the invitation is for %q: take it out "+
			"first", known.File, known.Line, known.Name, known.Class, p.Invitation.Class)
	case ok:
		return "", nil
	}
	dir, err := enrolledDir(d.cfg)
	if err != nil {
		return "", err
	}
	return newFile(dir, p.Request.Device)
}

// agreed asks the operator, unless a flag has the answer.
func (a *app) agreed(f *approveFlags, p *enroll.Pending) error {
	r := p.Request
	fmt.Fprintf(a.Std.Err, "device      %s\nfingerprint %s\nclass       %s\nfrom        %s\nasked       %s\n",
		r.Device, r.Fingerprint(), p.Invitation.Class, r.Host, r.Made.Format(time.RFC3339))
	if p.Rivals > 0 {
		a.Remark(fmt.Sprintf("%d boards ask with this token: it may have been stolen", p.Rivals+1))
	}
	switch {
	case f.fingerprint != "":
		want, err := transport.ParseFingerprint(f.fingerprint)
		if err != nil {
			return cli.Usagef("--fingerprint: %w", err)
		}
		if want != r.Fingerprint() {
			return fmt.Errorf("the key of the request is %s, not %s: do not trust it", r.Fingerprint(), want)
		}
	case !f.yes && !a.confirm("does the board show this fingerprint?"):
		return errors.New("nothing was approved")
	}
	return nil
}

// fill adds what every board of the class gets.
func (d *desk) fill(w *enroll.Welcome, p *enroll.Pending) (err error) {
	w.Class = p.Invitation.Class
	if w.Password != "" && w.Username == "" {
		w.Username = p.Request.Device
	}
	if w.Streams, err = streamsOf(d.cfg, w.Class); err != nil {
		return err
	}
	if w.CA, err = authority(d.cfg); err != nil {
		return err
	}
	w.Files, _, err = agentKeys(d.flags.keys(), d.cfg)
	return err
}
