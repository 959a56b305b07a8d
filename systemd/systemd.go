// Package systemd holds the units of the services. One template makes the files
// in this directory, which the packages ship, and what `hencedge service
// install` writes; a test compares them.
package systemd

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

//go:generate go run ./internal/gen

// Role is a long-running role.
type Role string

// The roles that run as services.
const (
	Agent     Role = "agent"
	Evaluator Role = "evaluator"
	KeyHolder Role = "keyholder"
)

// Roles lists the roles.
func Roles() []Role { return []Role{Agent, Evaluator, KeyHolder} }

// ParseRole reads a role's name.
func ParseRole(s string) (Role, error) {
	for _, r := range Roles() {
		if s == string(r) {
			return r, nil
		}
	}
	return "", fmt.Errorf("no service role %q: use agent, evaluator or keyholder", s)
}

// Name is the name of the role's service, of its unit without the suffix, and of
// its user.
func (r Role) Name() string { return "hencedge-" + string(r) }

// Config is where the role's configuration lies by default.
func (r Role) Config() string { return "/etc/hencedge/" + string(r) + ".yaml" }

// StateDir is the role's state directory, RuntimeDir its runtime directory.
func (r Role) StateDir() string   { return "/var/lib/hencedge/" + string(r) }
func (r Role) RuntimeDir() string { return "/run/hencedge/" + string(r) }

// ControlSocket is where the role answers `status`.
func (r Role) ControlSocket() string { return r.RuntimeDir() + "/control.sock" }

// Command is what the service runs, after the program's name and before its flags.
func (r Role) Command() string {
	if r == KeyHolder {
		return "results watch"
	}
	return string(r) + " run"
}

// ResultsFile is where the key holder's service writes what it decrypts.
const ResultsFile = "/var/lib/hencedge/keyholder/results.ndjson"

// description is the first line that systemctl shows.
func (r Role) description() string {
	switch r {
	case Agent:
		return "hencedge agent: reads sensors, encrypts, publishes"
	case KeyHolder:
		return "hencedge key holder: decrypts results"
	}
	return "hencedge evaluator: computes on ciphertexts"
}

// Binary is where the packages put the program.
const Binary = "/usr/bin/hencedge"

// Options are what differs between installations; zero fields are those of the
// packages.
type Options struct {
	Binary string // absolute path of the program
	Config string // absolute path of the configuration
}

//go:embed unit.tmpl
var unitText string

var unitTemplate = template.Must(template.New("unit").Option("missingkey=error").Parse(unitText))

//go:embed hencedge.sysusers
var sysusers string

// Sysusers are the users of the services of roles, in the form of sysusers.d(5).
func Sysusers(roles ...Role) string {
	var out strings.Builder
	for line := range strings.Lines(sysusers) {
		fields := strings.Fields(line)
		if strings.HasPrefix(line, "#") ||
			slices.ContainsFunc(roles, func(r Role) bool { return len(fields) > 1 && fields[1] == r.Name() }) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// The drop-ins that an operator may add to a unit.
var (
	//go:embed gpu.conf
	gpuDropIn string
	//go:embed devices.conf
	devicesDropIn string
	//go:embed credentials.conf
	credentialsDropIn string
)

// DropIns are the optional drop-ins by file name.
func DropIns() map[string]string {
	return map[string]string{"gpu.conf": gpuDropIn, "devices.conf": devicesDropIn,
		"credentials.conf": credentialsDropIn}
}

// ErrPath: a path cannot stand in a unit.
var ErrPath = errors.New("unusable path in a unit")

// Unit renders the unit of a role. It fails with ErrPath for a path that is not
// absolute and clean, or has characters that systemd would read otherwise.
func Unit(r Role, o Options) (string, error) {
	if _, err := ParseRole(string(r)); err != nil {
		return "", err
	}
	if o.Binary == "" {
		o.Binary = Binary
	}
	if o.Config == "" {
		o.Config = r.Config()
	}
	for _, p := range []string{o.Binary, o.Config} {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p || strings.ContainsFunc(p, func(c rune) bool {
			return c <= ' ' || c > '~' || strings.ContainsRune(`%$"'\{};`, c)
		}) {
			return "", fmt.Errorf("%w: %q; use an absolute path of plain characters", ErrPath, p)
		}
	}
	var b bytes.Buffer
	err := unitTemplate.Execute(&b, map[string]string{
		"Name": r.Name(), "Role": string(r), "Command": r.Command(), "Results": ResultsFile,
		"Description": r.description(), "Binary": o.Binary, "Config": o.Config,
	})
	return b.String(), err
}
