package benchmark

import (
	"math"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bootstrap"
	"github.com/hencedge/hencedge/henc/secret"
)

// bootstrapTolerance is the error of a slot that the check allows: two bits more than the least exact
// set promises for its worst slot.
var bootstrapTolerance = math.Exp2(-10.5)

// bootstrapped takes ciphertexts at the lowest level that will do, a batch of them at a time, back to the levels below
// the parameters' upper ones. It reads each of its keys at least once.
func (b *bed) bootstrapped(batch int) []job {
	lit, err := bootstrap.LiteralOf(b.params)
	if err != nil {
		return nil
	}
	plan, err := bootstrap.NewPlan(b.params, lit)
	if err != nil {
		return nil
	}
	p, keys := b.params, int64(len(plan.Rotations())+3)
	key := b.polyBytes(2*p.Dnum(p.MaxLevel()), len(p.Q())+len(p.P()))
	t := &bootstrapping{bed: b, plan: plan, batch: batch}
	j := job{
		op: "bootstrap", method: "all slots", limbs: len(b.limbs), batch: batch,
		bytes:     keys*key + int64(batch)*b.polyBytes(2, len(b.limbs)),
		footprint: int64(batch) * b.polyBytes(2, p.LimbsAt(plan.LowestLevel())),
		setup:     t.setup,
		release:   func() error { t.boot.Free(); return nil },
	}
	if batch > 1 {
		j.method = "all slots, together"
	}
	return []job{j}
}

// bootstrapping is a batch of bootstrappings at work.
type bootstrapping struct {
	*bed
	plan  *bootstrap.Plan
	boot  *bootstrap.Bootstrapper
	batch int
	cts   []*henc.Ciphertext // of all sets
	out   []*henc.Ciphertext
}

func (t *bootstrapping) setup(sets int) (run func(int) error, check func() error, err error) {
	if err := t.secretKey(); err != nil {
		return nil, nil, err
	}
	keys, err := t.key.BootstrapKeys(t.plan)
	if err != nil {
		return nil, nil, err
	}
	if t.boot, err = bootstrap.New(t.ctx, t.plan, keys); err != nil {
		return nil, nil, err
	}
	msg, enc := t.message(), secret.NewSeededEncryptor(t.ctx, t.key)
	t.cts = make([]*henc.Ciphertext, sets*t.batch)
	for i := range t.cts {
		if t.cts[i], err = enc.EncryptComplex(msg, t.plan.LowestLevel(), 0, t.seed()); err != nil {
			return nil, nil, err
		}
	}
	return t.run, func() error { return t.check(msg) }, nil
}

func (t *bootstrapping) run(set int) (err error) {
	for _, ct := range t.out {
		t.free(ct)
	}
	t.out = nil
	cts := t.cts[set*t.batch : (set+1)*t.batch]
	if t.batch > 1 {
		t.out, err = t.boot.BootstrapAll(cts)
		return err
	}
	out, err := t.boot.Bootstrap(cts[0])
	if err == nil {
		t.out = []*henc.Ciphertext{out}
	}
	return err
}

// check decrypts every result, and compares those of a batch with what each ciphertext gives alone.
func (t *bootstrapping) check(msg []complex128) error {
	for i, ct := range t.out {
		got, err := secret.NewDecryptor(t.ctx, t.key).DecryptComplex(ct)
		if err != nil {
			return err
		}
		if err := checkSlots("bootstrap", got, msg, bootstrapTolerance); err != nil {
			return err
		}
		if t.batch == 1 {
			continue
		}
		want, err := t.boot.Bootstrap(t.cts[i])
		if err != nil {
			return err
		}
		err = t.sameResidues("bootstrap", i, ct, want)
		t.free(want)
		if err != nil {
			return err
		}
	}
	return nil
}
