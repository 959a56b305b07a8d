package henc

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/cmplx"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/henc/internal/embed/embedtest"
)

func mustContext(t testing.TB, p Parameters, opts ...Option) *Context {
	t.Helper()
	c, err := NewContext(p, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// smallParams is an insecure set of degree 2^10 with pair levels, for tests that
// need many cases.
func smallParams(t testing.TB) Parameters {
	t.Helper()
	l := mustNamed(t, "edge13-d2p").Literal()
	l.Name, l.LogN, l.PsiQ, l.PsiP, l.Insecure = "small10", 10, nil, nil, true
	p, err := NewParameters(l)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestEncodeIsTheEmbedding evaluates the encoded coefficients directly at
// zeta^(5^j) and compares with the values.
func TestEncodeIsTheEmbedding(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	c := mustContext(t, smallParams(t))
	e, scale := c.Encoder(), math.Ldexp(1, 50)
	z := embedtest.RandomSlots(r, c.Parameters().Slots())
	coeffs, err := e.EncodeCoeffs(z, scale)
	if err != nil {
		t.Fatal(err)
	}
	for j, v := range embedtest.DirectSlots(coeffs) {
		if cmplx.Abs(v/complex(scale, 0)-z[j]) > 0x1p-42 {
			t.Fatalf("slot %d is %v, want %v", j, v/complex(scale, 0), z[j])
		}
	}
	pt, err := e.EncodeComplex(z, 2, scale)
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Coeffs(pt)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i] != coeffs[i] {
			t.Fatalf("coefficient %d is %g, want %g", i, got[i], coeffs[i])
		}
	}
}

// TestEncodedResidues compares the plaintext's residues with the transform's
// definition: in domain ntt/1 position b holds f(psi^(2*brv(b)+1)).
func TestEncodedResidues(t *testing.T) {
	c := mustContext(t, smallParams(t), WithN2(1))
	p, f := c.Parameters(), []float64{3, -1, 0x1p53 + 2, 0, -0x1p54}
	pt, err := c.Encoder().FromCoeffs(f, 2, 0x1p50)
	if err != nil {
		t.Fatal(err)
	}
	x := make([]uint32, pt.Value.Len())
	if err := c.Ring().Download(x, pt.Value); err != nil {
		t.Fatal(err)
	}
	for i, m := range p.Moduli()[:p.LimbsAt(2)] {
		for b := range p.N() {
			rev := 0
			for k := range p.LogN() {
				rev |= b >> k & 1 << (p.LogN() - 1 - k)
			}
			w := new(big.Int).SetUint64(uint64(powMod(m.Psi, uint64(2*rev+1), m.Q)))
			sum, q := new(big.Int), new(big.Int).SetUint64(uint64(m.Q))
			for k := len(f) - 1; k >= 0; k-- {
				v, _ := new(big.Float).SetFloat64(f[k]).Int(nil)
				sum.Mod(sum.Mul(sum, w).Add(sum, v), q)
			}
			if uint64(x[i*p.N()+b]) != sum.Uint64() {
				t.Fatalf("limb %d position %d is %d, want %d", i, b, x[i*p.N()+b], sum)
			}
		}
	}
}

func TestEncodeDecodeNamedSets(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, name := range append(Names(), InsecureNames()...) {
		p := mustNamed(t, name)
		c := mustContext(t, p)
		for _, level := range []int{p.MaxLevel(), 0} {
			scale := p.ScaleAt(level)
			z := embedtest.RandomSlots(r, p.Slots())
			pt, err := c.Encoder().EncodeComplex(z, level, scale)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, err := c.Encoder().DecodeComplex(pt)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			// Rounding has standard deviation sqrt(N/12)/scale in a slot.
			bound := 1.05*math.Sqrt(float64(p.N())/12)/scale + 2*EncodingError(p.LogN())*embedtest.RMS(z)
			if d := embedtest.RMS(embedtest.Diff(got, z)); d > bound {
				t.Errorf("%s level %d: error 2^%.1f, bound 2^%.1f", name, level, math.Log2(d), math.Log2(bound))
			}
			if p.LogScale() >= 50 {
				for j := range z {
					if cmplx.Abs(got[j]-z[j]) > 0x1p-37 {
						t.Fatalf("%s level %d slot %d: error %g", name, level, j, cmplx.Abs(got[j]-z[j]))
					}
				}
			}
		}
	}
}

func TestEncodeShortAndPacked(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	for _, n2 := range []int{1, 2, 4, 8, 16} {
		c := mustContext(t, smallParams(t), WithN2(n2))
		e, n := c.Encoder(), c.Parameters().N()
		for _, count := range []int{0, 1, 7, n/2 - 1, n / 2, n - 1, n} {
			v := make([]float64, count)
			for i := range v {
				v[i] = 200*r.Float64() - 100
			}
			pt, err := e.EncodePacked(v, 1, 0x1p50)
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.DecodePacked(pt)
			if err != nil || len(got) != n {
				t.Fatalf("%d values: %v", len(got), err)
			}
			for i, g := range got {
				want := 0.0
				if i < count {
					want = v[i]
				}
				if math.Abs(g-want) > 0x1p-38 {
					t.Fatalf("n2 %d, %d packed values: value %d is %g, want %g", n2, count, i, g, want)
				}
			}
			if count > n/2 {
				if _, err := e.EncodeReal(v, 1, 0x1p50); !errors.Is(err, ErrMessage) {
					t.Errorf("%d real values: %v", count, err)
				}
				continue
			}
			if pt, err = e.EncodeReal(v, 0, 0x1p45); err != nil {
				t.Fatal(err)
			}
			if got, err = e.DecodeReal(pt); err != nil || len(got) != n/2 {
				t.Fatalf("%d values: %v", len(got), err)
			}
			for i, g := range got {
				want := 0.0
				if i < count {
					want = v[i]
				}
				if math.Abs(g-want) > 0x1p-37 {
					t.Fatalf("%d real values: value %d is %g, want %g", count, i, g, want)
				}
			}
		}
	}
}

// TestLargeScales: at scales above 2^52 every float64 coefficient is an integer
// and must arrive unchanged.
func TestLargeScales(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	p := mustNamed(t, "std14-d5")
	c := mustContext(t, p)
	for _, logScale := range []int{30, 52, 53, 64, 100, 250, 310} {
		scale := math.Ldexp(1+r.Float64(), logScale)
		coeffs, err := c.Encoder().EncodeCoeffsReal([]float64{0.9, -0.7, 0.3}, scale)
		if err != nil {
			t.Fatal(err)
		}
		pt, err := c.Encoder().FromCoeffs(coeffs, 5, scale)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Encoder().Coeffs(pt)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if got[i] != coeffs[i] {
				t.Fatalf("scale 2^%d: coefficient %d is %g, want %g", logScale, i, got[i], coeffs[i])
			}
		}
		v, err := c.Encoder().DecodeReal(pt)
		if err != nil || math.Abs(v[0]-0.9)+math.Abs(v[1]+0.7)+math.Abs(v[2]-0.3)+math.Abs(v[3]) > 0x1p-20 {
			t.Fatalf("scale 2^%d: %v %v", logScale, v[:4], err)
		}
	}
}

func TestEncoderRefuses(t *testing.T) {
	c := mustContext(t, mustNamed(t, "edge12-d1"))
	e, n := c.Encoder(), c.Parameters().N()
	for _, tc := range []struct {
		name  string
		v     []float64
		level int
		scale float64
		want  error
	}{
		{"good", []float64{1}, 1, 0x1p26, nil},
		{"largest message of level 0", constant(n/2, 7.99), 0, 0x1p26, nil},
		{"too large for level 0", constant(n/2, 8.01), 0, 0x1p26, ErrMessage},
		{"too large, negative", constant(n/2, -8.01), 0, 0x1p26, ErrMessage},
		{"fits level 1", constant(n/2, 8.01), 1, 0x1p26, nil},
		{"NaN", []float64{0, math.NaN()}, 1, 0x1p26, ErrMessage},
		{"infinity", []float64{math.Inf(-1)}, 1, 0x1p26, ErrMessage},
		{"overflow", []float64{math.MaxFloat64}, 1, 0x1p26, ErrMessage},
		{"overflow of a sum", constant(n/2, math.MaxFloat64), 1, 0x1p26, ErrMessage},
		{"too many", make([]float64, n/2+1), 1, 0x1p26, ErrMessage},
		{"level", []float64{1}, 2, 0x1p26, ErrLevel},
		{"negative level", []float64{1}, -1, 0x1p26, ErrLevel},
		{"scale 0", []float64{1}, 1, 0, ErrScale},
		{"scale NaN", []float64{1}, 1, math.NaN(), ErrScale},
		{"scale negative", []float64{1}, 1, -0x1p26, ErrScale},
		{"scale infinite", []float64{1}, 1, math.Inf(1), ErrScale},
		{"scale above Q/2", []float64{1}, 1, 0x1p56, ErrScale},
	} {
		if _, err := e.EncodeReal(tc.v, tc.level, tc.scale); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if _, err := e.EncodeCoeffs([]complex128{complex(0, math.NaN())}, 4); !errors.Is(err, ErrMessage) {
		t.Errorf("imaginary NaN: %v", err)
	}
	if _, err := e.EncodeCoeffsPacked(make([]float64, n+1), 4); !errors.Is(err, ErrMessage) {
		t.Errorf("too many packed: %v", err)
	}
	q0 := float64(c.Parameters().Q()[0])
	for _, tc := range []struct {
		coeffs []float64
		want   error
	}{
		{[]float64{(q0 - 1) / 2, -(q0 - 1) / 2}, nil},
		{[]float64{0, (q0 + 1) / 2}, ErrMessage},
		{[]float64{-(q0 + 1) / 2}, ErrMessage},
		{[]float64{0.5}, ErrMessage},
		{[]float64{math.NaN()}, ErrMessage},
		{make([]float64, n+1), ErrMessage},
	} {
		pt, err := e.FromCoeffs(tc.coeffs, 0, 4)
		if !errors.Is(err, tc.want) {
			t.Errorf("%v: %v", tc.coeffs[:1], err)
		}
		if err == nil {
			if got, err := e.Coeffs(pt); err != nil || got[0] != tc.coeffs[0] || got[1] != tc.coeffs[1] || got[2] != 0 {
				t.Errorf("%v came back as %v: %v", tc.coeffs, got[:3], err)
			}
		}
	}
}

// TestLargestCoefficient: above 2^53 the limit (Q-1)/2 is no float64; the one below
// it is accepted and comes back, the one above is refused.
func TestLargestCoefficient(t *testing.T) {
	for _, name := range []string{"edge12-add", "edge12-d1", "edge13-d3", "std14-d5"} {
		c := mustContext(t, mustNamed(t, name))
		level := c.Parameters().MaxLevel()
		half := new(big.Int).Rsh(c.Parameters().QProduct(level), 1)
		below, _ := new(big.Float).SetInt(half).Float64()
		if v, _ := new(big.Float).SetFloat64(below).Int(nil); v.Cmp(half) > 0 {
			below = math.Nextafter(below, 0)
		}
		pt, err := c.Encoder().FromCoeffs([]float64{below, -below}, level, 4)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := c.Encoder().Coeffs(pt); err != nil || got[0] != below || got[1] != -below {
			t.Errorf("%s: %v came back as %v: %v", name, below, got[:2], err)
		}
		for _, sign := range []float64{1, -1} {
			if _, err := c.Encoder().FromCoeffs([]float64{0, sign * math.Nextafter(below, math.Inf(1))}, level,
				4); !errors.Is(err, ErrMessage) {
				t.Errorf("%s: above the limit: %v", name, err)
			}
		}
	}
}

func constant(n int, v float64) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = v
	}
	return s
}

func TestDecoderRefuses(t *testing.T) {
	c := mustContext(t, mustNamed(t, "edge12-d1"))
	e := c.Encoder()
	good, err := e.EncodeReal([]float64{1}, 1, 0x1p26)
	if err != nil {
		t.Fatal(err)
	}
	ct, err := c.NewCiphertext(1, 0x1p26)
	if err != nil {
		t.Fatal(err)
	}
	coeff, err := c.Ring().NewBatch(1, []int{0, 1}, cutrantt.Coeffs(16))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		pt   *Plaintext
		want error
	}{
		{"nil", nil, ErrDegree},
		{"empty", &Plaintext{}, ErrDegree},
		{"two polynomials", &Plaintext{ct.Value, 1, 4}, ErrDegree},
		{"coefficients", &Plaintext{coeff, 1, 4}, ErrDomain},
		{"level of other limbs", &Plaintext{good.Value, 0, 4}, ErrLevel},
		{"level", &Plaintext{good.Value, 7, 4}, ErrLevel},
		{"scale", &Plaintext{good.Value, 1, 0}, ErrScale},
		{"scale NaN", &Plaintext{good.Value, 1, math.NaN()}, ErrScale},
	} {
		if _, err := e.DecodeReal(tc.pt); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	other := mustContext(t, smallParams(t))
	if _, err := other.Encoder().DecodeReal(good); !errors.Is(err, ErrParams) {
		t.Errorf("another ring's plaintext: %v", err)
	}
}

// TestDecodeBeyondFloat64: random residues at 1325 bits, as a wrong key gives.
func TestDecodeBeyondFloat64(t *testing.T) {
	l := mustNamed(t, "deep16-d23").Literal()
	l.Name, l.LogN, l.PsiQ, l.PsiP, l.Insecure = "deep10", 10, nil, nil, true
	p, err := NewParameters(l)
	if err != nil {
		t.Fatal(err)
	}
	c := mustContext(t, p)
	pt, err := c.NewPlaintext(23, 0x1p55)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ring().SampleUniform(pt.Value, &[32]byte{7}, 9); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Encoder().DecodeReal(pt); !errors.Is(err, ErrMessage) {
		t.Errorf("decode: %v", err)
	}
}

// TestContextIsConcurrent uses one context from many goroutines, so that the race
// detector sees the tables that are made on first use.
func TestContextIsConcurrent(t *testing.T) {
	p := smallParams(t)
	c := mustContext(t, p, WithWorkers(2))
	if p.PrimesPerLevel() != 2 {
		t.Fatalf("%d primes per level", p.PrimesPerLevel())
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			level, scale := g%3, 0x1p45
			if g%2 == 0 {
				scale = 0x1p30
			}
			want := []float64{float64(g), 0.5, -1}
			pt, err := c.Encoder().EncodePacked(want, level, scale)
			if err != nil {
				t.Error(err)
				return
			}
			got, err := c.Encoder().DecodePacked(pt)
			if err != nil {
				t.Error(err)
				return
			}
			for i, v := range want {
				if math.Abs(got[i]-v) > 0x1p-20 {
					t.Errorf("value %d is %g, want %g", i, got[i], v)
				}
			}
			ct := randomCiphertext(t, c, level, scale, g%2 == 0)
			b, err := c.MarshalCiphertext(ct)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := c.UnmarshalCiphertext(b); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestEncodeRoundTripProperty(t *testing.T) {
	c := mustContext(t, smallParams(t))
	e, p := c.Encoder(), c.Parameters()
	rapid.Check(t, func(t *rapid.T) {
		level := rapid.IntRange(0, p.MaxLevel()).Draw(t, "level")
		scale := math.Ldexp(rapid.Float64Range(1, 2).Draw(t, "mantissa"),
			rapid.IntRange(10, int(p.LogQ(level))-3).Draw(t, "exponent"))
		v := rapid.SliceOfN(rapid.Float64Range(-1, 1), 0, 64).Draw(t, "values")
		pt, err := e.EncodePacked(v, level, scale)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.DecodePacked(pt)
		if err != nil {
			t.Fatal(err)
		}
		// Worst case: every coefficient is off by 1/2.
		bound := float64(p.N())/2/scale + 0x1p-44
		for i, w := range append(v, make([]float64, p.N()-len(v))...) {
			if math.Abs(got[i]-w) > bound {
				t.Fatal(fmt.Sprintf("value %d is %g, want %g (scale %g)", i, got[i], w, scale))
			}
		}
	})
}
