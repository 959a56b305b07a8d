//go:build !evaluatoronly

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/arith"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/demo"
	"github.com/hencedge/hencedge/henc"
)

func (a *app) demoCommand() *cobra.Command {
	var o demo.Options
	var backendName, device string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "the whole job on this machine, checked against the plaintext",
		Long: `demo starts an MQTT broker with mutual TLS, an agent that encrypts this machine's
real sensors, an evaluator that computes on the ciphertexts, and a key holder that
decrypts the results. Each decrypted value is shown beside the plaintext truth,
with its error and the error that the program promised.

The exit code is 1 if an error exceeds its promise. With --json every result is one
line. The last line is the summary: "ok", and "max_error" and "bound" of the result that
came closest to its bound.

With --compact the agent sends compact windows. The evaluator then needs about 3 GiB of
memory, and on a processor up to minutes for the first window.

With --web it prints a link instead of the table. The link opens a page that shows the whole
job live, once and within ten minutes; without --windows it goes on until interrupted.

Parameter sets: ` + strings.Join(henc.Names(), ", ") + `,
and with --compact ` + strings.Join(henc.BootstrapNames(), ", ") + `.`,
		Example: `  hencedge demo
  hencedge demo --windows 3 --json
  hencedge demo --backend cuda
  hencedge demo --web
  hencedge demo --compact --windows 1
  hencedge demo --params std14-d5 --windows 0`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Windows < 0 {
				return cli.UsageHint(cmd, errors.New("--windows must not be negative; 0 runs until interrupted"))
			}
			if o.Windows == 0 || o.Web && !cmd.Flags().Changed("windows") {
				o.Windows = -1
			}
			if o.Listen != "" && !o.Web {
				return cli.UsageHint(cmd, errors.New("--listen goes with --web"))
			}
			b, err := backends(backendName, device, a.Remark)
			if err != nil {
				return err
			}
			if o.Params == "" {
				o.Params = o.DefaultParams()
			}
			// demo.Run says what is wrong with a name that is no set.
			if p, err := henc.Named(o.Params); err == nil {
				if o.Backend, err = b.For(p); err != nil {
					return err
				}
			}
			// The table is the output. The roles log errors only.
			if !cmd.Flags().Changed("log-level") {
				a.LogLevel = slog.LevelError.String()
			}
			o.Version = thisVersion()
			if o.Logger, err = a.Logger(); err != nil {
				return err
			}
			return a.demo(cmd, o)
		},
	}
	cmd.Flags().IntVar(&o.Windows, "windows", 5, "windows to run; 0 runs until interrupted")
	cmd.Flags().StringVar(&o.Params, "params", "",
		"parameter set (default "+demo.DefaultParams+", with --compact boot15)")
	cmd.Flags().BoolVar(&o.Compact, "compact", false,
		"send compact windows of a few hundred bytes, which the evaluator bootstraps")
	cmd.Flags().BoolVar(&o.Web, "web", false, "show the whole job live in a browser on this machine")
	cmd.Flags().StringVar(&o.Listen, "listen", "",
		"host:port of this machine for the page (default a free port)")
	cmd.Flags().StringVar(&backendName, "backend", arith.Auto, arith.Help)
	cmd.Flags().StringVar(&device, "device", arith.Auto,
		"GPU to use: auto (the first), its number or its identifier (GPU-...)")
	cmd.Flags().IntVar(&o.Samples, "samples", 16, "samples of a window")
	cmd.Flags().DurationVar(&o.Interval, "interval", 100*time.Millisecond, "time between samples")
	a.JSONFlag(cmd, "one JSON object a line, the summary last")
	return cmd
}

func (a *app) demo(cmd *cobra.Command, o demo.Options) error {
	v := &demoView{app: a}
	if a.JSON {
		o.OnRow = func(r demo.Row) error {
			return cli.JSONLine(a.Std.Out, struct {
				Type string `json:"type"`
				demo.Row
			}{"result", r})
		}
		o.OnPage = func(link string) error {
			return cli.JSONLine(a.Std.Out, struct {
				Type string `json:"type"`
				Link string `json:"link"`
			}{"page", link})
		}
	} else {
		o.OnStart, o.OnRow, o.OnPage = v.start, v.row, v.page
		v.web = o.Web
	}
	sum, err := demo.Run(cmd.Context(), o)
	if errors.Is(err, demo.ErrSetup) && errors.Is(err, henc.ErrUnknownSet) {
		return cli.UsageHint(cmd, fmt.Errorf("--params: %w", err))
	}
	interrupted := errors.New("interrupted before the first result")
	if errors.Is(err, context.Canceled) {
		return interrupted
	}
	if err != nil {
		return err
	}
	switch {
	case a.JSON:
		err = cli.JSONLine(a.Std.Out, sum)
	case sum.Results == 0:
		return interrupted
	default:
		err = v.summary(sum)
	}
	switch {
	case err != nil:
		return err
	case sum.Exceeded > 0:
		return fmt.Errorf("%d of %d results are outside the promised error", sum.Exceeded, sum.Results)
	case !sum.OK:
		return interrupted
	}
	return nil
}

// demoView prints the demo for people.
type demoView struct {
	app    *app
	table  *cli.Table
	window int
	web    bool
}

func (v *demoView) start(c demo.Cast) {
	out := v.app.Std.Out
	fmt.Fprintf(out, "parameters  %s (N = 2^%d), backend %s (%s)\n", c.Params, c.LogN, c.Backend, c.Device)
	fmt.Fprintf(out, "broker      %s, every role with a certificate of its own\n", c.Broker)
	fmt.Fprintf(out, "windows     %d samples, one every %v\n", c.Samples,
		time.Duration(c.Interval*float64(time.Second)))
	for _, ch := range c.Channels {
		fmt.Fprintf(out, "sensor      %s, %s\n", ch.Name,
			cli.WithUnit(fmt.Sprintf("%g to %g", ch.Range[0], ch.Range[1]),
				ch.Unit))
	}
	width, channels := 7, 7
	for _, p := range c.Programs {
		fmt.Fprintf(out, "program     %s = %s, promised error %.2g\n", p.Name, p.Expr, p.Bound)
		width, channels = max(width, len(p.Name)), max(channels, len(p.Channel))
	}
	for _, l := range c.Left {
		fmt.Fprintf(out, "left out    %s\n", l)
	}
	fmt.Fprintln(out)
	if v.web {
		return
	}
	v.table = cli.NewTable(out,
		cli.Column{Title: "window", Right: true}, cli.Column{Title: "channel", Width: channels},
		cli.Column{Title: "program", Width: width},
		cli.Column{Title: "decrypted", Width: 16, Right: true}, cli.Column{Title: "truth", Width: 16, Right: true},
		cli.Column{Title: "error", Width: 8, Right: true}, cli.Column{Title: "promised", Width: 8, Right: true},
		cli.Column{Title: "up", Width: 9, Right: true}, cli.Column{Title: "down", Width: 9, Right: true},
		cli.Column{Title: "encrypt ms", Right: true}, cli.Column{Title: "evaluate ms", Right: true},
		cli.Column{Title: ""})
	v.table.Header()
}

// page shows where to look, which is not here.
func (v *demoView) page(link string) error {
	_, err := fmt.Fprintf(v.app.Std.Out, "open this in a browser on this machine, within ten minutes; it works "+
		"once:\n\n    %s\n\nCtrl-C ends the demo.\n", link)
	return err
}

func (v *demoView) row(r demo.Row) error {
	if v.web {
		return nil
	}
	up, encrypt := "", ""
	if r.Window != v.window {
		// One upload serves all programs of the window.
		v.window = r.Window
		up, encrypt = cli.Bytes(int64(r.Uploaded)), fmt.Sprintf("%.1f", r.Encrypt)
	}
	verdict := ""
	if !r.OK {
		verdict = "EXCEEDED"
	}
	return v.table.Row(strconv.Itoa(r.Window), r.Channel, r.Program, values(r.Decrypted), values(r.Truth),
		fmt.Sprintf("%.1e", r.Error),
		fmt.Sprintf("%.1e", r.Bound), up, cli.Bytes(int64(r.Downloaded)), encrypt, fmt.Sprintf("%.1f", r.Evaluate),
		verdict)
}

// values returns the first value, with enough digits to see its error.
func values(v []float64) string {
	if len(v) == 0 {
		return ""
	}
	s := strconv.FormatFloat(v[0], 'f', 9, 64)
	if len(v) > 1 {
		s += " ..."
	}
	return s
}

func (v *demoView) summary(s *demo.Summary) error {
	out := v.app.Std.Out
	fmt.Fprintf(out, "\n%d results of %d windows in %.1f s, the first after %.1f s\n", s.Results, s.Windows, s.Duration,
		s.FirstWindow)
	fmt.Fprintf(out, "traffic     %s up, %s down\n", cli.Bytes(int64(s.Uploaded)), cli.Bytes(int64(s.Downloaded)))
	fmt.Fprintf(out, "median      encrypt %.1f ms, evaluate %.1f ms, last sample to decrypted result %.0f ms\n",
		s.Encrypt, s.Evaluate, s.Latency)
	verdict := "every error is within its promise"
	if !s.OK {
		verdict = fmt.Sprintf("%d errors are above their promise", s.Exceeded)
	}
	_, err := fmt.Fprintf(out, "precision   %s; closest: %s with error %.2g of %.2g promised (%.0f %%)\n", verdict,
		s.Worst, s.MaxError, s.Bound, 100*s.WorstRatio)
	return err
}
