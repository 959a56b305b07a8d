package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/systemd"
)

// statusOf is the answer of a control socket.
type statusOf[T any] struct {
	daemon.SupervisorStatus
	Service T `json:"service"`
}

// A describer turns the status of a service into lines.
type describer func(json.RawMessage) ([]string, error)

// statusCommand returns `agent status` and `evaluator status`.
func (a *app) statusCommand(role systemd.Role, describe describer) *cobra.Command {
	var file, socket string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "show what a running " + string(role) + " does",
		Long: fmt.Sprintf(`status asks the running %s over its local socket. That is --socket, or control.socket
of the configuration, or %s.

The exit code is 1 if it does not answer or is not healthy. The reasons are listed.`, role, role.ControlSocket()),
		Example: fmt.Sprintf("  hencedge %s status\n  hencedge %s status --json", role, role),
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := socketOf(role, file, socket)
			if err != nil {
				return err
			}
			b, err := daemon.Ask(cmd.Context(), path, "/status")
			if err != nil {
				return noAnswer(role, path, err)
			}
			return a.printStatus(role, b, describe)
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "configuration file, for its control.socket")
	cmd.Flags().StringVar(&socket, "socket", "", "control socket")
	a.JSONFlag(cmd, "one JSON object, as the service gave it")
	return cmd
}

// reloadCommand returns `agent reload` and `evaluator reload`.
func (a *app) reloadCommand(role systemd.Role) *cobra.Command {
	var file, socket string
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "make a running " + string(role) + " read its configuration again",
		Long: fmt.Sprintf(`reload asks the running %s to read its configuration again, and waits for the outcome.
A bad configuration changes nothing: its mistakes are listed, and the exit code is 1.
"systemctl reload" does the same.`, role),
		Example: fmt.Sprintf("  hencedge %s reload", role),
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := socketOf(role, file, socket)
			if err != nil {
				return err
			}
			if err := daemon.Reload(cmd.Context(), path); !errors.Is(err, daemon.ErrReload) {
				return noAnswer(role, path, err)
			} else {
				return err
			}
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "configuration file, for its control.socket")
	cmd.Flags().StringVar(&socket, "socket", "", "control socket")
	return cmd
}

// noAnswer returns an error that says what to do about a control socket that could not be
// asked; nil stays nil.
func noAnswer(role systemd.Role, socket string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no %s answers at %s; is it running? see: hencedge service status --role %s; one that was "+
			"started by hand answers at control.socket of its configuration, which -c names", role, socket, role)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("this user may not ask the %s at %s: use sudo, or become a member of the group %s", role,
			socket,
			role.Name())
	}
	return fmt.Errorf("the %s does not answer: %w", role, err)
}

// socketOf returns the control socket of a role: the given one, that of the configuration,
// or the usual one. A bad or unreadable configuration must not hide a service that runs
// with an earlier one.
func socketOf(role systemd.Role, file, socket string) (string, error) {
	if socket != "" {
		return socket, nil
	}
	own := controlSocket(config.Control{}) // within the service itself
	usual := cmp.Or(own, role.ControlSocket())
	explicit := file != ""
	if !explicit {
		file = role.Config()
	}
	c, err := controlOf(role, file)
	switch {
	case err == nil && c.Socket != "" && own != "" && !cli.Exists(c.Socket) && cli.Exists(own):
		return own, nil // the service has not been restarted since the file got a path
	case err == nil && c.Socket != "":
		return c.Socket, nil
	case err == nil:
		return usual, nil
	}
	if there := config.ControlSocket(file); there != "" {
		return there, nil
	}
	if cli.Exists(usual) || !explicit && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
		return usual, nil
	}
	return "", cli.Usage(err)
}

// controlOf reads the control section of a role's configuration.
func controlOf(role systemd.Role, file string) (config.Control, error) {
	if role == systemd.Agent {
		cfg, err := config.LoadAgent(file)
		if err != nil {
			return config.Control{}, err
		}
		return cfg.Control, nil
	}
	cfg, err := config.LoadEvaluator(file)
	if err != nil {
		return config.Control{}, err
	}
	return cfg.Control, nil
}

func (a *app) printStatus(role systemd.Role, b []byte, describe describer) error {
	var s statusOf[json.RawMessage]
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("the answer cannot be read: %w", err)
	}
	if a.JSON {
		if _, err := fmt.Fprintf(a.Std.Out, "%s\n", strings.TrimSpace(string(b))); err != nil {
			return err
		}
	} else {
		lines := []string{
			fmt.Sprintf("%-14s %s, version %s, since %s", s.Role, s.State, s.Version, when(s.Since)),
			fmt.Sprintf("%-14s %.12s", "configuration", s.Config),
			fmt.Sprintf("%-14s %s", "memory", s.Protection),
		}
		if r := s.LastReload; r != nil {
			outcome := "good"
			if !r.OK {
				outcome = "refused: " + strings.ReplaceAll(r.Error, "\n", "\n               ")
			}
			lines = append(lines, fmt.Sprintf("%-14s %s, %s, %s", "last reload", r.Reason, when(r.Time), outcome))
		}
		more, err := describe(s.Service)
		if err != nil {
			return fmt.Errorf("the answer cannot be read: %w", err)
		}
		lines = append(lines, more...)
		health := "good"
		if !s.Healthy {
			health = strings.Join(s.Reasons, "\n               ")
		}
		lines = append(lines, fmt.Sprintf("%-14s %s", "health", health))
		if _, err := fmt.Fprintln(a.Std.Out, cli.Plain(strings.Join(lines, "\n"))); err != nil {
			return err
		}
	}
	if !s.Healthy {
		return fmt.Errorf("%s: %w", role, cli.ErrQuiet)
	}
	return nil
}

// describeEvaluator returns the lines of `evaluator status`.
func describeEvaluator(raw json.RawMessage) ([]string, error) {
	var st evaluator.State
	if err := json.Unmarshal(raw, &st); err != nil {
		return nil, err
	}
	lines := []string{
		fmt.Sprintf("%-14s %s, %s", "broker", st.URL, connection(st.Connected)),
		fmt.Sprintf("%-14s %d accepted, %d results, %d failed", "windows", st.Accepted, st.Results, st.Failed),
	}
	for _, reason := range slices.Sorted(maps.Keys(st.Refused)) {
		lines = append(lines, fmt.Sprintf("%-14s %s: %d", "refused", reason, st.Refused[reason]))
	}
	for _, name := range slices.Sorted(maps.Keys(st.Programs)) {
		if w := st.Programs[name].Waiting; w != nil && (w.Results > 0 || w.Skipped > 0) {
			lines = append(lines,
				fmt.Sprintf("%-14s %s: %d results wait, %s of %s, the oldest for %v; %d were not made",
					"undelivered", name,
					w.Results, cli.Bytes(w.Bytes), cli.Bytes(w.Share), w.Oldest.Round(time.Second), w.Skipped))
		}
	}
	for _, k := range st.Keys {
		lines = append(lines, fmt.Sprintf("%-14s %s, epoch %d, %s", "keys", k.ID, k.Epoch, k.Params))
	}
	for _, d := range st.Devices {
		lines = append(lines, fmt.Sprintf("%-14s %s: %s", "device", d.Name, describeDevice(d)))
		for _, text := range d.Differs {
			lines = append(lines, fmt.Sprintf("%-14s %s", "", text))
		}
	}
	if st.MoreDevices > 0 {
		lines = append(lines, fmt.Sprintf("%-14s and %d more", "devices", st.MoreDevices))
	}
	return append(lines, fmt.Sprintf("%-14s %s", "signs as", st.PublicKey)), nil
}

// describeDevice returns what an evaluator knows of a device.
func describeDevice(d evaluator.DeviceState) string {
	switch {
	case !d.Heard:
		return "has never announced itself under this topic prefix"
	case !d.Online:
		return "offline"
	case d.Version != "":
		return "online, version " + d.Version
	}
	return "online"
}

func connection(up bool) string {
	if up {
		return "connected"
	}
	return "not connected"
}

func when(t time.Time) string { return t.UTC().Format(time.RFC3339) }
