package engine

import (
	"fmt"
	"sync"

	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bootstrap"
	"github.com/hencedge/hencedge/transport"
)

// BootstrapLacks says which key programs lack to bootstrap; "" means none.
func (k Keys) BootstrapLacks() string {
	p := k.Context.Parameters()
	plan, err := bootstrapPlan(p)
	switch {
	case err != nil:
		return "parameters with levels for it"
	case k.Evaluation.Sparse == nil:
		return "the keys of the sparse secret"
	case k.Evaluation.Relin == nil:
		return "the relinearisation key"
	case k.Evaluation.Galois[henc.ConjugationElement(p)] == nil:
		return "the key of conjugation"
	}
	for _, rotation := range plan.LeastRotations() {
		if k.Evaluation.Galois[henc.GaloisElement(p, rotation)] == nil {
			return fmt.Sprintf("the key of the rotation by %d", rotation)
		}
	}
	return ""
}

func bootstrapPlan(p henc.Parameters) (*bootstrap.Plan, error) {
	lit, err := bootstrap.LiteralOf(p)
	if err != nil {
		return nil, err
	}
	return bootstrap.NewPlan(p, lit)
}

// bootstrappers are those of the keys of a device, made when a program first needs one. They share their
// matrices.
type bootstrappers struct {
	mu    sync.Mutex
	keys  map[transport.KeyRef]*henc.EvaluationKeys
	made  map[transport.KeyRef]*bootstrap.Bootstrapper
	first *bootstrap.Bootstrapper // which holds the matrices
}

func (b *bootstrappers) of(ctx *henc.Context, key transport.KeyRef) (*bootstrap.Bootstrapper, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if made := b.made[key]; made != nil {
		return made, nil
	}
	made, err := b.create(ctx, b.keys[key])
	if err != nil {
		return nil, err
	}
	if b.made == nil {
		b.made, b.first = map[transport.KeyRef]*bootstrap.Bootstrapper{}, made
	}
	b.made[key] = made
	return made, nil
}

func (b *bootstrappers) create(ctx *henc.Context, keys *henc.EvaluationKeys) (*bootstrap.Bootstrapper, error) {
	if b.first != nil {
		return b.first.With(keys)
	}
	plan, err := bootstrapPlan(ctx.Parameters())
	if err != nil {
		return nil, err
	}
	return bootstrap.New(ctx, plan, keys)
}

// forget frees all of them.
func (b *bootstrappers) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, made := range b.made {
		made.Free()
	}
	b.keys, b.made, b.first = nil, nil, nil
}

// item returns a run of r on d under a key.
func (d *device) item(r program.Routine, key transport.KeyRef, inputs map[program.Input]*henc.Ciphertext) (
	it program.Item, err error) {
	it = program.Item{Routine: r, Evaluator: d.keys[key], Inputs: inputs}
	if r.Bootstraps() > 0 {
		it.Bootstrapper, err = d.boots.of(d.ctx, key)
	}
	return it, err
}
