package compare

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/hencedge/hencedge/config"
)

// comparison collects what differs.
type comparison struct{ Report }

// differ reports two values that should be one.
func (c *comparison) differ(a side, path, value string, b side, bPath, bValue, fix string) {
	if value == bValue {
		return
	}
	text := fmt.Sprintf("%s here, %s in %s", value, bValue, b.at(bPath, ""))
	c.Differences = append(c.Differences, Difference{Cause: text, Fix: fix,
		Sides: []Place{a.at(path, value), b.at(bPath, bValue)}, err: a.problem(path, text, fix)})
}

// fault reports that the field at a does not fit the one at b, which may be missing.
func (c *comparison) fault(a side, path, cause, fix string, b side, bPath string) {
	c.Differences = append(c.Differences, a.finding(path, "", cause, fix, b.at(bPath, "")))
}

// warn reports what is probably not meant.
func (c *comparison) warn(a side, path, cause, fix string, b side, bPath string) {
	c.Warnings = append(c.Warnings, a.finding(path, "", cause, fix, b.at(bPath, "")))
}

// skip says what could not be compared.
func (c *comparison) skip(what string, err error) {
	if pe := (*fs.PathError)(nil); asPath(err, &pe) {
		c.Skipped = append(c.Skipped, fmt.Sprintf("%s: %s: %v", what, pe.Path, pe.Err))
		return
	}
	c.Skipped = append(c.Skipped, fmt.Sprintf("%s: %v", what, err))
}

// Report is the outcome of a comparison.
type Report struct {
	Differences []Difference
	Warnings    []Difference // what works, but seldom is what was meant
	Skipped     []string     // what could not be compared here, and why
}

// Files are the configurations to compare, each with the name of its file.
type Files struct {
	Agents    []Agent
	Evaluator *Evaluator
	KeyHolder *KeyHolder
}

func asPath(err error, to **fs.PathError) bool { return errors.As(err, to) }

// side is what the comparison needs of any role's file.
type side struct {
	role, file string
	name       string // of the device, evaluator or key holder
	namePath   string
	broker     config.Broker
	problem    func(path, cause, remedy string) *config.Error
}

// at returns a field of a side with its value.
func (s side) at(path, value string) Place {
	p := s.problem(path, "", "")
	return Place{s.role, s.file, p.Line, p.Column, path, value}
}

// finding describes a difference: cause is shown at the first place, with the second.
func (s side) finding(path, value, cause, fix string, other Place) Difference {
	text := fmt.Sprintf("%s; see %s", cause, other)
	return Difference{Cause: text, Fix: fix, Sides: []Place{s.at(path, value), other}, err: s.problem(path, text, fix)}
}

// Agent is an agent's configuration.
type Agent struct {
	File string
	*config.Agent
}

func (a *Agent) side() side {
	return side{roleAgent, a.File, a.Device, "device", a.Broker, a.Problem}
}

// Evaluator is an evaluator's configuration.
type Evaluator struct {
	File string
	*config.Evaluator
}

func (e *Evaluator) side() side {
	return side{roleEvaluator, e.File, e.Name, "name", e.Broker, e.Problem}
}

// KeyHolder is a key holder's configuration.
type KeyHolder struct {
	File string
	*config.KeyHolder
}

func (k *KeyHolder) side() side {
	return side{roleKeyHolder, k.File, k.Name, "name", k.Broker, k.Problem}
}

// The roles as messages name them.
const (
	roleAgent     = "agent"
	roleEvaluator = "evaluator"
	roleKeyHolder = "key holder"
)

// Difference is a field that two roles must agree on and do not.
type Difference struct {
	Cause string  `json:"cause"`
	Fix   string  `json:"fix"`
	Sides []Place `json:"sides"`

	err *config.Error // at the first side
}

// Error returns the difference with the first side's line and what to do.
func (d Difference) Error() string { return d.err.Error() }

// Place is a field of a file with its value.
type Place struct {
	Role   string `json:"role"`
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Path   string `json:"path"`
	Value  string `json:"value,omitempty"` // empty for a field that is not there
}

func (p Place) String() string {
	at := p.File
	if p.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
	return at + " (" + p.Path + ")"
}
