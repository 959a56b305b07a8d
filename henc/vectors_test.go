package henc

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/bits"
	"os"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/cpu"
	"github.com/hencedge/hencedge/cutrantt/prng"
	"github.com/hencedge/hencedge/internal/vectors"
)

// setVector is one parameter set of docs/vectors/parameters.json.
type setVector struct {
	Name           string    `json:"name"`
	LogN           int       `json:"log_n"`
	LogScale       int       `json:"log_scale"`
	PrimesPerLevel int       `json:"primes_per_level"`
	Lower          []int     `json:"lower,omitempty"`
	Depth          int       `json:"depth"`
	Upper          []int     `json:"upper,omitempty"`
	Alpha          int       `json:"alpha"`
	Insecure       bool      `json:"insecure"`
	Q              []uint32  `json:"q"`
	PsiQ           []uint32  `json:"psi_q"`
	P              []uint32  `json:"p"`
	PsiP           []uint32  `json:"psi_p"`
	Scales         []float64 `json:"scale_of_level"`
	Hash           string    `json:"hash"`
}

func makeParameters(t *testing.T) (file struct {
	Comment string      `json:"comment"`
	Sets    []setVector `json:"sets"`
}) {
	file.Comment = "The named parameter sets of docs/parameters.md. psi_q[i] is the pinned 2N-th root of unity " +
		"modulo q[i], psi_p[i] modulo p[i]; lower are the primes of each level from 1 to depth, where " +
		"primes_per_level is 0, upper those of each level above depth; scale_of_level[l] is the scale of a fresh " +
		"ciphertext at level l. Hashes are hexadecimal."
	for _, l := range namedSets {
		p := mustNamed(t, l.Name)
		hash := p.Hash()
		v := setVector{l.Name, l.LogN, l.LogScale, p.PrimesPerLevel(), l.Lower, l.Depth, l.Upper, l.Alpha, l.Insecure,
			l.Q, l.PsiQ, append([]uint32{}, l.P...), append([]uint32{}, l.PsiP...), nil, hex.EncodeToString(hash[:])}
		for level := range p.MaxLevel() + 1 {
			v.Scales = append(v.Scales, p.ScaleAt(level))
		}
		file.Sets = append(file.Sets, v)
	}
	return file
}

func TestParameterVectors(t *testing.T) { vectors.Check(t, "parameters.json", makeParameters(t)) }

// TestNamedSetsTable keeps the first table in docs/parameters.md true: ring degree,
// sizes of the primes, digits, scale and depth.
func TestNamedSetsTable(t *testing.T) {
	b, err := os.ReadFile("../docs/parameters.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.ReplaceAll(string(b), "**", "")
	for _, l := range namedSets {
		p := mustNamed(t, l.Name)
		special, digits := "-", "-"
		if len(l.P) > 0 {
			special, digits = sizes(l.P), fmt.Sprint(p.Dnum(p.MaxLevel()))
		}
		base := p.LimbsAt(0)
		chain := sizes(l.Q[:base])
		switch {
		case l.Mode == ModeMixed:
			chain += "; levels of " + levels(p, l.Depth)
		case p.PrimesPerLevel() == 2:
			chain += fmt.Sprintf(", %d pairs of %d", l.Depth, l.LogScale)
		case p.MaxLevel() > 0:
			chain += ", " + sizes(l.Q[base:p.LimbsAt(l.Depth)])
		}
		if top := p.MaxLevel(); len(l.Upper) > 0 {
			chain += fmt.Sprintf("; above: %.0f bits in %d", p.LogQ(top)-p.LogQ(l.Depth), len(l.Q)-p.LimbsAt(l.Depth))
		}
		row := fmt.Sprintf("| %s | 2^%d | %d | %s | %s | %s | 2^%d | %d |", l.Name, l.LogN, p.Slots(), chain, special,
			digits, l.LogScale, l.Depth)
		if !strings.Contains(doc, row) {
			t.Errorf("the document lacks %q", row)
		}
	}
}

// levels lists log2 of what rescaling from each level up to the depth drops, equal ones together.
func levels(p Parameters, depth int) string {
	var parts []string
	for level := 1; level <= depth; {
		size, n := math.Round(math.Log2(p.RescaleFactor(level))), 0
		for ; level <= depth && math.Round(math.Log2(p.RescaleFactor(level))) == size; level++ {
			n++
		}
		part := fmt.Sprint(size)
		if n > 1 {
			part += fmt.Sprintf(" x %d", n)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// sizes lists the bit lengths of primes, equal ones together.
func sizes(primes []uint32) string {
	var parts []string
	for i := 0; i < len(primes); {
		j := i
		for j < len(primes) && bits.Len32(primes[j]) == bits.Len32(primes[i]) {
			j++
		}
		if part := fmt.Sprint(bits.Len32(primes[i])); j-i > 2 {
			parts = append(parts, fmt.Sprintf("%s x %d", part, j-i))
		} else {
			parts = append(parts, strings.Repeat(part+", ", j-i-1)+part)
		}
		i = j
	}
	return strings.Join(parts, ", ")
}

// transformVector is one polynomial in every domain.
type transformVector struct {
	LogN   int      `json:"log_n"`
	Q      uint32   `json:"q"`
	Psi    uint32   `json:"psi"`
	Seed   string   `json:"seed"`
	Label  uint32   `json:"label"`
	Images []domain `json:"domains"`
}

type domain struct {
	N2        int      `json:"n2"`
	Transform int      `json:"transform"`
	First     []uint32 `json:"first_residues"`
	SHA256    string   `json:"sha256"`
}

func makeTransforms(t *testing.T) (out []transformVector) {
	t.Helper()
	for i, set := range []struct {
		logN   int
		q, psi uint32
	}{{10, 12289, 7}, {12, 1073668097, 1047115509}, {13, 18137089, 7875826}} {
		r, err := cpu.New().NewRing(set.logN, []cutrantt.Modulus{{Q: set.q, Psi: set.psi}}, cutrantt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		seed := vectors.Seed()
		v := transformVector{LogN: set.logN, Q: set.q, Psi: set.psi, Seed: hex.EncodeToString(seed[:]),
			Label: 0x76330000 + uint32(i)}
		coeffs, err := r.NewBatch(1, []int{0}, cutrantt.Coeffs(1))
		if err != nil {
			t.Fatal(err)
		}
		x := make([]uint32, r.N())
		prng.Uniform(x, seed, v.Label, 0, set.q)
		if err := r.Upload(coeffs, x); err != nil {
			t.Fatal(err)
		}
		for _, n2 := range []int{1, 2, 4, 8, 16} {
			for transform, d := range []cutrantt.Domain{cutrantt.Coeffs(n2), cutrantt.NTT(n2)} {
				b, err := r.NewBatch(1, []int{0}, d)
				if err != nil {
					t.Fatal(err)
				}
				if err := r.Convert(b, coeffs); err != nil {
					t.Fatal(err)
				}
				if err := r.Download(x, b); err != nil {
					t.Fatal(err)
				}
				v.Images = append(v.Images, domain{n2, transform, append([]uint32{}, x[:8]...), wordsHash(x)})
			}
		}
		out = append(out, v)
	}
	return out
}

// sampleVector is one stream of numbers.
type sampleVector struct {
	Distribution string   `json:"distribution"`
	Seed         string   `json:"seed"`
	Label        uint32   `json:"label"`
	Index        *uint32  `json:"index,omitempty"`
	Q            uint32   `json:"q,omitempty"`
	Count        int      `json:"count"`
	First        []int32  `json:"first,omitempty"`
	Residues     []uint32 `json:"first_residues,omitempty"`
	SHA256       string   `json:"sha256"`
}

func makeSamples() (out []sampleVector) {
	const n = 4096
	seed := vectors.Seed()
	text := hex.EncodeToString(seed[:])
	u, s := make([]uint32, n), make([]int32, n)
	for _, c := range []struct{ label, index, q uint32 }{{1, 0, 1073692673}, {1, 1, 67084289}, {9, 65, 536903681},
		{7, 3, 859586561}} {
		prng.Uniform(u, seed, c.label, c.index, c.q)
		out = append(out, sampleVector{"uniform", text, c.label, &c.index, c.q, n, nil, append([]uint32{}, u[:8]...),
			wordsHash(u)})
	}
	for i, f := range []func([]int32, *[32]byte, uint32){prng.Ternary, prng.CBD} {
		f(s, seed, uint32(2+i))
		for j, v := range s {
			u[j] = uint32(v)
		}
		out = append(out, sampleVector{[]string{"ternary", "binomial"}[i], text, uint32(2 + i), nil, 0, n,
			append([]int32{}, s[:16]...), nil, wordsHash(u)})
	}
	return out
}

// encoderVector holds slots and the coefficients that they encode to. Slots beyond
// those listed are 0.
type encoderVector struct {
	Params string    `json:"params"`
	Scale  float64   `json:"scale"`
	Form   string    `json:"form"`
	Values []float64 `json:"values"`
	First  []float64 `json:"first_coefficients"`
	Sum    float64   `json:"sum_of_coefficients"`
	SHA256 string    `json:"sha256"`
}

// encoderMargin is how far from a half every product of coefficient and scale must
// be, so that another implementation in float64 rounds to the same integer.
const encoderMargin = 1e-5

func makeEncodings(t *testing.T) (out []encoderVector) {
	t.Helper()
	values := []float64{1, -0.5, 0.25, 0.75, -1, 0.125, 0, 0.375}
	for _, c := range []struct {
		set, form string
		level     int
	}{{"edge12-add", "real", 0}, {"edge12-d1", "real", 0}, {"edge12-d1", "packed", 1}} {
		ctx := mustContext(t, mustNamed(t, c.set))
		v := encoderVector{Params: c.set, Scale: ctx.Parameters().ScaleAt(c.level), Form: c.form, Values: values}
		encode := ctx.Encoder().EncodeCoeffsReal
		if c.form == "packed" {
			encode = ctx.Encoder().EncodeCoeffsPacked
		}
		coeffs, err := encode(values, v.Scale)
		if err != nil {
			t.Fatal(err)
		}
		words := make([]uint32, len(coeffs))
		for i, x := range coeffs {
			words[i] = uint32(int32(x))
			v.Sum += x
		}
		v.First, v.SHA256 = append([]float64{}, coeffs[:8]...), wordsHash(words)
		out = append(out, v)
	}
	return out
}

// TestEncoderVectorsAreFarFromHalves: no coefficient of the encoder's vectors depends
// on the last bits of float64.
func TestEncoderVectorsAreFarFromHalves(t *testing.T) {
	const fine = 1 << 22 // the same coefficients with 22 more bits
	for _, v := range makeEncodings(t) {
		e := mustContext(t, mustNamed(t, v.Params)).Encoder()
		encode := e.EncodeCoeffsReal
		if v.Form == "packed" {
			encode = e.EncodeCoeffsPacked
		}
		exact, err := encode(v.Values, v.Scale*fine)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range exact {
			x /= fine
			if half := x - float64(int64(x)); half > 0.5-encoderMargin && half < 0.5+encoderMargin ||
				half < -0.5+encoderMargin && half > -0.5-encoderMargin {
				t.Errorf("%s %s: coefficient %d is %.8f", v.Params, v.Form, i, x)
			}
		}
	}
}

func TestRingVectors(t *testing.T) {
	vectors.Check(t, "ring.json", struct {
		Comment    string            `json:"comment"`
		Transforms []transformVector `json:"transforms"`
		Samples    []sampleVector    `json:"samples"`
		Encodings  []encoderVector   `json:"encodings"`
	}{
		"Transforms: the polynomial with coefficient j = residue j of Uniform(seed, label, 0, q), stored in each " +
			"domain. Samples: distributions of docs/cryptography.md. Encodings: slots (packed: two reals a slot) and " +
			"integral coefficients. sha256 is over all numbers as 32-bit little-endian words, negative ones in two's " +
			"complement.",
		makeTransforms(t), makeSamples(), makeEncodings(t),
	})
}
