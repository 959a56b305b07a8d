package benchmark

import (
	"fmt"
	"math"
	"math/big"
	"math/cmplx"
	"math/rand/v2"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// bed holds what the cases of one parameter set, or of one bare ring, share.
// Keys are made when the first case needs them.
type bed struct {
	o      Options
	name   string
	params henc.Parameters // zero for a bare ring
	ctx    *henc.Context   // nil for a bare ring
	ring   cutrantt.Ring
	rng    *rand.Rand
	level  int
	limbs  []int

	key    *secret.Key
	pub    *henc.PublicKey
	keys   *henc.EvaluationKeys
	eval   *henc.Evaluator
	oracle *oracle
}

func newBed(p henc.Parameters, o Options) (*bed, error) {
	ctx, err := henc.NewContext(p, henc.WithBackend(o.Backend), henc.WithN2(o.N2), henc.WithWorkers(o.Workers))
	if err != nil {
		return nil, err
	}
	level := p.MaxLevel() - p.UpperLevels()
	b := &bed{o: o, name: p.Name(), params: p, ctx: ctx, ring: ctx.Ring(), level: level, limbs: p.QLimbs(level)}
	return b.seeded(), nil
}

// newRingBed is a bed for transforms and products over count primes below 2^30.
func newRingBed(logN, count int, o Options) (*bed, error) {
	ring, err := o.Backend.NewRing(logN, primes(logN, count), cutrantt.Options{Workers: o.Workers})
	if err != nil {
		return nil, err
	}
	b := &bed{o: o, name: fmt.Sprintf("ring-2^%d-%d", logN, count), ring: ring}
	for i := range ring.Moduli() {
		b.limbs = append(b.limbs, i)
	}
	return b.seeded(), nil
}

func (b *bed) seeded() *bed {
	b.rng = rand.New(rand.NewPCG(b.o.Seed, uint64(b.ring.LogN())))
	return b
}

// dnum is the number of digits of a key switch, 0 where there is none.
func (b *bed) dnum() int {
	if b.ctx == nil {
		return 0
	}
	return b.params.Dnum(b.params.MaxLevel())
}

// primes are the largest count primes below 2^30 that serve degree 2^logN.
func primes(logN, count int) []cutrantt.Modulus {
	var out []cutrantt.Modulus
	step := uint32(2) << logN
	for q := cutrantt.MaxQ - step + 1; len(out) < count && q > step; q -= step {
		for g := uint32(3); g < 60; g++ { // half of all g give a primitive root
			m := cutrantt.Modulus{Q: q, Psi: powmod(g, uint64(q-1)>>(logN+1), q)}
			if m.Check(logN) == nil {
				out = append(out, m)
				break
			}
		}
	}
	return out
}

// polyBytes is the size of k polynomials over limbs limbs.
func (b *bed) polyBytes(k, limbs int) int64 { return int64(k) * int64(limbs) * int64(b.ring.N()) * 4 }

// seed is a fresh 32-byte seed from the bed's generator. The keys made from it
// protect nothing: they never leave the process.
func (b *bed) seed() *henc.Seed {
	var s henc.Seed
	for i := range s {
		s[i] = byte(b.rng.Uint32())
	}
	return &s
}

// secretKey makes the secret and the public key.
func (b *bed) secretKey() error {
	if b.key != nil {
		return nil
	}
	key, err := secret.Generate(b.ctx, b.seed())
	if err != nil {
		return fmt.Errorf("make secret key: %w", err)
	}
	pub, err := key.PublicKey()
	if err != nil {
		return fmt.Errorf("make public key: %w", err)
	}
	b.key, b.pub = key, pub
	return nil
}

// evaluator makes the evaluation keys that the cases need.
func (b *bed) evaluator() (*henc.Evaluator, error) {
	if b.eval != nil {
		return b.eval, nil
	}
	if err := b.secretKey(); err != nil {
		return nil, err
	}
	if b.params.Alpha() > 0 {
		var err error
		if b.keys, err = b.key.EvaluationKeys([]int{1}, false); err != nil {
			return nil, fmt.Errorf("make evaluation keys: %w", err)
		}
	}
	b.eval = henc.NewEvaluator(b.ctx, b.keys)
	return b.eval, nil
}

// message is a random slot vector with |Re|, |Im| <= 1/2, so that products stay
// below one.
func (b *bed) message() []complex128 {
	v := make([]complex128, b.params.Slots())
	for i := range v {
		v[i] = complex(b.rng.Float64()-0.5, b.rng.Float64()-0.5)
	}
	return v
}

// tolerance is the error that a check allows at the default scale: about 16
// standard deviations of fresh public-key noise, which in a slot grows with N,
// and far below what a wrong kernel gives.
func (b *bed) tolerance() float64 {
	return math.Exp2(float64(18+b.params.LogN()-12) - float64(b.params.LogScale()))
}

// encrypted is one message with its ciphertext, and copies of the ciphertext in
// memory of their own.
func (b *bed) encrypted(copies int) ([]complex128, []*henc.Ciphertext, error) {
	if err := b.secretKey(); err != nil {
		return nil, nil, err
	}
	enc, err := henc.NewEncryptor(b.ctx, b.pub)
	if err != nil {
		return nil, nil, err
	}
	msg := b.message()
	ct, err := enc.EncryptComplex(msg, b.level, 0, b.seed())
	if err != nil {
		return nil, nil, err
	}
	cts := []*henc.Ciphertext{ct}
	for len(cts) < copies {
		c, err := ct.Clone(b.ctx)
		if err != nil {
			return nil, nil, err
		}
		cts = append(cts, c)
	}
	return msg, cts, nil
}

// encoded is the same for plaintexts.
func (b *bed) encoded(copies int) ([]complex128, []*henc.Plaintext, error) {
	msg := b.message()
	pts := make([]*henc.Plaintext, copies)
	for i := range pts {
		pt, err := b.ctx.Encoder().EncodeComplex(msg, b.level, b.params.DefaultScale())
		if err != nil {
			return nil, nil, err
		}
		pts[i] = pt
	}
	return msg, pts, nil
}

// decrypts checks that ct decrypts to want.
func (b *bed) decrypts(op string, ct *henc.Ciphertext, want []complex128) error {
	got, err := secret.NewDecryptor(b.ctx, b.key).DecryptComplex(ct)
	if err != nil {
		return err
	}
	return checkSlots(op, got, want, b.tolerance())
}

// checkEncoding evaluates the encoded polynomial at the roots that belong to
// some slots, from exact big-integer coefficients, and compares with msg.
func (b *bed) checkEncoding(op string, pt *henc.Plaintext, msg []complex128) error {
	n, q := b.params.N(), b.ring.Moduli()
	flat, err := b.ring.NewBatch(1, b.limbs, cutrantt.Coeffs(1))
	if err != nil {
		return err
	}
	if err := b.ring.Convert(flat, pt.Value); err != nil {
		return err
	}
	host, err := residues(b.ring, flat)
	if err != nil {
		return err
	}
	// As many limbs as the coefficients need: below the scale times sqrt(N).
	use, product := 0, big.NewInt(1)
	for use < len(b.limbs) && product.BitLen() < b.params.LogScale()+b.params.LogN()+2 {
		product.Mul(product, big.NewInt(int64(q[b.limbs[use]].Q)))
		use++
	}
	weights := make([]*big.Int, use) // 1 modulo limb i, 0 modulo the others
	for i := range weights {
		qi := big.NewInt(int64(q[b.limbs[i]].Q))
		rest := new(big.Int).Div(product, qi)
		weights[i] = new(big.Int).Mul(rest, new(big.Int).ModInverse(rest, qi))
	}
	half := new(big.Int).Rsh(product, 1)
	coeffs := make([]float64, n)
	v, t := new(big.Int), new(big.Int)
	for k := range coeffs {
		v.SetInt64(0)
		for i := range weights {
			v.Add(v, t.Mul(weights[i], t.SetUint64(uint64(host[i*n+k]))))
		}
		if v.Mod(v, product); v.Cmp(half) > 0 {
			v.Sub(v, product)
		}
		coeffs[k], _ = new(big.Float).SetInt(v).Float64()
	}
	for _, slot := range []int{0, 1, len(msg) - 1, b.rng.IntN(len(msg))} {
		power := 1 // 5^slot mod 2N
		for range slot {
			power = power * 5 % (2 * n)
		}
		var got complex128
		for k := n - 1; k >= 0; k-- {
			// The power is reduced before the angle is taken, so that no error
			// piles up.
			angle := math.Pi / float64(n) * float64(power*k%(2*n))
			got += complex(coeffs[k]/pt.Scale, 0) * cmplx.Exp(complex(0, angle))
		}
		if err := checkSlots(op, []complex128{got}, msg[slot:slot+1], b.tolerance()); err != nil {
			return fmt.Errorf("slot %d: %w", slot, err)
		}
	}
	return nil
}

// uniform is a batch of one random polynomial over the Q limbs.
func (b *bed) uniform(ring cutrantt.Ring, d cutrantt.Domain) (*cutrantt.Batch, error) {
	x, err := ring.NewBatch(1, b.limbs, d)
	if err != nil {
		return nil, err
	}
	host := make([]uint32, 0, x.Len())
	for _, limb := range b.limbs {
		q := ring.Moduli()[limb].Q
		for range ring.N() {
			host = append(host, b.rng.Uint32N(q))
		}
	}
	return x, ring.Upload(x, host)
}

// residues downloads a batch.
func residues(ring cutrantt.Ring, x *cutrantt.Batch) ([]uint32, error) {
	host := make([]uint32, x.Len())
	return host, ring.Download(host, x)
}

// oracle is the CPU's side of a bed.
type oracle struct {
	ctx  *henc.Context // nil for a bare ring
	ring cutrantt.Ring
	eval *henc.Evaluator
	keys *henc.EvaluationKeys // those of the device that eval has
}
