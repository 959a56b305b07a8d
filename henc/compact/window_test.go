package compact_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/internal/testenv"
)

func must[T any](v T, err error) func(testing.TB) T { return testenv.Must(v, err) }

// window has n values with high and low bits set.
func window(t testing.TB, set string, n int, precision compact.Precision) *compact.Window {
	w := &compact.Window{Params: must(compact.NamedInsecure(set))(t), Precision: precision, Values: make([]uint32, n)}
	copy(w.Nonce[:], "nonce...")
	for i := range w.Values {
		w.Values[i] = uint32(uint64(i+1)*0x9e3779b97f4a7c15>>32) >> (32 - precision.Bits())
	}
	w.Values[0] = 1<<precision.Bits() - 1
	return w
}

func TestSets(t *testing.T) {
	for _, name := range compact.Names() {
		p := must(compact.Named(name))(t)
		bound, ok := henc.SecurityBound(p.LogN(), 128, false)
		if !ok || p.LogQP() > float64(bound) {
			t.Errorf("%s: %.1f bits at N = 2^%d", name, p.LogQP(), p.LogN())
		}
		if s := compact.Scale(); math.Abs(s/p.DefaultScale()-1) > 1e-4 {
			t.Errorf("%s: scale %g, the parameters say %g", name, s, p.DefaultScale())
		}
		if err := compact.CheckSet(p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := compact.Named("compact10-insecure"); !errors.Is(err, henc.ErrSecurity) {
		t.Errorf("an insecure set: %v", err)
	}
	if _, err := compact.Named("edge12-d1"); !errors.Is(err, henc.ErrUnknownSet) {
		t.Errorf("an unknown set: %v", err)
	}
	for _, p := range []henc.Parameters{{}, must(henc.Named("edge12-add"))(t)} {
		if err := compact.CheckSet(p); !errors.Is(err, henc.ErrParams) {
			t.Errorf("%q is a set: %v", p.Name(), err)
		}
	}
}

// TestBound: the documented bounds, from their definition.
func TestBound(t *testing.T) {
	for p, bits := range map[compact.Precision]float64{compact.Bits12: 12.98, compact.Bits16: 16.78} {
		if got := -math.Log2(p.Bound()); math.Abs(got-bits) > 0.01 || got < float64(p) {
			t.Errorf("precision %d: 2^-%.3f", p, got)
		}
	}
	if b := compact.Precision(13).Bound(); !math.IsInf(b, 1) {
		t.Errorf("an unknown precision promises %g", b)
	}
}

func TestStride(t *testing.T) {
	for _, c := range [][3]int{{4096, 1, 4096}, {4096, 2, 2048}, {4096, 3, 1024}, {4096, 64, 64}, {4096, 65, 32},
		{4096, 2049, 1}, {4096, 4096, 1}, {4096, 0, 0}, {4096, 4097, 0}, {4096, -1, 0}} {
		if got := compact.Stride(c[0], c[1]); got != c[2] {
			t.Errorf("%d readings in %d coefficients: stride %d, want %d", c[1], c[0], got, c[2])
		}
	}
}

// TestSizes: the bytes that a reading takes.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		n         int
		precision compact.Precision
		want      int
	}{{1, 12, 17}, {1, 16, 17}, {64, 12, 158}, {64, 16, 190}, {1024, 12, 2318}, {1024, 16, 2830}, {5, 13, 0}} {
		if got := compact.Bytes(c.n, c.precision); got != c.want {
			t.Errorf("%d readings at %d bits: %d bytes, want %d", c.n, c.precision, got, c.want)
		}
		if c.want != 0 {
			if b := must(window(t, "compact12", c.n, c.precision).Marshal())(t); len(b) != c.want {
				t.Errorf("%d readings at %d bits are %d bytes", c.n, c.precision, len(b))
			}
		}
	}
}

// slowUnpack reads the values bit by bit.
func slowUnpack(b []byte, n, bits int) []uint32 {
	out := make([]uint32, n)
	for i := range n * bits {
		out[i/bits] |= uint32(b[i/8]>>(i%8)&1) << (i % bits)
	}
	return out
}

func TestMarshal(t *testing.T) {
	for _, precision := range []compact.Precision{compact.Bits12, compact.Bits16} {
		for _, n := range []int{1, 2, 3, 4, 5, 63, 64, 65, 1000, 4096} {
			w := window(t, "compact12", n, precision)
			b := must(w.Marshal())(t)
			if !slices.Equal(slowUnpack(b[14:], n, precision.Bits()), w.Values) {
				t.Fatalf("%d values of %d bits are packed wrongly", n, precision.Bits())
			}
			got := must(compact.Unmarshal(w.Params, b))(t)
			if got.Precision != precision || got.Nonce != w.Nonce || !slices.Equal(got.Values, w.Values) ||
				!got.Params.Equal(w.Params) {
				t.Fatalf("%d values at %d bits come back as %+v", n, precision, got)
			}
		}
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	p := must(compact.Named("compact12"))(t)
	good := must(window(t, "compact12", 5, compact.Bits12).Marshal())(t) // 90 bits in 12 bytes
	for _, c := range []struct {
		name string
		edit func(b []byte) []byte
		want error
	}{
		{"nothing", func([]byte) []byte { return nil }, henc.ErrTruncated},
		{"the head cut", func(b []byte) []byte { return b[:13] }, henc.ErrTruncated},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }, henc.ErrTruncated},
		{"longer", func(b []byte) []byte { return append(b, 0) }, henc.ErrMalformed},
		{"a ciphertext", func(b []byte) []byte { b[0] = 0x89; return b }, henc.ErrKind},
		{"another version", func(b []byte) []byte { b[1] = 2; return b }, henc.ErrVersion},
		{"foreign", func(b []byte) []byte { b[2] = 0xf0; return b }, henc.ErrParams},
		{"an unknown set", func(b []byte) []byte { b[2] = 9; return b }, henc.ErrParams},
		{"another precision", func(b []byte) []byte { b[3] = 13; return b }, henc.ErrMalformed},
		{"no readings", func(b []byte) []byte { b[4] = 0; return b }, henc.ErrLength},
		{"too many readings", func(b []byte) []byte { b[5] = 0x10; return b }, henc.ErrLength},
		{"a loose bit", func(b []byte) []byte { b[len(b)-1] |= 0x80; return b }, henc.ErrMalformed},
	} {
		w, err := compact.Unmarshal(p, c.edit(bytes.Clone(good)))
		if !errors.Is(err, c.want) || w != nil {
			t.Errorf("%s: %v, %v; want %v", c.name, w, err, c.want)
		}
	}
	if _, err := compact.Unmarshal(must(henc.Named("edge12-d1"))(t), good); !errors.Is(err, henc.ErrParams) {
		t.Errorf("for other parameters: %v", err)
	}
}

func TestMarshalRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(w *compact.Window)
		want error
	}{
		"precision":   {func(w *compact.Window) { w.Precision = 13 }, henc.ErrMalformed},
		"no readings": {func(w *compact.Window) { w.Values = nil }, henc.ErrLength},
		"too many":    {func(w *compact.Window) { w.Values = make([]uint32, 4097) }, henc.ErrLength},
		"a value":     {func(w *compact.Window) { w.Values[4] = 1 << 18 }, henc.ErrRange},
		"parameters":  {func(w *compact.Window) { w.Params = must(henc.Named("edge12-d1"))(t) }, henc.ErrParams},
	} {
		w := window(t, "compact12", 5, compact.Bits12)
		c.edit(w)
		if _, err := w.Marshal(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (*compact.Window)(nil).Marshal(); !errors.Is(err, henc.ErrMalformed) {
		t.Errorf("no window: %v", err)
	}
}

// TestUniform: every field of window and origin that is not a value changes c1, and nothing else does.
func TestUniform(t *testing.T) {
	origin := compact.Origin{Device: "ab", Stream: "c", KeyID: [16]byte{1}, KeyEpoch: 2, BootEpoch: 3, Sequence: 4}
	seen := map[uint32]string{}
	for name, edit := range map[string]func(w *compact.Window, o *compact.Origin){
		"as it is":  func(*compact.Window, *compact.Origin) {},
		"device":    func(_ *compact.Window, o *compact.Origin) { o.Device = "aB" },
		"cut":       func(_ *compact.Window, o *compact.Origin) { o.Device, o.Stream = "a", "bc" },
		"stream":    func(_ *compact.Window, o *compact.Origin) { o.Stream = "d" },
		"key":       func(_ *compact.Window, o *compact.Origin) { o.KeyID[15] = 1 },
		"key epoch": func(_ *compact.Window, o *compact.Origin) { o.KeyEpoch++ },
		"boot":      func(_ *compact.Window, o *compact.Origin) { o.BootEpoch++ },
		"sequence":  func(_ *compact.Window, o *compact.Origin) { o.Sequence++ },
		"nonce":     func(w *compact.Window, _ *compact.Origin) { w.Nonce[7]++ },
		"precision": func(w *compact.Window, _ *compact.Origin) { w.Precision = compact.Bits16 },
		"count":     func(w *compact.Window, _ *compact.Origin) { w.Values = w.Values[:4] },
	} {
		w, o := window(t, "compact12", 5, compact.Bits12), origin
		edit(w, &o)
		c1 := must(w.Uniform(o))(t)
		if len(c1) != 4096 {
			t.Fatalf("%d coefficients", len(c1))
		}
		if other, ok := seen[c1[0]]; ok {
			t.Errorf("%q and %q have one c1", name, other)
		}
		seen[c1[0]] = name
		w.Values[0] ^= 1
		if !slices.Equal(must(w.Uniform(o))(t), c1) {
			t.Errorf("%s: c1 depends on a value", name)
		}
	}
	for _, n := range []int{0, 4095, 4097} {
		err := window(t, "compact12", 5, compact.Bits12).FillUniform(make([]uint32, n), compact.Origin{})
		if !errors.Is(err, henc.ErrLength) {
			t.Errorf("room for %d coefficients: %v", n, err)
		}
	}
	long := compact.Origin{Device: strings.Repeat("x", 256)}
	if _, err := window(t, "compact12", 5, compact.Bits12).Uniform(long); !errors.Is(err, henc.ErrLength) {
		t.Errorf("a long name: %v", err)
	}
}

// FuzzUnmarshalCompact: no input panics, and what is accepted marshals to the same bytes.
func FuzzUnmarshalCompact(f *testing.F) {
	p := must(compact.Named("compact12"))(f)
	for _, precision := range []compact.Precision{compact.Bits12, compact.Bits16} {
		for _, n := range []int{1, 5, 64} {
			f.Add(must(window(f, "compact12", n, precision).Marshal())(f))
		}
	}
	f.Add([]byte{0xc3, 1, 1, 12, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := compact.Unmarshal(p, b)
		if err != nil {
			return
		}
		if again := must(w.Marshal())(t); !bytes.Equal(again, b) {
			t.Fatalf("%x is read and written as %x", b, again)
		}
	})
}

func TestCheckPrecision(t *testing.T) {
	for _, c := range []struct {
		set       string
		precision compact.Precision
		want      error
	}{
		{"boot15", compact.Bits12, nil},
		{"boot15", compact.Bits16, henc.ErrParams},
		{"boot16", compact.Bits12, nil},
		{"boot16", compact.Bits16, nil},
		{"boot16", 14, henc.ErrMalformed},
		{"edge12-d1", compact.Bits12, henc.ErrParams},
	} {
		p, err := henc.Named(c.set)
		if err != nil {
			t.Fatal(err)
		}
		if err := compact.CheckPrecision(p, c.precision); !errors.Is(err, c.want) {
			t.Errorf("%s, %d bits: %v", c.set, c.precision, err)
		}
	}
}
