package henc

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
)

// Hybrid key switching (Han and Ki, eprint 2019/688). A polynomial x modulo Q_l
// is cut into digits x_d = [x] modulo the primes of digit d, each extended to
// Q_l*P; the key's digits turn sum x_d*(b_d, a_d) into an encryption of P*x*t
// with noise sum x_d*e_d, and dividing by P leaves x*t under s with that noise
// divided by P. At a lower level a digit just has fewer primes, so one key
// serves every level. cutrantt.SwitchKeys does all of it.

// gadget is the shape of the context's key switches.
func (c *Context) gadget() cutrantt.Gadget {
	return cutrantt.Gadget{Alpha: c.params.Alpha(), Special: c.params.PLimbs()}
}

// operands returns the key of each item. Neighbours with the same evaluator share it.
func (be *BatchEvaluator) operands(of func(ev *Evaluator) (cutrantt.Operand, error)) ([]cutrantt.Operand, error) {
	keys := make([]cutrantt.Operand, len(be.evs))
	for i, ev := range be.evs {
		if i > 0 && ev == be.evs[i-1] {
			keys[i] = keys[i-1]
			continue
		}
		var err error
		if keys[i], err = of(ev); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// galois is the key of an element, checked, with its operand for level.
func (ev *Evaluator) galois(op string, g uint64, level int) (cutrantt.Operand, error) {
	if ev.keys == nil || ev.keys.Galois[g] == nil {
		return nil, fmt.Errorf("%s: %w: there is no Galois key for element %d", op, ErrNoKey, g)
	}
	k, err := ev.switching(ev.keys.Galois[g], level)
	if err != nil {
		return nil, fmt.Errorf("%s: key of element %d: %w", op, g, err)
	}
	return k, nil
}

// relin is the operand of the relinearisation key for a level.
func (ev *Evaluator) relin(op string, level int) (cutrantt.Operand, error) {
	if ev.keys == nil || ev.keys.Relin == nil {
		return nil, fmt.Errorf("%s: %w: there is no relinearisation key", op, ErrNoKey)
	}
	k, err := ev.switching(ev.keys.Relin, level)
	if err != nil {
		return nil, fmt.Errorf("%s: relinearisation key: %w", op, err)
	}
	return k, nil
}

// switching checks key and returns the operand for the digits of level.
func (ev *Evaluator) switching(key *SwitchingKey, level int) (cutrantt.Operand, error) {
	if err := key.check(ev.ctx); err != nil {
		return nil, err
	}
	digits := ev.ctx.params.Dnum(level)
	if digits == 0 {
		return nil, fmt.Errorf("%w: level %d has no digits", ErrLevel, level)
	}
	return key.operand(ev.ctx, digits)
}
