package arith

import (
	"time"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
)

// The probe's bounds: limbs of Q and of P, digits of a key, timed calls, and the
// time after which no further call is made. They keep it below 120 MB and, on
// slow boards, about a second; what it leaves out favours the GPU further.
const (
	maxQ, maxP, maxDigits = 8, 4, 2
	maxCalls              = 5
	enough                = 100 * time.Millisecond
)

// job is a sequence of operations that ends with the first error.
type job struct {
	ring cutrantt.Ring
	err  error
}

func (j *job) do(f func() error) {
	if j.err == nil {
		j.err = f()
	}
}

// batch allocates.
func (j *job) batch(polys int, limbs []int, d cutrantt.Domain) (b *cutrantt.Batch) {
	j.do(func() (err error) { b, err = j.ring.NewBatch(polys, limbs, d); return err })
	return b
}

// view is polynomials p0 to p1 and the first limbs of b.
func (j *job) view(b *cutrantt.Batch, p0, p1, limbs int) (v *cutrantt.Batch) {
	j.do(func() (err error) { v, err = b.Slice(p0, p1, 0, limbs); return err })
	return v
}

// random allocates and fills; the residues are nobody's secret.
func (j *job) random(polys int, limbs []int, d cutrantt.Domain) *cutrantt.Batch {
	b := j.batch(polys, limbs, d)
	for i := range polys {
		v := j.view(b, i, i+1, len(limbs))
		j.do(func() error { return j.ring.SampleUniform(v, &[32]byte{1}, uint32(i)) })
	}
	return b
}

// operand prepares random fixed factors.
func (j *job) operand(polys int, limbs []int, d cutrantt.Domain) (o cutrantt.Operand) {
	b := j.random(polys, limbs, d)
	j.do(func() (err error) { o, err = j.ring.Precompute(b); return err })
	return o
}

// probe is the shortest time of an encryption, from numbers on the host to
// residues on the host, and, where p has special primes, a key switch in the
// layout that the backend prefers.
func probe(b cutrantt.Backend, p henc.Parameters) (time.Duration, error) {
	ring, err := b.NewRing(p.LogN(), p.Moduli(), cutrantt.Options{})
	if err != nil {
		return 0, err
	}
	j := &job{ring: ring}
	steps := []func(){j.encryption(p)}
	if p.Alpha() > 0 {
		steps = append(steps, j.keySwitch(p, cutrantt.Columns(b, p.LogN())))
	}
	var best time.Duration
	for call, start := -1, time.Now(); call < maxCalls; call++ {
		if call > 0 && time.Since(start) > enough {
			break
		}
		begin := time.Now()
		for _, f := range steps {
			f()
		}
		j.do(ring.Sync)
		if j.err != nil {
			return 0, j.err
		}
		// The first call makes tables; it does not count.
		if d := time.Since(begin); call == 0 || call > 0 && d < best {
			best = d
		}
	}
	return best, nil
}

// encryption is HENC without its encoder: three small polynomials, three
// transforms, two products.
func (j *job) encryption(p henc.Parameters) func() {
	r, limbs := j.ring, p.QLimbs(p.MaxLevel())
	limbs = limbs[:min(len(limbs), maxQ)]
	coeffs, ntt := cutrantt.Coeffs(henc.DefaultN2), cutrantt.NTT(henc.DefaultN2)
	small, moved, out := j.batch(3, limbs, coeffs), j.batch(3, limbs, ntt), j.batch(2, limbs, ntt)
	key := j.operand(2, limbs, ntt)
	v, m, e := j.view(small, 0, 1, len(limbs)), j.view(small, 1, 2, len(limbs)), j.view(small, 2, 3, len(limbs))
	w, rest := j.view(moved, 0, 1, len(limbs)), j.view(moved, 1, 3, len(limbs))
	message := make([]float64, p.N())
	for i := range message {
		message[i] = float64(i<<20 - p.N())
	}
	host := make([]uint32, 2*len(limbs)*p.N())
	return func() {
		j.do(func() error { return r.SampleTernary(v, &[32]byte{2}, 0) })
		j.do(func() error { return r.SetFloats(m, message) })
		j.do(func() error { return r.SampleCBD(e, &[32]byte{2}, 1) })
		j.do(func() error { return r.Forward(moved, small) })
		j.do(func() error { return r.MulOperand(out, w, key) })
		j.do(func() error { return r.Add(out, out, rest) })
		j.do(func() error { return r.Download(host, out) })
	}
}

// keySwitch transforms the digits, multiplies them with a key and divides by the
// special primes.
func (j *job) keySwitch(p henc.Parameters, n2 int) func() {
	r, q := j.ring, p.QLimbs(p.MaxLevel())
	count, special := len(q), min(p.Alpha(), maxP)
	q = q[:min(count, maxQ)]
	all := append([]int(nil), q...)
	for i := range special {
		all = append(all, len(p.Moduli())-special+i)
	}
	digits := min(p.Dnum(p.MaxLevel()), maxDigits)
	coeffs, ntt := cutrantt.Coeffs(n2), cutrantt.NTT(n2)
	src, moved, sum := j.random(digits, all, coeffs), j.batch(digits, all, ntt), j.batch(2, all, ntt)
	key, out := j.operand(2*digits, all, ntt), j.batch(2, q, ntt)
	return func() {
		j.do(func() error { return r.Forward(moved, src) })
		j.do(func() error { return r.MulOperand(sum, moved, key) })
		j.do(func() error { return r.DivRound(out, sum) })
	}
}
