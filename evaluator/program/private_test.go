package program

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/model/answer"
)

// digits is a stream of mode digits with levels from 0 to 4 m in steps of 1 mm, 12 bits.
func digits(name string) config.Stream {
	s := config.Stream{Name: name, Mode: config.ModeDigits, Params: "bfv13",
		Window: config.Window{Samples: 60, Every: time.Minute}, Channels: []config.Channel{
			{Name: "height", Unit: "m", Range: [2]float64{0, 4}, Resolution: 0.001}}}
	s.SetDefaults()
	return s
}

// tanks are streams of two devices, another one of the first, and others that do not go with them.
func tanks() map[string]Var {
	coarse, short, row := digits("coarse"), digits("short"), digits("row")
	coarse.Channels[0].Resolution = 0.01
	short.Window.Samples = 30
	row.Packing = config.PackingSteps
	return map[string]Var{
		"a": {"one", digits("level"), 0}, "b": {"two", digits("level"), 0}, "again": {"one", digits("level"), 0},
		"c": {"one", digits("other"), 0}, "coarse": {"two", coarse, 0}, "short": {"two", short, 0},
		"row": {"two", row, 0},
	}
}

// of returns the program on some of the variables.
func of(expr string, vars map[string]Var, names ...string) Source {
	src := Source{Name: "lower", Expr: expr, Vars: map[string]Var{}}
	for _, n := range names {
		src.Vars[n] = vars[n]
	}
	return src
}

// TestPrivateLess: the comparison of two streams has one answer for each sample, and says what it costs.
func TestPrivateLess(t *testing.T) {
	c, err := Compile(of("private_less(b, a)", tanks(), "a", "b"), mustParams(t, "bfv13"))
	if err != nil {
		t.Fatal(err)
	}
	k, out := c.Comparison(), c.Output()
	if k == nil || k.Less != (Input{"two", "level", 0}) || k.Than != (Input{"one", "level", 0}) || k.Samples != 60 ||
		out.Count != 60 || out.Len() != 60 || out.Bound != 0 || !c.Whole() || !c.NeedsRelin() || c.Packed() {
		t.Errorf("%+v, output %+v", k, out)
	}
	if low, high := c.Range(); low != 0 || high != 1 || len(c.Inputs()) != 2 || c.Peak() <= 0 {
		t.Errorf("from %g to %g, inputs %v", low, high, c.Inputs())
	}
	e := c.Explain()
	if e.Depth != 4 || e.Comparison.Bits != 12 || e.Comparison.Room != 256 || e.Comparison.Products != 7 ||
		e.KeySwitch != 18 || e.Comparison.Resolution != 0.001 || e.Comparison.Spare < 15 || e.Comparison.Seconds <= 0 {
		t.Errorf("%+v, %+v", e, e.Comparison)
	}
	for _, want := range []string{
		"lower = private_less(b, a)",
		"one/level: 60 samples of 12 bits in digits, whole numbers modulo 65537, 360.0 KiB",
		"60 values, one for each sample", "1 where a sample of two/level is below that of one/level, else 0",
		"exact, for readings rounded to whole steps of 0.001 m", "these answers, and no readings",
		"7 products, 18 key switches; about 0.06", "256 samples of 12 bits",
	} {
		if text := e.Text(); !strings.Contains(text, want) {
			t.Errorf("explain lacks %q:\n%s", want, text)
		}
	}
	pair := map[string]Var{"a": {"", digits("left"), 0}, "b": {"", digits("right"), 0}}
	each := of("private_less(a, b)", pair, "a", "b")
	each.Class = "press"
	if c, err := Compile(each, mustParams(t, "bfv13")); err != nil || c.Comparison().Than != (Input{Stream: "right"}) ||
		c.Capacity() != 0 {
		t.Errorf("two streams of each device of a class: %v", err)
	}
	want := []float64{1, 0, 0, 1, 0, 1, 0}
	got, err := c.Reference(map[string][]float64{
		"b": append([]float64{1, 2, 0, 0, 4, 1.9994, 2.0004}, make([]float64, 53)...),
		"a": append([]float64{2, 1, 0, 4, 0, 1.9996, 2}, make([]float64, 53)...)})
	if err != nil || !slices.Equal(got[:7], want) {
		t.Errorf("plainly %v, %v; want %v", got, err, want)
	}
}

// TestPrivateLessTable keeps the table of docs/programs.md true.
func TestPrivateLessTable(t *testing.T) {
	raw, err := os.ReadFile("../../docs/programs.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		bits string
		tops []float64
	}{{"1, 2", []float64{1, 3}}, {"3, 4", []float64{4, 15}}, {"5 to 8", []float64{16, 255}},
		{"9 to 16", []float64{256, 1<<16 - 1}}} {
		for _, top := range c.tops {
			row := "| " + c.bits + " |"
			for i, set := range []string{"bfv13", "bfv14"} {
				s := digits("s")
				s.Params, s.Channels[0].Range, s.Channels[0].Resolution = set, [2]float64{0, top}, 1
				vars := map[string]Var{"a": {"one", s, 0}, "b": {"two", s, 0}}
				p, err := Compile(of("private_less(a, b)", vars, "a", "b"), mustParams(t, set))
				if err != nil {
					t.Fatal(err)
				}
				e := p.Explain()
				if i == 0 {
					row += fmt.Sprintf(" %d | %d | %d |", e.Depth, e.Comparison.Products, e.KeySwitch)
				} else {
					row += ","
				}
				row += fmt.Sprintf(" %d", e.Comparison.Room)
			}
			if row += " |"; !strings.Contains(string(raw), row) {
				t.Errorf("docs/programs.md lacks the row\n%s", row)
			}
		}
	}
}

// TestPrivateLessPartial: windows that are not full have as many answers as samples, and both need the same number.
func TestPrivateLessPartial(t *testing.T) {
	src := of("private_less(a, b)", tanks(), "a", "b")
	one, two := Input{"one", "level", 0}, Input{"two", "level", 0}
	src.Present = map[Input]int{one: 12, two: 12}
	c, err := Compile(src, mustParams(t, "bfv13"))
	if err != nil || c.Output().Count != 12 || c.Comparison().Samples != 12 {
		t.Fatalf("%+v, %v", c, err)
	}
	src.Present[two] = 13
	if _, err := Compile(src, mustParams(t, "bfv13")); !errors.Is(err, ErrType) ||
		!strings.Contains(err.Error(), "windows that hold 12 and 13 samples") {
		t.Errorf("of different lengths: %v", err)
	}
}

// TestPrivateLessRefused: each refusal names the part of the program and what to do.
func TestPrivateLessRefused(t *testing.T) {
	long := digits("long")
	long.Window.Samples = 257
	shared := tanks()
	shared["long"] = Var{"two", long, 0}
	kelvin := digits("kelvin")
	kelvin.Channels[0].Unit = "K"
	shared["kelvin"] = Var{"two", kelvin, 0}
	for what, c := range map[string]struct {
		src  Source
		kind error
		at   string
		says []string
	}{
		"inside": {of("1 - private_less(a, b)", shared, "a", "b"), ErrUnsupported, "private_less(a, b)",
			[]string{"stands inside another expression", "after decryption"}},
		"a sum": {of("sum(private_less(a, b))", shared, "a", "b"), ErrUnsupported, "private_less(a, b)", nil},
		"other": {of("mean(a - b)", shared, "a", "b"), ErrUnsupported, "a",
			[]string{"which only private_less reads"}},
		"a number": {of("3", shared, "a"), ErrUnsupported, "3", nil},
		"computed": {of("private_less(a + 1, b)", shared, "a", "b"), ErrUnsupported, "a + 1",
			[]string{"is no input", "as their devices encrypted them"}},
		"before":   {of("private_less(prev(a), b)", shared, "a", "b"), ErrUnsupported, "prev(a)", nil},
		"constant": {of("private_less(a, 2)", shared, "a", "b"), ErrUnsupported, "2", nil},
		"one": {of("private_less(a)", shared, "a"), ErrType, "private_less(a)",
			[]string{"write private_less(x, y)"}},
		"three":   {of("private_less(a, b, c)", shared, "a", "b", "c"), ErrType, "private_less(a, b, c)", nil},
		"unknown": {of("private_less(a, bb)", shared, "a", "b"), ErrName, "bb", []string{"did you mean b?"}},
		"itself":  {of("private_less(a, again)", shared, "a", "again"), ErrConstant, "private_less(a, again)", nil},
		"unequal": {of("private_less(a, coarse)", shared, "a", "coarse"), ErrParams, "private_less(a, coarse)",
			[]string{"in steps of 0.001, and 0 to 4 m in steps of 0.01", "the same unit, range and resolution"}},
		"units": {of("private_less(a, kelvin)", shared, "a", "kelvin"), ErrParams, "private_less(a, kelvin)", nil},
		"windows": {of("private_less(a, short)", shared, "a", "short"), ErrType, "private_less(a, short)",
			[]string{"windows of 60 and 30 samples", "the same window"}},
		"long": {of("private_less(long, long2)", map[string]Var{"long": {"one", long, 0}, "long2": {"two", long, 0}},
			"long", "long2"), ErrSize, "private_less(long, long2)",
			[]string{"windows of 257 samples of 12 bits; bfv13 has room for 256", "shorter windows"}},
		"a row": {of("private_less(a, row)", shared, "a", "row"), ErrParams, "", []string{"which only a model: reads"}},
		"a resolution": {Source{Name: "p", Expr: "private_less(a, b)", Vars: of("", shared, "a", "b").Vars,
			Resolution: 1}, ErrUnsupported, "private_less(a, b)", []string{"remove resolution:"}},
		"a pack": {Source{Name: "p", Expr: "private_less(a, b)", Vars: of("", shared, "a", "b").Vars, Packed: true},
			ErrParams, "private_less(a, b)", nil},
		"samples": {Source{Name: "p", Expr: "private_less(x, y)", Vars: histogramVars("edge12-d1", testSamples)},
			ErrParams, "private_less(x, y)",
			[]string{"compares streams of mode digits", "give both streams mode: digits"}},
		"in a comparison": {Source{Name: "p", Expr: "count(private_less(x, y) > 0.5)", Resolution: 0.1,
			Vars: histogramVars("edge12-d1", testSamples)}, ErrParams, "private_less(x, y)", nil},
	} {
		set := "bfv13"
		if _, samples := c.src.Vars["x"]; samples {
			set = "edge12-d1"
		}
		_, err := Compile(c.src, mustParams(t, set))
		wantHint(t, err)
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if at := excerpt(e.Expr, e.From, e.To); at != c.at || (c.at != "" && e.Hint == "") {
			t.Errorf("%s: marks %q, want %q, hint %q", what, at, c.at, e.Hint)
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v\nlacks %q", what, err, s)
			}
		}
	}
	other := digits("level")
	other.Params = "edge13-d3"
	vars := map[string]Var{"a": {"one", other, 0}, "b": {"two", other, 0}}
	_, err := Compile(of("private_less(a, b)", vars, "a", "b"), mustParams(t, "edge13-d3"))
	if !errors.Is(err, ErrParams) {
		t.Errorf("parameters of real numbers: %v", err)
	}
	both := digits("level")
	both.Channels = append(both.Channels, both.Channels[0])
	both.Channels[1].Name = "h2"
	vars = map[string]Var{"a": {"one", both, 0}, "b": {"one", both, 1}}
	_, err = Compile(of("private_less(a, b)", vars, "a", "b"), mustParams(t, "bfv13"))
	if !errors.Is(err, ErrParams) || !strings.Contains(err.Error(), "a stream of mode digits has one") {
		t.Errorf("two channels: %v", err)
	}
	wide := digits("level")
	wide.Channels[0].Resolution = 0.00004
	vars = map[string]Var{"a": {"one", wide, 0}, "b": {"two", wide, 0}}
	_, err = Compile(of("private_less(a, b)", vars, "a", "b"), mustParams(t, "bfv13"))
	if !errors.Is(err, ErrParams) ||
		!strings.Contains(err.Error(), "65535 are the most") {
		t.Errorf("too many bits: %v", err)
	}
}

// TestPrivateLessPublished: the description that key holders get compiles to the same hash, and other streams or
// another order are another program.
func TestPrivateLessPublished(t *testing.T) {
	params := mustParams(t, "bfv13")
	seen := map[[32]byte]string{}
	swapped, finer := tanks(), tanks()
	swapped["a"], swapped["b"] = swapped["b"], swapped["a"]
	for _, n := range []string{"a", "b"} {
		v := finer[n]
		v.Stream.Channels = []config.Channel{{Name: "height", Unit: "m", Range: [2]float64{0, 4}, Resolution: 0.0005}}
		finer[n] = v
	}
	for what, src := range map[string]Source{
		"as it is": of("private_less(a, b)", tanks(), "a", "b"), "turned": of("private_less(b, a)", tanks(), "a", "b"),
		"swapped": of("private_less(a, b)", swapped, "a", "b"), "finer": of("private_less(a, b)", finer, "a", "b"),
	} {
		c, err := Compile(src, params)
		if err != nil {
			t.Fatal(err)
		}
		p := Publish(src, params, "1", "")
		b, err := MarshalPublished(&p)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := UnmarshalPublished(b)
		if err != nil {
			t.Fatal(err)
		}
		again, set, err := theirs.Source()
		if err != nil {
			t.Fatal(err)
		}
		other, err := Compile(again, set)
		if err != nil || other.Hash() != c.Hash() || other.Comparison().Window != c.Comparison().Window {
			t.Errorf("%s, compiled anew: %v", what, err)
		}
		if before, is := seen[c.Hash()]; is {
			t.Errorf("%s has the hash of %s", what, before)
		}
		seen[c.Hash()] = what
	}
}

// TestPrivateLessOpen: answers are read from their slots; what is neither 0 nor 1 is told apart, and a body that is not
// one ciphertext is refused.
func TestPrivateLessOpen(t *testing.T) {
	c, err := Compile(of("private_less(a, b)", tanks(), "a", "b"), mustParams(t, "bfv13"))
	if err != nil {
		t.Fatal(err)
	}
	k := c.Comparison()
	slots := slices.Repeat([]uint64{777}, 8192)
	for i := range 60 {
		slots[k.Window.Slot(i)] = uint64(i % 2)
	}
	slots[k.Window.Slot(59)] = 2
	decrypt := func([]byte) ([]uint64, error) { return slots, nil }
	got, err := k.Open(append(answer.Begin(nil, 1), 1, 2, 3), decrypt)
	if err != nil || len(got) != 60 || got[0] != 0 || got[1] != 1 || got[58] != 0 || got[59] != math.MaxFloat64 {
		t.Errorf("%v, %v", got, err)
	}
	for what, body := range map[string][]byte{"none": nil, "no ciphertext": answer.Begin(nil, 1),
		"two": append(answer.Begin(nil, 2), 1, 2), "too many": append(answer.Begin(nil, 1<<31), 1, 2)} {
		if _, err := k.Open(body, decrypt); !errors.Is(err, answer.ErrModel) {
			t.Errorf("%s: %v", what, err)
		}
	}
	failed := errors.New("failed")
	_, err = k.Open(append(answer.Begin(nil, 1), 1), func([]byte) ([]uint64, error) { return nil, failed })
	if !errors.Is(err, failed) {
		t.Errorf("a decryption that fails: %v", err)
	}
}

// FuzzPrivateLess: no expression on streams of digits makes the compiler panic or give a comparison of what its text
// does not name, and no body of a result panics.
func FuzzPrivateLess(f *testing.F) {
	for _, s := range []string{
		"private_less(a, b)", "private_less(b, a)", "private_less(a, a)", "private_less(a, coarse)", "private_less()",
		"private_less(private_less(a, b), b)", "let x = a; private_less(x, b)", "private_less(a, b) > 0",
		"not private_less(a, b)", "private_less[a]", "private_less", "x.private_less(a, b)", "private_less(a, row)",
		"mean(a)", "fleet.mean(a)", "private_less(a, b)(c)", "(private_less(a, /* */ b))", "private_less(-a, b)",
		strings.Repeat("private_less(", 60), "a | private_less(b)", "private_less(...a)", "{a: private_less(a, b)}",
	} {
		f.Add(s, answer.Begin(nil, 1), 0.0, 5)
	}
	params := mustParams(f, "bfv13")
	f.Fuzz(func(t *testing.T, expr string, body []byte, resolution float64, present int) {
		if len(expr) > 4096 {
			return
		}
		vars := tanks()
		delete(vars, "row")
		src := Source{Name: "p", Expr: expr, Vars: vars, Resolution: resolution,
			Present: map[Input]int{{"one", "level", 0}: present, {"two", "level", 0}: present}}
		c, err := Compile(src, params)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Kind == nil || e.Hint == "" {
				t.Fatalf("error %v of an unexpected kind, or without a hint", err)
			}
			_ = e.Error()
			return
		}
		k := c.Comparison()
		if k == nil || k.Samples < 1 || k.Samples > k.Window.Numbers() || k.Less == k.Than ||
			!strings.Contains(expr, privateLess) || !strings.Contains(c.Explain().Text(), "promise") {
			t.Fatalf("%q: %+v", expr, k)
		}
		values, err := k.Open(body, func([]byte) ([]uint64, error) { return []uint64{1, 0, 5}, nil })
		if err == nil && len(values) != k.Samples {
			t.Fatalf("%d values", len(values))
		}
	})
}
