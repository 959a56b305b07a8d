//go:build !evaluatoronly

package main

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/agent/plan"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
)

func (a *app) agentPlan() *cobra.Command {
	var file, link, programs string
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "predict what a configuration costs, and whether it can work",
		Long: `plan predicts traffic, time, storage wear, memory and precision of a configuration.
Without --config it lists the sensors of this machine, as discover does.

Sizes and counts are exact: plan makes a window, with a temporary key if there is none
yet. Times are measured on this machine (median of 5 runs, with pauses). TLS and TCP add
about 4 % to the traffic.

The exit code is 2 if the configuration cannot work:
  - a window takes longer to make than it lasts, or a sensor longer than its interval;
  - the work needs more processors, memory or disk than there are;
  - a window is larger than the place where it waits;
  - with --link: the uplink cannot carry the traffic;
  - with --programs: the evaluator does not accept a level or a size.`,
		Example: "  hencedge agent plan -c agent.yaml --link 64kbit\n" +
			"  hencedge agent plan -c agent.yaml --programs evaluator.yaml",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return a.sensors()
			}
			rate, err := parseRate(link)
			if err != nil {
				return cli.UsageHint(cmd, err)
			}
			cfg, err := config.LoadAgent(file)
			if err != nil {
				return cli.Usage(err)
			}
			p, err := plan.Predict(cfg, plan.Options{}, rate)
			if err != nil {
				return cli.Usage(err)
			}
			if programs != "" {
				needs, err := programNeeds(cfg, programs)
				if err != nil {
					return cli.Usage(err)
				}
				if err := p.Needs(*needs); err != nil {
					return err
				}
			}
			return a.printPlan(p)
		},
	}
	cli.ConfigFlag(cmd, &file, "")
	cmd.Flags().StringVar(&programs, "programs", "",
		"evaluator.yaml: find the lowest level that its programs need for each stream")
	cmd.Flags().StringVar(&link, "link", "", "uplink, for example 64kbit, 10Mbit")
	a.JSONFlag(cmd, "one JSON object (sensors: one a line)")
	return cmd
}

// parseRate returns a rate such as "64kbit" in bits per second; "" is 0.
func parseRate(s string) (float64, error) {
	if s == "" {
		return 0, nil
	}
	for _, u := range []struct {
		suffix string
		factor float64
	}{{"kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}, {"bit", 1}} {
		num, ok := strings.CutSuffix(strings.TrimSuffix(s, "/s"), u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(num, 64)
		if err != nil || !(v > 0) || math.IsInf(v, 0) {
			break
		}
		return v * u.factor, nil
	}
	return 0, fmt.Errorf("--link %q: use a number with bit, kbit, Mbit or Gbit, such as 64kbit", s)
}

// printPlan prints a prediction, and fails if the configuration cannot work.
func (a *app) printPlan(p *plan.Prediction) error {
	if a.JSON {
		if err := cli.JSONLine(a.Std.Out, p); err != nil {
			return err
		}
		return a.refusedPlan(p)
	}
	for _, s := range p.Streams {
		a.printStream(p, s)
	}
	a.printDevice(p)
	for _, w := range p.Warnings {
		fmt.Fprintf(a.Std.Err, "hencedge: warning: %s\n", w)
	}
	return a.refusedPlan(p)
}

// refusedPlan prints why a configuration cannot work, and then fails.
func (a *app) refusedPlan(p *plan.Prediction) error {
	for _, r := range p.Refusals {
		fmt.Fprintf(a.Std.Err, "hencedge: cannot work: %s\n", r)
	}
	if len(p.Refusals) > 0 {
		return cli.Usagef("plan: %w", cli.ErrQuiet)
	}
	return nil
}

// printStream prints what is predicted of one stream.
func (a *app) printStream(p *plan.Prediction, s plan.StreamOutlook) {
	out := a.Std.Out
	counted := ""
	if s.Bins > 0 {
		counted = fmt.Sprintf(" counted in %s", cli.Plural(s.Bins, "bin"))
	}
	how := fmt.Sprintf("level %d, %s keys", s.Level, p.KeyMode)
	if s.Precision > 0 {
		how = fmt.Sprintf("compact windows of %d bits", s.Precision)
	}
	what := "of " + cli.Plural(s.Samples, "sample")
	if s.Room > 0 {
		what, how = what+" in digits", "public keys"
	} else if s.RowBits > 0 {
		what, how = fmt.Sprintf("in a row of %d bits", s.RowBits), "public keys"
	}
	fmt.Fprintf(out, "stream %s: %s %s%s, %s, %s\n", s.Name, cli.Plural(len(s.Channels), "channel"), what, counted,
		p.Params, how)
	switch {
	case s.Precision > 0:
		fmt.Fprintf(out, "  readings   %d, sent as %d", s.SlotsUsed, s.Readings)
	case s.Room > 0:
		fmt.Fprintf(out, "  samples    %d of %d", s.Samples, s.Room)
	case s.RowBits > 0:
		fmt.Fprintf(out, "  bits       %d of %d", s.RowBits, p.Slots)
	default:
		fmt.Fprintf(out, "  slots      %d of %d", s.SlotsUsed, p.Slots)
	}
	if s.Places > 0 {
		fmt.Fprintf(out, ", from %d on: place %d of %d", s.Place*(p.Slots/s.Places), s.Place, s.Places)
	}
	fmt.Fprintln(out)
	fmt.Fprintf(out, "  a window   %s ciphertext, %s sent in %s, %.1f bytes a sample\n", cli.Bytes(int64(s.BodyBytes)),
		cli.Bytes(int64(s.WireBytes)), cli.Plural(s.Chunks, "message"),
		float64(s.WireBytes)/float64(len(s.Channels)*s.Samples))
	fmt.Fprintf(out, "  time       %.2f ms to encrypt, %.2f ms with packing and signing", s.EncryptMs, s.SealMs)
	if s.SampleMs > 0 {
		fmt.Fprintf(out, "; a sample %.2f ms", s.SampleMs)
	}
	fmt.Fprintln(out)
	switch {
	case s.ProgramLevel == nil:
	case s.Precision > 0:
		fmt.Fprintf(out, "  programs   %s\n", cmp.Or(strings.Join(s.Programs, ", "), "none"))
	default:
		fmt.Fprintf(out, "  programs   %s: level %d is enough\n", cmp.Or(strings.Join(s.Programs, ", "), "none"),
			*s.ProgramLevel)
	}
	if s.WindowSeconds > 0 {
		fmt.Fprintf(out, "  each       %.4g s, %s a day, duty %.2g %%\n", s.WindowSeconds,
			cli.Bytes(int64(s.BytesPerDay)),
			100*s.Duty)
	} else {
		fmt.Fprintf(out, "  each       at the pace of its samples\n")
	}
	if s.QueueSeconds > p.QueueSeconds { // the bounds of one stream do not bind the others
		fmt.Fprintf(out, "  outage     %v\n", time.Duration(s.QueueSeconds)*time.Second)
	}
	for _, m := range s.Modes {
		fmt.Fprintf(out, "  as         %s: %s at level %d has room in %s a window\n", m.Mode, m.Params, m.Level,
			cli.Bytes(int64(m.Bytes)))
	}
	if s.Advice != "" {
		fmt.Fprintf(out, "  advice     %s\n", s.Advice)
	}
	for _, c := range s.Channels {
		fmt.Fprintf(out, "  precision  %s: %s, typically %s\n", c.Name,
			cli.WithUnit(fmt.Sprintf("%.2g", c.Bound), c.Unit),
			cli.WithUnit(fmt.Sprintf("%.2g", c.Error), c.Unit))
	}
	fmt.Fprintln(out)
}

// printDevice prints what is predicted of all streams together, and of the device.
func (a *app) printDevice(p *plan.Prediction) {
	out := a.Std.Out
	if p.BytesPerDay > 0 { // a replay alone has no rate
		fmt.Fprintf(out, "in all: %s and %.0f messages a day, %.2g %% of one processor to sample and encrypt",
			cli.Bytes(int64(p.BytesPerDay)), p.MessagesPerDay, 100*p.CPU)
		if p.Link > 0 {
			fmt.Fprintf(out, ", %.1f %% of the uplink", 100*p.Link)
		}
		fmt.Fprintln(out)
	}
	where := ""
	if p.KeyAbsent {
		where = ", not there yet"
	}
	var held []string
	switch p.KeyMode {
	case string(config.KeyModePublic):
		held = append(held, "a public key of "+cli.Bytes(p.KeyBytes))
	case string(config.KeyModeSymmetric):
		held = append(held, "a secret key of "+cli.Bytes(p.KeyBytes))
	}
	if p.BoardKeyBytes > 0 {
		held = append(held, "the device's own secret key of "+cli.Bytes(p.BoardKeyBytes))
	}
	fmt.Fprintf(out, "keys: %s on the board%s", strings.Join(held, " and "), where)
	if e := p.EvaluationKeys; e != nil {
		fmt.Fprintf(out, "; the programs need %s, %s", cli.Plural(e.Count, "evaluation key"), cli.Bytes(e.Bytes))
	}
	fmt.Fprintln(out)
	if p.DeviceBytesPerDay > 0 {
		fmt.Fprintf(out, "disk: %.1f writes of the state file a day", p.StateWritesPerDay)
		if p.SpoolBytesPerDay > 0 {
			fmt.Fprintf(out, "; the spool writes %s in files, with %.0f flushes", cli.Bytes(int64(p.SpoolBytesPerDay)),
				p.SpoolSyncsPerDay)
		}
		fmt.Fprintf(out, "; about %s reach the device: 32 TB, what a small card bears, in %s\n",
			cli.Bytes(int64(p.DeviceBytesPerDay)), years(32e12/p.DeviceBytesPerDay))
	}
	fmt.Fprintf(out, "memory: about %s\n", cli.Bytes(p.MemoryBytes))
	if p.QueueSeconds > 0 {
		fmt.Fprintf(out, "outage: nothing is lost for %v\n", time.Duration(p.QueueSeconds)*time.Second)
	}
}

// years returns a number of days as text for people.
func years(days float64) string {
	switch y := days / 365; {
	case y >= 100:
		return "more than 100 years"
	case y >= 2:
		return fmt.Sprintf("%.0f years", y)
	}
	return fmt.Sprintf("%.0f days", days)
}
