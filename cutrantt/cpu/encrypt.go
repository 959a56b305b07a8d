package cpu

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
	"github.com/hencedge/hencedge/cutrantt/prng"
	"github.com/hencedge/hencedge/internal/taint"
)

var _ cutrantt.Encrypting = (*ring)(nil)

// maxWide is the bound of coefficients with their noise that fused encryption takes.
const maxWide = 1 << 61

// EncryptPublic works limb by limb, so that everything of a limb stays in the cache;
// with vector code and n2 = 1 only.
func (r *ring) EncryptPublic(
	key cutrantt.Operand, limbs []int, labels cutrantt.EncryptionLabels, jobs []cutrantt.Encryption,
) ([]*cutrantt.Batch, error) {
	o, ok := key.(*operand)
	if !ok || o == nil || o.owner != r.check || o.words == nil {
		return nil, fmt.Errorf("%w: operand of another ring or backend, or released", cutrantt.ErrForeign)
	}
	if o.shape.Polys != 2 {
		return nil, fmt.Errorf("%w: a public key of %d polynomials, not 2", cutrantt.ErrShape, o.shape.Polys)
	}
	where, err := r.encryptable(o.shape, limbs, jobs)
	if err != nil {
		return nil, err
	}
	return r.encryptAll(limbs, jobs, func(dst *cutrantt.Batch, j cutrantt.Encryption) {
		s := r.newMessage(j, labels, true)
		defer s.put()
		r.eachLimb(1, len(limbs), 3*r.n*r.logN, func(_, l int) {
			m, at := r.moduli[limbs[l]], where[l]
			v := getScratch(r.n)
			defer v.put()
			c0, c1 := r.limb(dst, 0, l), r.limb(dst, 1, l)
			r.forwardSmall(v.words, s.v, m)
			s.m.lift(r, c0, m)
			r.forward(c0, c0, m)
			r.forwardSmall(c1, s.e1, m)
			for p, c := range [2][]uint32{c0, c1} {
				y, step := o.pieces(p, at, 0)
				r.vec.operandAdd(&c[0], &v.words[0], y, step, r.n, uint32(m.qinv), m.q)
			}
		})
	})
}

// forwardSmall transforms the integers src, in (-q, q), to dst. Code for signed residues
// takes them as they are.
func (r *ring) forwardSmall(dst []uint32, src []int32, m *modulus) {
	if r.vec.signed || m.vectorTable(r.vec, r.n).lazy != nil {
		r.vec.transform(dst, unsigned(src), m)
		return
	}
	r.vec.liftSmall(&dst[0], &src[0], r.n, m.q)
	r.forward(dst, dst, m)
}

// EncryptSeeded is like EncryptPublic, with one transform for each limb.
func (r *ring) EncryptSeeded(
	s *cutrantt.Batch, limbs []int, labels cutrantt.EncryptionLabels, jobs []cutrantt.Encryption,
) ([]*cutrantt.Batch, error) {
	if err := r.check.Single(s); err != nil {
		return nil, err
	}
	if err := check.NTT(s); err != nil {
		return nil, err
	}
	for i, j := range jobs {
		if j.Mask == nil {
			return nil, fmt.Errorf("%w: message %d has no public seed", cutrantt.ErrRange, i)
		}
	}
	where, err := r.encryptable(s.Shape(), limbs, jobs)
	if err != nil {
		return nil, err
	}
	return r.encryptAll(limbs, jobs, func(dst *cutrantt.Batch, j cutrantt.Encryption) {
		small := r.newMessage(j, labels, false)
		defer small.put()
		r.eachLimb(1, len(limbs), 2*r.n*r.logN, func(_, l int) {
			m := r.moduli[limbs[l]]
			c0, c1 := r.limb(dst, 0, l), r.limb(dst, 1, l)
			small.m.lift(r, c0, m)
			r.forward(c0, c0, m)
			prng.Uniform(c1, j.Mask, labels.Mask, uint32(limbs[l]), m.q)
			mu, shift := m.vector()
			r.vec.mulSub(&c0[0], &c1[0], &r.limb(s, 0, where[l])[0], r.n, mu, shift, m.q)
		})
	})
}

// encryptable refuses what fused encryption does not do and wrong arguments. It
// returns where limbs stand in the key's shape.
func (r *ring) encryptable(key cutrantt.Shape, limbs []int, jobs []cutrantt.Encryption) ([]int, error) {
	if err := r.check.Shape(2, limbs, key.Domain); err != nil {
		return nil, err
	}
	where := make([]int, len(limbs))
	for i, l := range limbs {
		if where[i] = slices.Index(key.Limbs, l); where[i] < 0 {
			return nil, fmt.Errorf("%w: the key has no limb for modulus %d", cutrantt.ErrShape, l)
		}
	}
	for i, j := range jobs {
		if j.Embedding != nil {
			return nil, fmt.Errorf("%w: message %d is of slots", cutrantt.ErrNotSupported, i)
		}
		if len(j.Message) != r.n {
			return nil, fmt.Errorf(
				"%w: message %d has %d coefficients for degree %d", cutrantt.ErrShape, i, len(j.Message), r.n,
			)
		}
		if j.Seed == nil {
			return nil, fmt.Errorf("%w: message %d has no seed", cutrantt.ErrRange, i)
		}
	}
	for i, j := range jobs {
		if r.vec == nil || key.Domain.N2 != 1 || !taint.Outcome(j.Bound < maxWide) {
			return nil, fmt.Errorf("%w: encryption of message %d as a whole, with %d columns of %s code, or with "+
				"coefficients of 2^61 and more",
				cutrantt.ErrNotSupported, i, key.Domain.N2, r.backend.(backend).variant())
		}
	}
	return where, nil
}

// encryptAll makes the results and runs f for each job.
func (r *ring) encryptAll(
	limbs []int, jobs []cutrantt.Encryption, f func(dst *cutrantt.Batch, j cutrantt.Encryption),
) ([]*cutrantt.Batch, error) {
	out := make([]*cutrantt.Batch, len(jobs))
	for i, j := range jobs {
		b, err := r.NewResult(2, limbs, cutrantt.NTT(1))
		if err != nil {
			return nil, err
		}
		f(b, j)
		out[i] = b
	}
	return out, nil
}

// wide is integers as high*2^32 + low in scratch memory, which is cleared when it is
// put back.
type wide struct {
	*scratch
	high []int32
	low  []uint32
}

// newWide splits the integral m + e, |m| < maxWide; nil e stands for zeros.
func (r *ring) newWide(m []float64, e []int32) *wide {
	s := &wide{scratch: getScratch(2 * r.n)}
	s.high, s.low = signed(s.words[:r.n]), s.words[r.n:]
	if e == nil {
		e = s.high // read before it is written
		clear(e)
	}
	r.vec.split(&s.high[0], &s.low[0], &m[0], &e[0], r.n)
	return s
}

// lift sets dst to the integers modulo q, in [0, 4q), which forward takes.
func (s *wide) lift(r *ring, dst []uint32, m *modulus) {
	// |high| < 2^29 + 1: the least multiple of q from 2^30 on makes it positive.
	bias := (1<<30 + m.q - 1) / m.q * m.q
	w := [2]uint64{m.shoup(m.montgomery(1)), m.shoup(1)}
	r.vec.liftWide(&dst[0], &s.high[0], &s.low[0], len(dst), &w[0], bias, m.q)
}

// residues is lift to [0, q).
func (s *wide) residues(r *ring, dst []uint32, m *modulus) {
	s.lift(r, dst, m)
	one := m.shoup(1)
	r.vec.scale(&dst[0], &dst[0], len(dst), &one, m.q)
}

// message is the small polynomials of one encryption in scratch memory: v, e1 and
// m + e0.
type message struct {
	*scratch
	v, e1 []int32
	m     *wide
}

func (r *ring) newMessage(j cutrantt.Encryption, labels cutrantt.EncryptionLabels, public bool) *message {
	s := &message{scratch: getScratch(2 * r.n)}
	s.v, s.e1 = signed(s.words[:r.n]), signed(s.words[r.n:])
	prng.CBD(s.v, j.Seed, labels.E0) // until v itself is drawn
	s.m = r.newWide(j.Message, s.v)
	if public {
		prng.Ternary(s.v, j.Seed, labels.V)
		prng.CBD(s.e1, j.Seed, labels.E1)
	}
	return s
}

func (s *message) put() {
	s.m.put()
	s.scratch.put()
}

// unsigned is the same memory as residues or words.
func unsigned(x []int32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// signed is the same memory as signed integers.
func signed(x []uint32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}
