package henc

import (
	"fmt"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/chain"
	"github.com/hencedge/hencedge/henc/internal/encryption"
	"github.com/hencedge/hencedge/henc/internal/keymat"
)

// SlotEncryptor encrypts slot values; the public-key Encryptor and the seeded
// encryptor of henc/secret are the two kinds. scale 0 means the parameters'
// ScaleAt(level). seed is used up by the call (see Seed); nil draws a fresh one
// from the operating system.
type SlotEncryptor interface {
	// EncryptReal encrypts at most N/2 real values, one per slot; the rest are 0.
	EncryptReal(values []float64, level int, scale float64, seed *Seed) (*Ciphertext, error)
	// EncryptComplex encrypts at most N/2 complex values, one per slot.
	EncryptComplex(values []complex128, level int, scale float64, seed *Seed) (*Ciphertext, error)
	// EncryptPacked encrypts at most N real values, two per slot: value 2j is the
	// real and 2j+1 the imaginary part of slot j.
	EncryptPacked(values []float64, level int, scale float64, seed *Seed) (*Ciphertext, error)
}

// BatchEncryptor is a SlotEncryptor that encrypts several vectors at one level
// and scale together, which a GPU does much faster than one by one. seeds is nil, or has
// an entry for each vector, which may be nil. The results equal those of the methods for
// one vector. A call fails as a whole.
type BatchEncryptor interface {
	SlotEncryptor
	EncryptRealBatch(values [][]float64, level int, scale float64, seeds []*Seed) ([]*Ciphertext, error)
	EncryptComplexBatch(values [][]complex128, level int, scale float64, seeds []*Seed) ([]*Ciphertext, error)
	EncryptPackedBatch(values [][]float64, level int, scale float64, seeds []*Seed) ([]*Ciphertext, error)
}

// RealEncryptor is the part of SlotEncryptor that an agent with one real value
// per slot needs.
type RealEncryptor interface {
	EncryptReal(values []float64, level int, scale float64, seed *Seed) (*Ciphertext, error)
}

// Encryptor encrypts under a public key with three forward transforms per limb
// (HENC). It is immutable and safe for concurrent use.
type Encryptor struct {
	ctx *Context
	op  cutrantt.Operand // (b, a) over the Q limbs
}

var _ BatchEncryptor = (*Encryptor)(nil)

// NewEncryptor prepares pk. It fails with ErrParams if pk is nil or of the wrong
// shape for ctx, and with cutrantt.ErrForeign if it was made in another context.
func NewEncryptor(ctx *Context, pk *PublicKey) (*Encryptor, error) {
	if ctx == nil || pk == nil {
		return nil, fmt.Errorf("new encryptor: %w: nil context or public key", ErrParams)
	}
	if err := checkKeyShape(ctx, pk.Value, 2); err != nil {
		return nil, fmt.Errorf("new encryptor: %w", err)
	}
	p := ctx.Parameters()
	v, err := pk.Value.Slice(0, 2, 0, p.LimbsAt(p.MaxLevel()))
	if err != nil {
		return nil, fmt.Errorf("new encryptor: %w", err)
	}
	op, err := ctx.Ring().Precompute(v)
	if err != nil {
		return nil, fmt.Errorf("new encryptor: %w", err)
	}
	return &Encryptor{ctx: ctx, op: op}, nil
}

// EncryptReal encrypts one real value per slot; see SlotEncryptor.
func (e *Encryptor) EncryptReal(values []float64, level int, scale float64, seed *Seed) (*Ciphertext, error) {
	return e.slots().Real(values, level, scale, seed)
}

// EncryptComplex encrypts one complex value per slot; see SlotEncryptor.
func (e *Encryptor) EncryptComplex(values []complex128, level int, scale float64, seed *Seed) (*Ciphertext, error) {
	return e.slots().Complex(values, level, scale, seed)
}

// EncryptPacked encrypts two real values per slot; see SlotEncryptor.
func (e *Encryptor) EncryptPacked(values []float64, level int, scale float64, seed *Seed) (*Ciphertext, error) {
	return e.slots().Packed(values, level, scale, seed)
}

// EncryptRealBatch encrypts several vectors together; see BatchEncryptor.
func (e *Encryptor) EncryptRealBatch(
	values [][]float64, level int, scale float64, seeds []*Seed,
) ([]*Ciphertext, error) {
	return e.slots().RealBatch(values, level, scale, seeds)
}

// EncryptComplexBatch encrypts several vectors together; see BatchEncryptor.
func (e *Encryptor) EncryptComplexBatch(
	values [][]complex128, level int, scale float64, seeds []*Seed,
) ([]*Ciphertext, error) {
	return e.slots().ComplexBatch(values, level, scale, seeds)
}

// EncryptPackedBatch encrypts several vectors together; see BatchEncryptor.
func (e *Encryptor) EncryptPackedBatch(
	values [][]float64, level int, scale float64, seeds []*Seed,
) ([]*Ciphertext, error) {
	return e.slots().PackedBatch(values, level, scale, seeds)
}

func (e *Encryptor) slots() encryption.Slots[Seed, Ciphertext] {
	if e == nil || e.ctx == nil {
		return encryption.Slots[Seed, Ciphertext]{
			Missing: fmt.Errorf("%w: encryptor not made by its constructor", ErrParams),
		}
	}
	return encryption.Slots[Seed, Ciphertext]{
		Ring: e.ctx.Ring(), Parameters: e.ctx.Parameters(), Encoder: e.ctx.Encoder(), Encrypt: e.encrypt,
	}
}

// Encrypt encrypts the polynomial with the N integral coefficients coeffs, each
// of magnitude below Q_level/2:
//
//	c0 = NTT(v)*b + NTT(m + e0),   c1 = NTT(v)*a + NTT(e1)
//
// with v uniform ternary and e0, e1 centred binomial (streams LabelV, LabelE0,
// LabelE1 of seed, see internal/keymat). Each small polynomial is drawn once and
// expanded over the limbs; adding e0 to m before the transform leaves three
// forward transforms per limb, and both products share v.
//
// No branch and no address depends on the seed, on what is drawn from it or on the
// message (make timing). There are two exceptions: whether the message is refused, and
// whether it reaches 2^61. On a ring that encodes values there is a third: whether a bound of
// the message, from the largest value, is within the level. Sampling reads a fixed number of
// words; transforms and products correct by minima and masks. Everything secret is wiped before the call
// returns, also when it fails. On a GPU the kernels of the call wipe it, which may
// still run.
func (e *Encryptor) Encrypt(coeffs []float64, level int, scale float64, seed *Seed) (*Ciphertext, error) {
	return encryption.One(e.EncryptBatch([][]float64{coeffs}, level, scale, []*Seed{seed}))
}

// EncryptBatch is Encrypt for several messages at one level and scale, each with
// its own seed: seeds is nil, or has an entry, which may be nil, for each
// message. A GPU encrypts them together. It fails as a whole.
func (e *Encryptor) EncryptBatch(coeffs [][]float64, level int, scale float64, seeds []*Seed) ([]*Ciphertext, error) {
	if e == nil || e.ctx == nil {
		return nil, fmt.Errorf("encrypt: %w: encryptor not made by NewEncryptor", ErrParams)
	}
	return e.encrypt(encryption.Coefficients(coeffs), level, scale, seeds)
}

// encrypt encrypts several messages.
func (e *Encryptor) encrypt(
	messages []encryption.Message, level int, scale float64, seeds []*Seed,
) ([]*Ciphertext, error) {
	encrypted, err := encryption.Encrypt(encryption.Kind{
		Ring: e.ctx.Ring(), Parameters: e.ctx.Parameters(), Encoder: e.ctx.Encoder(),
		NewSeed:   freshSeed,
		ErrParams: ErrParams, ErrMessage: ErrMessage,
		Job: func(j cutrantt.Encryption) (cutrantt.Encryption, error) { return j, nil },
		Together: func(r cutrantt.Encrypting, limbs []int, jobs []cutrantt.Encryption) ([]*cutrantt.Batch, error) {
			labels := cutrantt.EncryptionLabels{V: keymat.LabelV, E0: keymat.LabelE0, E1: keymat.LabelE1}
			return r.EncryptPublic(e.op, limbs, labels, jobs)
		},
		Single: e.encryptSteps,
	}, messages, level, scale, seeds)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	cts := make([]*Ciphertext, len(encrypted))
	for i, x := range encrypted {
		cts[i] = &Ciphertext{Value: x.Value, Level: level, Scale: x.Scale}
	}
	return cts, nil
}

// encryptSteps encrypts with the methods of Ring.
func (e *Encryptor) encryptSteps(limbs []int, j cutrantt.Encryption) (*cutrantt.Batch, error) {
	r, n2 := e.ctx.Ring(), e.ctx.N2()
	c := chain.Secret(r)
	small := c.Batch(3, limbs, cutrantt.Coeffs(n2)) // v, m + e0, e1
	out := c.Batch(2, limbs, cutrantt.NTT(n2))
	m := c.Poly(small, 1)
	e0 := c.Poly(out, 0) // lent as scratch: the product overwrites it
	c.Sample(r.SampleTernary, c.Poly(small, 0), j.Seed, keymat.LabelV)
	c.Do(func() error { e0.SetDomain(cutrantt.Coeffs(n2)); return r.SetFloats(m, j.Message) })
	c.Sample(r.SampleCBD, e0, j.Seed, keymat.LabelE0)
	c.Op3(r.Add, m, m, e0)
	c.Sample(r.SampleCBD, c.Poly(small, 2), j.Seed, keymat.LabelE1)
	c.Op2(r.Forward, small, small)
	c.Do(func() error { return r.MulOperand(out, c.Poly(small, 0), e.op) })
	c.Op3(r.Add, out, out, c.View(small, 1, 3, 0, len(limbs)))
	v, _ := c.Keep(out)
	return v, c.Close()
}

// freshSeed returns the seed of a message that came without one.
func freshSeed() (*[32]byte, error) {
	s, err := NewSeed()
	return (*[32]byte)(s), err
}
