package benchmark

import (
	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// job is one case: one operation of one parameter set.
type job struct {
	op, method string
	limbs      int
	bytes      int64         // least traffic of a call
	footprint  int64         // memory of one set of inputs (and outputs that are reused)
	batch      int           // polynomials or ciphertexts a call; 0 means 1
	ring       cutrantt.Ring // that does the work; nil: the bed's
	// alone: one call between two events, since what a call does on the host
	// would count otherwise. host: the host's clock alone counts.
	alone, host bool
	parts       *parts // of a call, where they are told apart
	packed      *int   // set by check: the bytes of one ciphertext on the wire
	// setup makes the sets; run uses one of them; check compares the result
	// of run(0) with an independent path.
	setup func(sets int) (run func(set int) error, check func() error, err error)
	// release is called in the end, after an error too; nil: there is nothing to do.
	release func() error
}

// operation is an operation on ciphertexts: a is the set's ciphertext, b another one
// of the same message in memory of its own.
type operation func(ev *henc.Evaluator, a, b *henc.Ciphertext) (*henc.Ciphertext, error)
