package henc

import (
	"fmt"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/wire"
)

// SparseKeys lead from the dense secret s to the ephemeral sparse secret t of bootstrapping and
// back (package bootstrap). Both are public.
type SparseKeys struct {
	// To switches from s to t: digit d, one limb of level 0, is (-a_d*t + e_d + p*s on limb d, a_d)
	// over Parameters.SparseLimbs, p the special prime. It exists modulo these limbs only: a
	// longer one would not be secure.
	To *SwitchingKey
	// From switches from t to s, over all moduli.
	From *SwitchingKey
}

// Check refuses keys that are not for ctx: with ErrNoKey if one is missing, with ErrParams if one has
// another shape.
func (k *SparseKeys) Check(ctx *Context) error {
	if err := ctx.ready(); err != nil {
		return err
	}
	if k == nil || k.To == nil || k.From == nil {
		return fmt.Errorf("%w: the keys to the sparse secret and back are missing", ErrNoKey)
	}
	if err := checkShape(ctx, k.To.Value, sparseShape(ctx.params)); err != nil {
		return fmt.Errorf("key to the sparse secret: %w", err)
	}
	if err := k.From.check(ctx); err != nil {
		return fmt.Errorf("key from the sparse secret: %w", err)
	}
	return nil
}

// MarshalSwitchingKey writes a key over Parameters.SparseLimbs, such as one of compact windows, with the id and the
// epoch of the key pair that it belongs to. It fails like MarshalPublicKey.
func (c *Context) MarshalSwitchingKey(k *SwitchingKey, id [16]byte, epoch uint32) ([]byte, error) {
	const op = "write switching key"
	if err := c.serialisable(k != nil); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	shape := sparseShape(c.params)
	if shape.digits == 0 {
		return nil, fmt.Errorf("%s: %w: %s has no special primes", op, ErrParams, c.params.Name())
	}
	w := wire.NewWriter(wire.KindSwitchingKey, c.params.Hash(), 6, shape.size(c.params, k.Seed != nil))
	w.Blob(id[:])
	w.Uint(uint64(epoch))
	if err := c.writeKey(w, k.Value, k.Seed, shape); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return w.Bytes()
}

// UnmarshalSwitchingKey reads what MarshalSwitchingKey wrote, with the checks of UnmarshalPublicKey. The header only
// says which key pair the key claims to belong to.
func (c *Context) UnmarshalSwitchingKey(b []byte) (*SwitchingKey, KeyHeader, error) {
	k, h, err := c.readSwitchingKey(b)
	if err != nil {
		return nil, KeyHeader{}, fmt.Errorf("read switching key: %w", err)
	}
	return k, h, nil
}

func (c *Context) readSwitchingKey(b []byte) (*SwitchingKey, KeyHeader, error) {
	if err := c.serialisable(true); err != nil {
		return nil, KeyHeader{}, err
	}
	shape, h := sparseShape(c.params), KeyHeader{Params: c.params.Hash()}
	if shape.digits == 0 {
		return nil, h, fmt.Errorf("%w: %s has no special primes", ErrParams, c.params.Name())
	}
	r, err := wire.NewReader(b, wire.KindSwitchingKey, 6)
	if err != nil {
		return nil, h, err
	}
	if err := c.keyHeader(r, wire.KindSwitchingKey, &h.KeyID, &h.Epoch); err != nil {
		return nil, h, err
	}
	k, err := c.readSwitching(r, shape)
	if err != nil {
		return nil, h, err
	}
	if err := r.Close(); err != nil {
		c.ring.Free(k.Value)
		return nil, h, err
	}
	return k, h, nil
}

// keyShape is the moduli of a key and its digits: pairs (b_d, a_d).
type keyShape struct {
	limbs  []int
	digits int
}

// fullShape is that of a key with some digits over Q and P.
func fullShape(p Parameters, digits int) keyShape { return keyShape{p.QPLimbs(p.MaxLevel()), digits} }

// sparseShape is that of SparseKeys.To.
func sparseShape(p Parameters) keyShape {
	limbs := p.SparseLimbs()
	return keyShape{limbs, max(len(limbs)-1, 0)}
}

// moduli are those of count polynomials.
func (s keyShape) moduli(p Parameters, count int) []uint32 {
	q := make([]uint32, 0, count*len(s.limbs))
	for range count {
		for _, i := range s.limbs {
			q = append(q, p.data().moduli[i].Q)
		}
	}
	return q
}

// size is about that of the key when it is written.
func (s keyShape) size(p Parameters, seeded bool) int {
	size := wire.ResiduesLen(p.N(), s.moduli(p, s.digits))
	if !seeded {
		size *= 2
	}
	return size + 64
}

// checkShape refuses anything but the polynomials of the shape in ctx's domain.
func checkShape(ctx *Context, b *cutrantt.Batch, s keyShape) error {
	if b == nil {
		return fmt.Errorf("%w: key without residues", ErrParams)
	}
	p, domain := ctx.Parameters(), cutrantt.NTT(ctx.N2())
	if b.N() != p.N() || b.Polys() != 2*s.digits || !slices.Equal(b.Limbs(), s.limbs) || b.Domain() != domain {
		return fmt.Errorf("%w: key has %d polynomials, %d limbs, N=%d, domain %s; %s needs %d polynomials, %d limbs, "+
			"N=%d, domain %s",
			ErrParams, b.Polys(), len(b.Limbs()), b.N(), b.Domain(), p.Name(), 2*s.digits, len(s.limbs),
			p.N(), domain)
	}
	return nil
}
