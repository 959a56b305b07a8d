// Package units is the command "service": it installs the units of the roles and
// controls them.
package units

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	kardianos "github.com/kardianos/service"
	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/systemd"
)

// Command returns "service" with all that is below it.
func Command(c *cli.App, roles Roles) *cobra.Command {
	a := &app{c, roles}
	return cli.Group("service", "install and control the services of this machine",
		`The service commands install and control hencedge's own systemd unit (Type=notify,
hardened), for a copy of the program that did not come from a package. Packages contain
the same unit.`,
		a.installCommand(), a.uninstallCommand(), a.controlCommand("start"), a.controlCommand("stop"),
		a.controlCommand("restart"), a.statusCommand())
}

// Where units lie: those of the administrator, which win, and those of packages.
var (
	adminUnits   = "/etc/systemd/system"
	packageUnits = []string{"/usr/lib/systemd/system", "/lib/systemd/system"}
)

func (a *app) installCommand() *cobra.Command {
	var role, file string
	var dropins []string
	var show bool
	cmd := &cobra.Command{
		Use:   "install",
		Short: "install and enable a service, without starting it",
		Long: `install writes the unit to /etc/systemd/system, makes the service's user if
necessary, and enables the service. It refuses to replace a unit, whether from a package
or from an earlier installation.

--drop-in gpu gives the service access to the GPU, devices to the buses of sensors, and
credentials to files that only root may read. Read the files that it installs.`,
		Example: `  sudo hencedge service install --config /etc/hencedge/agent.yaml
  sudo hencedge service install --role evaluator --drop-in gpu
  hencedge service install --show`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			r, err := a.roles.parse(role)
			if err != nil {
				return cli.Usage(err)
			}
			unit, binary, path, err := unitFor(r, file)
			if err != nil {
				return cli.Usage(err)
			}
			for _, d := range dropins {
				if _, ok := systemd.DropIns()[d+".conf"]; !ok {
					return cli.Usagef("--drop-in %q: use gpu, devices or credentials", d)
				}
			}
			if show {
				_, err := fmt.Fprint(a.Std.Out, unit)
				return err
			}
			if err := a.install(r, unit, binary, path, dropins); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Std.Out, "%s is installed and enabled; start it with: hencedge service start "+
				"--role %s\n",
				r.Name(), r)
			return err
		},
	}
	a.roles.flag(cmd, &role)
	cmd.Flags().StringVarP(&file, "config", "c", "", "configuration file (default /etc/hencedge/ROLE.yaml)")
	cmd.Flags().StringSliceVar(&dropins, "drop-in", nil, "also install: gpu, devices, credentials")
	cmd.Flags().BoolVar(&show, "show", false, "print the unit and install nothing")
	return cmd
}

// unitFor returns the unit for this copy of the program, and the paths of program and
// configuration that are in it.
func unitFor(r systemd.Role, file string) (unit, binary, config string, err error) {
	if binary, err = os.Executable(); err == nil {
		binary, err = filepath.EvalSymlinks(binary)
	}
	if err != nil {
		return "", "", "", fmt.Errorf("find this program: %w", err)
	}
	config = r.Config()
	if file != "" {
		if config, err = filepath.Abs(file); err != nil {
			return "", "", "", err
		}
	}
	unit, err = systemd.Unit(r, systemd.Options{Binary: binary, Config: config})
	return unit, binary, config, err
}

// unseen are directories that services cannot see (ProtectHome, PrivateTmp).
var unseen = []string{"/home", "/root", "/run/user", "/tmp", "/var/tmp"}

// hidden refuses a program or a configuration that the service cannot see. Every start
// would fail with systemd's code 203.
func hidden(binary, config string) error {
	for path, remedy := range map[string]string{binary: "copy it to /usr/local/bin and run it from there",
		config: "put it into /etc/hencedge"} {
		for _, dir := range unseen {
			if strings.HasPrefix(path, dir+"/") {
				return fmt.Errorf("%s: a service sees nothing below %s: %s", path, dir, remedy)
			}
		}
	}
	return nil
}

// existing returns the path of the role's unit, if there is one, and whether it comes from
// a package.
func existing(r systemd.Role) (path string, packaged bool) {
	for i, dir := range append([]string{adminUnits}, packageUnits...) {
		path := filepath.Join(dir, r.Name()+".service")
		if _, err := os.Lstat(path); err == nil {
			return path, i > 0
		}
	}
	return "", false
}

func (a *app) install(r systemd.Role, unit, binary, file string, dropins []string) error {
	if path, packaged := existing(r); packaged {
		return fmt.Errorf("%s comes from a package and would be hidden by a second unit: use \"systemctl enable --now "+
			"%s\", and \"systemctl edit %s\" for changes", path, r.Name(), r.Name())
	} else if to, err := os.Readlink(path); err == nil && to == "/dev/null" {
		return fmt.Errorf(
			"%s is masked, as it is after the package was removed: purge the package, or run \"systemctl "+
				"unmask %s\"", path, r.Name())
	} else if path != "" {
		return fmt.Errorf("%s exists: remove it with \"hencedge service uninstall --role %s\" first", path, r)
	}
	s, err := controlled(r, unit)
	if err != nil {
		return err
	}
	if err := needRoot(); err != nil {
		return err
	}
	if err := hidden(binary, file); err != nil {
		return err
	}
	if err := ensureUser(r); err != nil {
		return err
	}
	if err := stateDir(r); err != nil {
		return err
	}
	for _, d := range dropins {
		path := filepath.Join(adminUnits, r.Name()+".service.d", d+".conf")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := writeDropIn(path, systemd.DropIns()[d+".conf"]); errors.Is(err, fs.ErrExist) {
			fmt.Fprintf(a.Std.Err, "hencedge: %s exists and is not changed\n", path)
		} else if err != nil {
			return err
		}
	}
	if err := s.Install(); err != nil {
		return fmt.Errorf("install %s: %w", r.Name(), err)
	}
	path := filepath.Join(adminUnits, r.Name()+".service")
	got, err := os.ReadFile(path)
	if err != nil || string(got) != unit {
		return fmt.Errorf(
			"%s is not what was to be installed (%w); compare it with \"hencedge service install --show\"",
			path, err)
	}
	return nil
}

// writeDropIn writes a new file. It fails with fs.ErrExist if the file exists.
func writeDropIn(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func needRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("this needs root: run it with sudo")
	}
	return nil
}

// ensureUser makes the user of a role with systemd-sysusers, as the packages do, or with
// useradd if that is missing.
func ensureUser(r systemd.Role) error {
	if _, err := user.Lookup(r.Name()); err == nil {
		return nil
	}
	cmd := exec.Command("systemd-sysusers", "--inline", fmt.Sprintf("u %s - \"hencedge %s\" %s -", r.Name(), r,
		r.StateDir()))
	if _, err := exec.LookPath("systemd-sysusers"); err != nil {
		cmd = exec.Command("useradd", "--system", "--user-group", "--no-create-home", "--home-dir",
			r.StateDir(), "--shell",
			"/usr/sbin/nologin", r.Name())
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make the user %s: %w: %s", r.Name(), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// stateDir makes the role's state directory, so that a check before the first start finds
// it. systemd would make it at the start.
func stateDir(r systemd.Role) error {
	u, err := user.Lookup(r.Name())
	if err != nil {
		return err
	}
	uid, uerr := strconv.Atoi(u.Uid)
	gid, gerr := strconv.Atoi(u.Gid)
	if err := errors.Join(uerr, gerr); err != nil {
		return fmt.Errorf("user %s: %w", r.Name(), err)
	}
	// Every user may pass, whatever root's umask is: systemd leaves what is there alone.
	above := filepath.Dir(r.StateDir())
	if err := os.Mkdir(above, 0o755); err == nil {
		err = os.Chmod(above, 0o755)
		if err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Mkdir(r.StateDir(), 0o700); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	return os.Chown(r.StateDir(), uid, gid)
}

func (a *app) uninstallCommand() *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "stop and remove a service that install made",
		Long: `uninstall stops and disables the service and removes its unit. Configuration, keys
and state stay. A unit that came from a package is left to the package manager.`,
		Example: "  sudo hencedge service uninstall",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			r, err := a.roles.parse(role)
			if err != nil {
				return cli.Usage(err)
			}
			path, packaged := existing(r)
			switch {
			case path == "":
				return fmt.Errorf("%s is not installed", r.Name())
			case packaged:
				return fmt.Errorf("%s comes from a package: remove the package instead", path)
			}
			s, err := controlled(r, "")
			if err != nil {
				return err
			}
			if err := needRoot(); err != nil {
				return err
			}
			if err := s.Stop(); err != nil {
				return fmt.Errorf("stop %s: %w", r.Name(), err)
			}
			if err := s.Uninstall(); err != nil {
				return fmt.Errorf("remove %s: %w", r.Name(), err)
			}
			if path, packaged := existing(r); packaged {
				// Removing disabled the name, which is the package's from now on.
				if out, err := exec.Command("systemctl", "enable", r.Name()+".service").CombinedOutput(); err != nil {
					return fmt.Errorf("enable %s: %w: %s", path, err, strings.TrimSpace(string(out)))
				}
				_, err = fmt.Fprintf(a.Std.Out,
					"%s is removed; %s of the package takes its place: systemctl start %s\n",
					r.Name(), path, r.Name())
				return err
			}
			_, err = fmt.Fprintf(a.Std.Out, "%s is removed; /etc/hencedge and %s stay\n", r.Name(), r.StateDir())
			return err
		},
	}
	a.roles.flag(cmd, &role)
	return cmd
}

func (a *app) controlCommand(verb string) *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use:     verb,
		Short:   verb + " a service",
		Example: "  sudo hencedge service " + verb + " --role agent",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.roles.parse(role)
			if err != nil {
				return cli.Usage(err)
			}
			s, err := controlled(r, "")
			if err != nil {
				return err
			}
			if path, _ := existing(r); path == "" {
				return fmt.Errorf("%s is not installed: see \"hencedge service install --help\"", r.Name())
			}
			if err := kardianos.Control(s, verb); err != nil {
				if root := needRoot(); root != nil {
					err = root
				}
				return fmt.Errorf("%s %s: %w; see: journalctl -u %s", verb, r.Name(), err, r.Name())
			}
			if verb == "stop" {
				return nil
			}
			return started(cmd.Context(), r)
		},
	}
	a.roles.flag(cmd, &role)
	return cmd
}
