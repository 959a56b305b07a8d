// Package program turns an expression over sensor windows, such as
// "mean(x)", "cov(x, y)" or "x*y + 0.5*z", into a circuit over CKKS
// ciphertexts, and runs it without any secret key.
//
// The way of an expression:
//
//	parse     text -> syntax tree (expr-lang's grammar), with limits
//	lower     syntax tree -> graph: types, constant folding, common parts once
//	plan      graph -> steps: levels, scales, rescaling, rotations, error bound
//	run       steps over a henc.Evaluator
//
// A value is held as A*ct + B with public numbers A and B, so that units,
// offsets and divisions cost neither a level nor noise. The planner tries a few
// policies of when to rescale and keeps the cheapest plan whose promised error is
// within half a bit of the best. Everything is decided at compile time, without keys; docs/programs.md explains
// the language and how the promised error is computed.
//
// The package holds no secret and imports no secret-key code.
package program

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
)

// Compile checks and plans a program for the parameters. It needs no keys. It
// fails with an *Error that wraps one of the sentinels of this package and, when
// the program does not fit, names parameters or a scale that would do.
func Compile(prog Source, params henc.Parameters) (*Circuit, error) {
	c, err := compile(prog, params)
	var refused *Error
	if errors.As(err, &refused) {
		refused.Hint = (&adviser{prog, params}).advice(refused)
	}
	return c, err
}

// adviser knows what else a refused program could be compiled for.
type adviser struct {
	prog   Source
	params henc.Parameters
}

// advice returns what would make a refused program fit.
func (a *adviser) advice(err *Error) string {
	if !errors.Is(err, ErrDepth) && !errors.Is(err, ErrMagnitude) {
		return err.Hint
	}
	var ways []string
	lowered := false
	for _, v := range a.prog.Vars {
		lowered = lowered || v.Stream.Level != nil && *v.Stream.Level < a.params.Depth()
	}
	if lowered {
		if c, e := compileChanged(a.prog, a.params, func(st *config.Stream) { st.Level = nil }); e == nil {
			ways = append(ways, fmt.Sprintf("leave out level: of the streams (promised error %.2g)", c.out.Bound))
		}
	}
	if errors.Is(err, ErrMagnitude) {
		top := 0
		for _, v := range a.prog.Vars {
			top = max(top, int(math.Round(math.Log2(InputScale(a.params, v.Stream)))))
		}
		for scale := min(top-1, a.params.LogScale()); scale >= 12; scale-- {
			c, e := compileChanged(a.prog, a.params, func(st *config.Stream) { st.LogScale = scale })
			if e == nil && c.Useful() {
				ways = append(ways, fmt.Sprintf("set log_scale: %d on the streams (promised error %.2g)",
					scale, c.out.Bound))
				break
			}
		}
	}
	if c := a.otherParams(); c != nil {
		ways = append(ways, fmt.Sprintf("use parameters %s (promised error %.2g)", c.params.Name(), c.out.Bound))
	}
	if len(ways) == 0 {
		if err.Hint != "" {
			return err.Hint
		}
		return "no named parameters fit; split the program, or compute part of it after decryption"
	}
	return strings.Join(ways, "; or ")
}

// otherParams returns the program under the first named parameters that give a
// useful promise, else under the first that fit.
func (a *adviser) otherParams() (fits *Circuit) {
	for _, name := range append(henc.Names(), henc.BootstrapNames()...) {
		p, err := henc.Named(name)
		if err != nil || name == a.params.Name() {
			continue
		}
		c, err := compileChanged(a.prog, p, func(st *config.Stream) {
			if st.Params, st.LogScale, st.Level = name, 0, nil; st.Histogram() {
				st.LogScale = config.HistogramLogScale
			}
		})
		if err == nil && c.Useful() {
			return c
		}
		if err == nil && fits == nil {
			fits = c
		}
	}
	return fits
}

// Variants holds the circuits of a program for windows that are not full. It is safe for
// concurrent use.
type Variants struct {
	mu       sync.Mutex
	circuits map[string]*Circuit
}

// Circuit returns the circuit for windows with the given samples by input. It calls
// compile if it does not have that circuit yet.
func (v *Variants) Circuit(present map[Input]int, compile func(map[Input]int) (*Circuit, error)) (*Circuit, error) {
	key := fmt.Sprint(present) // in the order of the inputs
	v.mu.Lock()
	defer v.mu.Unlock()
	if c := v.circuits[key]; c != nil {
		return c, nil
	}
	c, err := compile(present)
	if err != nil {
		return nil, err
	}
	if v.circuits == nil || len(v.circuits) >= maxVariants {
		v.circuits = map[string]*Circuit{}
	}
	v.circuits[key] = c
	return c, nil
}

// maxVariants bounds the circuits that Variants holds.
const maxVariants = 64
