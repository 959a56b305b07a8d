package secret

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/prng"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/internal/chain"
	"github.com/hencedge/hencedge/henc/internal/keymat"
)

// ErrWiped: the secret key was wiped and can do nothing any more.
var ErrWiped = errors.New("henc/secret: secret key was wiped")

// Key is a secret key: a polynomial s with N coefficients uniform in {-1, 0, 1},
// and a root seed from which the noise and the public seeds of all keys derived
// from s follow. Making a public or evaluation key again gives the same key. A
// Key is safe for concurrent use.
type Key struct {
	ctx *henc.Context

	mu    sync.RWMutex    // write-held by Wipe and SetEpoch
	s     *cutrantt.Batch // s over all moduli, NTT(n2); nil once wiped
	small []int32         // coefficients of s
	root  henc.Seed
	epoch uint32
}

// Generate draws a secret key from seed, which it does not keep or wipe; nil
// draws a fresh one from the operating system. Equal seeds give equal keys under one
// set of parameters, and independent ones under two. No branch and no address depends
// on the seed or the key, here or in what is made of the key.
func Generate(ctx *henc.Context, seed *henc.Seed) (*Key, error) {
	if ctx.Ring() == nil {
		return nil, fmt.Errorf("generate key: %w: no context", henc.ErrParams)
	}
	if seed == nil {
		fresh, err := henc.NewSeed()
		if err != nil {
			return nil, fmt.Errorf("generate key: %w", err)
		}
		defer fresh.Wipe()
		seed = fresh
	}
	root, err := rootOf(ctx, seed)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	defer root.Wipe()
	ternary, err := root.Derive("hencedge secret key")
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	defer ternary.Wipe()
	small := make([]int32, ctx.Parameters().N())
	prng.Ternary(small, (*[32]byte)(ternary), keymat.LabelSecret)
	k, err := newKey(ctx, small, root)
	if err != nil {
		clear(small)
		return nil, fmt.Errorf("generate key: %w", err)
	}
	return k, nil
}

// FromCoefficients makes a key from the N coefficients of s, each -1, 0 or 1, for
// example one made by another library. seed is the secret that the noise of the keys
// made from s derives from, together with the parameters; nil draws a fresh one. The
// arguments are copied.
func FromCoefficients(ctx *henc.Context, coefficients []int32, seed *henc.Seed) (*Key, error) {
	if ctx.Ring() == nil {
		return nil, fmt.Errorf("key from coefficients: %w: no context", henc.ErrParams)
	}
	if n := ctx.Parameters().N(); len(coefficients) != n {
		return nil, fmt.Errorf(
			"key from coefficients: %w: %d coefficients, the ring degree is %d", henc.ErrParams, len(coefficients), n,
		)
	}
	var outside int32
	for _, v := range coefficients {
		outside |= (v + 1) &^ 3                 // 0 for -1..2
		outside |= (v + 1) & ((v + 1) >> 1) & 1 // 1 for 2
	}
	if outside != 0 {
		return nil, fmt.Errorf("key from coefficients: %w: a coefficient is not -1, 0 or 1", henc.ErrMalformed)
	}
	if seed == nil {
		fresh, err := henc.NewSeed()
		if err != nil {
			return nil, fmt.Errorf("key from coefficients: %w", err)
		}
		defer fresh.Wipe()
		seed = fresh
	}
	root, err := rootOf(ctx, seed)
	if err != nil {
		return nil, fmt.Errorf("key from coefficients: %w", err)
	}
	defer root.Wipe()
	small := append([]int32(nil), coefficients...)
	k, err := newKey(ctx, small, root)
	if err != nil {
		clear(small)
		return nil, fmt.Errorf("key from coefficients: %w", err)
	}
	return k, nil
}

// rootOf is the root seed of a key: seed bound to the parameters. Without that, one
// seed under two sets with a common prime at different places would give b = -a*s + e
// and b' = -a'*s + e modulo that prime, with the same e, whose difference gives s.
func rootOf(ctx *henc.Context, seed *henc.Seed) (*henc.Seed, error) {
	hash := ctx.Parameters().Hash()
	var words [4]uint64
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(hash[8*i:])
	}
	return seed.Derive("hencedge key root", words[:]...)
}

// newKey takes small over and copies root.
func newKey(ctx *henc.Context, small []int32, root *henc.Seed) (*Key, error) {
	p, r := ctx.Parameters(), ctx.Ring()
	c := chain.Secret(r)
	s := c.Batch(1, p.QPLimbs(p.MaxLevel()), cutrantt.Coeffs(ctx.N2()))
	c.Do(func() error { return r.SetSmall(s, small) })
	c.Op2(r.Forward, s, s)
	kept, _ := c.Keep(s)
	if err := c.Close(); err != nil {
		return nil, err
	}
	return &Key{ctx: ctx, s: kept, small: small, root: *root}, nil
}

// Coefficients is a copy of the N coefficients of s, in natural order. The caller
// must clear it.
func (k *Key) Coefficients() ([]int32, error) {
	_, release, err := k.use()
	if err != nil {
		return nil, err
	}
	defer release()
	return append([]int32(nil), k.small...), nil
}

// Context is the context that the key belongs to.
func (k *Key) Context() *henc.Context {
	if k == nil {
		return nil
	}
	return k.ctx
}

// Epoch is the number of the key pair in its key set, 0 unless SetEpoch was called.
func (k *Key) Epoch() uint32 {
	if k == nil {
		return 0
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.epoch
}

// SetEpoch sets the epoch that keys made from now on carry.
func (k *Key) SetEpoch(epoch uint32) {
	if k != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.epoch = epoch
	}
}

// Wipe overwrites the secret. It waits for operations that use the key; later
// ones fail with ErrWiped. It fails only if the device does.
func (k *Key) Wipe() error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.small)
	k.root.Wipe()
	if k.s == nil {
		return nil
	}
	err := k.ctx.Ring().Wipe(k.s)
	k.ctx.Ring().Free(k.s)
	k.s = nil
	return err
}

// use returns s and keeps it from being wiped until release is called.
func (k *Key) use() (s *cutrantt.Batch, release func(), err error) {
	if k == nil || k.ctx == nil {
		return nil, nil, fmt.Errorf("%w: nil secret key", henc.ErrParams)
	}
	k.mu.RLock()
	if k.s == nil {
		k.mu.RUnlock()
		return nil, nil, ErrWiped
	}
	return k.s, k.mu.RUnlock, nil
}

// in is use for an operation of ctx, which must be the key's own context.
func (k *Key) in(ctx *henc.Context) (s *cutrantt.Batch, release func(), err error) {
	if k != nil && k.ctx != ctx {
		return nil, nil, fmt.Errorf("%w: the secret key belongs to another context", henc.ErrParams)
	}
	return k.use()
}
