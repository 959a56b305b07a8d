package benchmark

import (
	"fmt"

	"github.com/hencedge/hencedge/henc"
)

// together is an operation on a batch of independent ciphertexts.
type together func(be *henc.BatchEvaluator, x, y *henc.Ciphertexts) (*henc.Ciphertexts, error)

// batchOps are the operations that take batches.
var batchOps = map[string]together{
	"hmult":         (*henc.BatchEvaluator).Mul,
	"hmult_rescale": (*henc.BatchEvaluator).MulRescale,
	"hrotate": func(be *henc.BatchEvaluator, x, _ *henc.Ciphertexts) (*henc.Ciphertexts, error) {
		return be.Rotate(x, 1)
	},
	"rescale": func(be *henc.BatchEvaluator, x, _ *henc.Ciphertexts) (*henc.Ciphertexts, error) {
		return be.Rescale(x)
	},
}

// on runs f on ciphertexts under keys of one evaluator.
func (f together) on(ev *henc.Evaluator, x, y []*henc.Ciphertext) (*henc.BatchEvaluator, *henc.Ciphertexts, error) {
	evs := make([]*henc.Evaluator, len(x))
	for i := range evs {
		evs[i] = ev
	}
	be, err := henc.NewBatchEvaluator(evs)
	if err != nil {
		return nil, nil, err
	}
	a, err := be.Of(x, x[0].Level)
	if err != nil {
		return nil, nil, err
	}
	b, err := be.Of(y, y[0].Level)
	if err != nil {
		return nil, nil, err
	}
	out, err := f(be, a, b)
	return be, out, err
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
		if j.op == "bootstrap" {
			return b.bootstrapped(batch)
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
		var be *henc.BatchEvaluator
		var out *henc.Ciphertexts
		run := func(set int) (err error) {
			be.Free(out)
			be, out, err = f.on(b.eval, cts[set*batch:(set+1)*batch], cts[set*batch+1:(set+1)*batch+1])
			return err
		}
		check := func() error {
			for i := range batch {
				if err := b.sameAlone(j.op, i, out.At(i), cts[i], cts[i+1]); err != nil {
					return err
				}
			}
			if !b.onDevice() {
				return nil
			}
			return b.sameCiphertext(j.op, out.At(batch-1), alone(f), cts[batch-1], cts[batch])
		}
		return run, check, nil
	}
	return j
}

// alone is an operation on a batch of one.
func alone(f together) operation {
	return func(ev *henc.Evaluator, x, y *henc.Ciphertext) (*henc.Ciphertext, error) {
		_, out, err := f.on(ev, []*henc.Ciphertext{x}, []*henc.Ciphertext{y})
		return out.At(0), err
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
	return b.sameResidues(op, i, got, want)
}

// sameResidues compares result i of a batch with what it has to be, bit for bit.
func (b *bed) sameResidues(op string, i int, got, want *henc.Ciphertext) error {
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
