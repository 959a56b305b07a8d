package henc

import (
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func mustNamed(t testing.TB, name string) Parameters {
	t.Helper()
	p, err := NamedInsecure(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNamedSets(t *testing.T) {
	for _, tc := range []struct {
		name                      string
		logN, depth, nQ, nP, dnum int
		logScale                  int
		mode                      Mode
		logQ, logQP               float64
	}{
		{"edge12-add", 12, 0, 2, 0, 0, 26, ModeSingle, 60, 60},
		{"edge12-d1", 12, 1, 2, 1, 2, 26, ModeSingle, 56, 86},
		{"edge13-d3", 13, 3, 5, 2, 3, 29, ModeSingle, 147, 207},
		{"edge13-d2p", 13, 2, 6, 1, 6, 50, ModePair, 156, 186},
		{"std14-d5", 14, 5, 12, 3, 4, 52, ModePair, 320, 410},
		{"std15-d8", 15, 8, 18, 6, 3, 52, ModePair, 475.99, 655.96},
		{"std15-d11", 15, 11, 24, 8, 3, 51, ModePair, 619.99, 859.95},
		{"deep16-d23", 16, 23, 48, 12, 4, 55, ModePair, 1324.95, 1684.79},
		{"boot15", 15, 16, 29, 3, 10, 29, ModeSingle, 777.90, 867.90},
		{"boot16", 16, 25, 45, 15, 3, 49, ModeMixed, 1303.73, 1746.98},
		{"bench-paper16-insecure", 16, 32, 66, 22, 3, 51, ModePair, 1691.92, 2351.42},
		{"boot10-insecure", 10, 16, 29, 3, 10, 29, ModeSingle, 777.90, 867.90},
	} {
		p := mustNamed(t, tc.name)
		if p.Name() != tc.name || p.LogN() != tc.logN || p.N() != 1<<tc.logN || p.Slots() != p.N()/2 ||
			p.MaxLevel() != tc.depth ||
			len(p.Q()) != tc.nQ || len(p.P()) != tc.nP || p.Dnum(p.MaxLevel()) != tc.dnum ||
			p.LogScale() != tc.logScale || p.Mode() != tc.mode {
			t.Errorf("%s: unexpected shape %+v", tc.name, p.Literal())
		}
		if math.Abs(p.LogQ(p.MaxLevel())-tc.logQ) > 0.01 || math.Abs(p.LogQP()-tc.logQP) > 0.02 {
			t.Errorf("%s: logQ %.3f logQP %.3f, want %.2f %.2f", tc.name, p.LogQ(p.MaxLevel()), p.LogQP(),
				tc.logQ, tc.logQP)
		}
		if p.DefaultScale() != math.Ldexp(1, tc.logScale) {
			t.Errorf("%s: default scale %g", tc.name, p.DefaultScale())
		}
		if len(p.Moduli()) != tc.nQ+tc.nP || len(p.QPLimbs(0)) != p.LimbsAt(0)+tc.nP {
			t.Errorf("%s: limbs do not fit", tc.name)
		}
	}
}

func TestPinnedRootsFollowTheRule(t *testing.T) {
	for _, l := range namedSets {
		derived := l.clone()
		derived.PsiQ, derived.PsiP = nil, nil
		p, err := NewParameters(derived)
		if err != nil {
			t.Fatal(err)
		}
		got := p.Literal()
		if !slices.Equal(got.PsiQ, l.PsiQ) || !slices.Equal(got.PsiP, l.PsiP) {
			t.Errorf("%s: pinned roots differ from the rule", l.Name)
		}
		if !p.Equal(mustNamed(t, l.Name)) {
			t.Errorf("%s: derived parameters differ", l.Name)
		}
	}
}

func TestScaleDriftIsSmall(t *testing.T) {
	for _, l := range namedSets {
		p, limit := mustNamed(t, l.Name), 0.0015
		if l.Insecure {
			limit = 0.013
		}
		for level := 0; level <= p.MaxLevel(); level++ {
			want, limit := float64(p.LogScale()), limit
			if level > 0 && level <= l.Depth && p.LimbsAt(level)-p.LimbsAt(level-1) == 1 && l.Mode == ModeMixed {
				want, limit = want-10.5, 0.015 // between a level of two primes of 29.75 bits and one of one of 28
			}
			if d := math.Abs(math.Log2(p.ScaleAt(level)) - want); d > limit {
				t.Errorf("%s level %d: drift %.6f bits", l.Name, level, d)
			}
			if level == 0 || level > l.Depth {
				continue
			}
			dropped := 1.0
			for _, q := range p.Q()[p.LimbsAt(level-1):p.LimbsAt(level)] {
				dropped *= float64(q)
			}
			if want := p.ScaleAt(level) * p.ScaleAt(level) / dropped; math.Abs(p.ScaleAt(level-1)/want-1) > 1e-15 {
				t.Errorf("%s level %d: scale %g, want %g", l.Name, level-1, p.ScaleAt(level-1), want)
			}
		}
	}
}

func TestSecurityTable(t *testing.T) {
	want := map[int][6]int{ // 128 c/q, 192 c/q, 256 c/q
		12: {106, 80, 73, 59, 56, 47}, 13: {214, 161, 147, 119, 114, 95}, 14: {430, 322, 297, 239, 230, 192},
		15: {868, 644, 597, 479, 462, 385}, 16: {1747, 1289, 1199, 959, 929, 773}, 17: {3523, 2578, 0, 0, 0, 0},
	}
	for logN, row := range want {
		for i, w := range row {
			got, ok := SecurityBound(logN, []int{128, 192, 256}[i/2], i%2 == 1)
			if got != w || ok != (w > 0) {
				t.Errorf("logN %d column %d: %d, want %d", logN, i, got, w)
			}
		}
	}
	for _, bad := range [][2]int{{11, 128}, {18, 128}, {12, 129}, {12, 64}, {12, 320}, {12, -128}} {
		if _, ok := SecurityBound(bad[0], bad[1], false); ok {
			t.Errorf("bound for %v", bad)
		}
	}
}

func TestInsecureSetIsRefusedWithBothNumbers(t *testing.T) {
	for name, err := range map[string]error{
		"named": func() error { _, err := Named("bench-paper16-insecure"); return err }(),
		"literal": func() error {
			l := mustNamed(t, "bench-paper16-insecure").Literal()
			l.Insecure = false
			_, err := NewParameters(l)
			return err
		}(),
	} {
		if !errors.Is(err, ErrSecurity) || !strings.Contains(err.Error(), "2351.4") ||
			!strings.Contains(err.Error(), "1747") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if slices.Contains(Names(), "bench-paper16-insecure") ||
		!slices.Contains(InsecureNames(), "bench-paper16-insecure") {
		t.Error("the insecure set is listed wrongly")
	}
	if p := mustNamed(t, "bench-paper16-insecure"); !p.Insecure() {
		t.Error("not marked insecure")
	}
	for _, name := range Names() {
		p, err := Named(name)
		if err != nil || p.Insecure() || p.UpperLevels() > 0 || p.LogQP() > float64(p.SecurityBound()) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := NamedBootstrap(name); !errors.Is(err, ErrUnknownSet) {
			t.Errorf("%s for bootstrapping: %v", name, err)
		}
	}
	if names := BootstrapNames(); !slices.Equal(names, []string{"boot15", "boot16"}) {
		t.Errorf("sets for bootstrapping: %q", names)
	}
	for _, name := range BootstrapNames() {
		p, err := NamedBootstrap(name)
		if err != nil || p.Insecure() || p.UpperLevels() == 0 || p.LogQP() > float64(p.SecurityBound()) {
			t.Errorf("%s: %v", name, err)
		}
		if q, err := Named(name); err != nil || !q.Equal(p) || q.Depth() != p.MaxLevel()-p.UpperLevels() {
			t.Errorf("%s for roles: %v, depth %d", name, err, q.Depth())
		}
	}
	for _, get := range []func(string) (Parameters, error){Named, NamedBootstrap} {
		if _, err := get("boot10-insecure"); !errors.Is(err, ErrSecurity) {
			t.Errorf("the small set for tests: %v", err)
		}
	}
	if _, err := Named("edge99"); !errors.Is(err, ErrUnknownSet) || !strings.Contains(err.Error(), "edge12-d1") {
		t.Errorf("unknown name: %v", err)
	}
}

func TestNewParametersRefuses(t *testing.T) {
	good := mustNamed(t, "edge12-d1").Literal()
	for _, tc := range []struct {
		name string
		want error
		mod  func(*ParametersLiteral)
	}{
		{"name", ErrParams, func(l *ParametersLiteral) { l.Name = "a b" }},
		{"no name", ErrParams, func(l *ParametersLiteral) { l.Name = "" }},
		{"logN", ErrParams, func(l *ParametersLiteral) { l.LogN = 9 }},
		{"logN large", ErrParams, func(l *ParametersLiteral) { l.LogN = 1 << 40 }},
		{"mode", ErrParams, func(l *ParametersLiteral) { l.Mode = "triple" }},
		{"depth", ErrParams, func(l *ParametersLiteral) { l.Depth = 2 }},
		{"depth negative", ErrParams, func(l *ParametersLiteral) { l.Depth = -1 }},
		{"no primes", ErrParams, func(l *ParametersLiteral) { l.Depth, l.Q, l.PsiQ = 0, nil, nil }},
		{"many primes", ErrParams, func(l *ParametersLiteral) { l.Q = make([]uint32, 1000) }},
		{"composite", ErrParams, func(l *ParametersLiteral) { l.Q[0], l.PsiQ = 1<<13*15+1, nil }},
		{"even", ErrParams, func(l *ParametersLiteral) { l.Q[0], l.PsiQ = 1<<20, nil }},
		{"not 1 mod 2N", ErrParams, func(l *ParametersLiteral) { l.Q[0], l.PsiQ = 1073741789, nil }},
		{"above 2^30", ErrParams, func(l *ParametersLiteral) { l.Q[0], l.PsiQ = 1073750017, nil }},
		{"repeated", ErrParams, func(l *ParametersLiteral) { l.P[0], l.PsiP = l.Q[0], nil }},
		{"root order", ErrParams, func(l *ParametersLiteral) { l.PsiQ[0] = 1 }},
		{"root range", ErrParams, func(l *ParametersLiteral) { l.PsiQ[0] += l.Q[0] }},
		{"root count", ErrParams, func(l *ParametersLiteral) { l.PsiQ = l.PsiQ[:1] }},
		{"alpha", ErrParams, func(l *ParametersLiteral) { l.Alpha = 2 }},
		{"upper level of no primes", ErrParams, func(l *ParametersLiteral) { l.Depth, l.Upper = 0, []int{0} }},
		{"upper level of many primes", ErrParams, func(l *ParametersLiteral) { l.Depth, l.Upper = 0, []int{9} }},
		{"mode", ErrParams, func(l *ParametersLiteral) { l.Mode = "triple" }},
		{"lower levels without their mode", ErrParams, func(l *ParametersLiteral) { l.Lower = []int{1} }},
		{"too few lower levels", ErrParams, func(l *ParametersLiteral) {
			l.Mode, l.Depth, l.Lower = ModeMixed, 1, nil
		}},
		{"lower level of no primes", ErrParams, func(l *ParametersLiteral) {
			l.Mode, l.Depth, l.Lower = ModeMixed, 1, []int{0}
		}},
		{"lower level of many primes", ErrParams, func(l *ParametersLiteral) {
			l.Mode, l.Depth, l.Lower = ModeMixed, 1, []int{3}
		}},
		{"lower levels take all primes", ErrParams, func(l *ParametersLiteral) {
			l.Mode, l.Depth, l.Lower = ModeMixed, 1, []int{2}
		}},
		{"upper levels take all primes", ErrParams, func(l *ParametersLiteral) { l.Depth, l.Upper = 0, []int{1, 1} }},
		{"digit", ErrParams, func(l *ParametersLiteral) { l.P[0], l.PsiP = 67239937, nil }},
		{"scale", ErrParams, func(l *ParametersLiteral) { l.LogScale = 30 }},
		{"scale small", ErrParams, func(l *ParametersLiteral) { l.LogScale = 9 }},
		{"small ring", ErrSecurity, func(l *ParametersLiteral) { l.LogN, l.PsiQ, l.PsiP = 11, nil, nil }},
	} {
		l := good.clone()
		tc.mod(&l)
		if _, err := NewParameters(l); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if _, err := NewParameters(good); err != nil {
		t.Error(err)
	}
	for logScale, want := range map[int]error{57: nil, 59: ErrParams} { // Q has 60 bits
		l := mustNamed(t, "edge12-add").Literal()
		l.LogScale = logScale
		if _, err := NewParameters(l); !errors.Is(err, want) {
			t.Errorf("scale 2^%d: %v", logScale, err)
		}
	}
	small := good.clone()
	small.LogN, small.PsiQ, small.PsiP, small.Insecure = 10, nil, nil, true
	if p, err := NewParameters(small); err != nil || !p.Insecure() {
		t.Errorf("insecure small ring: %v", err)
	}
}

func TestHashCoversEveryFieldButTheName(t *testing.T) {
	good := mustNamed(t, "std14-d5").Literal()
	base := mustNamed(t, "std14-d5").Hash()
	renamed := good.clone()
	renamed.Name = "other"
	if p, err := NewParameters(renamed); err != nil || p.Hash() != base {
		t.Errorf("the name enters the hash: %v", err)
	}
	seen := map[[32]byte]string{base: "base"}
	for name, mod := range map[string]func(*ParametersLiteral){
		"scale":    func(l *ParametersLiteral) { l.LogScale = 51 },
		"depth":    func(l *ParametersLiteral) { l.Depth = 4 },
		"alpha":    func(l *ParametersLiteral) { l.Alpha = 2 },
		"insecure": func(l *ParametersLiteral) { l.Insecure = true },
		"q order":  func(l *ParametersLiteral) { l.Q[0], l.Q[1], l.PsiQ = l.Q[1], l.Q[0], nil },
		"root":     func(l *ParametersLiteral) { l.PsiQ[0] = l.Q[0] - l.PsiQ[0] },
		"upper":    func(l *ParametersLiteral) { l.Depth, l.Upper = 4, []int{2} },
		"upper 2":  func(l *ParametersLiteral) { l.Depth, l.Upper = 4, []int{1, 1} },
		"mixed":    func(l *ParametersLiteral) { l.Mode, l.Depth, l.Lower = ModeMixed, 2, []int{1, 2} },
		"mixed 2":  func(l *ParametersLiteral) { l.Mode, l.Depth, l.Lower = ModeMixed, 2, []int{2, 1} },
		"mixed 3":  func(l *ParametersLiteral) { l.Mode, l.Depth, l.Lower = ModeMixed, 2, []int{2, 2} },
		"fewer p":  func(l *ParametersLiteral) { l.P, l.PsiP, l.Alpha = l.P[:2], nil, 2 },
		"logN":     func(l *ParametersLiteral) { l.LogN, l.PsiQ, l.PsiP, l.Insecure = 13, nil, nil, true },
		"mode": func(l *ParametersLiteral) {
			l.Mode, l.Depth, l.LogScale, l.Q, l.PsiQ = ModeSingle, 0, 52, l.Q[:2], nil
		},
	} {
		l := good.clone()
		mod(&l)
		p, err := NewParameters(l)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		h := p.Hash()
		if other, ok := seen[h]; ok {
			t.Errorf("%s hashes like %s", name, other)
		}
		seen[h] = name
	}
}

// TestHashKnownAnswers freezes the hashes: they travel on the wire.
func TestHashKnownAnswers(t *testing.T) {
	if len(hashVectors) != len(namedSets) {
		t.Errorf("%d vectors for %d sets", len(hashVectors), len(namedSets))
	}
	for name, want := range hashVectors {
		h := mustNamed(t, name).Hash()
		if got := hex.EncodeToString(h[:]); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestZeroAndOutOfRangeGetters(t *testing.T) {
	var z Parameters
	if z.N() != 0 || z.LimbsAt(0) != 0 || z.Q() != nil || z.LogQP() != 0 || z.Dnum(0) != 0 || z.Hash() != [32]byte{} ||
		z.DefaultScale() != 0 || !z.Equal(Parameters{}) {
		t.Error("zero parameters")
	}
	if _, err := NewContext(z); !errors.Is(err, ErrParams) {
		t.Errorf("context of zero parameters: %v", err)
	}
	p := mustNamed(t, "edge13-d3")
	for _, level := range []int{-1, 4, 1 << 40} {
		if p.LimbsAt(level) != 0 || len(p.QLimbs(level)) != 0 || p.ScaleAt(level) != 0 || p.LogQ(level) != 0 ||
			p.QProduct(level).Int64() != 1 {
			t.Errorf("level %d", level)
		}
		if err := p.CheckLevel(level); !errors.Is(err, ErrLevel) {
			t.Errorf("level %d: %v", level, err)
		}
	}
	for _, s := range []float64{0, 0.5, -1, math.NaN(), math.Inf(1), 0x1p60} {
		if err := p.CheckScale(0, s); !errors.Is(err, ErrScale) {
			t.Errorf("scale %g: %v", s, err)
		}
	}
	if err := p.CheckScale(0, 0x1p58); err != nil {
		t.Error(err)
	}
	if err := mustNamed(t, "deep16-d23").CheckScale(23, 0x1p1000); err != nil {
		t.Error(err)
	}
}

func TestGettersReturnCopies(t *testing.T) {
	p := mustNamed(t, "edge12-d1")
	h := p.Hash()
	p.Q()[0], p.P()[0], p.QLimbs(1)[0], p.PLimbs()[0] = 0, 0, 9, 9
	p.Moduli()[0].Q = 0
	p.QProduct(0).SetInt64(0)
	l := p.Literal()
	l.Q[0], l.PsiQ[0] = 0, 0
	q, err := NewParameters(p.Literal())
	if err != nil || q.Hash() != h || p.Moduli()[0].Q == 0 || p.QLimbs(1)[0] != 0 || p.PLimbs()[0] != 2 ||
		p.QProduct(0).Sign() == 0 {
		t.Errorf("a getter lets its caller change the parameters: %v", err)
	}
}

func TestIsPrimeAgainstTrialDivision(t *testing.T) {
	trial := func(n uint32) bool {
		for d := uint32(2); d*d <= n; d++ {
			if n%d == 0 {
				return false
			}
		}
		return n > 1
	}
	for _, start := range []uint32{0, 3215030, 25326000, 1<<30 - 500} {
		for n := start; n < start+500; n++ {
			if isPrime(n) != trial(n) {
				t.Fatalf("isPrime(%d) = %v", n, isPrime(n))
			}
		}
	}
	for _, n := range []uint32{25326001, 2047, 1373653, 341550071, /* strong pseudoprimes to bases 2.. */
		3277, 960946321} {
		if isPrime(n) != trial(n) {
			t.Errorf("isPrime(%d) = %v", n, isPrime(n))
		}
	}
}

// TestSparseBound: a key under the sparse secret is refused above the bound, prime by prime.
func TestSparseBound(t *testing.T) {
	for name, most := range map[string]int{"boot15": 3, "boot16": 4} {
		p := mustNamed(t, name)
		bound, ok := SparseBound(p.LogN())
		if !ok {
			t.Fatalf("%s: no bound", name)
		}
		primes, bits := p.Moduli(), 0.0
		limbs := []int{}
		for i := len(p.Q()); i < len(p.Q())+5; i++ { // 30 bits each
			limbs, bits = append(limbs, i%len(primes)), bits+math.Log2(float64(primes[i%len(primes)].Q))
			if err := CheckSparse(p, limbs); (err == nil) != (bits <= float64(bound)) || err != nil &&
				!errors.Is(err, ErrSecurity) {
				t.Errorf("%s: %d limbs of %.1f bits, bound %d: %v", name, len(limbs), bits, bound, err)
			}
		}
		if err := CheckSparse(p, limbs[:most]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := CheckSparse(mustNamed(t, "std14-d5"), []int{0}); !errors.Is(err, ErrSecurity) {
		t.Errorf("a ring without a bound: %v", err)
	}
	if err := CheckSparse(mustNamed(t, "boot15"), []int{99}); !errors.Is(err, ErrParams) {
		t.Errorf("no such limb: %v", err)
	}
	if err := CheckSparse(mustNamed(t, "boot10-insecure"), []int{0, 1, 2, 3, 4}); err != nil {
		t.Errorf("the small set for tests: %v", err)
	}
}
