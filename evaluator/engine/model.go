package engine

import (
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/hencedge/hencedge/evaluator/model/answer"
	"github.com/hencedge/hencedge/evaluator/model/encrypted"
	"github.com/hencedge/hencedge/evaluator/model/rangecover"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/bfv/compare"
	"github.com/hencedge/hencedge/transport"
)

// models are the prepared models and comparisons of a device, made when a program first needs one. One row or pair of
// windows at a time is evaluated: the bits of a row take much memory.
type models struct {
	running  sync.Mutex
	ctx      *bfv.Context
	made     map[modelOf]*encrypted.Evaluator
	compared map[batchOf]*compare.Batch
}

type modelOf struct {
	plan *rangecover.Plan
	key  transport.KeyRef
}

type batchOf struct {
	window compare.Window
	key    transport.KeyRef
}

// modelCache bounds the memory of the prepared plaintexts of one model, in bytes.
const modelCache = 256 << 20

// RunWhole computes on whole numbers: it evaluates the model of a circuit on its row, or compares windows, with new
// randomness. It is Run for such a circuit.
func (e *Engine) RunWhole(c *program.Circuit, key transport.KeyRef,
	inputs map[program.Input]*Ciphertext) (Result, error) {
	var out Result
	var in []*Ciphertext
	for _, name := range operands(c) {
		if inputs[name] == nil {
			return out, fmt.Errorf("%w: %s has no window of %s", program.ErrInput, c.Name(), name)
		}
		in = append(in, inputs[name])
	}
	if c.Plan() == nil && c.Comparison() == nil {
		return out, fmt.Errorf("%w: %s has no plan", program.ErrInput, c.Name())
	}
	l := e.lanes[c.Parameters().Hash()]
	err := l.attempt(l.nearest(inputs), func(d *device) (err error) {
		out, err = d.runWhole(c, key, in, e.o.Workers)
		return err
	})
	return out, err
}

// operands returns the inputs of a circuit on whole numbers, of a comparison in the order of its operands.
func operands(c *program.Circuit) []program.Input {
	if k := c.Comparison(); k != nil {
		return []program.Input{k.Less, k.Than}
	}
	return c.Inputs()
}

func (d *device) runWhole(c *program.Circuit, key transport.KeyRef, in []*Ciphertext, workers int) (Result, error) {
	m := &d.models
	m.running.Lock()
	defer m.running.Unlock()
	start := time.Now()
	if m.ctx == nil {
		ctx, err := bfv.ContextOf(d.ctx)
		if err != nil {
			return Result{}, err
		}
		m.ctx = ctx
	}
	var received []*bfv.Ciphertext
	for _, one := range in {
		ct, err := one.on(d, true)
		if err != nil {
			return Result{}, err
		}
		whole, err := m.ctx.Received(ct, m.ctx.Parameters().Noise().FreshPK())
		if err != nil {
			return Result{}, err
		}
		received = append(received, whole)
	}
	all, err := d.computeWhole(c, key, received, workers)
	if err != nil {
		return Result{}, err
	}
	defer func() { m.ctx.Free(all...) }()
	if all, err = m.lower(all, c.Parameters().MaxLevel()-c.Level()); err != nil {
		return Result{}, fmt.Errorf("result: %w", err)
	}
	size := m.ctx.Parameters().Base().CiphertextBytes(c.Level(), false)
	room := make([]byte, transport.SealRoom, transport.SealRoom+answer.BodyRoom+len(all)*size+transport.SealTail)
	room = answer.Begin(room, len(all))
	for _, one := range all {
		if room, err = d.ctx.AppendCiphertext(room, m.ctx.Scaled(one)); err != nil {
			return Result{}, fmt.Errorf("result: %w", err)
		}
	}
	return Result{Body: room[transport.SealRoom:], Took: time.Since(start), room: room}, nil
}

// lower switches ciphertexts so many levels down, unless they are there. It frees those that it replaces.
func (m *models) lower(all []*bfv.Ciphertext, down int) ([]*bfv.Ciphertext, error) {
	ev := bfv.NewEvaluator(m.ctx, nil)
	for i, ct := range all {
		if ct.Down == down {
			continue
		}
		low, err := ev.ModSwitch(ct, down)
		if err != nil {
			return all, err
		}
		m.ctx.Free(ct)
		all[i] = low
	}
	return all, nil
}

// computeWhole returns the ciphertexts of a result. The caller holds the lock.
func (d *device) computeWhole(c *program.Circuit, key transport.KeyRef, in []*bfv.Ciphertext,
	workers int) ([]*bfv.Ciphertext, error) {
	if k := c.Comparison(); k != nil {
		b, err := d.batch(batchOf{k.Window, key})
		if err != nil {
			return nil, err
		}
		ct, err := b.Less(in[0], in[1], k.Samples, rand.Reader)
		return []*bfv.Ciphertext{ct}, err
	}
	ev, err := d.model(modelOf{c.Plan(), key}, workers)
	if err != nil {
		return nil, err
	}
	blocks, err := ev.Run(in[0], rand.Reader)
	if err != nil {
		return nil, err
	}
	var all []*bfv.Ciphertext
	for _, b := range blocks {
		all = append(append(all, b.Test), b.Values...)
	}
	return all, nil
}

// evaluationKeys returns the keys of a reference.
func (d *device) evaluationKeys(of transport.KeyRef) (*henc.EvaluationKeys, error) {
	d.boots.mu.Lock()
	defer d.boots.mu.Unlock()
	keys := d.boots.keys[of]
	if keys == nil {
		return nil, fmt.Errorf("%w: there are none of epoch %d of key set %x", henc.ErrNoKey, of.Epoch, of.ID)
	}
	return keys, nil
}

// batch returns a prepared comparison. The caller holds the lock.
func (d *device) batch(of batchOf) (*compare.Batch, error) {
	m := &d.models
	if b := m.compared[of]; b != nil {
		return b, nil
	}
	keys, err := d.evaluationKeys(of.key)
	if err != nil {
		return nil, err
	}
	b, err := compare.NewBatch(m.ctx, keys, of.window)
	if err != nil {
		return nil, err
	}
	if m.compared == nil {
		m.compared = map[batchOf]*compare.Batch{}
	}
	m.compared[of] = b
	return b, nil
}

// model returns a prepared model. The caller holds the lock.
func (d *device) model(of modelOf, workers int) (*encrypted.Evaluator, error) {
	m := &d.models
	if ev := m.made[of]; ev != nil {
		return ev, nil
	}
	keys, err := d.evaluationKeys(of.key)
	if err != nil {
		return nil, err
	}
	ev, err := encrypted.New(m.ctx, keys, of.plan, encrypted.Options{Workers: workers, Cache: modelCache})
	if err != nil {
		return nil, err
	}
	if m.made == nil {
		m.made = map[modelOf]*encrypted.Evaluator{}
	}
	m.made[of] = ev
	return ev, nil
}

// forget drops what is prepared, which holds keys.
func (m *models) forget() {
	m.running.Lock()
	defer m.running.Unlock()
	m.made, m.compared = nil, nil
}
