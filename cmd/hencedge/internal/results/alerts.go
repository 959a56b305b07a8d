package results

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/keyholder/alert"
)

func (a *app) alertsCommand() *cobra.Command {
	return cli.Group("alerts", "show and silence the alarms on results",
		`"results watch" raises the alarms that the configuration asks for under "alerts". The
commands here read and change their state beside the key holder's state, whether or not
it runs. Run them as the same user.`, a.alertsListCommand(), a.silenceCommand(), a.unsilenceCommand())
}

// alertsConfig reads a configuration that has alerts.
func alertsConfig(file string) (*config.KeyHolder, error) {
	cfg, err := config.LoadKeyHolder(file)
	if err != nil {
		return nil, cli.NotLoaded(err)
	}
	if cfg.Alerts == nil {
		return nil, cli.Usage(fmt.Errorf("%s: %w", file, errNoAlerts))
	}
	return cfg, nil
}

func (a *app) alertsListCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list alarms with their state",
		Long: `list shows each alarm: firing, pending (some of the windows that raise it have come),
undecided (the newest value is nearer to the threshold than its promised error) or ok.
It also shows how many events each receiver has not taken yet, and the silences.`,
		Example: "  hencedge results alerts list -c keyholder.yaml\n  hencedge results alerts list --json",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := alertsConfig(file)
			if err != nil {
				return err
			}
			r, err := alert.ReadReport(cfg.Alerts, cfg.State, time.Now())
			if err != nil {
				return err
			}
			if a.JSON {
				return cli.JSONLine(a.Std.Out, r)
			}
			return a.printReport(r)
		},
	}
	cli.ConfigFlag(cmd, &file, defaultHolder)
	a.JSONFlag(cmd, "one JSON object")
	return cmd
}

func (a *app) printReport(r *alert.Report) error {
	const stamp = "2006-01-02 15:04:05"
	at := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return t.Local().Format(stamp)
	}
	t := cli.NewTable(a.Std.Out, cli.Column{Title: "alert", Width: 24}, cli.Column{Title: "device", Width: 12},
		cli.Column{Title: "severity"}, cli.Column{Title: "state", Width: 18}, cli.Column{Title: "raised", Width: 19},
		cli.Column{Title: "newest window", Width: 19}, cli.Column{Title: "silenced until", Width: 19})
	if err := t.Header(); err != nil {
		return err
	}
	for _, s := range r.Alerts {
		device, state := cmp.Or(s.Device, "-"), s.State
		if s.Followed > 0 {
			device = fmt.Sprintf("%d of %d", len(s.Devices), s.Followed)
		}
		if s.Windows > 0 {
			state += fmt.Sprintf(" %d/%d", s.Windows, s.For)
		}
		if s.Undecided && s.State == alert.StateFiring {
			state += ", undecided"
		}
		if err := t.Row(s.Alert, device, s.Severity, state, at(s.Raised), at(s.Newest), at(s.Silenced)); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Waiting)) {
		if n := r.Waiting[name]; n > 0 {
			fmt.Fprintf(a.Std.Out, "not delivered to %s: %s\n", name, cli.Plural(n, "event"))
		}
	}
	for _, s := range r.Silences {
		fmt.Fprintf(a.Std.Out, "silence: %s from %s to %s%s\n", about(s.Rule, s.Device), at(&s.From), at(&s.To),
			comment(s.Comment))
	}
	return nil
}

// about names the alarms of a silence.
func about(rule, device string) string {
	text := cmp.Or(rule, "all alerts")
	if device != "" {
		text += " of " + device
	}
	return text
}

func comment(text string) string {
	if text == "" {
		return ""
	}
	return " (" + cli.Plain(text) + ")"
}

// silenceFlags say which alarms a silence is about, and when.
type silenceFlags struct {
	file, device, from, to, comment string
	lasting                         time.Duration
}

func (a *app) silenceCommand() *cobra.Command {
	var f silenceFlags
	cmd := &cobra.Command{
		Use:   "silence [ALERT]",
		Short: "keep alarms from being sent for a time",
		Long: `silence keeps the alarms of a rule, or all alarms, from being sent for a time. Rules are
followed all the same: an alarm that still fires at the end of the silence is sent then.
The end of an alarm that was sent before the silence is sent in any case.`,
		Example: `  hencedge results alerts silence temperature-high --for 2h --comment "filter is changed"
  hencedge results alerts silence temperature-high --device board1 --to 2026-11-23T22:00:00+01:00
  hencedge results alerts silence --for 30m`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.silence(cmd, &f, args) },
	}
	cli.ConfigFlag(cmd, &f.file, defaultHolder)
	cmd.Flags().StringVar(&f.device, "device", "", "only alarms of this device")
	cmd.Flags().DurationVar(&f.lasting, "for", 0, "how long, such as 2h")
	cmd.Flags().StringVar(&f.from, "from", "", "begin at this time (RFC 3339) instead of now")
	cmd.Flags().StringVar(&f.to, "to", "", "end at this time (RFC 3339), in place of --for")
	cmd.Flags().StringVar(&f.comment, "comment", "", "why, for the list")
	return cmd
}

// silence adds a silence.
func (a *app) silence(cmd *cobra.Command, f *silenceFlags, args []string) error {
	now := time.Now().Round(0)
	s := alert.Silence{Device: f.device, From: now, Comment: f.comment}
	cfg, err := f.about(args, &s.Rule)
	if err != nil {
		return err
	}
	if f.from != "" {
		if s.From, err = time.Parse(time.RFC3339, f.from); err != nil {
			return cli.UsageHint(cmd, fmt.Errorf("--from %q: write RFC 3339, such as 2026-11-23T22:00:00+01:00",
				f.from))
		}
	}
	switch {
	case (f.to == "") == (f.lasting == 0):
		return cli.UsageHint(cmd, errors.New("give either --for or --to"))
	case f.to != "":
		if s.To, err = time.Parse(time.RFC3339, f.to); err != nil {
			return cli.UsageHint(cmd, fmt.Errorf("--to %q: write RFC 3339, such as 2026-11-23T22:00:00+01:00", f.to))
		}
	default:
		s.To = s.From.Add(f.lasting)
	}
	if !s.To.After(s.From) || !s.To.After(now) || len(f.comment) > 256 {
		return cli.UsageHint(cmd,
			errors.New("the silence must end after now and after its begin, and a comment has at "+
				"most 256 bytes"))
	}
	err = alert.EditSilences(cfg.State, now, func(list []alert.Silence) []alert.Silence { return append(list, s) })
	if err == nil {
		fmt.Fprintf(a.Std.Out, "silenced: %s until %s\n", about(s.Rule, s.Device), s.To.Local().Format(time.RFC3339))
	}
	return err
}

// about reads the configuration, and the name of a rule from arguments.
func (f *silenceFlags) about(args []string, rule *string) (*config.KeyHolder, error) {
	cfg, err := alertsConfig(f.file)
	if err != nil {
		return nil, err
	}
	if len(args) > 1 {
		return nil, cli.Usage(errors.New("name one alert, or none for all"))
	}
	if len(args) == 0 {
		return cfg, nil
	}
	var names []string
	for i := range cfg.Alerts.Rules {
		names = append(names, cfg.Alerts.Rules[i].Name)
	}
	if !slices.Contains(names, args[0]) {
		return nil, cli.Usage(fmt.Errorf("there is no alert %q; the configuration has %s", args[0],
			strings.Join(names, ", ")))
	}
	*rule = args[0]
	return cfg, nil
}

func (a *app) unsilenceCommand() *cobra.Command {
	var f silenceFlags
	cmd := &cobra.Command{
		Use:   "unsilence [ALERT]",
		Short: "end silences that a command has set",
		Long: `unsilence ends the silences that "silence" has set: those of a rule or device, or with
neither all of them. Silences of the configuration stay.`,
		Example: "  hencedge results alerts unsilence temperature-high\n  hencedge results alerts unsilence",
		RunE: func(_ *cobra.Command, args []string) error {
			var rule string
			cfg, err := f.about(args, &rule)
			if err != nil {
				return err
			}
			ended := 0
			err = alert.EditSilences(cfg.State, time.Now(), func(list []alert.Silence) []alert.Silence {
				return slices.DeleteFunc(list, func(s alert.Silence) bool {
					end := (rule == "" || s.Rule == rule) && (f.device == "" || s.Device == f.device)
					if end {
						ended++
					}
					return end
				})
			})
			if err == nil {
				fmt.Fprintf(a.Std.Out, "ended %s\n", cli.Plural(ended, "silence"))
			}
			return err
		},
	}
	cli.ConfigFlag(cmd, &f.file, defaultHolder)
	cmd.Flags().StringVar(&f.device, "device", "", "only silences of this device")
	return cmd
}
