package henc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/chain"
	"github.com/hencedge/hencedge/henc/internal/keymat"
	"github.com/hencedge/hencedge/henc/internal/wire"
)

// Keys are written in the complete domain ntt/1, so that their bytes do not depend
// on the n2 of the machine that made them. All objects are strict deterministic
// CBOR arrays that begin with version, kind and parameter hash:
//
//	public key:      [version, 2, params, id, epoch, key]
//	evaluation keys: [version, 3, params, id, epoch, [relin?], [[element, key], ...], [to, from]?]
//	switching key:   [version, 5, params, id, epoch, key]
//	key:             [seed, b, null] or [null, b, a]
//
// b and a are packed residues over all moduli, of every digit in turn. seed stands
// for a: digit d is the uniform stream LabelKeyA + d in the domain ntt/1. The
// elements ascend. Sets with upper levels, and no others, end with the keys to and from the sparse
// secret, or an empty array; the first of them has the moduli of SparseLimbs only, and so has a switching key.

// ErrInsecureKey: keys of parameters that are not secure are neither written nor
// read.
var ErrInsecureKey = errors.New("henc: keys of insecure parameters are never written")

// MaxGaloisKeys bounds the Galois keys of one serialised set.
const MaxGaloisKeys = 1024

// MarshalPublicKey writes pk. It fails with ErrInsecureKey for insecure parameters
// and with ErrParams if pk does not belong to the context.
func (c *Context) MarshalPublicKey(pk *PublicKey) ([]byte, error) {
	if err := c.serialisable(pk != nil); err != nil {
		return nil, fmt.Errorf("write public key: %w", err)
	}
	w := wire.NewWriter(wire.KindPublicKey, c.params.Hash(), 6, fullShape(c.params, 1).size(c.params, pk.Seed != nil))
	w.Blob(pk.KeyID[:])
	w.Uint(uint64(pk.Epoch))
	if err := c.writeKey(w, pk.Value, pk.Seed, fullShape(c.params, 1)); err != nil {
		return nil, fmt.Errorf("write public key: %w", err)
	}
	return w.Bytes()
}

// UnmarshalPublicKey reads what MarshalPublicKey wrote, and nothing else: it checks
// the parameter hash (ErrParams), the exact form (ErrMalformed, ErrTruncated,
// ErrVersion, ErrKind), every residue (ErrRange) and the key id.
func (c *Context) UnmarshalPublicKey(b []byte) (*PublicKey, error) {
	pk, err := c.readPublicKey(b)
	if err != nil {
		return nil, fmt.Errorf("read public key: %w", err)
	}
	return pk, nil
}

func (c *Context) readPublicKey(b []byte) (*PublicKey, error) {
	if err := c.serialisable(true); err != nil {
		return nil, err
	}
	pk := &PublicKey{}
	r, err := wire.NewReader(b, wire.KindPublicKey, 6)
	if err != nil {
		return nil, err
	}
	if err := c.keyHeader(r, wire.KindPublicKey, &pk.KeyID, &pk.Epoch); err != nil {
		return nil, err
	}
	if pk.Value, pk.Seed, err = c.readKey(r, fullShape(c.params, 1)); err != nil {
		return nil, err
	}
	if err := r.Close(); err != nil {
		return nil, err
	}
	id, err := ComputeKeyID(c, pk.Value, pk.Seed)
	if err != nil {
		return nil, err
	}
	if id != pk.KeyID {
		return nil, fmt.Errorf("%w: key id %x does not name this key, which is %x", ErrMalformed, pk.KeyID, id)
	}
	return pk, nil
}

// MarshalEvaluationKeys writes keys. It fails like MarshalPublicKey.
func (c *Context) MarshalEvaluationKeys(keys *EvaluationKeys) ([]byte, error) {
	b, err := c.writeEvaluationKeys(keys)
	if err != nil {
		return nil, fmt.Errorf("write evaluation keys: %w", err)
	}
	return b, nil
}

func (c *Context) writeEvaluationKeys(keys *EvaluationKeys) ([]byte, error) {
	if err := c.serialisable(keys != nil); err != nil {
		return nil, err
	}
	s := EvaluationKeyStream{
		KeyID: keys.KeyID, Epoch: keys.Epoch, Elements: slices.Sorted(maps.Keys(keys.Galois)),
		Galois: func(g uint64) (*SwitchingKey, error) { return keys.Galois[g], nil },
	}
	p := c.params
	dnum, size := p.Dnum(p.MaxLevel()), 0
	all := slices.Collect(maps.Values(keys.Galois))
	if keys.Relin != nil {
		all = append(all, keys.Relin)
		s.Relin = func() (*SwitchingKey, error) { return keys.Relin, nil }
	}
	if keys.Sparse != nil {
		all = append(all, keys.Sparse.From)
		s.Sparse = func() (*SparseKeys, error) { return keys.Sparse, nil }
	}
	for _, k := range all {
		if err := k.check(c); err != nil {
			return nil, err
		}
		size += fullShape(p, dnum).size(p, k.Seed != nil)
	}
	var out bytes.Buffer
	out.Grow(size + 128)
	if err := c.streamEvaluationKeys(&out, s); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// EvaluationKeyStream gives evaluation keys one at a time, so that not all of them need
// to be in memory.
type EvaluationKeyStream struct {
	KeyID [16]byte // as in EvaluationKeys
	Epoch uint32
	// Relin gives the relinearisation key; nil means that there is none.
	Relin func() (*SwitchingKey, error)
	// Elements are the Galois elements, ascending; Galois gives the key of each in turn. A
	// key is not used any more when the next one is asked for.
	Elements []uint64
	Galois   func(element uint64) (*SwitchingKey, error)
	// Sparse gives the keys of the sparse secret, last of all; nil means that there are none.
	Sparse func() (*SparseKeys, error)
}

// WriteEvaluationKeys writes the keys of s to w, the same bytes as MarshalEvaluationKeys.
// It fails like that, and with the errors of s and w; part of the bytes may then have been
// written.
func (c *Context) WriteEvaluationKeys(w io.Writer, s EvaluationKeyStream) error {
	if err := c.serialisable(true); err != nil {
		return fmt.Errorf("write evaluation keys: %w", err)
	}
	if err := c.streamEvaluationKeys(w, s); err != nil {
		return fmt.Errorf("write evaluation keys: %w", err)
	}
	return nil
}

func (c *Context) streamEvaluationKeys(dst io.Writer, s EvaluationKeyStream) error {
	if len(s.Elements) > MaxGaloisKeys {
		return fmt.Errorf("%w: %d Galois keys, at most %d fit", ErrTooLarge, len(s.Elements), MaxGaloisKeys)
	}
	if len(s.Elements) > 0 && s.Galois == nil {
		return fmt.Errorf("%w: %d Galois elements and nothing that gives their keys", ErrParams, len(s.Elements))
	}
	shape := c.switchingShape()
	w := wire.NewWriter(wire.KindEvaluationKeys, c.params.Hash(), c.evaluationElements(), shape.size(c.params, true))
	w.Blob(s.KeyID[:])
	w.Uint(uint64(s.Epoch))
	write := func(k *SwitchingKey, err error) error {
		if err == nil {
			err = k.check(c)
		}
		if err == nil {
			err = c.writeKey(w, k.Value, k.Seed, shape)
		}
		if err != nil {
			return err
		}
		return w.FlushTo(dst)
	}
	if s.Relin == nil {
		w.List(0)
	} else {
		w.List(1)
		if err := write(s.Relin()); err != nil {
			return err
		}
	}
	w.List(len(s.Elements))
	last := uint64(1)
	for _, g := range s.Elements {
		if err := c.checkElement(g); err != nil {
			return err
		}
		if g <= last {
			return fmt.Errorf("%w: Galois element %d after %d", ErrParams, g, last)
		}
		last = g
		w.Array(2)
		w.Uint(g)
		if err := write(s.Galois(g)); err != nil {
			return err
		}
	}
	if err := c.writeSparse(w, s.Sparse); err != nil {
		return err
	}
	return w.FlushTo(dst)
}

// evaluationElements is how many elements the array of evaluation keys has.
func (c *Context) evaluationElements() int {
	if c.params.UpperLevels() > 0 {
		return 8
	}
	return 7
}

// switchingShape is that of relinearisation and Galois keys.
func (c *Context) switchingShape() keyShape {
	return fullShape(c.params, c.params.Dnum(c.params.MaxLevel()))
}

// writeSparse writes the keys of the sparse secret, or that there are none.
func (c *Context) writeSparse(w *wire.Writer, keys func() (*SparseKeys, error)) error {
	if c.params.UpperLevels() == 0 {
		if keys != nil {
			return fmt.Errorf("%w: %s has no levels for bootstrapping, so no keys for it", ErrParams, c.params.Name())
		}
		return nil
	}
	if keys == nil {
		w.List(0)
		return nil
	}
	k, err := keys()
	if err == nil {
		err = k.Check(c)
	}
	if err != nil {
		return err
	}
	w.List(2)
	if err := c.writeKey(w, k.To.Value, k.To.Seed, sparseShape(c.params)); err != nil {
		return err
	}
	return c.writeKey(w, k.From.Value, k.From.Seed, c.switchingShape())
}

// UnmarshalEvaluationKeys reads what MarshalEvaluationKeys wrote, with the checks
// of UnmarshalPublicKey. The key id only says which public key the set claims to
// belong to: trust comes from whoever signed or delivered it.
func (c *Context) UnmarshalEvaluationKeys(b []byte) (*EvaluationKeys, error) {
	return c.ReadEvaluationKeys(bytes.NewReader(b))
}

// ReadEvaluationKeys is UnmarshalEvaluationKeys for what is read from src. Besides the keys themselves
// it takes the memory of about two written ones, however many there are. It also fails with the errors of src.
func (c *Context) ReadEvaluationKeys(src io.Reader) (*EvaluationKeys, error) {
	keys, err := c.readEvaluationKeys(src)
	if err != nil {
		return nil, fmt.Errorf("read evaluation keys: %w", err)
	}
	return keys, nil
}

func (c *Context) readEvaluationKeys(src io.Reader) (*EvaluationKeys, error) {
	if err := c.serialisable(true); err != nil {
		return nil, err
	}
	r, err := wire.NewReaderFrom(src, wire.KindEvaluationKeys, c.evaluationElements())
	if err != nil {
		return nil, err
	}
	keys := &EvaluationKeys{}
	if err := c.keyHeader(r, wire.KindEvaluationKeys, &keys.KeyID, &keys.Epoch); err != nil {
		return nil, err
	}
	shape := c.switchingShape()
	if r.List(min(shape.digits, 1)) == 1 {
		if keys.Relin, err = c.readSwitching(r, shape); err != nil {
			return nil, fmt.Errorf("relinearisation key: %w", err)
		}
	}
	if keys.Galois, err = c.readGalois(r, shape); err != nil {
		return nil, err
	}
	if keys.Sparse, err = c.readSparse(r); err != nil {
		return nil, fmt.Errorf("keys of the sparse secret: %w", err)
	}
	if err := r.Close(); err != nil {
		return nil, err
	}
	return keys, nil
}

// readGalois reads the Galois keys, by element.
func (c *Context) readGalois(r *wire.Reader, shape keyShape) (map[uint64]*SwitchingKey, error) {
	galois, most := map[uint64]*SwitchingKey{}, MaxGaloisKeys
	if shape.digits == 0 {
		most = 0
	}
	last := uint64(1)
	for range r.List(most) {
		n, g := r.Array(), r.Uint()
		if err := r.Err(); err != nil {
			return nil, err
		}
		if n != 2 || g <= last {
			return nil, fmt.Errorf(
				"%w: Galois key of element %d after %d in an entry of %d elements", ErrMalformed, g, last, n,
			)
		}
		last = g
		if err := c.checkElement(g); err != nil {
			return nil, err
		}
		k, err := c.readSwitching(r, shape)
		if err != nil {
			return nil, fmt.Errorf("galois key of element %d: %w", g, err)
		}
		galois[g] = k
	}
	return galois, nil
}

// readSparse reads the keys of the sparse secret, nil if there are none.
func (c *Context) readSparse(r *wire.Reader) (*SparseKeys, error) {
	if c.params.UpperLevels() == 0 {
		return nil, nil
	}
	switch n := r.List(2); {
	case r.Err() != nil:
		return nil, r.Err()
	case n == 0:
		return nil, nil
	case n == 1:
		return nil, fmt.Errorf("%w: one key, where two or none belong", ErrMalformed)
	}
	to, err := c.readSwitching(r, sparseShape(c.params))
	if err != nil {
		return nil, err
	}
	from, err := c.readSwitching(r, c.switchingShape())
	if err != nil {
		return nil, err
	}
	return &SparseKeys{To: to, From: from}, nil
}

func (c *Context) readSwitching(r *wire.Reader, shape keyShape) (*SwitchingKey, error) {
	value, seed, err := c.readKey(r, shape)
	if err != nil {
		return nil, err
	}
	return &SwitchingKey{Value: value, Seed: seed}, nil
}

// serialisable refuses a missing object or context, and insecure parameters.
func (c *Context) serialisable(present bool) error {
	if err := c.ready(); err != nil {
		return err
	}
	if !present {
		return fmt.Errorf("%w: nil key", ErrParams)
	}
	return c.params.CheckKeys()
}

func (c *Context) checkElement(g uint64) error {
	if g%2 == 0 || g == 1 || g >= uint64(2*c.params.N()) {
		return fmt.Errorf("%w: %d is not a Galois element (odd, 3..%d)", ErrMalformed, g, 2*c.params.N()-1)
	}
	return nil
}

// KeyHeader is what a serialised key says of itself before the key.
type KeyHeader struct {
	Params [32]byte // hash, see NameOf
	KeyID  [16]byte
	Epoch  uint32
}

// PeekPublicKey reads the header of a public key without checking the key.
func PeekPublicKey(b []byte) (KeyHeader, error) {
	r, err := wire.NewReader(b, wire.KindPublicKey, 6)
	if err != nil {
		return KeyHeader{}, fmt.Errorf("public key header: %w", err)
	}
	h, err := readKeyHeader(r)
	if err != nil {
		return KeyHeader{}, fmt.Errorf("public key header: %w", err)
	}
	return h, nil
}

// readKeyHeader reads everything before the residues.
func readKeyHeader(r *wire.Reader) (KeyHeader, error) {
	h := KeyHeader{Params: r.Head.Params}
	copy(h.KeyID[:], r.Blob(len(h.KeyID)))
	e := r.Uint()
	if err := r.Err(); err != nil {
		return h, err
	}
	if e > math.MaxUint32 {
		return h, fmt.Errorf("%w: epoch %d", ErrMalformed, e)
	}
	h.Epoch = uint32(e)
	return h, nil
}

// keyHeader is readKeyHeader for the parameters of the context.
func (c *Context) keyHeader(r *wire.Reader, kind wire.Kind, id *[16]byte, epoch *uint32) error {
	h, err := readKeyHeader(r)
	if err != nil {
		return err
	}
	if h.Params != c.params.Hash() {
		return fmt.Errorf("%w: the %s is for %s, not for %s", ErrParams, kind, NameOf(h.Params), c.params.Name())
	}
	*id, *epoch = h.KeyID, h.Epoch
	return nil
}

// writeKey writes the pairs (b_d, a_d) of value.
func (c *Context) writeKey(w *wire.Writer, value *cutrantt.Batch, seed *[32]byte, shape keyShape) error {
	if err := checkShape(c, value, shape); err != nil {
		return err
	}
	w.Array(3)
	if seed != nil {
		w.Blob(seed[:])
	} else {
		w.Blob(nil)
	}
	if err := c.writeHalves(w, value, 0, shape); err != nil {
		return err
	}
	if seed != nil {
		w.Blob(nil)
		return nil
	}
	return c.writeHalves(w, value, 1, shape)
}

// writeHalves writes polynomials half, half+2, ... of value, a few limbs at a time.
func (c *Context) writeHalves(w *wire.Writer, value *cutrantt.Batch, half int, shape keyShape) error {
	limbs, n := value.Limbs(), value.N()
	block := min(max(downloadWords/n, 1), len(limbs))
	host := make([]uint32, block*n)
	ch := chain.New(c.ring)
	canon := ch.Batch(1, limbs, cutrantt.NTT(1))
	w.ResiduesBy(n, shape.moduli(c.params, shape.digits), func(i int) ([]uint32, error) {
		d, l := i/len(limbs), i%len(limbs)
		if l == 0 {
			ch.Op2(c.ring.Convert, canon, ch.Poly(value, 2*d+half))
		}
		part := host[:min(block, len(limbs)-l)*n]
		ch.Do(func() error { return c.ring.Download(part, ch.View(canon, 0, 1, l, l+len(part)/n)) })
		return part, ch.Err()
	})
	return ch.Close()
}

// readKey reads the pairs of a key into a batch of the context's domain.
func (c *Context) readKey(r *wire.Reader, shape keyShape) (*cutrantt.Batch, *[32]byte, error) {
	size := wire.ResiduesLen(c.params.N(), shape.moduli(c.params, shape.digits))
	n, s, b, a := r.Array(), r.OptionalBlob(32), r.Blob(size), r.OptionalBlob(size)
	if err := r.Err(); err != nil {
		return nil, nil, err
	}
	if n != 3 || (s == nil) == (a == nil) {
		return nil, nil, fmt.Errorf("%w: a key has either a seed or its second half", ErrMalformed)
	}
	ch := chain.New(c.ring)
	value := ch.Batch(2*shape.digits, shape.limbs, c.Domain())
	ch.Do(func() error { return c.readHalves(ch, value, b, 0, shape) })
	var seed *[32]byte
	if s != nil {
		seed = (*[32]byte)(slices.Clone(s))
		for d := range shape.digits {
			ch.Do(func() error {
				return keymat.UniformA(
					c.ring, ch.Poly(value, 2*d+1), seed, keymat.LabelKeyA+uint32(d),
				)
			})
		}
	} else {
		ch.Do(func() error { return c.readHalves(ch, value, a, 1, shape) })
	}
	kept, _ := ch.Keep(value)
	if err := ch.Close(); err != nil {
		return nil, nil, err
	}
	return kept, seed, nil
}

// readHalves unpacks polynomials half, half+2, ... of value. One that is zero modulo a
// prime is refused: honest keys have none.
func (c *Context) readHalves(ch *chain.Chain, value *cutrantt.Batch, packed []byte, half int, shape keyShape) error {
	n, moduli := value.N(), shape.moduli(c.params, 1)
	block := min(max(downloadWords/n, 1), len(moduli)) // limbs at a time
	host := make([]uint32, block*n)
	for d := range shape.digits {
		for lo := 0; lo < len(moduli); lo += block {
			hi := min(lo+block, len(moduli))
			for i, q := range moduli[lo:hi] {
				size, limb := cutrantt.PackedBytes(n, q), host[i*n:(i+1)*n]
				if err := wire.Unpack(limb, packed[:size], q); err != nil {
					return fmt.Errorf("digit %d, limb %d: %w", d, lo+i, err)
				}
				packed = packed[size:]
				if slices.Max(limb) == 0 {
					return fmt.Errorf("%w: half %d of digit %d of a key is zero modulo %d", ErrDegenerate, half, d, q)
				}
			}
			to := ch.View(value, 2*d+half, 2*d+half+1, lo, hi)
			if err := c.uploadCanonical(to, host[:(hi-lo)*n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// uploadCanonical sets dst to residues of the complete transform.
func (c *Context) uploadCanonical(dst *cutrantt.Batch, x []uint32) error {
	if dst == nil {
		return ErrParams
	}
	if c.n2 == 1 {
		return c.ring.Upload(dst, x)
	}
	canon, err := c.ring.NewBatch(1, dst.Limbs(), cutrantt.NTT(1))
	if err != nil {
		return err
	}
	defer c.ring.Free(canon)
	if err := c.ring.Upload(canon, x); err != nil {
		return err
	}
	return c.ring.Convert(dst, canon)
}
