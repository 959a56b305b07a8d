package compare

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/transport"
)

// twoAgents compares two boards.
func (c *comparison) twoAgents(a, b *Agent) {
	ka, erra := publicOf(a.SigningKey)
	kb, errb := publicOf(b.SigningKey)
	if erra == nil && errb == nil && ka == kb {
		c.fault(a.side(), "signing_key", "both boards sign with the same key",
			"make a key for each board with `hencedge agent enroll`", b.side(), "signing_key")
	}
}

// publicOf returns the public half of a signing key in a file.
func publicOf(file string) (string, error) {
	k, err := transport.LoadSigningKey(file)
	if err != nil {
		return "", err
	}
	defer k.Wipe()
	return k.PublicText(), nil
}

// device compares an agent with the evaluator that it sends to.
func (c *comparison) device(a *Agent, e *Evaluator) {
	as, es := a.side(), e.side()
	known, ok := config.FindDevice(e.Evaluator, a.Device)
	if !ok {
		names := make([]string, len(e.Devices))
		for j, d := range e.Devices {
			names[j] = d.Name
		}
		at := "devices"
		if len(e.Enrolled) > 0 {
			names, at = append(names, "those of "+strings.Join(e.Enrolled, ", ")), "enrolled"
		}
		c.fault(as, "device", fmt.Sprintf("the evaluator knows no device %q, but %s", a.Device,
			strings.Join(names, ", ")),
			"list the device with its public key under devices, or correct its name", es, at)
		return
	}
	path := "enrolled"
	if i := slices.IndexFunc(e.Devices, func(d config.Device) bool { return d.Name == a.Device }); i >= 0 {
		path = fmt.Sprintf("devices[%d].public_key", i)
	}
	if pub, err := publicOf(a.SigningKey); err != nil {
		c.skip(fmt.Sprintf("the public key of %s with %s of %s", a.Device, path, e.File), err)
	} else {
		c.differ(es, path, known.PublicKey, as, "signing_key", pub,
			"copy the line that `hencedge keys identity` or `hencedge agent enroll` prints on the device")
	}
	c.streams(a, e, known.Class)
	c.receipts(a, e)
}

// streams compares the descriptions of the streams of a device, which is of a class or of
// none.
func (c *comparison) streams(a *Agent, e *Evaluator, class string) {
	as, es := a.side(), e.side()
	list := e.StreamsOf(a.Device, class)
	for i, s := range a.Streams {
		path := fmt.Sprintf("streams[%d]", i)
		at := slices.IndexFunc(list, func(t config.PlacedStream) bool { return t.Stream.Name == s.Name })
		ok := at >= 0
		switch {
		case !ok && ackOf(a, s.Name) == config.AckEvaluator:
			c.fault(as, path+".name",
				fmt.Sprintf("the evaluator has no stream %q of %s, and this one waits for its receipts",
					s.Name, a.Device),
				"describe the stream in the evaluator's file, with a program that reads it", es, "streams")
		case !ok:
			c.warn(as, path+".name", fmt.Sprintf("the evaluator has no stream %q of %s: what is sent is read by nobody",
				s.Name, a.Device),
				"describe the stream in the evaluator's file, if a program should read it", es, "streams")
		default:
			c.layout(a, e, i, list[at])
		}
	}
	for _, t := range list {
		if !slices.ContainsFunc(a.Streams, func(s config.Stream) bool { return s.Name == t.Stream.Name }) {
			c.fault(es, t.Path+".name",
				fmt.Sprintf("%s has no stream %q, so programs that read it never run", a.Device, t.Stream.Name),
				"correct the name, or add the stream on the device", as, "streams")
		}
	}
}

// layout compares one stream as both ends describe it.
func (c *comparison) layout(a *Agent, e *Evaluator, i int, placed config.PlacedStream) {
	as, es := a.side(), e.side()
	ours, theirs := a.Streams[i], *placed.Stream
	for _, d := range ours.Compare(theirs) {
		c.differ(as, fmt.Sprintf("streams[%d].%s", i, d.Path), d.Ours, es, placed.Path+"."+d.Path,
			d.Other,
			"write the same in both files: the device packs and the evaluator reads by it")
	}
	params, err := henc.Named(ours.Params)
	if err != nil || ours.Params != theirs.Params || ours.Compact() > 0 { // windows without a level, of a few bytes
		return
	}
	here, there := ours.LevelAt(params.Depth()), theirs.LevelAt(params.Depth())
	c.differ(as, fmt.Sprintf("streams[%d].level", i), strconv.Itoa(here), es, placed.Path+".level",
		strconv.Itoa(there),
		"write the same level in both files; `hencedge evaluator levels` finds the lowest that serves")
	size := params.CiphertextBytes(here, a.Keys.Mode == config.KeyModeSymmetric) + sealedRoom
	if int64(size) > int64(e.Limits.Object) {
		c.fault(es, "limits.object", fmt.Sprintf(
			"a window of %s/%s has up to %d bytes, and the evaluator takes no more than %v", a.Device, ours.Name, size,
			e.Limits.Object),
			"raise limits.object, or use a lower level or smaller parameters", as, fmt.Sprintf("streams[%d].params", i))
	}
}

// sealedRoom is what header and signature add to a ciphertext, at most.
const sealedRoom = 512

// ackOf returns the acknowledgement that a stream waits for.
func ackOf(a *Agent, stream string) config.Ack {
	for _, s := range a.Delivery.Streams {
		if s.Stream == stream && s.Ack != "" {
			return s.Ack
		}
	}
	return a.Delivery.Ack
}

// receipts compares who waits for receipts with who gives them.
func (c *comparison) receipts(a *Agent, e *Evaluator) {
	as, es := a.side(), e.side()
	if !slices.ContainsFunc(a.Streams, func(s config.Stream) bool { return ackOf(a, s.Name) == config.AckEvaluator }) {
		return
	}
	if e.Store == nil {
		c.fault(as, "delivery.ack", "the device waits for receipts, and only an evaluator with a store gives them",
			"add a store to the evaluator's file, or write ack: broker", es, "store")
	}
	i := slices.IndexFunc(a.Delivery.Evaluators, func(d config.Signer) bool { return d.Name == e.Name })
	if i < 0 {
		c.fault(as, "delivery.evaluators", fmt.Sprintf("receipts of %q do not count here", e.Name),
			"list the evaluator with its public key", es, "name")
		return
	}
	c.evaluatorKey(e, as, fmt.Sprintf("delivery.evaluators[%d].public_key", i), a.Delivery.Evaluators[i].PublicKey)
}

// evaluatorKey compares the evaluator's public key with what another file says.
func (c *comparison) evaluatorKey(e *Evaluator, s side, path, value string) {
	pub, err := publicOf(e.SigningKey)
	if err != nil {
		c.skip(fmt.Sprintf("the public key of %s with %s of %s", e.Name, path, s.file), err)
		return
	}
	c.differ(s, path, value, e.side(), "signing_key", pub,
		"copy the line that `hencedge keys identity` prints for the evaluator's signing_key")
}
