package config

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// evaluator checks an evaluator.
func (c *checker) evaluator(e *Evaluator) {
	devices := make([]Signer, len(e.Devices))
	for i, d := range e.Devices {
		devices[i] = Signer{d.Name, d.PublicKey}
	}
	c.signers("devices", "device", devices)
	c.classes(e)
	for _, d := range e.Devices {
		if d.Name == e.Name && d.Name != "" && c.Sound("name", "devices") {
			c.Fail("name",
				fmt.Sprintf("a device has the name %q too, so their status and receipts cannot be told apart", d.Name),
				"give the evaluator another name")
		}
	}
	c.deviceStreams(e)
	c.programs(e)
	i := slices.IndexFunc(e.Programs, func(p Program) bool { return p.Name == "packed" })
	if e.Results != nil && i >= 0 {
		c.Fail(fmt.Sprintf("programs[%d].name", i), `packed results have the name "packed" themselves`,
			"give the program another name")
	}
	c.limits(e.Limits)
	if e.Store != nil {
		c.retries("store", e.Store.RetryMin, e.Store.RetryMax)
	}
}

func (c *checker) deviceStreams(e *Evaluator) {
	devices := make([]string, len(e.Devices))
	known := map[string]*Class{}
	for i, d := range e.Devices {
		devices[i] = d.Name
		known[d.Name] = e.Class(d.Class)
	}
	seen := map[string]int{}
	for i, s := range e.Streams {
		p := fmt.Sprintf("streams[%d]", i)
		class, listed := known[s.Device]
		if c.Sound("devices") && !listed && len(e.Devices)+len(e.Enrolled) > 0 {
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
		if class != nil && class.Stream(s.Name) != nil {
			c.Fail(p+".name", fmt.Sprintf("the device %q has the stream %q from its class %q already", s.Device, s.Name,
				class.Name), "give it another name, or take the class from the device")
		}
	}
}

// classes checks the classes, and that devices name them.
func (c *checker) classes(e *Evaluator) {
	names := make([]string, len(e.Classes))
	for i, class := range e.Classes {
		names[i] = class.Name
		path := fmt.Sprintf("classes[%d]", i)
		streams := make([]string, len(class.Streams))
		for k, s := range class.Streams {
			streams[k] = s.Name
			c.stream(fmt.Sprintf("%s.streams[%d]", path, k), s)
		}
		c.unique(path+".streams", "stream", streams)
	}
	c.unique("classes", "class", names)
	for i, d := range e.Devices {
		at := fmt.Sprintf("devices[%d].class", i)
		if d.Class != "" && e.Class(d.Class) == nil && c.Sound("classes") && !c.Failed(at) {
			c.Fail(at, unknownClass(d.Class), classRemedy(d.Class, names))
		}
	}
}

func unknownClass(name string) string { return fmt.Sprintf("there is no class %q", name) }

// classRemedy says what to do about a class that does not exist.
func classRemedy(name string, classes []string) string {
	if len(classes) == 0 {
		return `describe it under "classes:" in the evaluator's file`
	}
	return yamlx.SuggestValue(name, classes) + "; or describe it under classes"
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
		if p.For != "" && e.Class(p.For) == nil && c.Sound("classes", path+".for") {
			names := make([]string, len(e.Classes))
			for k := range e.Classes {
				names[k] = e.Classes[k].Name
			}
			c.Fail(path+".for", unknownClass(p.For), classRemedy(p.For, names))
			continue
		}
		if !(p.Resolution >= 0) || math.IsInf(p.Resolution, 1) {
			c.Fail(path+".resolution", "the resolution is not above 0", "write how near to a threshold values may be "+
				"undecided, such as 0.5")
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
	"ask": "questions", "rcp": "receipts", "prg": "programs", "cfg": "remote configurations", "join": "enrolment",
}

func (c *checker) inputs(e *Evaluator, path string, p Program) {
	var first, firstRef string
	for _, name := range sortedKeys(p.Inputs) {
		ref, at := p.Inputs[name], yamlx.Join(path+".inputs", name)
		if !c.Sound("streams", "classes") || c.Failed(at) || len(e.Streams)+len(e.Classes) == 0 {
			continue
		}
		s, remedy := e.lookup(p.For, ref)
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
	if k.Alerts != nil {
		c.alerts(k)
	}
	c.history(k.History)
	if k.Console != nil {
		c.console(k.Console)
	}
}

// console checks where the page of results is served: other machines reach it over TLS only.
func (c *checker) console(page *Console) {
	if page.Enrolment != nil && len(page.Devices) > 0 {
		c.Fail("console.devices", "the boards are those of the evaluator that console.enrolment names",
			"leave out one of console.devices and console.enrolment")
	}
	if (page.Cert == "") != (page.Key == "") {
		c.Fail("console.cert", "cert and key belong together", "give both, or neither on 127.0.0.1")
		return
	}
	host, _, err := net.SplitHostPort(page.Listen)
	if err != nil || page.Cert != "" {
		return
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		c.Fail("console.listen", fmt.Sprintf("%q can be reached from other machines, and there is no certificate",
			page.Listen), "give console.cert and console.key, or listen on 127.0.0.1")
	}
}
