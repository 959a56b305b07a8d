package program

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bootstrap"
)

// Routine is what can run: a Circuit, or a Set with one result per program.
type Routine interface {
	Parameters() henc.Parameters
	// Form is equal for routines that can run together.
	Form() [32]byte
	// Places returns how many items can run as one: at least 1.
	Places() int
	// Compact returns how many windows can be bootstrapped together if the inputs are compact windows, else 0.
	Compact() int
	// Peak bounds the memory of a run, in bytes.
	Peak() int64
	// Bootstraps returns how often a run bootstraps.
	Bootstraps() int

	base() *routine
}

// Item is one run of a routine.
type Item struct {
	Routine   Routine
	Evaluator *henc.Evaluator // with the keys of the inputs
	// Bootstrapper has the same keys. Routines that do not bootstrap go without.
	Bootstrapper *bootstrap.Bootstrapper
	// Inputs may be in any domain (henc.Context.UnmarshalAsSent).
	Inputs map[Input]*henc.Ciphertext
	// Added are the windows of more devices, under the same key and each at another place. The
	// item runs on the sum of all, and so its results hold those of all devices: see
	// Output.At. There are less than Routine.Places, which has to be above 1 for any.
	Added []map[Input]*henc.Ciphertext
}

// routine is a list of steps, and which of their values are results: one for a program, and
// one per program for a set. It is immutable but for its caches.
type routine struct {
	name    string // for messages
	params  henc.Parameters
	steps   []step          // in an order that they can run in
	results []int           // the step of each result; one step may be several results
	places  int             // windows whose slots are apart: plain values repeat at each; at least 1
	added   int             // windows that an item may be the sum of; 1 or places
	boot    *bootstrap.Plan // of routines that bootstrap
	compact int             // see Compact

	mu      sync.Mutex
	encoded []encoded // newest context last, at most maxContexts

	formed sync.Once
	form   [32]byte // see Form
}

func (r *routine) base() *routine { return r }

// encoded holds the plain slot values of the steps, encoded for one context.
type encoded struct {
	ctx    *henc.Context
	plains map[int]*henc.Plaintext
}

// maxContexts bounds the contexts, one per device, that a routine keeps plaintexts for. A new
// context replaces those of failed devices.
const maxContexts = 16

// Parameters returns what the routine was compiled for.
func (r *routine) Parameters() henc.Parameters { return r.params }

// Places returns how many windows, each at its own place, can be added up and run as one.
func (r *routine) Places() int { return max(r.added, 1) }

// Compact returns how many windows of devices can be bootstrapped together, each for a place of its own, if the inputs
// are compact windows: 1 where no other device's may share their ciphertext. It is 0 for other inputs.
func (r *routine) Compact() int { return r.compact }

// Merge is the rotation that brings the halves of compact windows together.
func (r *routine) Merge() int { return r.params.Slots() / max(r.places, 1) / 2 }

// refreshes reports whether a run needs the keys of bootstrapping.
func (r *routine) refreshes() bool { return r.compact > 0 || r.Bootstraps() > 0 }

// switches returns the number of key switches, and their digits times limbs altogether:
// what the time of a run is about proportional to.
func (r *routine) switches() (count, limbs int) {
	for i := range r.steps {
		s := &r.steps[i]
		if s.op == stepBootstrap {
			n, all := r.boot.KeySwitches()
			count, limbs = count+n, limbs+all
		}
		k := s.switches()
		count += k
		limbs += k * r.params.Dnum(s.level) * (r.params.LimbsAt(s.level) + len(r.params.P()))
	}
	return count, limbs
}

// Bootstraps returns how often a run bootstraps. It then needs the keys for that, see
// henc/bootstrap.Plan.
func (r *routine) Bootstraps() (n int) {
	for i := range r.steps {
		if r.steps[i].op == stepBootstrap {
			n++
		}
	}
	return n
}

// Inputs returns the ciphertexts that Run needs, in a fixed order.
func (r *routine) Inputs() []Input {
	var ins []Input
	for i := range r.steps {
		if r.steps[i].op == stepInput {
			ins = append(ins, r.steps[i].in)
		}
	}
	slices.SortFunc(ins, compareInputs)
	return ins
}

func compareInputs(a, b Input) int {
	for _, d := range []int{cmpString(a.Device, b.Device), cmpString(a.Stream, b.Stream), a.Lag - b.Lag} {
		if d != 0 {
			return d
		}
	}
	return 0
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// NeedsRelin reports whether Run multiplies ciphertexts and so needs the
// relinearisation key.
func (r *routine) NeedsRelin() bool {
	return r.compact > 0 || slices.ContainsFunc(r.steps, func(s step) bool {
		return s.op == stepMul || s.op == stepMulRescale || s.op == stepBootstrap
	})
}

// Rotations returns the rotations whose Galois keys Run needs, ascending: powers of two.
func (r *routine) Rotations() []int {
	set := map[int]bool{}
	if r.compact > 0 {
		set[r.Merge()] = true
	}
	for i := range r.steps {
		for _, k := range r.steps[i].rotations() {
			set[k] = true
		}
	}
	out := make([]int, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// scaleSlack is how far a scale may be from the planned one, relatively; the
// difference is far below float64's own rounding of a whole plan.
const scaleSlack = 0x1p-40

// CheckInput refuses a ciphertext that cannot stand for the input in: a level
// below the planned one or another scale. It fails with ErrInput.
func (r *routine) CheckInput(in Input, level int, scale float64) error {
	for i := range r.steps {
		if s := &r.steps[i]; s.op == stepInput && s.in == in {
			return s.accepts(level, scale)
		}
	}
	return fmt.Errorf("%w: %s is not an input of %s", ErrInput, in, r.name)
}

func (s *step) accepts(level int, scale float64) error {
	if level < s.level {
		return fmt.Errorf("%w: %s is at level %d, the program was compiled for level %d; give the stream the same "+
			"level: on the device and here", ErrInput, s.in, level, s.level)
	}
	if !near(scale, s.scale) {
		return fmt.Errorf("%w: %s has scale 2^%.6f, the program was compiled for 2^%.6f; give the stream the same "+
			"level: and log_scale: on the device and here", ErrInput, s.in, math.Log2(scale), math.Log2(s.scale))
	}
	return nil
}

// planned refuses a value that is not at the level and scale that were planned.
func (s *step) planned(level int, scale float64) error {
	if level != s.level || !near(scale, s.scale) {
		return fmt.Errorf("%w: %s gave level %d and scale 2^%.6f, planned were %d and 2^%.6f",
			ErrParams, s, level, math.Log2(scale), s.level, math.Log2(s.scale))
	}
	return nil
}

func near(a, b float64) bool { return math.Abs(a-b) <= scaleSlack*b }

// plaintext encodes the slot values of step i, once for a context.
func (r *routine) plaintext(ctx *henc.Context, i int) (*henc.Plaintext, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.encoded, func(e encoded) bool { return e.ctx == ctx })
	if at < 0 {
		r.encoded = slices.DeleteFunc(r.encoded, func(e encoded) bool { return cutrantt.Broken(e.ctx.Ring()) != nil })
		if len(r.encoded) == maxContexts {
			r.encoded = slices.Delete(r.encoded, 0, 1)
		}
		at = len(r.encoded)
		r.encoded = append(r.encoded, encoded{ctx, map[int]*henc.Plaintext{}})
	}
	plains := r.encoded[at].plains
	if pt := plains[i]; pt != nil {
		return pt, nil
	}
	s := &r.steps[i]
	slots := make([]float64, ctx.Parameters().Slots())
	for place := 0; place < len(slots); place += len(slots) / max(r.places, 1) {
		for j, v := range s.plain.values {
			slots[(place+s.plain.first+j)%len(slots)] = v
		}
	}
	pt, err := ctx.Encoder().EncodeReal(slots, s.level, s.plain.scale)
	if err != nil {
		return nil, err
	}
	plains[i] = pt
	return pt, nil
}

// Form is the SHA-256 hash of the parameters, of all steps (operands, levels, scales, factors
// and plain values) and of which steps are results. Of an input only its place counts: the
// same expression has the same form for every device.
func (r *routine) Form() [32]byte {
	r.formed.Do(func() { r.form = r.makeForm() })
	return r.form
}

func (r *routine) makeForm() [32]byte {
	h := sha256.New()
	var b []byte
	number := func(v int) { b = binary.BigEndian.AppendUint64(b, uint64(v)) }
	float := func(v float64) { b = binary.BigEndian.AppendUint64(b, math.Float64bits(v)) }
	params := r.params.Hash()
	b = append(b, params[:]...)
	number(len(r.steps))
	number(r.places)
	number(r.compact)
	for i := range r.steps {
		s := &r.steps[i]
		number(int(s.op))
		for _, a := range s.operands() {
			number(a)
		}
		float(s.k)
		number(s.by)
		number(s.level)
		float(s.scale)
		if s.plain != nil {
			number(s.plain.first)
			float(s.plain.scale)
			number(len(s.plain.values))
			for _, v := range s.plain.values {
				float(v)
			}
		}
		_, _ = h.Write(b) // which never fails
		b = b[:0]
	}
	for _, i := range r.results {
		number(i)
	}
	_, _ = h.Write(b)
	return [32]byte(h.Sum(nil))
}

// Peak bounds the values that are alive at a time and the working memory of the largest
// step. It leaves out what a device needs to switch keys and to bootstrap, because that is bounded whatever the
// number of items.
func (r *routine) Peak() int64 {
	last := make([]int, len(r.steps)) // where each value is used last
	for i := range r.steps {
		for _, a := range r.steps[i].operands() {
			last[a] = i
		}
	}
	for _, i := range r.results {
		last[i] = len(r.steps)
	}
	polynomial := func(level int) int64 { return 4 * int64(r.params.N()) * int64(r.params.LimbsAt(level)) }
	var held, most int64
	for i := range r.steps {
		s, work := &r.steps[i], int64(0)
		switch s.op {
		case stepInput:
			if r.added > 1 { // sums of windows stay; the terms of one are copied
				held += int64(r.added-1) * 2 * polynomial(s.level)
				most = max(most, held+4*polynomial(s.level))
			}
			continue
		case stepMul, stepMulRescale: // the product before its relinearisation
			work = 3 * polynomial(r.steps[s.a].level)
		case stepSum: // two sums at a time
			work = 2 * polynomial(s.level)
		case stepBootstrap: // they are copied into one batch
			work = 2 * polynomial(s.level)
		case stepAdd, stepSub, stepMulInt, stepMulPlain: // separate operands are copied into one batch
			work = 4 * polynomial(s.level)
		}
		held += 2 * polynomial(s.level)
		most = max(most, held+work)
		for _, a := range s.operands() {
			if last[a] == i && r.steps[a].op != stepInput {
				held -= 2 * polynomial(r.steps[a].level)
				last[a] = -1 // once, also where both operands are the same
			}
		}
	}
	return most + int64(len(r.results))*2*polynomial(r.params.Depth()) // results that are copied
}
