package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyholder/alert"
)

// results compares an evaluator with the key holder who reads its results.
func (c *comparison) results(e *Evaluator, k *KeyHolder) {
	es, ks := e.side(), k.side()
	switch i := slices.IndexFunc(k.Evaluators, func(d config.Signer) bool { return d.Name == e.Name }); {
	case i < 0:
		c.fault(ks, "evaluators", fmt.Sprintf("results of %q are refused: it is not listed", e.Name),
			"list the evaluator with its public key", es, "name")
	default:
		c.evaluatorKey(e, ks, fmt.Sprintf("evaluators[%d].public_key", i), k.Evaluators[i].PublicKey)
		c.usedTwice(e, k, i)
	}
	waits := e.Store != nil && e.Store.Results == config.AckKeyHolder
	switch {
	case waits && !k.Receipts:
		c.fault(es, "store.results", "results wait for receipts of the key holder, and its file does not say that it "+
			"gives any",
			"write receipts: true there, or results: broker here", ks, "receipts")
	case !waits && k.Receipts:
		c.warn(ks, "receipts", "the evaluator does not wait for receipts",
			"write \"results: keyholder\" in the evaluator's store, if no result may be lost", es, "store.results")
	}
	c.programs(e, k, waits)
	c.alarms(e, k)
	c.approvals(e, k)
	for i, p := range e.Programs {
		if size := leastResult(e, p); int64(size) > int64(k.Limits.Object) {
			c.fault(ks, "limits.object",
				fmt.Sprintf("a result of %s has at least %d bytes, and no more than %v are taken",
					p.Name, size, k.Limits.Object),
				"raise limits.object", es, fmt.Sprintf("programs[%d].name", i))
		}
	}
}

// sameEvaluator compares the public keys of evaluators as an agent and the key holder
// have them.
func (c *comparison) sameEvaluator(a *Agent, k *KeyHolder) {
	for i, d := range a.Delivery.Evaluators {
		j := slices.IndexFunc(k.Evaluators, func(o config.Signer) bool { return o.Name == d.Name })
		if j >= 0 {
			c.differ(a.side(), fmt.Sprintf("delivery.evaluators[%d].public_key", i), d.PublicKey, k.side(),
				fmt.Sprintf("evaluators[%d].public_key", j), k.Evaluators[j].PublicKey,
				"write in both what `hencedge keys identity` prints for the evaluator's signing_key")
		}
	}
}

// usedTwice finds a key that is the evaluator's in one file and a device's in another.
func (c *comparison) usedTwice(e *Evaluator, k *KeyHolder, i int) {
	for j, d := range e.Devices {
		if d.PublicKey == k.Evaluators[i].PublicKey {
			c.fault(k.side(), fmt.Sprintf("evaluators[%d].public_key", i),
				fmt.Sprintf("this is the key of the device %s", d.Name),
				"write the evaluator's own key, which `hencedge keys identity` prints for its signing_key", e.side(),
				fmt.Sprintf("devices[%d].public_key", j))
		}
	}
}

// programs compares the programs that are computed with those that are read. waits says
// that a result which nobody reads stays in the evaluator's store.
func (c *comparison) programs(e *Evaluator, k *KeyHolder, waits bool) {
	es, ks := e.side(), k.side()
	names := make([]string, len(e.Programs))
	for i, p := range e.Programs {
		names[i] = p.Name
	}
	for i, name := range k.Programs {
		if !slices.Contains(names, name) {
			c.fault(ks, fmt.Sprintf("programs[%d]", i), fmt.Sprintf("the evaluator has no program %q, but %s", name,
				strings.Join(names, ", ")), "correct the name, or add the program", es, "programs")
		}
	}
	for i, topic := range k.Topics {
		if !slices.ContainsFunc(e.Programs, func(p config.Program) bool { return p.Topic == topic }) {
			c.fault(ks, fmt.Sprintf("topics[%d]", i), fmt.Sprintf("no program publishes on %q", topic),
				"correct the topic, or take it out", es, "programs")
		}
	}
	for i, p := range e.Programs {
		read := len(k.Programs) == 0 || slices.Contains(k.Programs, p.Name)
		path := fmt.Sprintf("programs[%d]", i)
		switch {
		case read && p.Topic != "" && !slices.Contains(k.Topics, p.Topic):
			c.fault(es, path+".topic",
				fmt.Sprintf("the key holder does not follow %q, where the results of %s go", p.Topic,
					p.Name), "list the topic under topics in the key holder's file", ks, "topics")
		case !read && waits:
			c.fault(es, path+".name",
				fmt.Sprintf("the key holder does not read %s, whose results wait for its receipts",
					p.Name), "list the program in the key holder's file, or take it out here", ks, "programs")
		case !read:
			c.warn(es, path+".name", fmt.Sprintf("the key holder does not read %s", p.Name),
				"list the program in the key holder's file, or take it out here", ks, "programs")
		}
	}
}

// alarms compares the rules for alarms with the programs, and their receivers with the
// evaluator's broker.
func (c *comparison) alarms(e *Evaluator, k *KeyHolder) {
	if k.Alerts == nil {
		return
	}
	es, ks := e.side(), k.side()
	for i := range k.Alerts.Rules {
		r := &k.Alerts.Rules[i]
		path := fmt.Sprintf("alerts.rules[%d]", i)
		n := slices.IndexFunc(e.Programs, func(p config.Program) bool { return p.Name == r.Program })
		switch {
		case n < 0 && len(k.Programs) == 0 && len(k.Evaluators) == 1: // else it is told of programs, or not known
			c.fault(ks, path+".program", fmt.Sprintf("the evaluator has no program %q", r.Program),
				"correct the name, or add the program", es, "programs")
		case n >= 0 && len(r.Devices) > 0 && e.Programs[n].For == "":
			c.fault(ks, path+".devices", fmt.Sprintf("%s is for no class, and its results name no device", r.Program),
				"leave devices out", es, fmt.Sprintf("programs[%d].name", n))
		}
	}
	for _, i := range alert.ReceiversAt(k.Alerts, e.Broker) {
		c.warn(ks, fmt.Sprintf("alerts.receivers[%d].mqtt.url", i),
			"alarms are published in clear at the broker that the evaluator uses, and tell it about decrypted values",
			"use another broker, or see that nobody else can subscribe to the topic", es, "broker.url")
	}
}

// approvals compares the programs with what the key holder has approved.
func (c *comparison) approvals(e *Evaluator, k *KeyHolder) {
	set, err := keyholder.Open(k.KeySet)
	if err != nil {
		return // told with the key sets
	}
	list, err := set.Approvals()
	if err != nil {
		c.skip("the approved programs", err)
		return
	}
	plan, err := evaluator.Check(e.Evaluator)
	if err != nil {
		c.skip("the approved programs: those of "+e.File+" do not compile", err)
		return
	}
	const fix = "look at it with `hencedge results approve`"
	for i := range plan.Programs {
		p := &plan.Programs[i]
		path := fmt.Sprintf("programs[%d].expr", i)
		if len(k.Programs) > 0 && !slices.Contains(k.Programs, p.Name) {
			continue
		}
		known := slices.DeleteFunc(slices.Clone(list), func(a keyholder.Approval) bool {
			return a.Evaluator != e.Name ||
				a.Program.Name != p.Name
		})
		switch {
		case len(known) == 0:
			c.warn(e.side(), path, fmt.Sprintf("the key holder has not approved %s, and refuses its results", p.Name),
				fix,
				k.side(), "key_set")
		case !slices.ContainsFunc(known, func(a keyholder.Approval) bool { return a.Of(p.Circuit) }):
			c.fault(e.side(), path,
				fmt.Sprintf("the key holder has approved another form of %s, and refuses the results of "+
					"this one", p.Name), fix, k.side(), "key_set")
		}
	}
}

// leastResult returns the least size of a result of a program, in bytes.
func leastResult(e *Evaluator, p config.Program) int {
	for _, ref := range p.Inputs {
		s, _, err := e.Input(&p, ref)
		if err != nil {
			continue
		}
		if params, err := henc.Named(s.Params); err == nil {
			return params.CiphertextBytes(0, false)
		}
	}
	return 0
}
