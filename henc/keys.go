package henc

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// PublicKey is (b, a) = (-a*s + e, a) over all moduli Q and P. Anybody may hold
// it. It is immutable once in use and safe for concurrent use.
type PublicKey struct {
	Value *cutrantt.Batch // 2 polynomials b, a; domain NTT(n2); limbs Q then P
	Seed  *[32]byte       // public; set when a expands from it (see docs/wire-ciphertext.md)
	KeyID [16]byte        // names the key pair: see ComputeKeyID
	Epoch uint32          // counts the key pairs of one key set
}

// SwitchingKey is a hybrid key-switching key from a secret t to a secret s with
// dnum digits. Digit d is (-a_d*s + e_d + g_d*t, a_d) over QP with g_d = P
// modulo the primes of digit d and 0 modulo all others. t is s^2 in a
// relinearisation key. In the Galois key of element g the roles are t = s and,
// for s, phi_(1/g)(s): a rotation switches first and permutes afterwards, so
// that hoisted rotations share their digits.
type SwitchingKey struct {
	Value *cutrantt.Batch // 2*dnum polynomials b_0, a_0, b_1, a_1, ...; NTT(n2); limbs Q then P
	Seed  *[32]byte       // public; set when every a_d expands from it

	mu  sync.Mutex
	ops map[int]cutrantt.Operand // by number of digits in use
}

// EvaluationKeys is what an evaluator holds. It is immutable once in use and
// safe for concurrent use.
type EvaluationKeys struct {
	Relin  *SwitchingKey            // nil: no products of ciphertexts
	Galois map[uint64]*SwitchingKey // by Galois element, see GaloisElement
	Sparse *SparseKeys              // nil: no bootstrapping
	KeyID  [16]byte                 // of the public key of the same secret
	Epoch  uint32
}

// GaloisElement is 5^rotation mod 2N, the g of X -> X^g that moves slot
// j+rotation to slot j. Any rotation is taken modulo N/2.
func GaloisElement(p Parameters, rotation int) uint64 {
	mask, base, g := uint64(2*p.N()-1), uint64(5), uint64(1)
	if p.N() == 0 {
		return 1
	}
	half := p.N() / 2
	for k := (rotation%half + half) % half; k > 0; k >>= 1 {
		if k&1 == 1 {
			g = g * base & mask
		}
		base = base * base & mask
	}
	return g
}

// ConjugationElement is 2N-1, the Galois element of complex conjugation.
func ConjugationElement(p Parameters) uint64 { return uint64(2*p.N() - 1) }

// ComputeKeyID names a public key: the first 16 bytes of SHA-256 over
// "hencedge key id v1", the parameter hash, the residues of b in the complete
// domain ntt/1 (32-bit little-endian, limb by limb), and the seed of a or, if
// there is none, the residues of a in the same form. It does not depend on n2.
func ComputeKeyID(ctx *Context, value *cutrantt.Batch, seed *[32]byte) ([16]byte, error) {
	var id [16]byte
	if err := checkKeyShape(ctx, value, 2); err != nil {
		return id, fmt.Errorf("key id: %w", err)
	}
	r, polys := ctx.Ring(), 2
	if seed != nil {
		polys = 1
	}
	c := chain.New(r)
	defer c.Close()
	canon := value
	if value.Domain() != cutrantt.NTT(1) {
		canon = c.Batch(polys, value.Limbs(), cutrantt.NTT(1))
		c.Op2(r.Convert, canon, c.View(value, 0, polys, 0, len(value.Limbs())))
	}
	if err := c.Err(); err != nil {
		return id, fmt.Errorf("key id: %w", err)
	}
	h := sha256.New()
	hash := ctx.Parameters().Hash()
	h.Write([]byte("hencedge key id v1"))
	h.Write(hash[:])
	words, from := make([]byte, 4*value.N()), ctx.newLimbReader(canon)
	for p := range polys {
		for l := range value.Limbs() {
			x, err := from.limb(p, l)
			if err != nil {
				return id, fmt.Errorf("key id: %w", err)
			}
			for i, v := range x {
				binary.LittleEndian.PutUint32(words[4*i:], v)
			}
			h.Write(words)
		}
	}
	if seed != nil {
		h.Write(seed[:])
	}
	copy(id[:], h.Sum(nil))
	return id, nil
}

// checkKeyShape refuses anything but polys polynomials over QP in ctx's domain.
func checkKeyShape(ctx *Context, b *cutrantt.Batch, polys int) error {
	if err := ctx.ready(); err != nil {
		return err
	}
	return checkShape(ctx, b, fullShape(ctx.Parameters(), polys/2))
}

// check refuses a key that does not belong to ctx.
func (k *SwitchingKey) check(ctx *Context) error {
	if k == nil {
		return fmt.Errorf("%w: nil switching key", ErrNoKey)
	}
	p := ctx.Parameters()
	if p.Alpha() == 0 {
		return fmt.Errorf("%w: %s has no special primes, so no key switching", ErrNoKey, p.Name())
	}
	return checkKeyShape(ctx, k.Value, 2*p.Dnum(p.MaxLevel()))
}

// operand is the precomputed form of the key's first digits, made on first use.
func (k *SwitchingKey) operand(ctx *Context, digits int) (cutrantt.Operand, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if op, ok := k.ops[digits]; ok {
		return op, nil
	}
	v, err := k.Value.Slice(0, 2*digits, 0, len(k.Value.Limbs()))
	if err != nil {
		return nil, err
	}
	op, err := ctx.Ring().Precompute(v)
	if err != nil {
		return nil, err
	}
	if k.ops == nil {
		k.ops = map[int]cutrantt.Operand{}
	}
	k.ops[digits] = op
	return op, nil
}
