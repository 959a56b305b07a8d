package secret

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/prng"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/henc/internal/chain"
	"github.com/hencedge/hencedge/henc/internal/kdf"
	"github.com/hencedge/hencedge/henc/internal/keymat"
	"github.com/hencedge/hencedge/internal/taint"
)

// CompactEncryptor is the board's side of compact windows. The board holds a secret key of its own,
// which opens its own windows and nothing else. It is safe for concurrent use.
type CompactEncryptor struct {
	key *Key
	q   int64
	// polynomials are the coefficients of c1 and then of c1*s, a *[]uint32 for each window under way. They are used
	// again, wiped, because a board that makes them anew spends most of its memory on those of earlier windows.
	polynomials sync.Pool
}

// NewCompactEncryptor makes an encryptor under a key whose context has the parameters of
// compact.Named. It fails with henc.ErrParams for another key.
func NewCompactEncryptor(k *Key) (*CompactEncryptor, error) {
	p := k.Context().Parameters()
	if err := compact.CheckSet(p); err != nil {
		return nil, fmt.Errorf("compact encryption: %w", err)
	}
	return &CompactEncryptor{key: k, q: int64(p.Q()[0])}, nil
}

// Encrypt encrypts readings of -1 to 1, at least one and at most N. The window's nonce and its noise
// follow, through the board's secret, from the readings, the origin and seed together: a seed that repeats
// repeats neither under another message or origin. nil draws a fresh seed. Encrypt keeps and
// wipes none of its arguments. No branch and no address depends on a secret, except that a reading
// outside -1..1 fails with henc.ErrMessage. The errors of compact.Window's Check and Uniform are possible.
func (e *CompactEncryptor) Encrypt(
	readings []float64, precision compact.Precision, origin compact.Origin, seed *henc.Seed,
) (*compact.Window, error) {
	w, err := e.encrypt(readings, precision, origin, seed)
	if err != nil {
		return nil, fmt.Errorf("compact encryption: %w", err)
	}
	return w, nil
}

func (e *CompactEncryptor) encrypt(
	readings []float64, precision compact.Precision, origin compact.Origin, seed *henc.Seed,
) (*compact.Window, error) {
	if e == nil || e.key == nil {
		return nil, fmt.Errorf("%w: encryptor not made by its constructor", henc.ErrParams)
	}
	w := &compact.Window{
		Params: e.key.ctx.Parameters(), Precision: precision, Values: make([]uint32, len(readings)),
	}
	if err := w.Check(); err != nil {
		return nil, err
	}
	if !taint.Outcome(inRange(readings)) {
		return nil, fmt.Errorf("%w: a reading is not within -1..1", henc.ErrMessage)
	}
	s, release, err := e.key.use()
	if err != nil {
		return nil, err
	}
	defer release()
	if seed == nil {
		if seed, err = henc.NewSeed(); err != nil {
			return nil, err
		}
		defer seed.Wipe()
	}
	hidden, err := e.bind(w, readings, origin, seed)
	if err != nil {
		return nil, err
	}
	defer hidden.Wipe()
	product, ok := e.polynomials.Get().(*[]uint32)
	if !ok {
		words := make([]uint32, e.key.ctx.Parameters().N())
		product = &words
	}
	defer func() {
		clear(*product) // it gives s away
		e.polynomials.Put(product)
	}()
	if err := w.FillUniform(*product, origin); err != nil {
		return nil, err
	}
	if err := e.multiply(*product, s); err != nil {
		return nil, err
	}
	e.fill(w, readings, *product, hidden)
	return w, nil
}

// inRange reports whether all readings are within -1..1; NaN is not.
func inRange(readings []float64) bool {
	bad := uint64(0)
	for _, x := range readings {
		// Magnitudes are ordered as their bits are, those of infinities and NaN above all.
		bad |= (math.Float64bits(1) - math.Float64bits(x)&^(1<<63)) >> 63
	}
	return bad == 0
}

// bind sets the window's nonce and returns the secret seed of its noise. t is HKDF over the board's
// root, the seed, the origin and the readings. Its first bytes are the nonce, and all of it gives the noise: two
// windows with one uniform half but different messages have independent noise.
func (e *CompactEncryptor) bind(
	w *compact.Window, readings []float64, origin compact.Origin, seed *henc.Seed,
) (*henc.Seed, error) {
	root, err := e.key.root.Derive("hencedge compact window", uint64(w.Precision), uint64(len(readings)))
	if err != nil {
		return nil, err
	}
	defer root.Wipe()
	from := origin.Encode()
	ikm := make([]byte, 0, 2*len(root)+len(from)+8*len(readings))
	defer func() { clear(ikm) }()
	ikm = append(append(append(ikm, root[:]...), seed[:]...), from...)
	for _, x := range readings {
		ikm = binary.LittleEndian.AppendUint64(ikm, math.Float64bits(x))
	}
	t := new(henc.Seed)
	defer t.Wipe()
	kdf.Derive((*[kdf.Size]byte)(t), ikm, "hencedge compact nonce")
	copy(w.Nonce[:], t[:])
	taint.Public(w.Nonce[:])
	return t.Derive("hencedge compact noise")
}

// fill computes the values: the used coefficients of m + e - c1*s, cut.
func (e *CompactEncryptor) fill(w *compact.Window, readings []float64, product []uint32, hidden *henc.Seed) {
	noise := make([]int32, len(readings))
	defer clear(noise)
	prng.CBD(noise, (*[32]byte)(hidden), keymat.LabelE0)
	stride, scale, bits := compact.Stride(len(product), len(readings)), compact.Scale(), w.Precision.Bits()
	for j, x := range readings {
		// |m| <= 2^24, so the sum is within -q-2^25..2^25.
		c0 := rounded(float64(x*scale)) + int64(noise[j]) - int64(product[j*stride])
		c0 += e.q & (c0 >> 63)
		c0 += e.q & (c0 >> 63)
		w.Values[j] = uint32(c0)
	}
	taint.Public(w.Values)
	for j, c0 := range w.Values {
		v := (uint64(c0)<<bits + uint64(e.q)/2) / uint64(e.q)
		w.Values[j] = uint32(v) & (1<<bits - 1)
	}
}

// multiply replaces the coefficients of c1 by those of c1*s.
func (e *CompactEncryptor) multiply(c1 []uint32, s *cutrantt.Batch) error {
	r, limbs := e.key.ctx.Ring(), s.Limbs()
	c := chain.Secret(r)
	plain := c.Batch(1, limbs, cutrantt.Coeffs(1))
	x := c.Batch(1, limbs, s.Domain())
	c.Do(func() error { return r.Upload(plain, c1) })
	c.Op2(r.Convert, x, plain)
	c.Op3(r.Mul, x, x, s)
	c.Op2(r.Convert, plain, x)
	c.Do(func() error { return r.Download(c1, plain) })
	return c.Close()
}

// rounded is x as the nearest integer, for |x| < 2^50: the bits of the sum below its
// leading one are that integer.
func rounded(x float64) int64 {
	const shift = 0x1.8p52
	return int64(math.Float64bits(x+shift)) - int64(math.Float64bits(shift))
}
