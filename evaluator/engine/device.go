package engine

import (
	"sync"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/pieces"
	"github.com/hencedge/hencedge/transport"
)

// device is one device with the keys on it.
type device struct {
	ctx      *henc.Context
	keys     map[transport.KeyRef]*henc.Evaluator
	boots    bootstrappers
	compacts compacts
	models   models
	reader   *together[*henc.Staged, *henc.Ciphertext] // nil: the device gains nothing
	writer   *together[*henc.Ciphertext, []byte]       // as Result.Room has it
	gather   *gatherer
}

// newDevice returns the device of a context, with those of the keys that belong to it.
func newDevice(ctx *henc.Context, keys []Keys, o *Options) *device {
	d := &device{ctx: ctx, keys: map[transport.KeyRef]*henc.Evaluator{},
		boots:    bootstrappers{keys: map[transport.KeyRef]*henc.EvaluationKeys{}},
		compacts: compacts{keys: map[transport.KeyRef]*CompactKeys{}},
		gather: &gatherer{width: o.widthOf(ctx), latency: o.Latency, onBatch: o.OnBatch,
			lines: map[[32]byte][]*ticket{}}}
	d.gather.bootstrap = d.bootstrapped
	d.gather.replays = replays{memory: d.gather.width.memory}
	write := d.marshal
	if _, ok := ctx.Ring().(cutrantt.Packed); ok {
		d.reader = newTogether(nil, ctx.UnmarshalStaged)
	} else {
		write = nil
	}
	d.writer = newTogether(d.marshalOne, write)
	for _, k := range keys {
		if k.Context == ctx {
			d.keys[k.Ref()] = henc.NewEvaluator(ctx, k.Evaluation)
			d.boots.keys[k.Ref()] = k.Evaluation
			if k.Compact != nil {
				d.compacts.keys[k.Ref()] = k.Compact
			}
		}
	}
	return d
}

// name describes the device for people.
func (d *device) name() string { return d.ctx.Ring().Backend().Device() }

// read reads a ciphertext that lies in pieces, on a GPU together with others. It may leave it in the domain of its
// bytes.
func (d *device) read(body [][]byte) (*henc.Ciphertext, error) {
	if d.reader == nil {
		return d.ctx.UnmarshalAsSent(pieces.Join(body))
	}
	staged := d.ctx.Stage(body)
	defer staged.Done()
	cts, err := d.reader.ask(staged)
	return cts[0], err
}

// marshal returns each of cts as Result.Room has it.
func (d *device) marshal(cts []*henc.Ciphertext) ([][]byte, []error) {
	rooms := make([][]byte, len(cts))
	for i, ct := range cts {
		size := d.ctx.Parameters().CiphertextBytes(ct.Level, ct.Seed != nil)
		rooms[i] = make([]byte, transport.SealRoom, transport.SealRoom+size+transport.SealTail)
	}
	return d.ctx.AppendCiphertexts(rooms, cts)
}

func (d *device) marshalOne(ct *henc.Ciphertext) ([]byte, error) {
	rooms, errs := d.marshal([]*henc.Ciphertext{ct})
	return rooms[0], errs[0]
}

// Ciphertext is a received ciphertext on one or more devices. It keeps its bytes if a
// device can fail.
type Ciphertext struct {
	mu   sync.Mutex
	body [][]byte // in pieces
	lies map[*device]*henc.Ciphertext

	compact *compactWindow // instead of all else
}

// on returns the ciphertext on d, in the domain of its context if own is set; without, several
// can be added up before they are converted. It reads the bytes onto d if that has not happened
// yet.
func (c *Ciphertext) on(d *device, own bool) (*henc.Ciphertext, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ct := c.lies[d]
	if ct == nil {
		var err error
		if ct, err = d.read(c.body); err != nil {
			return nil, err
		}
		c.lies[d] = ct
	}
	if own {
		var err error
		if ct, err = d.own(ct); err != nil {
			return nil, err
		}
		c.lies[d] = ct
	}
	return ct, nil
}

// own returns ct in the domain of the context. Others may still use ct itself.
func (d *device) own(ct *henc.Ciphertext) (*henc.Ciphertext, error) {
	if ct.Value.Domain() == d.ctx.Domain() {
		return ct, nil
	}
	return d.ctx.Sum([]*henc.Ciphertext{ct}, ct.Level)
}

// liesOn reports whether the ciphertext is on d.
func (c *Ciphertext) liesOn(d *device) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lies[d] != nil
}
