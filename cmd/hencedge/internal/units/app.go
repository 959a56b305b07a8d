package units

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	kardianos "github.com/kardianos/service"
	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/systemd"
)

// app is the command line with the commands of this package.
type app struct {
	*cli.App
	roles Roles
}

// Roles are those whose services a build can install; For names them in messages.
type Roles struct {
	List []systemd.Role
	For  string
}

// parse reads the name of a role that this build has a service of.
func (r Roles) parse(name string) (systemd.Role, error) {
	role, err := systemd.ParseRole(name)
	if err == nil && !slices.Contains(r.List, role) {
		err = fmt.Errorf("this build is for %s: the service of the role %q needs the full program", r.For, name)
	}
	return role, err
}

// flag adds --role.
func (r Roles) flag(cmd *cobra.Command, role *string) {
	var names []string
	for _, one := range r.List {
		names = append(names, string(one))
	}
	cmd.Flags().StringVar(role, "role", names[0], strings.Join(names, " or "))
}

// controlled returns a role's service in the service manager. script is the whole unit,
// for Install.
func controlled(r systemd.Role, script string) (kardianos.Service, error) {
	if p := kardianos.Platform(); p != "linux-systemd" {
		return nil, fmt.Errorf("no systemd here (found %q): run \"hencedge %s\" under this machine's own service "+
			"manager",
			p, r.Command())
	}
	// The library fills in templates; a unit without "{{" passes unchanged, and it
	// is compared after the installation.
	if strings.Contains(script, "{{") {
		return nil, errors.New("the unit holds a template")
	}
	return kardianos.New(nil, &kardianos.Config{Name: r.Name(), Option: kardianos.KeyValue{"SystemdScript": script}})
}
