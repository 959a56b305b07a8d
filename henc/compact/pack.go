package compact

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// A window of n readings uses one of S = Stride coefficients; the others hold anything. Packing fills them
// with S-1 other windows. Let sigma_i be X -> X^(1+N/2^i). It takes X^(2^i) to its negative and leaves X^(2^j) for
// j > i alone. The product of 1 + sigma_i over all i with 2^i < S is the trace to the polynomials in X^S: it multiplies
// their coefficients by S and takes all others to 0. Because of the first property
//
//	(1 + sigma_i)(c) + X^(2^i)*(1 + sigma_i)(d) = c + X^(2^i)*d + sigma_i(c - X^(2^i)*d)
//
// so two windows need one key switch, and S windows S-1 of them in a tree, with i from the largest to 0 (Chen, Dai, Kim
// and Song, ACNS 2021, section 3, for ciphertexts of one number). The factor S goes by multiplying with 1/S modulo Q
// before: exact, also for the noise that is there already.

// Packer packs windows of few readings. It is immutable and safe for concurrent use.
type Packer struct {
	receiver  *Receiver
	keys      []*Key            // of sigma_i
	monomials []*cutrantt.Batch // X^(2^i)
}

// PackElements are the Galois elements 1 + N/2^i, i = 0 .. log2(N)-1, whose keys a packer needs: those of the
// common secret in the small ring with these parameters (henc/secret's GaloisKeys).
func PackElements(small henc.Parameters) []uint64 {
	var elements []uint64
	for step := small.N(); step > 1; step /= 2 {
		elements = append(elements, uint64(1+step))
	}
	return elements
}

// NewPacker makes a packer with the keys of PackElements, by element. It fails with henc.ErrNoKey or
// henc.ErrParams.
func (r *Receiver) NewPacker(keys map[uint64]*henc.SwitchingKey) (*Packer, error) {
	const op = "packer of compact windows"
	if r == nil {
		return nil, fmt.Errorf("%s: %w: no receiver", op, henc.ErrParams)
	}
	p := &Packer{receiver: r}
	for i, g := range PackElements(r.small.Parameters()) {
		k, err := prepare(r.small, keys[g])
		if err == nil {
			p.keys = append(p.keys, k)
			err = p.addMonomial(i)
		}
		if err != nil {
			p.Free()
			return nil, fmt.Errorf("%s: element %d: %w", op, g, err)
		}
	}
	return p, nil
}

// addMonomial appends X^(2^i).
func (p *Packer) addMonomial(i int) error {
	small := p.receiver.small
	ring, limbs, n := small.Ring(), small.Parameters().QLimbs(0), small.Parameters().N()
	words := make([]uint32, len(limbs)*n)
	for l := range limbs {
		words[l*n+1<<i] = 1
	}
	c := chain.New(ring)
	defer c.Close()
	plain, m := c.Result(1, limbs, cutrantt.Coeffs(1)), c.Result(1, limbs, small.Domain())
	c.Do(func() error { return ring.Upload(plain, words) })
	c.Op2(ring.Convert, m, plain)
	kept, err := c.Keep(m)
	if err == nil {
		p.monomials = append(p.monomials, kept)
	}
	return err
}

// Free gives the packer's memory back. It must not be used again.
func (p *Packer) Free() {
	if p == nil {
		return
	}
	for _, k := range p.keys {
		k.Release()
	}
	for _, m := range p.monomials {
		p.receiver.small.Ring().Free(m)
	}
	p.keys, p.monomials = nil, nil
}

// Windows is how many windows of so many readings Pack takes: the stride. It is 0 for a number of readings that no
// window has.
func (p *Packer) Windows(readings int) int {
	if p == nil || p.receiver == nil {
		return 0
	}
	return Stride(p.receiver.small.Parameters().N(), readings)
}

// Position is the coefficient, in what Join made of packed ciphertexts, of a reading: packed is the index in
// Join's argument, window that in Pack's. It is -1 where there is none.
func (p *Packer) Position(packed, window, reading, readings int) int {
	if window < 0 || window >= p.Windows(readings) {
		return -1
	}
	at := p.receiver.Position(packed, reading, readings)
	if at < 0 {
		return -1
	}
	return at + window*p.receiver.Windows()
}

// Pack puts windows that Receive made into one ciphertext in the small ring, for Join: coefficient j*Windows + k
// is reading j of window k, and anything for a j that the window has no reading for. readings is the number of
// each window's readings, or any number with the same Stride as theirs. Windows may be missing at the end or nil,
// and are 0 then. It takes a key switch for each pair that the tree joins. It fails with henc.ErrLength for no
// window or too many, and with the errors of henc.Context.CheckCiphertext.
//
// Each key switch adds the noise of Receive's, less than 2^-29 of a reading, and each level of the tree makes the
// noise of earlier ones at most four times as large: together less than S^2/3 * 2^-29 for the moduli of boot15,
// 2^-18.5 for windows of 64 readings. For boot16 it is 2^-8 of that.
func (p *Packer) Pack(windows []*henc.Ciphertext, readings int) (*henc.Ciphertext, error) {
	const op = "pack compact windows"
	most := p.Windows(readings)
	if most == 0 || len(p.keys) == 0 || len(windows) == 0 || len(windows) > most {
		return nil, fmt.Errorf("%s: %w: %d windows of %d readings, it takes 1..%d", op, henc.ErrLength, len(windows),
			readings, most)
	}
	level, err := p.divided(windows, most)
	for i := len(p.keys) - 1; i >= 0 && err == nil; i-- {
		if 1<<i < most {
			level, err = p.merge(level, i)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return &henc.Ciphertext{Value: level[0], Level: 0, Scale: p.receiver.scale()}, nil
}

// divided returns the windows over n, a power of two, modulo each prime, and nil up to n of them.
func (p *Packer) divided(windows []*henc.Ciphertext, n int) ([]*cutrantt.Batch, error) {
	small := p.receiver.small
	limbs := small.Parameters().QLimbs(0)
	var inverse []uint32
	for _, q := range small.Parameters().Q()[:len(limbs)] {
		x := uint64(1)
		for k := n; k > 1; k /= 2 { // (q+1)/2 is 1/2
			x = x * (uint64(q) + 1) / 2 % uint64(q)
		}
		inverse = append(inverse, uint32(x))
	}
	out, found := make([]*cutrantt.Batch, n), false
	for i, ct := range windows {
		if ct == nil {
			continue
		}
		err := small.CheckCiphertext(ct)
		if err == nil {
			if out[i], err = cutrantt.NewResult(small.Ring(), 2, limbs, small.Domain()); err == nil {
				err = small.Ring().MulScalar(out[i], ct.Value, inverse)
			}
		}
		if err != nil {
			p.drop(out)
			return nil, fmt.Errorf("window %d: %w", i, err)
		}
		found = true
	}
	if !found {
		return nil, fmt.Errorf("%w: all windows are missing", henc.ErrLength)
	}
	return out, nil
}

// drop frees batches.
func (p *Packer) drop(all []*cutrantt.Batch) {
	for _, b := range all {
		if b != nil {
			p.receiver.small.Ring().Free(b)
		}
	}
}

// merge joins window k of the first half with that of the second, shifted by 2^i; each half has 2^i. It frees
// what it is given, in any case.
func (p *Packer) merge(in []*cutrantt.Batch, i int) ([]*cutrantt.Batch, error) {
	defer p.drop(in)
	small, half := p.receiver.small, len(in)/2
	ring, params := small.Ring(), small.Parameters()
	limbs := params.QLimbs(0)
	c := chain.New(ring)
	defer c.Close()
	out, items := make([]*cutrantt.Batch, half), []cutrantt.KeySwitch{}
	for k := range out {
		a, b := in[k], in[k+half]
		if a == nil && b == nil {
			continue
		}
		plus, minus := c.Batch(2, limbs, small.Domain()), c.Batch(2, limbs, small.Domain())
		if b != nil {
			c.Op3(ring.Mul, plus, b, p.monomials[i])
			c.Op2(ring.Neg, minus, plus)
		}
		if a != nil {
			c.Op3(ring.Add, plus, plus, a)
			c.Op3(ring.Add, minus, minus, a)
		}
		items = append(items, cutrantt.KeySwitch{Dst: c.Result(2, limbs, small.Domain()), X: c.Poly(minus, 1),
			Low: c.Poly(minus, 0), Key: p.keys[i].operand, Galois: uint64(1 + params.N()>>i)})
		out[k] = plus
	}
	c.Do(func() error {
		return cutrantt.SwitchKeys(ring, cutrantt.Gadget{Alpha: 1, Special: params.PLimbs()[:1]}, items)
	})
	for _, sum := range out {
		if sum != nil {
			c.Op3(ring.Add, sum, sum, items[0].Dst)
			items = items[1:]
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	for _, sum := range out {
		if sum != nil {
			_, _ = c.Keep(sum) // cannot fail: the sequence has not
		}
	}
	return out, nil
}
