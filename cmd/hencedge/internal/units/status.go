package units

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/systemd"
)

// unitState is what the service manager says about a service.
type unitState struct {
	Service  string `json:"service"`
	Unit     string `json:"unit"`   // path
	Load     string `json:"load"`   // loaded, not-found, ...
	Active   string `json:"active"` // active, failed, inactive, ...
	Sub      string `json:"sub"`    // running, auto-restart, ...
	Enabled  string `json:"enabled"`
	Result   string `json:"result"` // success, watchdog, exit-code, ...
	Restarts int    `json:"restarts"`
	ExitCode int    `json:"exit_code"` // of the last main process
	PID      int    `json:"pid"`
	Since    string `json:"since"`
	Text     string `json:"text"` // the service's own line
	Memory   string `json:"memory_bytes"`
	Refused  bool   `json:"not_configured"` // a condition of the unit did not hold
}

// unitProperties are the properties that are asked of systemctl.
var unitProperties = []string{"FragmentPath", "LoadState", "ActiveState", "SubState", "UnitFileState", "Result",
	"NRestarts",
	"ExecMainStatus", "MainPID", "ActiveEnterTimestamp", "StatusText", "MemoryCurrent", "ConditionResult",
	"ConditionTimestampMonotonic"}

// parseUnit reads the output of systemctl show.
func parseUnit(r systemd.Role, out string) unitState {
	p := map[string]string{}
	for line := range strings.Lines(out) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\n"), "="); ok {
			p[key] = value
		}
	}
	number := func(key string) int {
		n, err := strconv.Atoi(p[key])
		if err != nil {
			return 0
		}
		return n
	}
	return unitState{Service: r.Name(), Unit: p["FragmentPath"], Load: p["LoadState"], Active: p["ActiveState"],
		Sub:     p["SubState"],
		Enabled: p["UnitFileState"], Result: p["Result"], Restarts: number("NRestarts"),
		ExitCode: number("ExecMainStatus"),
		PID:      number("MainPID"), Since: p["ActiveEnterTimestamp"], Text: p["StatusText"],
		Memory:  p["MemoryCurrent"],
		Refused: p["ConditionResult"] == "no" && number("ConditionTimestampMonotonic") > 0}
}

// verdict returns what the state means. The service manager calls a service in a crash
// loop "active" for much of the time.
func (u unitState) verdict() (text string, good bool) {
	switch {
	case u.Load == "not-found":
		return "not installed", false
	case u.Active == "inactive" && u.Refused:
		return "not started: its configuration does not exist", false
	case u.Active == "active" && u.Sub == "running" && u.Restarts == 0:
		return "running", true
	case u.Active == "active" && u.Sub == "running":
		return fmt.Sprintf("running, after %d restarts; last result: %s", u.Restarts, u.Result), true
	case u.Active == "reloading":
		return "running, reloads its configuration", true
	case strings.HasPrefix(u.Sub, "auto-restart"): // systemd 254 has auto-restart-queued too
		return fmt.Sprintf("crashing: %d restarts, last result %s, exit code %d", u.Restarts, u.Result,
			u.ExitCode), false
	case u.Active == "failed" && u.ExitCode == cli.ExitUsage:
		return "failed: the configuration is not valid; see the log", false
	case u.Active == "failed":
		return fmt.Sprintf("failed: %s, exit code %d, after %d restarts", u.Result, u.ExitCode, u.Restarts), false
	}
	return strings.TrimSpace(u.Active + " " + u.Sub), false
}

// askUnit asks the service manager about a service.
func askUnit(ctx context.Context, r systemd.Role) (unitState, error) {
	out, err := exec.CommandContext(ctx, "systemctl", "show", "--property="+strings.Join(unitProperties, ","),
		r.Name()+".service").Output()
	if err != nil {
		var said *exec.ExitError
		if errors.As(err, &said) && len(said.Stderr) > 0 {
			err = errors.New(strings.TrimSpace(string(said.Stderr)))
		}
		return unitState{}, fmt.Errorf("systemctl show %s: %w", r.Name(), err)
	}
	return parseUnit(r, string(out)), nil
}

// started fails if systemd did not start a service because its configuration does not
// exist, which systemd does not report as an error.
func started(ctx context.Context, r systemd.Role) error {
	u, err := askUnit(ctx, r)
	if err != nil || !u.Refused {
		return err
	}
	file := r.Config()
	if b, err := os.ReadFile(u.Unit); err == nil {
		for line := range strings.Lines(string(b)) {
			if path, ok := strings.CutPrefix(strings.TrimSpace(line), "ConditionPathExists="); ok {
				file = path
			}
		}
	}
	return fmt.Errorf("%s was not started: %s does not exist", r.Name(), file)
}

func (a *app) statusCommand() *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "show what systemd says about a service",
		Long: `status shows whether the service runs, since when, how often it was restarted, and how
it ended last. "hencedge agent status" asks the running agent itself.

The exit code is 1 unless the service runs.`,
		Example: "  hencedge service status\n  hencedge service status --role evaluator --json",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.roles.parse(role)
			if err != nil {
				return cli.Usage(err)
			}
			if _, err := controlled(r, ""); err != nil {
				return err
			}
			u, err := askUnit(cmd.Context(), r)
			if err != nil {
				return err
			}
			text, good := u.verdict()
			if a.JSON {
				err = cli.JSONLine(a.Std.Out, struct {
					OK bool `json:"ok"`
					unitState
				}{good, u})
			} else {
				_, err = fmt.Fprintf(a.Std.Out, "%s: %s\n", u.Service, text)
				log := ""
				if !good && u.Load != "not-found" {
					log = "journalctl -u " + u.Service
				}
				for _, l := range [][2]string{{"unit", u.Unit}, {"enabled", u.Enabled}, {"since", u.Since},
					{"says", u.Text},
					{"log", log}} {
					if err == nil && l[1] != "" {
						_, err = fmt.Fprintf(a.Std.Out, "  %-8s %s\n", l[0], l[1])
					}
				}
			}
			if err == nil && !good {
				err = fmt.Errorf("%s: %w", u.Service, cli.ErrQuiet)
			}
			return err
		},
	}
	a.roles.flag(cmd, &role)
	a.JSONFlag(cmd, "one JSON object")
	return cmd
}
