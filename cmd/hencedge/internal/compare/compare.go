// Package compare finds contradictions between the configuration files of the roles:
// between what a device sends and what its evaluator expects, and between what the
// evaluator computes and what the key holder reads. Each file may be right on its own.
package compare

import (
	"fmt"
	"io/fs"

	"github.com/hencedge/hencedge/config"
)

// Files are the configurations to compare, each with the name of its file.
type Files struct {
	Agents    []Agent
	Evaluator *Evaluator
	KeyHolder *KeyHolder
}

// Agent is an agent's configuration.
type Agent struct {
	File string
	*config.Agent
}

// Evaluator is an evaluator's configuration.
type Evaluator struct {
	File string
	*config.Evaluator
}

// KeyHolder is a key holder's configuration.
type KeyHolder struct {
	File string
	*config.KeyHolder
}

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

// Difference is a field that two roles must agree on and do not.
type Difference struct {
	Cause string  `json:"cause"`
	Fix   string  `json:"fix"`
	Sides []Place `json:"sides"`

	err *config.Error // at the first side
}

// Error returns the difference with the first side's line and what to do.
func (d Difference) Error() string { return d.err.Error() }

// Report is the outcome of a comparison.
type Report struct {
	Differences []Difference
	Warnings    []Difference // what works, but seldom is what was meant
	Skipped     []string     // what could not be compared here, and why
}

// Compare compares all the files that are given.
func Compare(f Files) Report {
	c := &comparison{}
	all := c.sides(f)
	for i := range all {
		for j := i + 1; j < len(all); j++ {
			c.brokers(all[i], all[j])
		}
	}
	c.names(all)
	keys := c.readKeys(f)
	for i := range f.Agents {
		a := &f.Agents[i]
		for j := range f.Agents[:i] {
			c.twoAgents(&f.Agents[j], a)
		}
		if f.Evaluator != nil {
			c.device(a, f.Evaluator)
		}
		if f.KeyHolder != nil {
			c.sameEvaluator(a, f.KeyHolder)
		}
	}
	if f.Evaluator != nil && f.KeyHolder != nil {
		c.results(f.Evaluator, f.KeyHolder)
	}
	c.keySets(f, keys)
	return c.Report
}

// comparison collects what differs.
type comparison struct{ Report }

// The roles as messages name them.
const (
	roleAgent     = "agent"
	roleEvaluator = "evaluator"
	roleKeyHolder = "key holder"
)

// side is what the comparison needs of any role's file.
type side struct {
	role, file string
	name       string // of the device, evaluator or key holder
	namePath   string
	broker     config.Broker
	problem    func(path, cause, remedy string) *config.Error
}

func (a *Agent) side() side {
	return side{roleAgent, a.File, a.Device, "device", a.Broker, a.Problem}
}

func (e *Evaluator) side() side {
	return side{roleEvaluator, e.File, e.Name, "name", e.Broker, e.Problem}
}

func (k *KeyHolder) side() side {
	return side{roleKeyHolder, k.File, k.Name, "name", k.Broker, k.Problem}
}

func (c *comparison) sides(f Files) []side {
	var out []side
	for i := range f.Agents {
		out = append(out, f.Agents[i].side())
	}
	if f.Evaluator != nil {
		out = append(out, f.Evaluator.side())
	}
	if f.KeyHolder != nil {
		out = append(out, f.KeyHolder.side())
	}
	return out
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

// largestPayload is the size of a message that every role accepts, whatever its chunk_size.
const largestPayload = config.MiB

// sends reports whether large messages go from a to b.
func sends(a, b side) bool {
	return a.role == roleAgent && b.role == roleEvaluator || a.role == roleEvaluator && b.role == roleKeyHolder
}

// brokers compares the brokers and topic prefixes of all roles.
func (c *comparison) brokers(a, b side) {
	c.differ(a, "broker.topic_prefix", a.broker.TopicPrefix, b, "broker.topic_prefix", b.broker.TopicPrefix,
		"write the same topic_prefix in both files; roles under different prefixes never hear of each other")
	if a.broker.ClientID == b.broker.ClientID {
		c.fault(a, "broker.client_id", fmt.Sprintf(
			"both have the client id %q, and a broker ends the connection of the one when the other connects",
			a.broker.ClientID),
			"give each its own client_id, or none", b, "broker.client_id")
	}
	if size := max(largestPayload, b.broker.ChunkSize); sends(a, b) && a.broker.ChunkSize > size {
		c.fault(a, "broker.chunk_size", fmt.Sprintf("messages of %v, and the %s takes no more than %v",
			a.broker.ChunkSize,
			b.role, size),
			"write a smaller chunk_size here, or the same one in both files", b, "broker.chunk_size")
	}
	ea, erra := a.broker.Endpoint()
	eb, errb := b.broker.Endpoint()
	if erra != nil || errb != nil || ea.Host == eb.Host {
		return
	}
	if ea.Loopback() && eb.Loopback() {
		return
	}
	cause := fmt.Sprintf("the broker is %s here, and %s in the other file", ea.Host, eb.Host)
	if ea.Loopback() || eb.Loopback() {
		c.warn(a, "broker.url", cause, "right only where the loopback address is that of the other file's broker", b,
			"broker.url")
		return
	}
	c.fault(a, "broker.url", cause, "write the same host in both files; the roles meet at one broker", b, "broker.url")
}

// names compares the names of devices and evaluators, which both have topics by name.
func (c *comparison) names(all []side) {
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.role == roleAgent && b.role != roleKeyHolder && a.name == b.name {
				c.fault(a, a.namePath,
					fmt.Sprintf("the %s in the other file is called %q too, and their messages cannot be told "+
						"apart", b.role, b.name),
					"give each its own name", b, b.namePath)
			}
		}
	}
}
