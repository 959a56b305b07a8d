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
	"github.com/hencedge/hencedge/transport"
)

// models are the prepared models of a device, made when a program first needs one. One row at a time is evaluated, by
// all workers: the bits of a row take much memory.
type models struct {
	running sync.Mutex
	ctx     *bfv.Context
	made    map[modelOf]*encrypted.Evaluator
}

type modelOf struct {
	plan *rangecover.Plan
	key  transport.KeyRef
}

// modelCache bounds the memory of the prepared plaintexts of one model, in bytes.
const modelCache = 256 << 20

// RunModel evaluates the model of a circuit on its row, with new randomness. It is Run for such a circuit.
func (e *Engine) RunModel(c *program.Circuit, key transport.KeyRef,
	inputs map[program.Input]*Ciphertext) (Result, error) {
	var out Result
	row := inputs[c.Inputs()[0]]
	if row == nil || c.Plan() == nil {
		return out, fmt.Errorf("%w: %s has no row, or no plan", program.ErrInput, c.Name())
	}
	l := e.lanes[c.Parameters().Hash()]
	err := l.attempt(l.nearest(inputs), func(d *device) (err error) {
		out, err = d.evaluateModel(c, key, row, e.o.Workers)
		return err
	})
	return out, err
}

func (d *device) evaluateModel(c *program.Circuit, key transport.KeyRef, row *Ciphertext, workers int) (Result, error) {
	m := &d.models
	m.running.Lock()
	defer m.running.Unlock()
	start := time.Now()
	ev, err := d.model(modelOf{c.Plan(), key}, workers)
	if err != nil {
		return Result{}, err
	}
	ct, err := row.on(d, true)
	if err != nil {
		return Result{}, err
	}
	in, err := m.ctx.Received(ct, m.ctx.Parameters().Noise().FreshPK())
	if err != nil {
		return Result{}, err
	}
	blocks, err := ev.Run(in, rand.Reader)
	if err != nil {
		return Result{}, err
	}
	var all []*bfv.Ciphertext
	for _, b := range blocks {
		all = append(append(all, b.Test), b.Values...)
	}
	defer m.ctx.Free(all...)
	size := m.ctx.Parameters().Base().CiphertextBytes(ct.Level, false)
	room := make([]byte, transport.SealRoom, transport.SealRoom+answer.BodyRoom+len(all)*size+transport.SealTail)
	room = answer.Begin(room, len(all))
	for _, one := range all {
		if room, err = d.ctx.AppendCiphertext(room, m.ctx.Scaled(one)); err != nil {
			return Result{}, fmt.Errorf("result: %w", err)
		}
	}
	return Result{Body: room[transport.SealRoom:], Took: time.Since(start), room: room}, nil
}

// model returns a prepared model. The caller holds the lock.
func (d *device) model(of modelOf, workers int) (*encrypted.Evaluator, error) {
	m := &d.models
	if ev := m.made[of]; ev != nil {
		return ev, nil
	}
	if m.ctx == nil {
		ctx, err := bfv.ContextOf(d.ctx)
		if err != nil {
			return nil, err
		}
		m.ctx = ctx
	}
	d.boots.mu.Lock()
	keys := d.boots.keys[of.key]
	d.boots.mu.Unlock()
	if keys == nil {
		return nil, fmt.Errorf("%w: there are none of epoch %d of key set %x", henc.ErrNoKey, of.key.Epoch, of.key.ID)
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

// forget drops the prepared models, which hold keys.
func (m *models) forget() {
	m.running.Lock()
	defer m.running.Unlock()
	m.made = nil
}
