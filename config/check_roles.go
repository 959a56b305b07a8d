package config

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

func (a *Agent) check(c *checker) {
	c.version(a.Version)
	c.name("device", a.Device)
	c.broker(a.Broker)
	c.agentKeys(a.Keys)
	between(c, "queue.objects", a.Queue.Objects, 1, 1<<20)
	between(c, "queue.bytes", a.Queue.Bytes, MiB, 64*GiB)
	oneOf(c, "backend_fallback", a.BackendFallback, FallbackCPU, FallbackRetry, FallbackStop)
	c.workers(a.Workers)
	oneOf(c, "energy", a.Energy, EnergyAuto, EnergyOff)
	oneOf(c, "queue.full", a.Queue.Full, QueueDropOldest, QueueDropNewest, QueueBlock)
	between(c, "stop_timeout", a.StopTimeout, time.Second, time.Hour)
	c.log(a.Log)
	c.metrics(a.Metrics)
	c.control(a.Control)
	c.remote(a.Remote)
	names := make([]string, len(a.Streams))
	for i, s := range a.Streams {
		names[i] = s.Name
		c.stream(fmt.Sprintf("streams[%d]", i), s, true)
		if first := a.Streams[0].Params; s.Params != first && c.sound("streams[0].params") {
			c.fail(fmt.Sprintf("streams[%d].params", i), fmt.Sprintf("%s here and %s in streams[0], but an agent has one key, for one parameter set", s.Params, first),
				fmt.Sprintf("write params: %s, or run a second agent", first))
		}
	}
	c.unique("streams", "stream", names)
	for i, e := range a.Delivery.Evaluators {
		if e.Name == a.Device && e.Name != "" {
			c.fail(fmt.Sprintf("delivery.evaluators[%d].name", i), "the evaluator has the name of this device, and receipts of the two cannot be told apart", "give the evaluator another name")
		}
	}
	c.agentInputs(a.Inputs)
	c.froms(a)
	c.delivery(a)
}

func (c *checker) agentKeys(k AgentKeys) {
	oneOf(c, "keys.mode", k.Mode, KeyModePublic, KeyModeSymmetric)
	if k.Holder != "" {
		c.holder("keys.holder", k.Holder)
	}
	if !c.sound("keys") {
		return
	}
	switch k.Mode {
	case KeyModePublic:
		if k.PublicKey == "" {
			c.fail("keys", "\"public_key\" is missing", "add \"public_key\", the file that `hencedge keys export --role agent` wrote")
		}
		if k.SecretKey != "" {
			c.failKey("keys.secret_key", "a secret key does not belong on a device that encrypts with the public key", "remove it and the file; or, knowing the risk, set \"mode: symmetric\"")
		}
	case KeyModeSymmetric:
		if k.SecretKey == "" {
			c.fail("keys", "\"secret_key\" is missing", "add \"secret_key\", the file that `hencedge keys export --role agent --symmetric` wrote")
		}
		if k.PublicKey != "" {
			c.failKey("keys.public_key", "symmetric mode uses the secret key only", "remove \"public_key\", or set \"mode: public\"")
		}
	}
}

// holders checks who may have signed key sets.
func (c *checker) holders(list []string) {
	for i, h := range list {
		path := fmt.Sprintf("keys.holder[%d]", i)
		c.holder(path, h)
		if h == HolderNone && len(list) > 1 {
			c.fail(path, "\"none\" stands beside others", "remove it, or all others")
		}
	}
	c.distinct("keys.holder", "key holder", list)
}

var holderForm = regexp.MustCompile(patternHolder)

// holder checks a key holder's fingerprint or public key.
func (c *checker) holder(path, s string) {
	switch {
	case strings.HasPrefix(s, "ed25519:"):
		c.publicKey(path, s)
	case !holderForm.MatchString(s):
		c.fail(path, "not a fingerprint", "copy the line that `hencedge keys show` prints at the key holder: five groups of five letters and digits, such as k7qd2-4mzra-xxb3e-jq6hn-2hvwp; or its public key")
	}
}

func (e *Evaluator) check(c *checker) {
	c.version(e.Version)
	c.name("name", e.Name)
	c.broker(e.Broker)
	c.distinct("key_sets", "directory", e.KeySets)
	c.holders(e.Keys.Holder)
	c.signers("devices", "device", e.Devices)
	for _, d := range e.Devices {
		if d.Name == e.Name && d.Name != "" && c.sound("name", "devices") {
			c.fail("name", fmt.Sprintf("a device is called %q too, and status and receipts of the two cannot be told apart", d.Name), "give the evaluator another name")
		}
	}
	c.deviceStreams(e)
	c.programs(e)
	between(c, "join.timeout", e.Join.Timeout, time.Second, 24*time.Hour)
	between(c, "join.windows", e.Join.Windows, 1, 1<<16)
	c.limits(e.Limits)
	if e.Store != nil {
		c.store(e.Store)
	}
	c.workers(e.Workers)
	between(c, "stop_timeout", e.StopTimeout, time.Second, time.Hour)
	oneOf(c, "backend_fallback", e.BackendFallback, FallbackCPU, FallbackRetry, FallbackStop)
	c.log(e.Log)
	c.metrics(e.Metrics)
	c.control(e.Control)
}

// workers checks a number of processors; 0 is that it is not given.
func (c *checker) workers(n int) {
	if n != 0 {
		between(c, "workers", n, 1, 1024)
	}
}

func (c *checker) distinct(path, kind string, list []string) {
	seen := map[string]bool{}
	for i, s := range list {
		if seen[s] && s != "" {
			c.fail(fmt.Sprintf("%s[%d]", path, i), fmt.Sprintf("the %s %q is listed twice", kind, s), "keep one of them")
		}
		seen[s] = true
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
		if c.sound("devices") && !known[s.Device] {
			c.fail(p+".device", fmt.Sprintf("the device %q is not listed under devices", s.Device), yamlx.SuggestValue(s.Device, devices)+"; or add it there")
			c.bad = append(c.bad, p+".device")
		}
		c.stream(p, s.Stream, false)
		id := s.Device + "/" + s.Name
		if j, dup := seen[id]; dup && s.Name != "" {
			c.fail(p+".name", fmt.Sprintf("the stream %q is already defined as streams[%d]", id, j), "keep one of them")
			continue
		}
		seen[id] = i
	}
}

const maxExpr = 16 << 10 // bytes of a program's expression

func (c *checker) programs(e *Evaluator) {
	names := make([]string, len(e.Programs))
	topics := map[string]int{}
	for i, p := range e.Programs {
		path := fmt.Sprintf("programs[%d]", i)
		names[i] = p.Name
		c.name(path+".name", p.Name)
		if strings.TrimSpace(p.Expr) == "" && c.sound(path+".expr") {
			c.fail(path+".expr", "the expression is empty", "write one, such as mean(x)")
		} else if len(p.Expr) > maxExpr {
			c.fail(path+".expr", fmt.Sprintf("the expression is longer than %d bytes", maxExpr), "split it into several programs")
		}
		if p.Unit != "" {
			c.unit(path+".unit", p.Unit)
		}
		if p.Topic != "" {
			c.topic(path+".topic", p.Topic, 512)
			c.ownTopic(path+".topic", p.Topic, e.Broker.TopicPrefix)
			if j, dup := topics[p.Topic]; dup {
				c.fail(path+".topic", fmt.Sprintf("programs[%d] publishes on the same topic", j), "give each program its own topic")
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
	for _, reserved := range []struct{ level, holds string }{{"up", "readings of devices"}, {"res", "results under their program's name"},
		{"st", "birth messages"}, {"ask", "questions"}, {"rcp", "receipts"}, {"prg", "programs"}, {"cfg", "remote configurations"}} {
		if first == reserved.level {
			c.fail(path, fmt.Sprintf("%s/%s/ is for %s", prefix, first, reserved.holds), "leave topic out, or choose one outside of "+prefix+"/")
		}
	}
}

func (c *checker) inputs(e *Evaluator, path string, p Program) {
	var first, firstRef string
	for _, name := range sortedKeys(p.Inputs) {
		ref, at := p.Inputs[name], yamlx.Join(path+".inputs", name)
		if !identPattern.MatchString(name) {
			c.failKey(at, fmt.Sprintf("invalid variable name %q", name), "use letters, digits and '_', a digit not first, such as x2")
		}
		if !c.sound("streams", at) {
			continue
		}
		s, remedy := e.lookup(ref)
		if s == nil {
			c.fail(at, fmt.Sprintf("%q is no known channel", ref), remedy)
			continue
		}
		if first == "" {
			first, firstRef = s.Params, ref
		} else if s.Params != first {
			c.fail(at, fmt.Sprintf("%s is under %s and %s under %s", ref, s.Params, firstRef, first), "take the inputs of one program from streams with the same params")
		}
	}
}

// lookup finds the stream of "device/stream/channel", or says what to write.
func (e *Evaluator) lookup(ref string) (*DeviceStream, string) {
	var all []string
	for i := range e.Streams {
		s := &e.Streams[i]
		for _, ch := range s.Channels {
			id := s.Device + "/" + s.Name + "/" + ch.Name
			if id == ref {
				return s, ""
			}
			all = append(all, id)
		}
	}
	if strings.Count(ref, "/") != 2 {
		return nil, "write device/stream/channel, such as " + firstOf(all, "board1/env/cpu")
	}
	if len(all) > 8 {
		if near := yamlx.Nearest(ref, all); near == "" {
			return nil, "list the channel under streams first"
		}
	}
	return nil, yamlx.SuggestValue(ref, all)
}

func firstOf(list []string, otherwise string) string {
	if len(list) > 0 {
		return list[0]
	}
	return otherwise
}

// Input finds the stream and the channel index that ref
// ("device/stream/channel") names.
func (e *Evaluator) Input(ref string) (*DeviceStream, int, error) {
	s, remedy := e.lookup(ref)
	if s == nil {
		return nil, 0, fmt.Errorf("%w: %q is no known channel: %s", ErrInvalid, ref, remedy)
	}
	return s, s.ChannelIndex(ref[strings.LastIndexByte(ref, '/')+1:]), nil
}

func (k *KeyHolder) check(c *checker) {
	c.version(k.Version)
	c.name("name", k.Name)
	c.broker(k.Broker)
	c.signers("evaluators", "evaluator", k.Evaluators)
	for i, p := range k.Programs {
		c.name(fmt.Sprintf("programs[%d]", i), p)
	}
	c.distinct("programs", "program", k.Programs)
	for i, t := range k.Topics {
		c.topic(fmt.Sprintf("topics[%d]", i), t, 512)
		c.ownTopic(fmt.Sprintf("topics[%d]", i), t, k.Broker.TopicPrefix)
	}
	c.distinct("topics", "topic", k.Topics)
	oneOf(c, "output", k.Output, "table", "ndjson", "csv")
	c.limits(k.Limits)
	c.log(k.Log)
	c.metrics(k.Metrics)
}
