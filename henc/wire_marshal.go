package henc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/encryption"
	"github.com/hencedge/hencedge/henc/internal/wire"
	"github.com/hencedge/hencedge/internal/crew"
)

// MarshalCiphertext encodes ct: seeded when ct.Seed is set, which must then be what
// c1 was expanded from (ErrSeed). It fails as CheckCiphertext, and with
// ErrDegenerate for a ciphertext that hides nothing.
func (c *Context) MarshalCiphertext(ct *Ciphertext) ([]byte, error) {
	return c.AppendCiphertext(nil, ct)
}

// AppendCiphertext appends what MarshalCiphertext gives to b, whose capacity
// should have room for Parameters.CiphertextBytes more.
func (c *Context) AppendCiphertext(b []byte, ct *Ciphertext) ([]byte, error) {
	out, errs := c.AppendCiphertexts([][]byte{b}, []*Ciphertext{ct})
	return out[0], errs[0]
}

// MarshalCiphertexts is MarshalCiphertext for each of cts. A device packs those of one shape
// together.
func (c *Context) MarshalCiphertexts(cts []*Ciphertext) ([][]byte, []error) {
	return c.AppendCiphertexts(make([][]byte, len(cts)), cts)
}

// AppendCiphertexts appends each of cts to its entry of to, like AppendCiphertext. An entry may be
// nil or missing.
func (c *Context) AppendCiphertexts(to [][]byte, cts []*Ciphertext) ([][]byte, []error) {
	all, memory := make([]*writing, len(cts)), make([]writing, len(cts))
	for i, ct := range cts {
		all[i] = &memory[i]
		all[i].ct, all[i].err = ct, c.CheckCiphertext(ct)
		if i < len(to) {
			all[i].to = to[i]
		}
	}
	c.store(all)
	left := slices.DeleteFunc(slices.Clone(all), func(w *writing) bool { return w.err != nil || w.out != nil })
	encryption.Spread(len(left), func(i int) { left[i].out, left[i].err = c.appendLimbs(left[i].to, left[i].ct) })
	out, errs := make([][]byte, len(cts)), make([]error, len(cts))
	for i, w := range all {
		if w.err != nil {
			errs[i] = fmt.Errorf("marshal ciphertext: %w", w.err)
		} else {
			out[i] = w.out
		}
	}
	return out, errs
}

// writing is a ciphertext on its way from a batch to its bytes.
type writing struct {
	ct  *Ciphertext
	to  []byte // what it is appended to
	out []byte // that with the ciphertext; nil until it is there
	err error
}

// header begins the object of ct on b, up to the polynomials. It makes room for all of it.
func (c *Context) header(b []byte, ct *Ciphertext) *wire.Writer {
	return c.begin(slices.Grow(b, c.params.CiphertextBytes(ct.Level, ct.Seed != nil)), ct)
}

// begin is header without room for more.
func (c *Context) begin(b []byte, ct *Ciphertext) *wire.Writer {
	var seed []byte
	polys := 2
	if ct.Seed != nil {
		seed, polys = ct.Seed[:], 1
	}
	w := wire.NewWriterOn(b, wire.KindCiphertext, c.params.Hash(), ciphertextElements)
	w.Uint(uint64(ct.Level))
	w.Float(ct.Scale)
	w.Uint(uint64(c.n2))
	w.Uint(transformNTT)
	w.Blob(seed)
	w.Array(polys)
	return w
}

// store has the ring pack those of all that it can. It leaves out those with which something is
// wrong, for appendLimbs to find out.
func (c *Context) store(all []*writing) {
	if c.ready() != nil {
		return // every ciphertext says so
	}
	ring, ok := c.ring.(cutrantt.Packed)
	if !ok {
		return
	}
	type shape struct {
		level  int
		seeded bool
	}
	groups := map[shape][]*writing{}
	for _, w := range all {
		if w.err == nil {
			s := shape{w.ct.Level, w.ct.Seed != nil}
			groups[s] = append(groups[s], w)
		}
	}
	for _, group := range groups {
		if err := c.storeGroup(ring, group); err != nil && !errors.Is(err, cutrantt.ErrNotSupported) {
			for _, w := range group {
				w.err = err
			}
		}
	}
}

// storeGroup packs ciphertexts of one shape.
func (c *Context) storeGroup(ring cutrantt.Packed, group []*writing) error {
	seeded := group[0].ct.Seed != nil
	genuine := make([]bool, len(group)) // c1 is what the seed gives
	polys := 2
	if seeded {
		polys = 1
		if err := c.checkSeeds(ring, group, genuine); err != nil {
			return err
		}
	}
	if len(group)*polys*c.params.PackedBytes(group[0].ct.Level) >= crew.Worth {
		defer crew.Hold()()
	}
	var head []byte // of an unseeded ciphertext, the same for those of one scale
	if !seeded && len(group) > 1 {
		begun, err := c.begin(nil, group[0].ct).Bytes()
		if err != nil {
			return err
		}
		head = begun
	}
	out, dst, src := make([][]byte, len(group)), make([][][]byte, len(group)), make([]*cutrantt.Batch, len(group))
	errs := make([]error, len(group))
	crew.Do(len(group), crew.Most, func(i int) {
		w, known := group[i], head
		if w.ct.Scale != group[0].ct.Scale {
			known = nil
		}
		out[i], dst[i], errs[i] = c.room(w, known, polys)
		if errs[i] == nil {
			src[i], errs[i] = w.ct.Value.Slice(0, polys, 0, len(w.ct.Value.Limbs()))
		}
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	whole, err := ring.StorePacked(dst, src)
	if err != nil {
		return err
	}
	for i, w := range group {
		if whole[i] && (!seeded || genuine[i]) {
			w.out = out[i]
		}
	}
	return nil
}

// room appends the object of w without its residues, and returns where those of each polynomial belong. head is how
// the object begins; nil: that is to be found out.
func (c *Context) room(w *writing, head []byte, polys int) (out []byte, dst [][]byte, err error) {
	var h *wire.Writer
	if head != nil {
		h = wire.Continued(slices.Grow(w.to, c.params.CiphertextBytes(w.ct.Level, polys == 1)), head)
	} else {
		h = c.header(w.to, w.ct)
	}
	size, at := c.params.PackedBytes(w.ct.Level), make([]int, polys)
	for p := range at {
		at[p] = h.Room(size)
	}
	if out, err = h.Bytes(); err != nil {
		return nil, nil, err
	}
	for _, a := range at {
		dst = append(dst, out[a:a+size])
	}
	return out, dst, nil
}

// checkSeeds finds out which ciphertexts have a c1 whose first limb is what the seed gives, see
// checkSeed.
func (c *Context) checkSeeds(ring cutrantt.Packed, group []*writing, genuine []bool) error {
	var src []*cutrantt.Batch
	var dst [][][]byte
	size := cutrantt.PackedBytes(c.params.N(), c.params.data().lit.Q[0])
	for _, w := range group {
		c1, err := w.ct.Value.Slice(1, 2, 0, 1)
		if err != nil {
			return err
		}
		want, err := cutrantt.NewResult(c.ring, 1, []int{0}, c.Domain())
		if err != nil {
			return err
		}
		defer c.ring.Free(want)
		if err := c.ring.SampleUniform(want, w.ct.Seed, LabelCipherA); err != nil {
			return err
		}
		src = append(src, c1, want)
		dst = append(dst, [][]byte{make([]byte, size)}, [][]byte{make([]byte, size)})
	}
	if _, err := ring.StorePacked(dst, src); err != nil {
		return err
	}
	for i := range genuine {
		genuine[i] = bytes.Equal(dst[2*i][0], dst[2*i+1][0])
	}
	return nil
}

// appendLimbs appends a checked ciphertext to b, limb by limb.
func (c *Context) appendLimbs(b []byte, ct *Ciphertext) ([]byte, error) {
	n, limbs := c.params.N(), len(ct.Value.Limbs())
	q := c.params.data().lit.Q[:limbs]
	w := c.header(b, ct)
	d := c.newLimbReader(ct.Value)
	defer d.release()
	if ct.Seed != nil {
		c1, err := d.first(1)
		if err == nil {
			err = c.checkSeed(c1, ct.Seed)
		}
		if err != nil {
			return nil, err
		}
		w.ResiduesBy(n, q, func(i int) ([]uint32, error) { return d.limbs(0, i) })
	} else {
		w.ResiduesBy(n, q, func(i int) ([]uint32, error) { return d.limbs(0, i) })
		w.ResiduesBy(n, q, func(i int) ([]uint32, error) {
			x, err := d.limbs(1, i)
			for k := 0; err == nil && k < len(x); k += n {
				err = checkHides(x[k:k+n], i+k/n)
			}
			return x, err
		})
	}
	return w.Bytes()
}

// checkSeed compares the first limb of c1 with what the seed gives: enough to catch
// a ciphertext that was computed on, or converted, without dropping its seed.
func (c *Context) checkSeed(limb0 []uint32, seed *[32]byte) error {
	b, err := c.ring.NewBatch(1, []int{0}, c.Domain())
	if err != nil {
		return err
	}
	defer c.ring.Free(b)
	if err := c.ring.SampleUniform(b, seed, LabelCipherA); err != nil {
		return err
	}
	want := make([]uint32, len(limb0))
	if err := c.ring.Download(want, b); err != nil {
		return err
	}
	if !slices.Equal(want, limb0) {
		return fmt.Errorf("%w; drop the seed of a ciphertext that was computed on", ErrSeed)
	}
	return nil
}

// checkHides refuses a c1 that is zero modulo one of its primes: c0 is then the
// message modulo that prime, for everybody to read. Chance gives q^-N.
func checkHides(c1 []uint32, limb int) error {
	if !slices.ContainsFunc(c1, func(v uint32) bool { return v != 0 }) {
		return fmt.Errorf("%w: limb %d of c1 is zero, so c0 is not encrypted", ErrDegenerate, limb)
	}
	return nil
}

// limbReader fetches the limbs of a batch a few at a time, so that a large
// ciphertext is not in memory twice while it is written.
type limbReader struct {
	c       *Context
	from    *cutrantt.Batch
	buf     []uint32
	poly    int
	lo, end int // limbs in buf
}

// downloadWords bounds what is fetched at once, unless a limb has more.
const downloadWords = 1 << 20

// newLimbReader returns a reader of b's limbs. It may reuse memory from c.free without
// wiping it, since everything that is read is public.
func (c *Context) newLimbReader(b *cutrantt.Batch) *limbReader {
	n := c.params.N()
	d, _ := c.free.Get().(*limbReader)
	if size := n * min(max(downloadWords/n, 1), len(b.Limbs())); d == nil || len(d.buf) < size {
		d = &limbReader{buf: make([]uint32, size)}
	}
	d.c, d.from, d.lo, d.end = c, b, 0, 0
	return d
}

// release returns the reader's memory to the pool. Limbs that it returned are no longer
// valid.
func (d *limbReader) release() {
	c := d.c
	d.c, d.from = nil, nil
	c.free.Put(d)
}

// limb gives a limb; it is valid until the next call.
func (d *limbReader) limb(poly, l int) ([]uint32, error) {
	x, err := d.limbs(poly, l)
	if err != nil {
		return nil, err
	}
	return x[:d.c.params.N()], nil
}

// limbs gives limb l and those after it that are in memory; they are valid until
// the next call.
func (d *limbReader) limbs(poly, l int) ([]uint32, error) {
	n := d.c.params.N()
	if poly != d.poly || l < d.lo || l >= d.end {
		if err := d.fetch(poly, l, min(l+len(d.buf)/n, len(d.from.Limbs()))); err != nil {
			return nil, err
		}
	}
	return d.buf[(l-d.lo)*n : (d.end-d.lo)*n], nil
}

// first gives limb 0 alone.
func (d *limbReader) first(poly int) ([]uint32, error) {
	err := d.fetch(poly, 0, 1)
	return d.buf[:d.c.params.N()], err
}

func (d *limbReader) fetch(poly, lo, end int) error {
	part, err := d.from.Slice(poly, poly+1, lo, end)
	if err != nil {
		return err
	}
	d.lo, d.end = 0, 0 // nothing, should it fail
	if err := d.c.ring.Download(d.buf[:(end-lo)*d.c.params.N()], part); err != nil {
		return err
	}
	d.poly, d.lo, d.end = poly, lo, end
	return nil
}
