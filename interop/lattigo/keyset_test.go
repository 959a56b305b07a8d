package lattigo

import (
	"testing"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// rotations of the Galois keys that every keyset has, besides conjugation.
var rotations = []int{1, -3, 64}

// keyset is one secret and the keys made from it by one library, on both sides.
type keyset struct {
	origin string

	sk  *secret.Key
	pk  *henc.PublicKey
	evk *henc.EvaluationKeys

	lsk  *rlwe.SecretKey
	lpk  *rlwe.PublicKey
	levk *rlwe.MemEvaluationKeySet
}

// ourKeys are made here and converted to Lattigo.
func (r *rig) ourKeys(t *testing.T) *keyset {
	t.Helper()
	k := &keyset{origin: "hencedge"}
	k.sk = must(secret.Generate(r.ctx, &henc.Seed{1, 2, 3}))(t)
	k.pk = must(k.sk.PublicKey())(t)
	rot := rotations
	if r.p.Alpha() == 0 {
		rot = nil
	}
	k.evk = must(k.sk.EvaluationKeys(rot, rot != nil))(t)
	k.lsk = must(r.b.SecretKeyToLattigo(k.sk))(t)
	k.lpk = must(r.b.PublicKeyToLattigo(k.pk))(t)
	k.levk = must(r.b.EvaluationKeysToLattigo(k.evk))(t)
	return k
}

// lattigoKeys are made by Lattigo and converted to ours.
func (r *rig) lattigoKeys(t *testing.T) *keyset {
	t.Helper()
	k := &keyset{origin: "lattigo"}
	gen := rlwe.NewKeyGenerator(r.lp)
	k.lsk, k.lpk = gen.GenKeyPairNew()
	k.levk = rlwe.NewMemEvaluationKeySet(nil)
	if r.p.Alpha() > 0 {
		elements := []uint64{r.lp.GaloisElementForComplexConjugation()}
		for _, rot := range rotations {
			elements = append(elements, r.lp.GaloisElement(rot))
		}
		k.levk = rlwe.NewMemEvaluationKeySet(gen.GenRelinearizationKeyNew(k.lsk),
			gen.GenGaloisKeysNew(elements, k.lsk)...)
	}
	k.sk = must(r.b.SecretKeyFromLattigo(k.lsk, nil))(t)
	k.pk = must(r.b.PublicKeyFromLattigo(k.lpk))(t)
	k.evk = must(r.b.EvaluationKeysFromLattigo(k.levk, k.pk))(t)
	return k
}

// eachKeyset runs f with our keys and then with Lattigo's, one after the other, so
// that the largest sets hold one keyset in memory.
func (r *rig) eachKeyset(t *testing.T, f func(t *testing.T, k *keyset)) {
	t.Run("keys=hencedge", func(t *testing.T) { f(t, r.ourKeys(t)) })
	t.Run("keys=lattigo", func(t *testing.T) { f(t, r.lattigoKeys(t)) })
}

// library is one of the two implementations with one keyset. Values are Lattigo's
// types on both, so that results can be compared; ours converts on the way in and
// out.
type library interface {
	name() string
	// mul is the relinearised product without rescaling, rescale drops one of our
	// levels.
	mul(a, b *rlwe.Ciphertext) (*rlwe.Ciphertext, error)
	rescale(a *rlwe.Ciphertext) (*rlwe.Ciphertext, error)
	rotate(a *rlwe.Ciphertext, k int) (*rlwe.Ciphertext, error)
	conjugate(a *rlwe.Ciphertext) (*rlwe.Ciphertext, error)
	decrypt(a *rlwe.Ciphertext) (*rlwe.Plaintext, error)
	decode(pt *rlwe.Plaintext) ([]complex128, error)
}

// libraries are ours and Lattigo's, in this order.
func (r *rig) libraries(k *keyset) []library {
	return []library{
		&ours{r.b, henc.NewEvaluator(r.ctx, k.evk), secret.NewDecryptor(r.ctx, k.sk)},
		&theirs{r, ckks.NewEvaluator(r.lp, k.levk), rlwe.NewDecryptor(r.lp, k.lsk)},
	}
}

type ours struct {
	b   *Bridge
	ev  *henc.Evaluator
	dec *secret.Decryptor
}

func (o *ours) name() string { return "hencedge" }

// apply runs f on the converted operands.
func (o *ours) apply(f func(in []*henc.Ciphertext) (*henc.Ciphertext, error),
	operands ...*rlwe.Ciphertext) (*rlwe.Ciphertext, error) {
	var in []*henc.Ciphertext
	for i, ct := range operands {
		if i > 0 && ct == operands[0] {
			in = append(in, in[0]) // keep a square a square
			continue
		}
		c, err := o.b.CiphertextFromLattigo(ct)
		if err != nil {
			return nil, err
		}
		in = append(in, c)
	}
	out, err := f(in)
	if err != nil {
		return nil, err
	}
	return o.b.CiphertextToLattigo(out)
}

func (o *ours) mul(a, b *rlwe.Ciphertext) (*rlwe.Ciphertext, error) {
	return o.apply(func(in []*henc.Ciphertext) (*henc.Ciphertext, error) { return o.ev.Mul(in[0], in[1]) }, a, b)
}

func (o *ours) rescale(a *rlwe.Ciphertext) (*rlwe.Ciphertext, error) {
	return o.apply(func(in []*henc.Ciphertext) (*henc.Ciphertext, error) { return o.ev.Rescale(in[0]) }, a)
}

func (o *ours) mulRescale(a, b *rlwe.Ciphertext) (*rlwe.Ciphertext, error) {
	return o.apply(func(in []*henc.Ciphertext) (*henc.Ciphertext, error) { return o.ev.MulRescale(in[0], in[1]) }, a, b)
}

func (o *ours) rotate(a *rlwe.Ciphertext, k int) (*rlwe.Ciphertext, error) {
	return o.apply(func(in []*henc.Ciphertext) (*henc.Ciphertext, error) { return o.ev.Rotate(in[0], k) }, a)
}

func (o *ours) conjugate(a *rlwe.Ciphertext) (*rlwe.Ciphertext, error) {
	return o.apply(func(in []*henc.Ciphertext) (*henc.Ciphertext, error) { return o.ev.Conjugate(in[0]) }, a)
}

func (o *ours) decrypt(a *rlwe.Ciphertext) (*rlwe.Plaintext, error) {
	ct, err := o.b.CiphertextFromLattigo(a)
	if err != nil {
		return nil, err
	}
	pt, err := o.dec.Decrypt(ct)
	if err != nil {
		return nil, err
	}
	return o.b.PlaintextToLattigo(pt)
}

func (o *ours) decode(pt *rlwe.Plaintext) ([]complex128, error) {
	p, err := o.b.PlaintextFromLattigo(pt)
	if err != nil {
		return nil, err
	}
	return o.b.Context().Encoder().DecodeComplex(p)
}

type theirs struct {
	r   *rig
	ev  *ckks.Evaluator
	dec *rlwe.Decryptor
}

func (l *theirs) name() string { return "lattigo" }

func (l *theirs) mul(a, b *rlwe.Ciphertext) (*rlwe.Ciphertext, error) { return l.ev.MulRelinNew(a, b) }

// rescale drops the primes of one of our levels: one, or two in a pair set,
// where Lattigo rescales once per prime.
func (l *theirs) rescale(a *rlwe.Ciphertext) (*rlwe.Ciphertext, error) {
	for range l.r.p.PrimesPerLevel() {
		out := ckks.NewCiphertext(l.r.lp, 1, a.Level()-1)
		if err := l.ev.Rescale(a, out); err != nil {
			return nil, err
		}
		a = out
	}
	return a, nil
}

func (l *theirs) rotate(a *rlwe.Ciphertext, k int) (*rlwe.Ciphertext, error) {
	return l.ev.RotateNew(a, k)
}

func (l *theirs) conjugate(a *rlwe.Ciphertext) (*rlwe.Ciphertext, error) {
	return l.ev.ConjugateNew(a)
}

func (l *theirs) decrypt(a *rlwe.Ciphertext) (*rlwe.Plaintext, error) {
	return l.dec.DecryptNew(a), nil
}

func (l *theirs) decode(pt *rlwe.Plaintext) ([]complex128, error) {
	out := make([]complex128, l.r.lp.MaxSlots())
	return out, l.r.lenc.Decode(pt, out)
}
