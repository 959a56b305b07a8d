package secret

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// ErrBudget: the key's budget of shared decryptions is used up.
var ErrBudget = errors.New("henc/secret: budget of shared decryptions is used up")

// Counter counts the shared decryptions of each key, across restarts.
type Counter interface {
	// Increment adds one to the counter of key and returns the new count. It must
	// not return before the count is on stable storage, and must be safe for
	// concurrent use. On an error nothing is shared.
	Increment(key [16]byte) (uint64, error)
}

// Budget is the declared limit of shared decryptions of one key. It must not be
// raised during the life of the key: the noise was sized for it.
type Budget struct {
	Queries uint64 // decryptions that will ever be shared
	Bits    int    // statistical security, see henc.FloodSpec
	Counter Counter
}

// ShareOptions describe the ciphertext that is shared and what is expected of the
// result; see henc.FloodSpec for each.
type ShareOptions struct {
	ErrorBound float64 // of the real and of the imaginary part of every slot
	Magnitude  float64 // of every slot; 0 means 1
	Accuracy   float64 // largest acceptable standard deviation; 0 means 2^-8
}

// Share decrypts the real parts of the slots for somebody who may know the
// ciphertext: it takes one query from the budget, adds noise that hides the
// ciphertext's own error (henc.Parameters.Flood), and rounds the values to a
// multiple of about the noise. It fails with henc.ErrFlood, before touching the
// budget, where scale and level leave no room, and with ErrBudget when the budget
// is used up. Every call counts, also of the same ciphertext.
//
// Share only results whose signature was verified: the error bound holds for
// ciphertexts that an honest evaluator made, not for crafted ones.
func (d *Decryptor) Share(ct *henc.Ciphertext, budget *Budget, opts ShareOptions) ([]float64, error) {
	values, err := d.share(ct, budget, opts)
	if err != nil {
		return nil, fmt.Errorf("share: %w", err)
	}
	return values, nil
}

func (d *Decryptor) share(ct *henc.Ciphertext, budget *Budget, opts ShareOptions) ([]float64, error) {
	if d == nil || d.ctx == nil {
		return nil, fmt.Errorf("%w: decryptor without a context", henc.ErrParams)
	}
	if budget == nil || budget.Counter == nil {
		return nil, fmt.Errorf("%w: a shared decryption needs a budget with a counter", henc.ErrParams)
	}
	if err := d.ctx.CheckCiphertext(ct); err != nil {
		return nil, err
	}
	if opts.Magnitude == 0 {
		opts.Magnitude = 1
	}
	if opts.Accuracy == 0 {
		opts.Accuracy = 0x1p-8
	}
	flood, err := d.ctx.Parameters().Flood(ct.Level, ct.Scale, henc.FloodSpec{
		Queries: budget.Queries, Bits: budget.Bits,
		ErrorBound: opts.ErrorBound, Magnitude: opts.Magnitude, Accuracy: opts.Accuracy,
	})
	if err != nil {
		return nil, err
	}
	_, release, err := d.key.in(d.ctx) // refuse before a query is spent
	if err != nil {
		return nil, err
	}
	release()
	id, err := d.key.id()
	if err != nil {
		return nil, err
	}
	used, err := budget.Counter.Increment(id)
	if err != nil {
		return nil, fmt.Errorf("count the query: %w", err)
	}
	if used == 0 || used > budget.Queries {
		return nil, fmt.Errorf("%w: query %d of %d; make a new key epoch", ErrBudget, used, budget.Queries)
	}
	pt, err := d.Decrypt(ct)
	if err != nil {
		return nil, err
	}
	defer d.ctx.Ring().Free(pt.Value)
	values, err := d.flooded(ct, pt, flood, used)
	if werr := d.ctx.Ring().Wipe(pt.Value); err == nil {
		err = werr
	}
	if err != nil {
		return nil, err
	}
	return values, nil
}

// flooded adds the noise to pt, the decryption of ct by query number used, and returns
// the rounded slots.
func (d *Decryptor) flooded(ct *henc.Ciphertext, pt *henc.Plaintext, f henc.Flood, used uint64) ([]float64, error) {
	seed, err := d.shareSeed(ct, used)
	if err != nil {
		return nil, err
	}
	defer seed.Wipe()
	r, n := d.ctx.Ring(), d.ctx.Parameters().N()
	high, low := make([]float64, n), make([]float64, n)
	defer clear(high)
	defer clear(low)
	if err := noise(high, low, f.LogCoeffStdDev, seed); err != nil {
		return nil, err
	}
	c := chain.Secret(r)
	for _, part := range [][]float64{high, low} {
		z := c.Batch(1, pt.Value.Limbs(), cutrantt.Coeffs(d.ctx.N2()))
		c.Do(func() error { return r.SetFloats(z, part) })
		c.Op2(r.Forward, z, z)
		c.Op3(r.Add, pt.Value, pt.Value, z)
	}
	if err := c.Close(); err != nil {
		return nil, err
	}
	values, err := d.ctx.Encoder().DecodeReal(pt)
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		values[i] = math.RoundToEven(v/f.RoundTo) * f.RoundTo
	}
	return values, nil
}

// shareSeed draws the seed of the noise of query number used. Its hedges are a secret of
// the key for this query, and a digest of the ciphertext with its level, scale and
// parameters: where the operating system gives known or repeated bytes, the noise is
// still unknown to whoever does not hold the key, and no two ciphertexts share it.
func (d *Decryptor) shareSeed(ct *henc.Ciphertext, used uint64) (*henc.Seed, error) {
	_, release, err := d.key.in(d.ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	own, err := d.key.root.Derive("hencedge hedge of shared decryptions", used)
	if err != nil {
		return nil, err
	}
	defer own.Wipe()
	text, err := d.ctx.MarshalCiphertext(ct)
	if err != nil {
		return nil, err
	}
	content := sha256.Sum256(text) // public, as the ciphertext is
	return henc.NewSeed(own[:], content[:])
}
