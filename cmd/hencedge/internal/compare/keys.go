package compare

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
)

// keys holds the keys that the roles' files name, as far as they can be read here.
type keys struct {
	agents     []*agentKey        // by agent; nil: not read
	evaluators []*keyset.Manifest // by key_sets; nil: not read
	holder     *keyset.Manifest   // nil: not read
}

// agentKey names the key that an agent encrypts under.
type agentKey struct {
	id     string // hexadecimal
	epoch  uint32
	params string
	path   string // in the agent's configuration, such as keys.public_key
	file   string
	board  string // keyset.CompactDevice.Board of the device; empty: none, or not known
}

func (k agentKey) String() string {
	return fmt.Sprintf("epoch %d of key set %.8s (%s)", k.epoch, k.id, k.params)
}

// readKeys reads the key files of all roles.
func (c *comparison) readKeys(f Files) keys {
	var out keys
	for i := range f.Agents {
		k, err := readAgentKey(f.Agents[i].Agent)
		if err != nil {
			c.skip("the key that "+f.Agents[i].Device+" encrypts under", err)
		}
		out.agents = append(out.agents, k)
	}
	if f.Evaluator != nil {
		for _, dir := range f.Evaluator.KeySets {
			m, err := keyset.ReadManifest(dir)
			if err != nil {
				c.skip("the evaluator's key set", err)
			}
			out.evaluators = append(out.evaluators, m)
		}
	}
	if f.KeyHolder != nil {
		m, err := keyset.ReadManifest(f.KeyHolder.KeySet)
		if err != nil {
			c.skip("the key holder's key set", err)
		}
		out.holder = m
	}
	return out
}

// readAgentKey reads the public key of an agent, or what the manifest beside the board's key says of it. It does not
// read secret keys.
func readAgentKey(a *config.Agent) (*agentKey, error) {
	if a.Keys.BoardKey != "" {
		m, err := keyset.ReadManifest(filepath.Dir(a.Keys.BoardKey))
		if err != nil {
			return nil, err
		}
		e := m.Current()
		d, _ := e.Compact.Device(a.Device)
		return &agentKey{e.KeyID, e.Epoch, m.Params, "keys.board_key", a.Keys.BoardKey, d.Board}, nil
	}
	if a.Keys.Mode == config.KeyModeSymmetric {
		return nil, errors.New("it is a secret key (mode: symmetric), which is not read")
	}
	b, err := os.ReadFile(a.Keys.PublicKey)
	if err != nil {
		return nil, err
	}
	h, err := henc.PeekPublicKey(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Keys.PublicKey, err)
	}
	return &agentKey{fmt.Sprintf("%x", h.KeyID), h.Epoch, henc.NameOf(h.Params), "keys.public_key", a.Keys.PublicKey,
		""}, nil
}

// keySets compares the keys that the roles have.
func (c *comparison) keySets(f Files, k keys) {
	c.pins(f, k)
	for i, key := range k.agents {
		if key == nil {
			continue
		}
		a := f.Agents[i].side()
		for j, s := range f.Agents[i].Streams {
			if s.Params != key.params {
				c.Differences = append(c.Differences, a.finding(fmt.Sprintf("streams[%d].params", j), s.Params,
					fmt.Sprintf("the key in %s is for %s", key.file, key.params),
					"name the key's parameters, or ask the key holder for a key of these",
					a.at(key.path, key.String())))
			}
		}
		if f.Evaluator != nil {
			c.has(a, key, f.Evaluator.side(), "key_sets", k.evaluators)
			c.hasBoard(a, f.Agents[i].Device, key, f.Evaluator.side(), k.evaluators)
		}
		if f.KeyHolder != nil && k.holder != nil {
			c.has(a, key, f.KeyHolder.side(), "key_set", []*keyset.Manifest{k.holder})
			if now := k.holder.Current(); now.KeyID != key.id && slices.ContainsFunc(k.holder.Epochs,
				func(e keyset.Epoch) bool { return e.KeyID == key.id }) {
				c.warn(a, key.path, fmt.Sprintf(
					"the device encrypts under epoch %d, and the newest of the key holder is %d", key.epoch, now.Epoch),
					"give the device the newest key before the overlap ends", f.KeyHolder.side(), "key_set")
			}
		}
	}
	if f.Evaluator != nil {
		c.paramsOf(f.Evaluator, k.evaluators)
	}
	if f.Evaluator == nil || f.KeyHolder == nil || k.holder == nil {
		return
	}
	es, ks := f.Evaluator.side(), f.KeyHolder.side()
	for i, m := range k.evaluators {
		if m == nil || m.ParamsHash != k.holder.ParamsHash && len(k.evaluators) > 1 { // of another key holder
			continue
		}
		path := fmt.Sprintf("key_sets[%d]", i)
		if m.Signer != k.holder.Signer {
			c.differ(es, path, "key sets signed by "+m.Signer, ks, "key_set", k.holder.Signer,
				"export the evaluator's keys from the key holder's key set")
			continue
		}
		for _, e := range m.Epochs {
			if !slices.ContainsFunc(k.holder.Epochs, func(h keyset.Epoch) bool { return h.KeyID == e.KeyID }) {
				c.fault(es, path, fmt.Sprintf("results under epoch %d (%.8s) cannot be read: the key holder has %s",
					e.Epoch,
					e.KeyID, epochs(k.holder)),
					"use the key holder's newest copy of its key set", ks, "key_set")
			}
		}
	}
}

// pins compares the key holder whom each role trusts with the one who signs its keys.
func (c *comparison) pins(f Files, k keys) {
	type pin struct {
		side
		holders []string
	}
	var pins []pin
	for i := range f.Agents {
		if h := f.Agents[i].Keys.Holder; h != "" {
			pins = append(pins, pin{f.Agents[i].side(), []string{h}})
		}
	}
	if f.Evaluator != nil && len(f.Evaluator.Keys.Holder) > 0 {
		pins = append(pins, pin{f.Evaluator.side(), f.Evaluator.Keys.Holder})
	}
	for i, p := range pins {
		trust, err := keyset.Trusted(p.holders...)
		if err != nil {
			c.skip("keys.holder of "+p.file, err)
			continue
		}
		if k.holder != nil {
			if pub, err := transport.ParsePublicKey(k.holder.Signer); err == nil && trust.Check(pub) != nil {
				c.fault(p.side, "keys.holder", fmt.Sprintf("the key holder signs as %s, whose keys are refused here",
					k.holder.Fingerprint()),
					"write the fingerprint that `hencedge keys show` prints", f.KeyHolder.side(), "key_set")
			}
			continue
		}
		for _, q := range pins[i+1:] {
			if !anyTrusted(trust, q.holders) {
				c.fault(p.side, "keys.holder", fmt.Sprintf(
					"%s here, and %s in the other file: no key holder's keys are taken by both",
					strings.Join(p.holders, " or "),
					strings.Join(q.holders, " or ")),
					"write the fingerprint that `hencedge keys show` prints in both", q.side, "keys.holder")
			}
		}
	}
}

// anyTrusted reports whether t may trust one of the holders, which a file names as
// fingerprints or keys.
func anyTrusted(t keyset.Trust, holders []string) bool {
	return slices.ContainsFunc(holders, t.Names)
}

// hasBoard checks that the evaluator has the key of a device's compact windows.
func (c *comparison) hasBoard(a side, device string, key *agentKey, b side, sets []*keyset.Manifest) {
	if key.board == "" {
		return
	}
	for _, m := range sets {
		if m == nil {
			return
		}
		for _, e := range m.Epochs {
			if d, ok := e.Compact.Device(device); ok && e.KeyID == key.id && d.SHA256 != "" && d.Board == key.board {
				return
			}
		}
	}
	c.fault(b, "key_sets", fmt.Sprintf("there is no key of the compact windows of %s in epoch %d, so they are refused",
		device, key.epoch), "export the evaluator's keys again, after `hencedge keys device`", a, key.path)
}

// has checks that one of the key sets at a place has an agent's key. It assumes that a set
// which could not be read has it.
func (c *comparison) has(a side, key *agentKey, b side, path string, sets []*keyset.Manifest) {
	var there []string
	for _, m := range sets {
		if m == nil {
			return
		}
		if slices.ContainsFunc(m.Epochs, func(e keyset.Epoch) bool { return e.KeyID == key.id }) {
			return
		}
		there = append(there, epochs(m))
	}
	c.Differences = append(c.Differences, a.finding(key.path, key.String(), fmt.Sprintf(
		"the device encrypts under %v, and the %s has %s", key, b.role, strings.Join(there, "; ")),
		"export the keys of both from one key set, the evaluator's first", b.at(path, strings.Join(there, "; "))))
}

// epochs lists the epochs of a key set.
func epochs(m *keyset.Manifest) string {
	const most = 4
	var list []string
	for i := len(m.Epochs) - 1; i >= 0 && len(list) < most; i-- {
		list = append(list, fmt.Sprintf("epoch %d (%.8s)", m.Epochs[i].Epoch, m.Epochs[i].KeyID))
	}
	return strings.Join(list, ", ") + " of " + m.Params
}

// paramsOf checks that there are keys for the parameters of every stream.
func (c *comparison) paramsOf(e *Evaluator, sets []*keyset.Manifest) {
	var have []string
	for _, m := range sets {
		if m == nil {
			return
		}
		have = append(have, m.Params)
	}
	var all []config.PlacedStream
	for i := range e.Streams {
		all = append(all, config.PlacedStream{Path: fmt.Sprintf("streams[%d]", i), Stream: &e.Streams[i].Stream})
	}
	for _, class := range e.Classes {
		all = append(all, e.StreamsOf("", class.Name)...)
	}
	for _, s := range all {
		if !slices.Contains(have, s.Stream.Params) {
			es := e.side()
			c.Differences = append(c.Differences, es.finding(s.Path+".params", s.Stream.Params,
				fmt.Sprintf("the key sets are for %s", strings.Join(have, ", ")),
				"name the parameters of a key set, or ask the key holder for keys of these",
				es.at("key_sets", strings.Join(have, ", "))))
		}
	}
}
