package secret_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/henc/secret"
)

var origin = compact.Origin{
	Device: "board-1", Stream: "machine", KeyID: [16]byte{1, 2, 3}, KeyEpoch: 1, BootEpoch: 7, Sequence: 42,
}

// boardKey is a board's secret in a set.
func boardKey(t testing.TB, set string, n2 int, label string) *secret.Key {
	t.Helper()
	return boardKeyFrom(t, set, n2, seed(t, label))
}

func boardKeyFrom(t testing.TB, set string, n2 int, seed *henc.Seed) *secret.Key {
	t.Helper()
	ctx := must(henc.NewContext(must(compact.NamedInsecure(set))(t), henc.WithN2(n2)))(t)
	return must(secret.Generate(ctx, seed))(t)
}

// openCompact decrypts in plain integers: the coefficients v*q/2^bits + c1*s, the product by
// definition.
func openCompact(t testing.TB, w *compact.Window, o compact.Origin, s []int32) []float64 {
	t.Helper()
	q, n, c1 := int64(w.Params.Q()[0]), len(s), must(w.Uniform(o))(t)
	out, stride := make([]float64, len(w.Values)), compact.Stride(n, len(w.Values))
	for j, v := range w.Values {
		sum, k := int64(0), j*stride
		for i, a := range c1 {
			x := int64(a) * int64(s[((k-i)%n+n)%n])
			if i > k {
				x = -x
			}
			sum += x
		}
		phase := math.Mod(float64(int64(v)*q)/math.Exp2(float64(w.Precision.Bits()))+float64(sum%q), float64(q))
		phase -= float64(q) * math.Round(phase/float64(q))
		out[j] = phase / compact.Scale()
	}
	return out
}

func readings(kind string, n int) []float64 {
	rng, x := rand.New(rand.NewPCG(5, uint64(n))), make([]float64, n)
	for i := range x {
		switch kind {
		case "random":
			x[i] = 2*rng.Float64() - 1
		case "constant":
			x[i] = 0.97
		case "extreme":
			x[i] = float64(2*rng.IntN(2) - 1)
		}
	}
	return x
}

// TestCompact decrypts windows with slow arithmetic and holds them to the proven bound, which
// they nearly reach.
func TestCompact(t *testing.T) {
	for _, set := range []struct {
		name string
		n2   int
	}{{"compact12", 1}, {"compact12", 16}, {"compact10-insecure", 4}} {
		key := boardKey(t, set.name, set.n2, "board")
		s := must(key.Coefficients())(t)
		e := must(secret.NewCompactEncryptor(key))(t)
		for _, precision := range []compact.Precision{compact.Bits12, compact.Bits16} {
			for _, n := range []int{1, 3, 64, 1000} {
				for _, kind := range []string{"random", "constant", "extreme", "zero"} {
					x, most := readings(kind, n), 0.0
					w := must(e.Encrypt(x, precision, origin, nil))(t)
					w = must(compact.Unmarshal(w.Params, must(w.Marshal())(t)))(t)
					for j, got := range openCompact(t, w, origin, s) {
						most = max(most, math.Abs(got-x[j]))
					}
					if bound := precision.Bound(); most > bound || n >= 64 && most < bound/4 {
						t.Errorf("%s, n2 = %d, %d bits, %d readings, %s: error 2^%.2f, bound 2^%.2f", set.name, set.n2,
							precision, n, kind, math.Log2(most), math.Log2(bound))
					}
				}
			}
		}
	}
}

// TestCompactMany holds random, constant and extreme windows, partial ones and single readings to the bound: 10,000 in
// a small ring, 1,000 with -short, and 100 or HENCEDGE_TEST_ROUNDS in that of boards.
func TestCompactMany(t *testing.T) {
	small, rounds := 10_000, 100
	if testing.Short() {
		small = 1000
	}
	if n, err := strconv.Atoi(os.Getenv("HENCEDGE_TEST_ROUNDS")); err == nil {
		rounds = n
	}
	manyWindows(t, "compact10-insecure", small)
	manyWindows(t, "compact12", rounds)
}

func manyWindows(t *testing.T, set string, rounds int) {
	t.Helper()
	key := boardKey(t, set, 1, "many")
	s, e := must(key.Coefficients())(t), must(secret.NewCompactEncryptor(key))(t)
	rng := rand.New(rand.NewPCG(9, 9))
	var most [2]float64 // over the bound
	for i := range rounds {
		o, which := origin, i%2
		o.Sequence = uint64(i)
		precision := []compact.Precision{compact.Bits12, compact.Bits16}[which]
		n := []int{1, 1 + rng.IntN(64), 64}[rng.IntN(3)]
		x := readings([]string{"constant", "extreme", "zero"}[rng.IntN(3)], n)
		for j := range x {
			if i%4 < 2 {
				x[j] = 2*rng.Float64() - 1
			}
		}
		w := must(e.Encrypt(x, precision, o, seed(t, "many")))(t)
		for j, got := range openCompact(t, w, o, s) {
			most[which] = max(most[which], math.Abs(got-x[j])/precision.Bound())
		}
	}
	t.Logf("%s: the largest errors of %d windows are %.3f and %.3f of the bounds", set, rounds, most[0], most[1])
	if max(most[0], most[1]) > 1 || min(most[0], most[1]) < 0.5 {
		t.Errorf("%s: the largest errors are %.3f and %.3f of the bounds", set, most[0], most[1])
	}
}

// TestCompactFull fills the ring.
func TestCompactFull(t *testing.T) {
	key := boardKey(t, "compact10-insecure", 1, "board")
	x := readings("random", 1024)
	w := must(must(secret.NewCompactEncryptor(key))(t).Encrypt(x, compact.Bits16, origin, nil))(t)
	for j, got := range openCompact(t, w, origin, must(key.Coefficients())(t)) {
		if d := math.Abs(got - x[j]); d > compact.Bits16.Bound() {
			t.Fatalf("reading %d is off by 2^%.2f", j, math.Log2(d))
		}
	}
}

// TestCompactMemory: a window leaves no polynomials of N coefficients, 16 KiB each, behind.
func TestCompactMemory(t *testing.T) {
	e := must(secret.NewCompactEncryptor(boardKey(t, "compact12", 1, "board")))(t)
	x, o := readings("random", 64), origin
	encrypt := func() {
		o.Sequence++
		must(e.Encrypt(x, compact.Bits12, o, nil))(t)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector takes what pools hold
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))  // pools are kept by processor
	least := uint64(math.MaxUint64)                  // the race detector drops from pools at random
	for range 200 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		encrypt()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > 8<<10 {
		t.Errorf("%d bytes for each window", least)
	}
}

// TestCompactTogether: one encryptor makes the windows of several streams at a time, each as alone.
func TestCompactTogether(t *testing.T) {
	key := boardKey(t, "compact10-insecure", 1, "board")
	e := must(secret.NewCompactEncryptor(key))(t)
	x := readings("random", 64)
	encrypt := func(e *secret.CompactEncryptor, i int) ([]uint32, error) {
		o := origin
		o.Sequence = uint64(i)
		w, err := e.Encrypt(x, compact.Bits16, o, seed(t, "together"))
		if err != nil {
			return nil, err
		}
		return w.Values, nil
	}
	got, errs := make([][]uint32, 64), make([]error, 64)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i], errs[i] = encrypt(e, i) })
	}
	wg.Wait()
	for i := range got {
		alone := must(encrypt(must(secret.NewCompactEncryptor(key))(t), i))(t)
		if errs[i] != nil || !slices.Equal(got[i], alone) {
			t.Errorf("window %d differs: %v", i, errs[i])
		}
	}
}

// TestCompactUniform: the values are uniform whatever the readings are. 2^18 in 16 classes: each holds
// 2^14 and its standard deviation is 124.
func TestCompactUniform(t *testing.T) {
	e := must(secret.NewCompactEncryptor(boardKey(t, "compact10-insecure", 1, "board")))(t)
	var classes [16]int
	x := make([]float64, 1024)
	for i := range 256 {
		o := origin
		o.Sequence = uint64(i)
		for _, v := range must(e.Encrypt(x, compact.Bits12, o, nil))(t).Values {
			classes[v>>14]++
		}
	}
	for i, n := range classes {
		if n < 1<<14-800 || n > 1<<14+800 {
			t.Errorf("class %d has %d of 2^18 values", i, n)
		}
	}
}

// TestCompactNoise counts values that differ from those without noise, most of which the cut hides: of noise with a
// mean magnitude of 2.58 a value of 22 bits, 256 units apart, sees 1.01 %. Windows have noise of their own.
func TestCompactNoise(t *testing.T) {
	key := boardKey(t, "compact10-insecure", 1, "board")
	s, e := must(key.Coefficients())(t), must(secret.NewCompactEncryptor(key))(t)
	x, q := make([]float64, 1024), int64(key.Context().Parameters().Q()[0])
	differ, places := 0, map[int]int{}
	for i := range 20 {
		o := origin
		o.Sequence = uint64(i)
		w := must(e.Encrypt(x, compact.Bits16, o, seed(t, "noise")))(t)
		c1 := must(w.Uniform(o))(t)
		for k, v := range w.Values {
			sum := int64(0)
			for j, a := range c1 {
				if j <= k {
					sum -= int64(a) * int64(s[k-j])
				} else {
					sum += int64(a) * int64(s[1024+k-j])
				}
			}
			plain := ((sum%q+q)%q<<22 + q/2) / q & (1<<22 - 1)
			if int64(v) != plain {
				differ++
				places[k]++
			}
		}
	}
	if differ < 150 || differ > 270 || len(places) < differ*3/4 { // 206 expected, standard deviation 14
		t.Errorf("noise shows in %d of %d values, at %d places", differ, 20*1024, len(places))
	}
}

// TestCompactSeeds: a repeated seed, as after a restored state, gives another uniform half and
// other noise as soon as anything differs; a cloned board with other entropy too.
func TestCompactSeeds(t *testing.T) {
	key := boardKey(t, "compact10-insecure", 1, "board")
	e := must(secret.NewCompactEncryptor(key))(t)
	twin := must(secret.NewCompactEncryptor(boardKey(t, "compact10-insecure", 1, "other board")))(t)
	x := readings("random", 64)
	base := must(e.Encrypt(x, compact.Bits12, origin, seed(t, "same")))(t)
	if again := must(e.Encrypt(x, compact.Bits12, origin, seed(t, "same")))(t); again.Nonce != base.Nonce ||
		!slices.Equal(again.Values, base.Values) {
		t.Error("equal inputs give different windows")
	}
	y := slices.Clone(x)
	y[63] = math.Nextafter(y[63], 0)
	later := origin
	later.Sequence++
	for name, w := range map[string]*compact.Window{
		"message":   must(e.Encrypt(y, compact.Bits12, origin, seed(t, "same")))(t),
		"sequence":  must(e.Encrypt(x, compact.Bits12, later, seed(t, "same")))(t),
		"precision": must(e.Encrypt(x, compact.Bits16, origin, seed(t, "same")))(t),
		"count":     must(e.Encrypt(x[:63], compact.Bits12, origin, seed(t, "same")))(t),
		"seed":      must(e.Encrypt(x, compact.Bits12, origin, seed(t, "other")))(t),
		"board":     must(twin.Encrypt(x, compact.Bits12, origin, seed(t, "same")))(t),
		"fresh":     must(e.Encrypt(x, compact.Bits12, origin, nil))(t),
	} {
		if w.Nonce == base.Nonce {
			t.Errorf("another %s gives the same nonce", name)
		}
	}
}

func TestCompactRefuses(t *testing.T) {
	key := boardKey(t, "compact10-insecure", 1, "board")
	e := must(secret.NewCompactEncryptor(key))(t)
	for name, c := range map[string]struct {
		readings  []float64
		precision compact.Precision
		want      error
	}{
		"none":      {nil, compact.Bits12, henc.ErrLength},
		"too many":  {make([]float64, 1025), compact.Bits12, henc.ErrLength},
		"precision": {make([]float64, 2), 14, henc.ErrMalformed},
		"above":     {[]float64{0, math.Nextafter(1, 2)}, compact.Bits12, henc.ErrMessage},
		"below":     {[]float64{-1.5}, compact.Bits12, henc.ErrMessage},
		"infinite":  {[]float64{math.Inf(-1)}, compact.Bits12, henc.ErrMessage},
		"nan":       {[]float64{math.NaN(), 1}, compact.Bits12, henc.ErrMessage},
		"-nan":      {[]float64{math.Copysign(math.NaN(), -1)}, compact.Bits12, henc.ErrMessage},
	} {
		if w, err := e.Encrypt(c.readings, c.precision, origin, nil); !errors.Is(err, c.want) || w != nil {
			t.Errorf("%s: %v, %v", name, w, err)
		}
	}
	if _, err := e.Encrypt([]float64{1}, compact.Bits12, compact.Origin{Stream: string(make([]byte, 256))},
		nil); !errors.Is(err, henc.ErrLength) {
		t.Errorf("a long name: %v", err)
	}
	if _, err := (*secret.CompactEncryptor)(nil).Encrypt([]float64{1}, compact.Bits12, origin,
		nil); !errors.Is(err, henc.ErrParams) {
		t.Errorf("no encryptor: %v", err)
	}
	other := must(secret.Generate(context(t, "edge12-d1", 1), nil))(t)
	for _, k := range []*secret.Key{nil, other} {
		if _, err := secret.NewCompactEncryptor(k); !errors.Is(err, henc.ErrParams) {
			t.Errorf("a key of other parameters: %v", err)
		}
	}
	if err := key.Wipe(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Encrypt([]float64{1}, compact.Bits12, origin, nil); !errors.Is(err, secret.ErrWiped) {
		t.Errorf("a wiped key: %v", err)
	}
}

// TestCompactBoard: the secret of a board follows from the root and the device's name, and from nothing else.
func TestCompactBoard(t *testing.T) {
	big := context(t, "boot15", 1)
	ctx := must(henc.NewContext(must(compact.Named("compact12"))(t)))(t)
	key := must(secret.Generate(big, seed(t, "results")))(t)
	of := func(k *secret.Key, device string) []int32 {
		return must(must(k.CompactBoard(ctx, device))(t).Coefficients())(t)
	}
	first := of(key, "pump-7")
	if !slices.Equal(first, of(key, "pump-7")) {
		t.Error("made again, it is another secret")
	}
	for name, other := range map[string][]int32{"another device": of(key, "pump-8"),
		"another root": of(must(secret.Generate(big, seed(t, "other")))(t), "pump-7")} {
		if slices.Equal(first, other) {
			t.Errorf("%s has the same secret", name)
		}
	}
	for name, c := range map[string]struct {
		ctx    *henc.Context
		device string
		want   error
	}{
		"another ring": {big, "pump-7", henc.ErrParams},
		"no name":      {ctx, "", henc.ErrMalformed},
		"a zero byte":  {ctx, "pump\x00", henc.ErrMalformed},
		"a long name":  {ctx, string(make([]byte, 256)), henc.ErrMalformed},
	} {
		if _, err := key.CompactBoard(c.ctx, c.device); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := key.Wipe(); err != nil {
		t.Fatal(err)
	}
	if _, err := key.CompactBoard(ctx, "pump-7"); !errors.Is(err, secret.ErrWiped) {
		t.Errorf("wiped: %v", err)
	}
}

// BenchmarkCompact is a window of 64 readings, from numbers to bytes. heap-MiB is what a program
// that does nothing else holds.
func BenchmarkCompact(b *testing.B) {
	for _, precision := range []compact.Precision{compact.Bits12, compact.Bits16} {
		b.Run(fmt.Sprintf("%d", precision), func(b *testing.B) {
			e := must(secret.NewCompactEncryptor(boardKey(b, "compact12", 1, "board")))(b)
			x, o := readings("random", 64), origin
			b.ReportAllocs()
			for b.Loop() {
				o.Sequence++
				must(must(e.Encrypt(x, precision, o, nil))(b).Marshal())(b)
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.Sys)/(1<<20), "sys-MiB")
			b.ReportMetric(float64(m.HeapSys-m.HeapReleased)/(1<<20), "heap-MiB")
		})
	}
}
