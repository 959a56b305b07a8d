package secret

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/internal/chain"
	"github.com/hencedge/hencedge/henc/internal/encryption"
	"github.com/hencedge/hencedge/henc/internal/keymat"
	"github.com/hencedge/hencedge/internal/taint"
)

// SeededEncryptor encrypts under the secret key itself: one transform and one
// product per limb, half the bytes on the wire (c1 travels as a 32-byte seed),
// and less noise than under the public key. It puts the secret key on the device
// that encrypts. It is safe for concurrent use.
type SeededEncryptor struct {
	ctx *henc.Context
	key *Key
}

var _ henc.BatchEncryptor = (*SeededEncryptor)(nil)

// NewSeededEncryptor makes an encryptor; k must belong to ctx.
func NewSeededEncryptor(ctx *henc.Context, k *Key) *SeededEncryptor {
	return &SeededEncryptor{ctx: ctx, key: k}
}

// EncryptReal encrypts one real value per slot; see henc.SlotEncryptor.
func (e *SeededEncryptor) EncryptReal(
	values []float64, level int, scale float64, seed *henc.Seed,
) (*henc.Ciphertext, error) {
	return e.slots().Real(values, level, scale, seed)
}

// EncryptComplex encrypts one complex value per slot; see henc.SlotEncryptor.
func (e *SeededEncryptor) EncryptComplex(
	values []complex128, level int, scale float64, seed *henc.Seed,
) (*henc.Ciphertext, error) {
	return e.slots().Complex(values, level, scale, seed)
}

// EncryptPacked encrypts two real values per slot; see henc.SlotEncryptor.
func (e *SeededEncryptor) EncryptPacked(
	values []float64, level int, scale float64, seed *henc.Seed,
) (*henc.Ciphertext, error) {
	return e.slots().Packed(values, level, scale, seed)
}

// EncryptRealBatch encrypts several vectors together; see henc.BatchEncryptor.
func (e *SeededEncryptor) EncryptRealBatch(
	values [][]float64, level int, scale float64, seeds []*henc.Seed,
) ([]*henc.Ciphertext, error) {
	return e.slots().RealBatch(values, level, scale, seeds)
}

// EncryptComplexBatch encrypts several vectors together; see henc.BatchEncryptor.
func (e *SeededEncryptor) EncryptComplexBatch(
	values [][]complex128, level int, scale float64, seeds []*henc.Seed,
) ([]*henc.Ciphertext, error) {
	return e.slots().ComplexBatch(values, level, scale, seeds)
}

// EncryptPackedBatch encrypts several vectors together; see henc.BatchEncryptor.
func (e *SeededEncryptor) EncryptPackedBatch(
	values [][]float64, level int, scale float64, seeds []*henc.Seed,
) ([]*henc.Ciphertext, error) {
	return e.slots().PackedBatch(values, level, scale, seeds)
}

func (e *SeededEncryptor) slots() encryption.Slots[henc.Seed, henc.Ciphertext] {
	if e == nil || e.ctx == nil {
		return encryption.Slots[henc.Seed, henc.Ciphertext]{
			Missing: fmt.Errorf("%w: encryptor not made by its constructor", henc.ErrParams),
		}
	}
	return encryption.Slots[henc.Seed, henc.Ciphertext]{
		Ring: e.ctx.Ring(), Parameters: e.ctx.Parameters(), Encoder: e.ctx.Encoder(), Encrypt: e.encrypt,
	}
}

// Encrypt encrypts the polynomial with the N integral coefficients coeffs, each
// of magnitude at most Q_level/2, as c0 = NTT(m + e) - c1*s with c1 the uniform
// stream henc.LabelCipherA of a public seed, which the ciphertext carries. The
// public seed and the secret seed of e come from seed by HKDF under different
// labels: neither determines the other, and two seeds never share a c1. scale 0
// means ScaleAt(level); a nil seed draws a fresh one. As in henc.Encryptor.Encrypt no
// branch and no address depends on a secret.
func (e *SeededEncryptor) Encrypt(
	coeffs []float64, level int, scale float64, seed *henc.Seed,
) (*henc.Ciphertext, error) {
	return encryption.One(e.EncryptBatch([][]float64{coeffs}, level, scale, []*henc.Seed{seed}))
}

// EncryptBatch is Encrypt for several messages at one level and scale, each with
// its own seed: seeds is nil, or has an entry, which may be nil, for each
// message. A GPU encrypts them together. It fails as a whole.
func (e *SeededEncryptor) EncryptBatch(
	coeffs [][]float64, level int, scale float64, seeds []*henc.Seed,
) ([]*henc.Ciphertext, error) {
	return e.encrypt(encryption.Coefficients(coeffs), level, scale, seeds)
}

// encrypt encrypts several messages.
func (e *SeededEncryptor) encrypt(
	messages []encryption.Message, level int, scale float64, seeds []*henc.Seed,
) ([]*henc.Ciphertext, error) {
	cts, err := e.encryptAll(messages, level, scale, seeds)
	if err != nil {
		return nil, fmt.Errorf("seeded encryption: %w", err)
	}
	return cts, nil
}

func (e *SeededEncryptor) encryptAll(
	messages []encryption.Message, level int, scale float64, seeds []*henc.Seed,
) ([]*henc.Ciphertext, error) {
	if e == nil || e.ctx == nil {
		return nil, fmt.Errorf("%w: encryptor without a context", henc.ErrParams)
	}
	s, release, err := e.key.in(e.ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	encrypted, err := encryption.Encrypt(encryption.Kind{
		Ring: e.ctx.Ring(), Parameters: e.ctx.Parameters(), Encoder: e.ctx.Encoder(),
		NewSeed:   freshSeed,
		ErrParams: henc.ErrParams, ErrMessage: henc.ErrMessage,
		Job: func(j cutrantt.Encryption) (cutrantt.Encryption, error) {
			public, noise, err := splitSeed((*henc.Seed)(j.Seed))
			j.Seed, j.Mask = (*[32]byte)(noise), (*[32]byte)(public)
			return j, err
		},
		Together: func(r cutrantt.Encrypting, limbs []int, jobs []cutrantt.Encryption) ([]*cutrantt.Batch, error) {
			return r.EncryptSeeded(
				s, limbs, cutrantt.EncryptionLabels{E0: keymat.LabelE0, Mask: henc.LabelCipherA}, jobs,
			)
		},
		Single: func(limbs []int, j cutrantt.Encryption) (*cutrantt.Batch, error) { return e.steps(s, limbs, j) },
	}, messages, level, scale, seeds)
	if err != nil {
		return nil, err
	}
	cts := make([]*henc.Ciphertext, len(encrypted))
	for i, x := range encrypted {
		cts[i] = &henc.Ciphertext{Value: x.Value, Level: level, Scale: x.Scale, Seed: x.Mask}
	}
	return cts, nil
}

// steps encrypts with the methods of Ring.
func (e *SeededEncryptor) steps(s *cutrantt.Batch, limbs []int, j cutrantt.Encryption) (*cutrantt.Batch, error) {
	r, n2 := e.ctx.Ring(), e.ctx.N2()
	c := chain.Secret(r)
	m := c.Batch(1, limbs, cutrantt.Coeffs(n2))
	out := c.Batch(2, limbs, cutrantt.NTT(n2))
	c0, c1, e0 := c.Poly(out, 0), c.Poly(out, 1), c.Poly(out, 0)
	c.Do(func() error { return r.SetFloats(m, j.Message) })
	c.Do(func() error { e0.SetDomain(cutrantt.Coeffs(n2)); return nil }) // c0's memory, lent as scratch
	c.Sample(r.SampleCBD, e0, j.Seed, keymat.LabelE0)
	c.Op3(r.Add, m, m, e0)
	c.Op2(r.Forward, m, m)
	c.Sample(r.SampleUniform, c1, j.Mask, henc.LabelCipherA)
	c.Op3(r.Mul, c0, c1, c.View(s, 0, 1, 0, len(limbs)))
	c.Op3(r.Sub, c0, m, c0)
	v, _ := c.Keep(out)
	return v, c.Close()
}

// freshSeed returns the seed of a message that came without one.
func freshSeed() (*[32]byte, error) {
	s, err := henc.NewSeed()
	return (*[32]byte)(s), err
}

// splitSeed derives the public seed of c1 and the secret seed of the noise.
func splitSeed(seed *henc.Seed) (public, noise *henc.Seed, err error) {
	if public, err = seed.Derive("hencedge seeded c1"); err != nil {
		return nil, nil, err
	}
	taint.Public(public[:])
	if noise, err = seed.Derive("hencedge seeded noise"); err != nil {
		return nil, nil, err
	}
	return public, noise, nil
}
