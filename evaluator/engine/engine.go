package engine

import (
	"fmt"
	"time"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/transport"
)

// Engine is the arithmetic of an evaluator, on all its devices.
type Engine struct {
	o     Options
	lanes map[[32]byte]*lane // by the parameters' hash
}

// New makes an engine for the parameters of keys: on their own contexts and on further
// devices.
func New(keys []Keys, o Options) (*Engine, error) {
	e := &Engine{o: o, lanes: map[[32]byte]*lane{}}
	for _, k := range keys {
		hash := k.Context.Parameters().Hash()
		if e.lanes[hash] != nil {
			continue
		}
		l, err := e.newLane(k.Context, keys)
		if err != nil {
			return nil, err
		}
		e.lanes[hash] = l
	}
	return e, nil
}

// newLane makes the lane for the parameters of a context.
func (e *Engine) newLane(first *henc.Context, keys []Keys) (*lane, error) {
	start := e.o.Now()
	l := &lane{o: &e.o, params: first.Parameters(), devices: []*device{newDevice(first, keys, &e.o)},
		fallback: role.Fallback[*device]{Policy: e.o.Policy, Log: e.o.Logger, Stop: e.o.Stop,
			Mono: func() time.Duration { return e.o.Now().Sub(start) }}}
	if e.o.ReadKeys == nil {
		return l, nil
	}
	if e.o.More != nil {
		more, err := e.o.More(l.params)
		if err != nil {
			return nil, err
		}
		for _, ctx := range more {
			d, err := l.load(ctx)
			if err != nil {
				return nil, err
			}
			l.devices = append(l.devices, d)
		}
	}
	_, fails := first.Ring().(cutrantt.Health)
	l.kept = fails || len(l.devices) > 1
	return l, nil
}

// Receive reads a ciphertext of the parameters with this hash onto the device whose turn it is. Each turn that it is
// called with takes a little memory, so layout and place must be those of a stream that was configured.
func (e *Engine) Receive(params [32]byte, body []byte, turn Turn) (*Ciphertext, error) {
	return e.ReceivePieces(params, [][]byte{body}, turn)
}

// ReceivePieces is Receive for bytes in pieces, which follow each other. Nobody may change them any more: the
// ciphertext may keep them.
func (e *Engine) ReceivePieces(params [32]byte, body [][]byte, turn Turn) (*Ciphertext, error) {
	return e.lanes[params].receive(body, turn)
}

// Run runs a circuit, or a set of them with a result for each, on the device on which most
// of its inputs lie, together with other runs of the same form that come at the same time.
// place is where the windows stand: those of one routine and key at different places are added
// up and run as one (program.Item.Added). Compact windows are bootstrapped together first, and have no place
// before. It returns when the results are there; call it from as many goroutines as Parallel says.
func (e *Engine) Run(r program.Routine, key transport.KeyRef, inputs map[program.Input]*Ciphertext, place int) (
	out []Result, err error) {
	l := e.lanes[r.Parameters().Hash()]
	err = l.attempt(l.nearest(inputs), func(d *device) error {
		own, err := d.runOn(r, key, inputs, place, nil)
		if err != nil {
			return err
		}
		defer own.done()
		rooms, err := own.written(d.writer.ask)
		if err != nil {
			return fmt.Errorf("result: %w", err)
		}
		out = make([]Result, len(rooms))
		for k, room := range rooms {
			out[k] = Result{Body: room[transport.SealRoom:], Took: own.took / time.Duration(len(out)),
				Of: Origin{own.of, k}, Place: own.spot, room: room}
		}
		return nil
	})
	return out, err
}

// Parallel returns how many runs the devices take at a time: those that are computed, and those
// that wait for others to be added to.
func (e *Engine) Parallel() (n int) {
	for _, l := range e.lanes {
		l.mu.Lock()
		for _, d := range l.devices {
			n += e.o.runs(d.gather.width)
		}
		l.mu.Unlock()
	}
	return n
}

// Result is what a circuit makes.
type Result struct {
	Body []byte // the ciphertext, which others may read
	// Of is equal for results that are one ciphertext: those of windows that were added up.
	Of Origin
	// Place is where the windows stood: of compact ones where they were brought to, else what Run was given.
	Place int
	// Took is its part of the time of its batch, of the attempt that succeeded.
	Took time.Duration

	room []byte // ends with Body
}

// Room returns memory that ends with Body and has the room that transport.SealNamed wants:
// SealRoom bytes before it, and capacity for SealTail bytes after it. Who seals Body there
// changes both, so of results that are one ciphertext each gets memory of its own.
func (r Result) Room() []byte {
	if r.Of.of == nil || r.Of.of.jobs == 1 {
		return r.room
	}
	return append(make([]byte, 0, cap(r.room)), r.room...)
}

// Origin tells ciphertexts of one engine apart.
type Origin struct {
	of     *whole
	result int
}

// Contexts returns the contexts that are in use: one for each parameter set and device.
func (e *Engine) Contexts() (all []*henc.Context) {
	for _, l := range e.lanes {
		l.mu.Lock()
		for _, d := range l.devices {
			all = append(all, d.ctx)
		}
		l.mu.Unlock()
	}
	return all
}

// Forget drops the evaluation keys, whoever still holds the engine: another one may
// follow that needs the room. Nothing must compute any more.
func (e *Engine) Forget() {
	for _, l := range e.lanes {
		l.forget()
	}
}
