package benchmark

import (
	"fmt"

	"github.com/hencedge/hencedge/henc"
)

// together is an operation on a batch of independent ciphertexts.
type together func(evs []*henc.Evaluator, x, y []*henc.Ciphertext) ([]*henc.Ciphertext, error)

// batchOps are the operations that take batches.
var batchOps = map[string]together{
	"hmult":         henc.MulBatch,
	"hmult_rescale": henc.MulRescaleBatch,
	"hrotate": func(evs []*henc.Evaluator, x, _ []*henc.Ciphertext) ([]*henc.Ciphertext, error) {
		return henc.RotateBatch(evs, x, 1)
	},
	"rescale": func(evs []*henc.Evaluator, x, _ []*henc.Ciphertext) ([]*henc.Ciphertext, error) {
		return henc.RescaleBatch(evs, x)
	},
}

// batches makes jobs on batches of those whose operation takes them.
func (b *bed) batches(jobs []job, batch int) []job {
	if batch <= 1 {
		return jobs
	}
	for i, j := range jobs {
		if batchOps[j.op] != nil {
			jobs[i] = b.batched(j, batch)
		}
	}
	return jobs
}

// batched makes of a job on single ciphertexts one on batches of independent
// ones, all under one key. Each result is compared with the same operation on its
// ciphertext alone.
func (b *bed) batched(j job, batch int) job {
	f := batchOps[j.op]
	key := int64(0)
	if j.op != "rescale" {
		key = b.keyBytes()
	}
	j.method, j.batch = "together, one key", batch
	j.bytes = int64(batch)*(j.bytes-key) + key // the key is read once
	j.footprint *= int64(batch)
	j.setup = func(sets int) (func(int) error, func() error, error) {
		if _, err := b.evaluator(); err != nil {
			return nil, nil, err
		}
		_, cts, err := b.encrypted(sets*batch + 1)
		if err != nil {
			return nil, nil, err
		}
		if j.op == "rescale" {
			for i := range cts {
				if cts[i], err = b.eval.MulConst(cts[i], 1, b.params.RescaleFactor(b.level)); err != nil {
					return nil, nil, err
				}
			}
		}
		evs := make([]*henc.Evaluator, batch)
		for i := range evs {
			evs[i] = b.eval
		}
		var out []*henc.Ciphertext
		run := func(set int) (err error) {
			for _, ct := range out {
				b.free(ct)
			}
			out, err = f(evs, cts[set*batch:(set+1)*batch], cts[set*batch+1:(set+1)*batch+1])
			return err
		}
		check := func() error {
			if len(out) != batch {
				return errWrong(j.op, "the number of results", len(out), batch)
			}
			for i, ct := range out {
				if err := b.sameAlone(j.op, i, ct, cts[i], cts[i+1]); err != nil {
					return err
				}
			}
			if !b.onDevice() {
				return nil
			}
			return b.sameCiphertext(j.op, out[batch-1], alone(f), cts[batch-1], cts[batch])
		}
		return run, check, nil
	}
	return j
}

// alone is an operation on a batch of one.
func alone(f together) operation {
	return func(ev *henc.Evaluator, x, y *henc.Ciphertext) (*henc.Ciphertext, error) {
		cts, err := f([]*henc.Evaluator{ev}, []*henc.Ciphertext{x}, []*henc.Ciphertext{y})
		if err != nil {
			return nil, err
		}
		return cts[0], nil
	}
}

// singles are the operations on single ciphertexts.
var singles = map[string]operation{
	"hmult": func(ev *henc.Evaluator, x, y *henc.Ciphertext) (*henc.Ciphertext, error) { return ev.Mul(x, y) },
	"hmult_rescale": func(ev *henc.Evaluator, x, y *henc.Ciphertext) (*henc.Ciphertext,
		error) {
		return ev.MulRescale(x, y)
	},
	"hrotate": func(ev *henc.Evaluator, x, _ *henc.Ciphertext) (*henc.Ciphertext, error) { return ev.Rotate(x, 1) },
	"rescale": func(ev *henc.Evaluator, x, _ *henc.Ciphertext) (*henc.Ciphertext, error) { return ev.Rescale(x) },
}

// sameAlone compares result i of a batch with the operation on its ciphertexts
// alone.
func (b *bed) sameAlone(op string, i int, got, x, y *henc.Ciphertext) error {
	want, err := singles[op](b.eval, x, y)
	if err != nil {
		return err
	}
	defer b.free(want)
	w, err := residues(b.ring, want.Value)
	if err != nil {
		return err
	}
	g, err := residues(b.ring, got.Value)
	if err != nil {
		return err
	}
	if len(g) != len(w) || got.Level != want.Level || got.Scale != want.Scale {
		return errWrong(op, fmt.Sprintf("item %d of the batch", i), fmt.Sprint(len(g), got.Level, got.Scale),
			fmt.Sprint(len(w), want.Level, want.Scale))
	}
	for k := range g {
		if g[k] != w[k] {
			return errWrong(op, fmt.Sprintf("item %d of the batch, residue %d", i, k), g[k], w[k])
		}
	}
	return nil
}
