package cpu

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hencedge/hencedge/cutrantt"
)

// maxPlans bounds what a ring keeps of each kind. A context has one shape for each
// level, and a second one where a rescaling is merged.
const maxPlans = 128

// shape is what the constants of a division or a key switch depend on.
type shape struct {
	limbs, special []int
	alpha, keep    int
}

func (s shape) equal(t shape) bool {
	return s.alpha == t.alpha && s.keep == t.keep && slices.Equal(s.limbs, t.limbs) &&
		slices.Equal(s.special, t.special)
}

// plans keeps constants by shape; looking one up allocates nothing.
type plans[T any] struct {
	grow sync.Mutex
	list atomic.Pointer[[]plan[T]]
}

type plan[T any] struct {
	shape shape
	value *T
}

func (p *plans[T]) find(s shape) *T {
	if list := p.list.Load(); list != nil {
		for i := range *list {
			if (*list)[i].shape.equal(s) {
				return (*list)[i].value
			}
		}
	}
	return nil
}

// get is the value for s, made by f once.
func (p *plans[T]) get(s shape, f func() *T) *T {
	if v := p.find(s); v != nil {
		return v
	}
	p.grow.Lock()
	defer p.grow.Unlock()
	if v := p.find(s); v != nil {
		return v
	}
	var list []plan[T]
	if old := p.list.Load(); old != nil {
		list = slices.Clone(*old)
	}
	if len(list) >= maxPlans {
		list = slices.Delete(list, 0, 1)
	}
	s.limbs, s.special = slices.Clone(s.limbs), slices.Clone(s.special)
	v := f()
	list = append(list, plan[T]{s, v})
	p.list.Store(&list)
	return v
}

// divider holds the constants of a division by the product D of the moduli after
// the first keep ones.
type divider struct {
	mods    []*modulus // of what is divided
	keep    int
	inverse []uint32    // D^-1 mod q_j of the kept ones
	pairs   []uint64    // their Shoup pairs
	basis   *looseBasis // of the dropped ones, for transforms
	lift    *lift       // to the kept ones
	targets []*target   // the same for other domains and in plain Go
}

func (r *ring) newDivider(mods []*modulus, keep int, loose bool) *divider {
	d := &divider{mods: mods, keep: keep}
	if loose {
		d.basis = r.newLooseBasis(mods[keep:])
		d.lift = r.newLift(d.basis.basis, mods[:keep], 0, 0)
	} else {
		d.basis = &looseBasis{basis: r.newBasis(mods[keep:])}
	}
	for _, m := range mods[:keep] {
		if !loose {
			d.targets = append(d.targets, r.target(d.basis.basis, m))
		}
		d.inverse = append(d.inverse, m.inv(d.basis.product(m, -1)))
		d.pairs = append(d.pairs, m.shoup(d.inverse[len(d.inverse)-1]))
	}
	return d
}

// digitPlan is one digit of a key switch: the limbs [lo, hi).
type digitPlan struct {
	lo, hi int
	basis  *looseBasis
	lift   *lift // to all other limbs
}

// switchPlan holds the constants of key switches of one shape.
type switchPlan struct {
	mods   []*modulus // of the polynomial, then the special ones
	own    int        // those of the polynomial
	digits []digitPlan
	down   *divider
	low    []uint64 // Shoup pair of the product of the special moduli for each limb
	few    bool     // all lifts are by vectorCode.extendFew
}

// findSwitch is switchPlan if it was made before.
func (r *ring) findSwitch(g cutrantt.Gadget, limbs []int, keep int) *switchPlan {
	return r.switches.find(shape{limbs, g.Special, g.Alpha, keep})
}

func (r *ring) switchPlan(g cutrantt.Gadget, limbs []int, keep int) *switchPlan {
	return r.switches.get(shape{limbs, g.Special, g.Alpha, keep}, func() *switchPlan {
		own := len(limbs)
		p := &switchPlan{mods: append(r.lookup(limbs), r.lookup(g.Special)...), own: own}
		p.few = true
		if p.down = (&divider{mods: p.mods, keep: keep}); keep < len(p.mods) {
			p.down = r.newDivider(p.mods, keep, true)
			p.few = p.down.lift.few != nil
		}
		for lo := 0; lo < own; lo += g.Alpha {
			hi := min(lo+g.Alpha, own)
			s := r.newLooseBasis(p.mods[lo:hi])
			l := r.newLift(s.basis, p.mods, lo, hi)
			p.digits = append(p.digits, digitPlan{lo, hi, s, l})
			p.few = p.few && l.few != nil
		}
		for _, m := range p.mods[:own] {
			all := uint32(1)
			for _, s := range p.mods[own:] {
				all = m.mul(all, m.reduce(uint64(s.q)))
			}
			p.low = append(p.low, m.shoup(all))
		}
		return p
	})
}
