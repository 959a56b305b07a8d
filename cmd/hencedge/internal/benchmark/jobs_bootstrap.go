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

// bootstrapped takes a ciphertext at level 0 back to the levels below the parameters' upper ones. It reads
// each of its keys at least once.
func (b *bed) bootstrapped() []job {
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
	var boot *bootstrap.Bootstrapper
	return []job{{
		op: "bootstrap", method: "all slots", limbs: len(b.limbs), bytes: keys*key + b.polyBytes(2, len(b.limbs)),
		footprint: b.polyBytes(2, p.LimbsAt(0)),
		setup: func(sets int) (run func(int) error, check func() error, err error) {
			if err := b.secretKey(); err != nil {
				return nil, nil, err
			}
			keys, err := b.key.BootstrapKeys(plan)
			if err != nil {
				return nil, nil, err
			}
			if boot, err = bootstrap.New(b.ctx, plan, keys); err != nil {
				return nil, nil, err
			}
			msg, cts := b.message(), make([]*henc.Ciphertext, sets)
			enc := secret.NewSeededEncryptor(b.ctx, b.key)
			for i := range cts {
				if cts[i], err = enc.EncryptComplex(msg, 0, 0, b.seed()); err != nil {
					return nil, nil, err
				}
			}
			var out *henc.Ciphertext
			run = func(i int) (err error) {
				b.free(out)
				out, err = boot.Bootstrap(cts[i])
				return err
			}
			check = func() error {
				got, err := secret.NewDecryptor(b.ctx, b.key).DecryptComplex(out)
				if err != nil {
					return err
				}
				return checkSlots("bootstrap", got, msg, bootstrapTolerance)
			}
			return run, check, nil
		},
		release: func() error { boot.Free(); return nil },
	}}
}
