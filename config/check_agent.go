package config

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// agent checks an agent.
func (c *checker) agent(a *Agent) {
	names := make([]string, len(a.Streams))
	for i, s := range a.Streams {
		names[i] = s.Name
		c.stream(fmt.Sprintf("streams[%d]", i), s)
		if first := a.Streams[0].Params; s.Params != first && c.Sound("streams[0].params") {
			c.Fail(fmt.Sprintf("streams[%d].params", i),
				fmt.Sprintf("%s here and %s in streams[0], but an agent has one key and so one parameter set",
					s.Params, first),
				fmt.Sprintf("write params: %s, or run a second agent", first))
		}
	}
	c.unique("streams", "stream", names)
	for i, e := range a.Delivery.Evaluators {
		if e.Name == a.Device && e.Name != "" {
			c.Fail(fmt.Sprintf("delivery.evaluators[%d].name", i),
				"the evaluator has the name of this device, so their receipts cannot be told apart",
				"give the evaluator another name")
		}
	}
	c.agentInputs(a.Inputs)
	c.froms(a)
	if a.Spool != nil {
		c.spool(a)
	}
	c.delivery(a)
}

// spool checks that the spool has a directory of its own.
func (c *checker) spool(a *Agent) {
	s := a.Spool
	if s.Mirror != "" && s.Mirror == s.Dir {
		c.Fail("spool.mirror", "the mirror is the spool's own directory", "use another directory, best on another disk")
	}
	c.alone("spool.dir", s.Dir, a)
	c.alone("spool.mirror", s.Mirror, a)
}

// alone refuses a directory of the spool that also holds other files of the agent.
func (c *checker) alone(path, dir string, a *Agent) {
	for _, other := range []struct{ what, file string }{{"state", a.State}, {"signing_key", a.SigningKey}} {
		if dir != "" && other.file != "" && filepath.Dir(other.file) == filepath.Clean(dir) {
			c.Fail(path, "the directory also holds "+other.what,
				"give the spool a directory of its own, such as "+filepath.Join(dir, "spool"))
		}
	}
}

// delivery checks delivery of an agent.
func (c *checker) delivery(a *Agent) {
	d := &a.Delivery
	c.retries("delivery", d.RetryMin, d.RetryMax)
	c.signers("delivery.evaluators", "evaluator", d.Evaluators)
	names := make([]string, len(a.Streams))
	for i, s := range a.Streams {
		names[i] = s.Name
	}
	seen := map[string]int{}
	for i, s := range d.Streams {
		p := fmt.Sprintf("delivery.streams[%d]", i)
		if j, dup := seen[s.Stream]; dup {
			c.Fail(p+".stream", fmt.Sprintf("the stream %q is already in delivery.streams[%d]", s.Stream, j),
				"keep one of them")
		} else if known := slices.Contains(names, s.Stream); !known && c.Sound("streams", p+".stream") {
			c.Fail(p+".stream", fmt.Sprintf("there is no stream %q", s.Stream), yamlx.SuggestValue(s.Stream, names))
		}
		seen[s.Stream] = i
	}
	for i := range d.Hours {
		h, path := d.Hours[i], fmt.Sprintf("delivery.hours[%d].to", i)
		if h.From == h.To && !c.Failed(path) {
			c.Fail(path, "the hours end when they begin", "write another time, or remove the entry to send at any time")
		}
	}
}
