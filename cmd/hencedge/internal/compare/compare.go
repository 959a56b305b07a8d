// Package compare finds contradictions between the configuration files of the roles:
// between what a device sends and what its evaluator expects, and between what the
// evaluator computes and what the key holder reads. Each file may be right on its own.
package compare

import (
	"fmt"

	"github.com/hencedge/hencedge/config"
)

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

// largestPayload is the size of a message that every role accepts, whatever its chunk_size.
const largestPayload = config.MiB

// sends reports whether large messages go from a to b.
func sends(a, b side) bool {
	return a.role == roleAgent && b.role == roleEvaluator || a.role == roleEvaluator && b.role == roleKeyHolder
}
