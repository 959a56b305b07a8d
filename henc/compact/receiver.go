package compact

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/internal/chain"
)

// Switching returns the parameters of the small ring on the server: that of the set, with the primes
// of level 0 and the first special prime of p. Windows are brought to these moduli, switched from a
// board's secret to a common one, and joined to ciphertexts of p. It fails with henc.ErrParams unless set
// is one, p has special primes and a ring that is no smaller, and the modulus of level 0 is below 2^63; with
// henc.ErrSecurity if neither is marked insecure and the moduli are above the security table.
func Switching(set, p henc.Parameters) (henc.Parameters, error) {
	if err := CheckSet(set); err != nil {
		return henc.Parameters{}, err
	}
	if p.Alpha() == 0 || p.LogN() < set.LogN() || p.LogQ(0) >= 63 {
		return henc.Parameters{}, fmt.Errorf("%w: %s cannot take windows of %s: its N is 2^%d, it has %d special "+
			"primes, and 2^%.1f at level 0", henc.ErrParams, p.Name(), set.Name(), p.LogN(), len(p.P()), p.LogQ(0))
	}
	return henc.NewParameters(henc.ParametersLiteral{
		Name: set.Name() + "-" + p.Name(), LogN: set.LogN(), Mode: henc.ModeSingle, Alpha: 1,
		LogScale: int(p.LogQ(0)) - LogRatio, Q: p.Q()[:p.LimbsAt(0)], P: p.P()[:1],
		Insecure: set.Insecure() || p.Insecure(),
	})
}

// Receiver makes ciphertexts under the common key of windows. It is immutable and safe for
// concurrent use.
type Receiver struct {
	set        henc.Parameters
	small, big *henc.Context
	embed      *Key
	modulus    uint64 // of level 0
}

// Key is a prepared key of a receiver. It is immutable and safe for concurrent use.
type Key struct {
	ctx     *henc.Context
	operand cutrantt.Operand
}

// NewReceiver makes a receiver of windows of the set. small has the parameters of Switching, big those
// of the results. key leads from the common secret of small to the secret of big (henc/secret's
// CompactKey). It fails with henc.ErrParams or henc.ErrNoKey where they do not fit together.
func NewReceiver(set henc.Parameters, small, big *henc.Context, key *henc.SwitchingKey) (*Receiver, error) {
	const op = "receiver of compact windows"
	want, err := Switching(set, big.Parameters())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if small.Ring() == nil || !small.Parameters().Equal(want) {
		return nil, fmt.Errorf("%s: %w: the small ring has other parameters than %s", op, henc.ErrParams, want.Name())
	}
	r := &Receiver{set: set, small: small, big: big, modulus: want.QProduct(0).Uint64()}
	if r.embed, err = prepare(big, key); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return r, nil
}

// Prepare makes a key from that of a device, which leads from the board's secret to the common one
// in the small ring (henc/secret's CompactKey). It fails with henc.ErrNoKey or henc.ErrParams.
func (r *Receiver) Prepare(key *henc.SwitchingKey) (*Key, error) {
	if r == nil {
		return nil, fmt.Errorf("key of a device: %w: no receiver", henc.ErrParams)
	}
	k, err := prepare(r.small, key)
	if err != nil {
		return nil, fmt.Errorf("key of a device: %w", err)
	}
	return k, nil
}

func prepare(ctx *henc.Context, key *henc.SwitchingKey) (*Key, error) {
	if key == nil || key.Value == nil {
		return nil, fmt.Errorf("%w: no switching key", henc.ErrNoKey)
	}
	p, b := ctx.Parameters(), key.Value
	if b.N() != p.N() || b.Polys() != 2*p.LimbsAt(0) || !slices.Equal(b.Limbs(), p.SparseLimbs()) ||
		b.Domain() != ctx.Domain() {
		return nil, fmt.Errorf("%w: a key of %d polynomials, %d limbs, N = %d, domain %s is not for level 0 of %s",
			henc.ErrParams, b.Polys(), len(b.Limbs()), b.N(), b.Domain(), p.Name())
	}
	operand, err := ctx.Ring().Precompute(b)
	if err != nil {
		return nil, err
	}
	return &Key{ctx, operand}, nil
}

// Release gives the key's memory back. The key must not be used again.
func (k *Key) Release() {
	if k != nil {
		k.operand.Release()
	}
}

// Windows is how many windows one ciphertext takes.
func (r *Receiver) Windows() int {
	if r == nil {
		return 0
	}
	return r.big.Parameters().N() / r.small.Parameters().N()
}

// Position is the coefficient of a joined ciphertext that holds a reading of a window, which has
// readings of them: window is the index in Join's argument. It is -1 where there is none.
func (r *Receiver) Position(window, reading, readings int) int {
	if r == nil || window < 0 || window >= r.Windows() || reading < 0 || reading >= readings {
		return -1
	}
	n := r.small.Parameters().N()
	if readings > n {
		return -1
	}
	return reading*Stride(n, readings)*r.Windows() + window
}

// scale is that of readings at level 0.
func (r *Receiver) scale() float64 { return float64(r.modulus) / (1 << LogRatio) }

// Receive returns a window as a ciphertext in the small ring under the common secret: its
// coefficients are the readings at the positions of the format, and anything elsewhere. key is the device's. It
// fails with henc.ErrParams for a window of another set or a key that Prepare did not make, and as Window.Check
// and Window.Uniform do.
//
// Besides Precision.Bound it adds less than 2^-28 to the error of a reading for the moduli of boot15 and
// boot16. With Q the modulus of level 0 and a ternary secret, rounding c0 and c1*Q/q adds at most (N+1)/2,
// and the key switch at most 21*N*(sum over limbs of q_i/2)/p + (N+1)/2; a reading of 1 is Q/64.
func (r *Receiver) Receive(w *Window, o Origin, key *Key) (*henc.Ciphertext, error) {
	const op = "receive compact window"
	if r == nil || key == nil || key.ctx != r.small {
		return nil, fmt.Errorf("%s: %w: no receiver, or a key of another one", op, henc.ErrParams)
	}
	if err := w.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if !w.Params.Equal(r.set) {
		return nil, fmt.Errorf("%s: %w: the window is for %s, not for %s", op, henc.ErrParams, w.Params.Name(),
			r.set.Name())
	}
	words, err := r.expand(w, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	ct, err := r.change(r.small, key, words)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return ct, nil
}

// expand returns c0 and c1 of a window modulo each prime of level 0, as coefficients: v*Q/2^k and c1*Q/q,
// rounded.
func (r *Receiver) expand(w *Window, o Origin) ([]uint32, error) {
	c1, err := w.Uniform(o)
	if err != nil {
		return nil, err
	}
	q, n := r.small.Parameters().Q(), len(c1)
	words, stride := make([]uint32, 2*len(q)*n), Stride(n, len(w.Values))
	put := func(poly, at int, x uint64) {
		for i, p := range q {
			words[(poly*len(q)+i)*n+at] = uint32(x % uint64(p))
		}
	}
	for j, v := range w.Values {
		put(0, j*stride, rescaled(uint64(v), r.modulus, 1<<w.Precision.Bits()))
	}
	for i, a := range c1 {
		put(1, i, rescaled(uint64(a), r.modulus, modulus))
	}
	return words, nil
}

// rescaled is x*to/from to the nearest integer, for x < from <= 2^63.
func rescaled(x, to, from uint64) uint64 {
	hi, lo := bits.Mul64(x, to)
	lo, carry := bits.Add64(lo, from/2, 0)
	// (x*to + from/2)/2^64 is below from, since x*to <= from*to - to and to < 2^63.
	quotient, _ := bits.Div64(hi+carry, lo, from)
	return quotient
}

// Join puts windows that Receive made into one ciphertext of the big ring, at level 0 and under
// its secret: coefficient i of window k becomes i*Windows + k. Windows may be missing at the end or nil, and
// are 0 then. It fails with henc.ErrLength for none or too many, and with the errors of
// henc.Context.CheckCiphertext. The key switch adds less than 2^-26 to the error of a reading for boot15 and boot16.
func (r *Receiver) Join(windows []*henc.Ciphertext) (*henc.Ciphertext, error) {
	const op = "join compact windows"
	if n := len(windows); n == 0 || n > r.Windows() {
		return nil, fmt.Errorf("%s: %w: %d windows, it takes 1..%d", op, henc.ErrLength, n, r.Windows())
	}
	n, k, limbs := r.small.Parameters().N(), r.Windows(), r.small.Parameters().QLimbs(0)
	words, one := make([]uint32, 2*len(limbs)*n*k), make([]uint32, 2*len(limbs)*n)
	ring := r.small.Ring()
	plain, err := cutrantt.NewResult(ring, 2, limbs, cutrantt.Coeffs(1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	defer ring.Free(plain)
	for i, ct := range windows {
		if ct == nil {
			continue
		}
		err := r.small.CheckCiphertext(ct)
		if err == nil {
			err = ring.Convert(plain, ct.Value)
		}
		if err == nil {
			err = ring.Download(one, plain)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: window %d: %w", op, i, err)
		}
		for at, x := range one { // at = limb*n + coefficient
			words[at*k+i] = x
		}
	}
	ct, err := r.change(r.big, r.embed, words)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return ct, nil
}

// change switches the coefficients of c0 and c1 to the secret that a key leads to, at level 0.
func (r *Receiver) change(ctx *henc.Context, key *Key, words []uint32) (*henc.Ciphertext, error) {
	p, ring := ctx.Parameters(), ctx.Ring()
	c := chain.New(ring)
	defer c.Close()
	limbs := p.QLimbs(0)
	plain, in := c.Result(2, limbs, cutrantt.Coeffs(1)), c.Result(2, limbs, ctx.Domain())
	out := c.Result(2, limbs, ctx.Domain())
	c.Do(func() error { return ring.Upload(plain, words) })
	c.Op2(ring.Convert, in, plain)
	c.Do(func() error {
		return cutrantt.SwitchKeys(ring, cutrantt.Gadget{Alpha: 1, Special: p.PLimbs()[:1]}, []cutrantt.KeySwitch{
			{Dst: out, X: c.Poly(in, 1), Low: c.Poly(in, 0), Key: key.operand},
		})
	})
	value, err := c.Keep(out)
	if err != nil {
		return nil, err
	}
	return &henc.Ciphertext{Value: value, Level: 0, Scale: r.scale()}, nil
}
