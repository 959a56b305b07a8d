package config

import (
	"fmt"
	"strings"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// evaluator checks an evaluator.
func (c *checker) evaluator(e *Evaluator) {
	c.signers("devices", "device", e.Devices)
	for _, d := range e.Devices {
		if d.Name == e.Name && d.Name != "" && c.Sound("name", "devices") {
			c.Fail("name",
				fmt.Sprintf("a device has the name %q too, so their status and receipts cannot be told apart", d.Name),
				"give the evaluator another name")
		}
	}
	c.deviceStreams(e)
	c.programs(e)
	c.limits(e.Limits)
	if e.Store != nil {
		c.retries("store", e.Store.RetryMin, e.Store.RetryMax)
	}
}

func (c *checker) deviceStreams(e *Evaluator) {
	devices := make([]string, len(e.Devices))
	known := map[string]bool{}
	for i, d := range e.Devices {
		devices[i] = d.Name
		known[d.Name] = true
	}
	seen := map[string]int{}
	for i, s := range e.Streams {
		p := fmt.Sprintf("streams[%d]", i)
		if c.Sound("devices") && !known[s.Device] {
			c.Fail(p+".device", fmt.Sprintf("the device %q is not listed under devices", s.Device),
				yamlx.SuggestValue(s.Device, devices)+"; or add it there")
			c.Bad = append(c.Bad, p+".device")
		}
		c.stream(p, s.Stream)
		id := s.Device + "/" + s.Name
		if j, dup := seen[id]; dup && s.Name != "" {
			c.Fail(p+".name", fmt.Sprintf("the stream %q is already defined as streams[%d]", id, j), "keep one of them")
			continue
		}
		seen[id] = i
	}
}

func (c *checker) programs(e *Evaluator) {
	names := make([]string, len(e.Programs))
	topics := map[string]int{}
	for i, p := range e.Programs {
		path := fmt.Sprintf("programs[%d]", i)
		names[i] = p.Name
		if p.Topic != "" {
			c.ownTopic(path+".topic", p.Topic, e.Broker.TopicPrefix)
			if j, dup := topics[p.Topic]; dup {
				c.Fail(path+".topic", fmt.Sprintf("programs[%d] publishes on the same topic", j),
					"give each program its own topic")
			}
			topics[p.Topic] = i
		}
		c.inputs(e, path, p)
	}
	c.unique("programs", "program", names)
}

// ownTopic checks that a topic of a program is none of those that have a meaning of
// their own.
func (c *checker) ownTopic(path, topic, prefix string) {
	rest, ours := strings.CutPrefix(topic, prefix+"/")
	first, _, deeper := strings.Cut(rest, "/")
	if !ours || !deeper {
		return
	}
	if holds, reserved := reservedLevels[first]; reserved {
		c.Fail(path, fmt.Sprintf("%s/%s/ is for %s", prefix, first, holds),
			"leave topic out, or choose one outside of "+prefix+"/")
	}
}

// reservedLevels say what stands below the topic prefix.
var reservedLevels = map[string]string{
	"up": "readings of devices", "res": "results under their program's name", "st": "birth messages",
	"ask": "questions", "rcp": "receipts", "prg": "programs", "cfg": "remote configurations",
}

func (c *checker) inputs(e *Evaluator, path string, p Program) {
	var first, firstRef string
	for _, name := range sortedKeys(p.Inputs) {
		ref, at := p.Inputs[name], yamlx.Join(path+".inputs", name)
		if !c.Sound("streams") || c.Failed(at) {
			continue
		}
		s, remedy := e.lookup(ref)
		if s == nil {
			c.Fail(at, fmt.Sprintf("%q is no known channel", ref), remedy)
			continue
		}
		if first == "" {
			first, firstRef = s.Params, ref
		} else if s.Params != first {
			c.Fail(at, fmt.Sprintf("%s is under %s and %s under %s", ref, s.Params, firstRef, first),
				"take the inputs of one program from streams with the same params")
		}
	}
}

// keyHolder checks a key holder.
func (c *checker) keyHolder(k *KeyHolder) {
	c.signers("evaluators", "evaluator", k.Evaluators)
	for i, t := range k.Topics {
		c.ownTopic(fmt.Sprintf("topics[%d]", i), t, k.Broker.TopicPrefix)
	}
	c.limits(k.Limits)
}
