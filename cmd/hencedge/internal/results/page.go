//go:build !nostore

package results

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/invite"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyholder/console"
	"github.com/hencedge/hencedge/keyholder/store"
	"github.com/hencedge/hencedge/transport"
)

// page is the console of "results serve". Without one in the configuration it does nothing.
type page struct {
	on      *console.Console // nil: none
	history *store.Store
	stop    context.CancelFunc
	ended   chan error
	beside  sync.WaitGroup
}

// openPage starts the console of a session. The database is there already.
func openPage(ctx context.Context, s *session) (*page, error) {
	p := &page{}
	if s.cfg.Console == nil {
		return p, nil
	}
	debug.SetGCPercent(collectAt)
	var err error
	p.history, err = store.Open(ctx, store.Options{History: s.cfg.Kept(), ReadOnly: true, Logger: s.log})
	if err != nil {
		return nil, err
	}
	o := console.Options{Holder: s.cfg, Reader: s.reader, History: p.history, Tally: &s.tally, Logger: s.log}
	if e := newEnrolled(s.cfg.Console); e != nil {
		o.Enrolled = e
	}
	var operator *invite.Operator
	if e := s.cfg.Console.Enrolment; e != nil {
		operator = invite.NewOperator(e, s.log)
		o.Desk = operator
	}
	p.on, err = console.New(ctx, o)
	if err != nil {
		return nil, errors.Join(err, p.history.Close())
	}
	if s.receipts != nil {
		s.receipts.Tell(p.on.Receipt)
	}
	ctx, p.stop = context.WithCancel(ctx)
	s.connected = func(client transport.Client) { p.beside.Go(func() { p.on.ListenBoards(ctx, client) }) }
	if operator != nil {
		p.beside.Go(func() { operator.Run(ctx) })
	}
	p.ended = make(chan error, 1)
	go func() {
		err := p.on.Run(ctx)
		if err != nil {
			s.log.Error("the page is not served any more", "error", err)
		}
		p.ended <- err
	}()
	s.log.Info("serving the page; log in with a link of \"hencedge console open\"", "address", p.on.Address())
	return p, nil
}

// collectAt is how much the heap grows between collections in percent: with 10,000 devices the process
// then has less than 64 MiB in memory, the pages of its file included.
const collectAt = 25

// enrolled are the boards of which the page shows what they say of themselves.
type enrolled struct {
	evaluator string // its configuration, where that names them
	paths     []string
}

// newEnrolled returns the boards that a configuration names, nil if there are none.
func newEnrolled(page *config.Console) *enrolled {
	switch {
	case page.Enrolment != nil:
		return &enrolled{evaluator: page.Enrolment.Evaluator}
	case len(page.Devices) > 0:
		return &enrolled{paths: page.Devices}
	}
	return nil
}

// roll returns what reads the boards anew: one that stays would keep the text of all files.
func (e *enrolled) roll() (*config.Roll, []config.Device, error) {
	if e.evaluator == "" {
		return config.NewDeviceRoll(e.paths), nil, nil
	}
	cfg, err := config.LoadEvaluator(e.evaluator)
	if err != nil {
		return nil, nil, fmt.Errorf("console.enrolment.evaluator: %w", err)
	}
	return config.NewRoll(cfg), cfg.Devices, nil
}

// Stamp returns a text that differs after a change of the files.
func (e *enrolled) Stamp() string {
	roll, listed, err := e.roll()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%v %s", listed, roll.Stamp())
}

// Each hands each board to take, and returns what is wrong with others.
func (e *enrolled) Each(take func(config.Device)) (faults []error) {
	roll, boards, err := e.roll()
	if err != nil {
		return []error{err}
	}
	for _, d := range boards {
		take(d)
	}
	for _, w := range roll.Each(func(d config.Enrolment) { take(d.Device) }) {
		faults = append(faults, w)
	}
	return faults
}

// checkPage checks what a configuration names for the page.
func checkPage(cfg *config.KeyHolder) error {
	err := console.Check(cfg, time.Now())
	if cfg.Console != nil {
		err = errors.Join(err, invite.CheckOperator(cfg.Console.Enrolment))
		if len(cfg.Console.Devices) > 0 {
			faults := newEnrolled(cfg.Console).Each(func(config.Device) {})
			err = errors.Join(append(faults, err)...)
		}
	}
	return err
}

// observe shows a result that was stored.
func (p *page) observe(r *keyholder.Result) {
	if p.on != nil {
		p.on.Observe(r)
	}
}

func (p *page) close() error {
	if p.on == nil {
		return nil
	}
	p.stop()
	<-p.ended // told by now
	p.beside.Wait()
	return errors.Join(p.on.Close(), p.history.Close())
}

// ConsoleCommand returns "console" with what is below it.
func ConsoleCommand(c *cli.App) *cobra.Command {
	a := &app{c}
	return cli.Group("console", "log in to the page of \"results serve\"",
		`With a block "console" in its configuration, "results serve" shows results, devices,
alarms, keys and proofs as a page in a browser. The page is for this machine alone unless
it has a certificate of its own.`, a.openCommand(), a.passkeysCommand())
}

func (a *app) openCommand() *cobra.Command {
	var file string
	var passkey bool
	role := string(console.Holder)
	cmd := &cobra.Command{
		Use:   "open",
		Short: "print a link that logs in to the page once",
		Long: `open prints a link to the page of "results serve". Open it in a browser within ten
minutes. It works once: the browser then has a session until the page's "session" time is
over or the key holder's process ends. A viewer reads; a holder may also silence and
acknowledge alarms, take sealed results away, and answer boards that ask to join. Run it as
the user of the key holder, or as root.

With --passkey the session may also add one passkey of its role, with which the browser logs
in from then on without a link. Passkeys need a page with a name: "listen: localhost:9470",
or a certificate for a host name.`,
		Example: `  hencedge console open -c keyholder.yaml
  hencedge console open --role viewer --json
  hencedge console open --passkey`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadPage(file)
			if err != nil {
				return err
			}
			if role != string(console.Viewer) && role != string(console.Holder) {
				return cli.UsageHint(cmd, fmt.Errorf("--role %q: use %s or %s", role, console.Viewer, console.Holder))
			}
			now := time.Now()
			link, err := console.Invite(cfg, console.Role(role), passkey, now)
			if err != nil {
				return err
			}
			if strings.Contains(link, "*") {
				a.Remark(`the page's certificate names hosts by a pattern: put this machine's name in the place of * ` +
					`in the link, or into "listen" of the configuration`)
			}
			if conn, err := net.DialTimeout("tcp", cfg.Console.Listen, time.Second); err == nil {
				conn.Close()
			} else {
				a.Remark("nothing answers at " + cfg.Console.Listen + `: start "hencedge results serve"`)
			}
			if a.JSON {
				return cli.JSONLine(a.Std.Out, map[string]any{"link": link, "role": role,
					"expires": now.Add(console.LinkLife).UTC()})
			}
			_, err = fmt.Fprintln(a.Std.Out, link)
			return err
		},
	}
	cli.ConfigFlag(cmd, &file, defaultHolder)
	cmd.Flags().StringVar(&role, "role", role, "viewer or holder")
	cmd.Flags().BoolVar(&passkey, "passkey", false, "the session may add a passkey")
	a.JSONFlag(cmd, "one JSON object")
	return cmd
}

// loadPage loads a configuration that has a page.
func loadPage(file string) (*config.KeyHolder, error) {
	cfg, err := config.LoadKeyHolder(file)
	if err != nil {
		return nil, cli.NotLoaded(err)
	}
	if cfg.Console == nil {
		return nil, cli.Usage(fmt.Errorf(`%s: the configuration has no "console"; add "console: {}"`, file))
	}
	return cfg, nil
}

func (a *app) passkeysCommand() *cobra.Command {
	var file, revoke string
	cmd := &cobra.Command{
		Use:   "passkeys",
		Short: "list the passkeys that log in to the page, or revoke one",
		Long: `passkeys lists what logs in to the page without a link: the passkeys that sessions of
"hencedge console open --passkey" have added. With --revoke it takes one away: it logs in no
more, and a running page ends its sessions.`,
		Example: "  hencedge console passkeys -c keyholder.yaml\n" +
			"  hencedge console passkeys --revoke 3f0c8a5be21d77c04e193f0c8a5be21d",
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := loadPage(file)
			if err != nil {
				return err
			}
			if revoke != "" {
				if err := console.RevokePasskey(cfg, revoke); err != nil {
					return fmt.Errorf("--revoke %s: %w", revoke, err)
				}
				return nil
			}
			list, err := console.Passkeys(cfg)
			if err != nil {
				return err
			}
			return a.printPasskeys(list)
		},
	}
	cli.ConfigFlag(cmd, &file, defaultHolder)
	cmd.Flags().StringVar(&revoke, "revoke", "", "take the passkey with this id away")
	a.JSONFlag(cmd, "one JSON object a line")
	return cmd
}

// printPasskeys prints a line for each passkey.
func (a *app) printPasskeys(list []console.Passkey) error {
	t := cli.NewTable(a.Std.Out, cli.Column{Title: "id", Width: 32}, cli.Column{Title: "role", Width: 6},
		cli.Column{Title: "made", Width: 20}, cli.Column{Title: "used", Width: 20},
		cli.Column{Title: "host", Width: 12}, cli.Column{Title: "name"})
	if !a.JSON {
		if err := t.Header(); err != nil {
			return err
		}
	}
	for _, p := range list {
		used := "never"
		if !p.Used.IsZero() {
			used = p.Used.Format(time.RFC3339)
		}
		var err error
		if a.JSON {
			err = cli.JSONLine(a.Std.Out, p)
		} else {
			err = t.Row(p.ID, string(p.Role), p.Made.Format(time.RFC3339), used, p.For, p.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
