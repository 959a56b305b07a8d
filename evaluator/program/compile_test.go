package program

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func compileFor(t testing.TB, set, expr string) (*Circuit, error) {
	t.Helper()
	return Compile(Source{Name: "p", Expr: expr, Vars: testVars(set, 20)}, mustParams(t, set))
}

func mustCompile(t testing.TB, set, expr string) *Circuit {
	t.Helper()
	c, err := compileFor(t, set, expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return c
}

func TestRefusals(t *testing.T) {
	for _, c := range slices.Concat(refusedText, refusedTypes, refusedOperations, refusedPlans) {
		circuit, err := compileFor(t, c.set, c.expr)
		if err == nil {
			t.Errorf("%s: compiled to %d steps", c.expr, len(circuit.steps))
			continue
		}
		var e *Error
		if !errors.Is(err, c.kind) || !errors.As(err, &e) {
			t.Errorf("%s: error %v, want kind %v", c.expr, err, c.kind)
			continue
		}
		if c.part != "" && e.part() != c.part {
			t.Errorf("%s: marks %q, want %q", c.expr, e.part(), c.part)
		}
		wantHint(t, err)
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: the message does not say %q:\n%v", c.expr, s, err)
			}
		}
	}
}

// wantHint fails the test unless a refusal says what to do.
func wantHint(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Hint == "" {
		t.Errorf("nothing says what to do about: %v", err)
	}
}

// refusal is an expression that does not compile, and what is said of it.
type refusal struct {
	set, expr string
	kind      error
	part      string // the sub-expression under the carets
	says      []string
}

var refusedText = []refusal{
	{"edge13-d3", "", ErrSyntax, "", nil},
	{"edge13-d3", "x +", ErrSyntax, "", nil},
	{"edge13-d3", "x $ y", ErrSyntax, "", []string{"`$` is not expected here"}},
	{"edge13-d3", "x; y", ErrSyntax, "x; y", []string{"not part of the language"}},
	{"edge13-d3", "x\xff", ErrSyntax, "", []string{"UTF-8"}},
	{"edge13-d3", deepExpr, ErrSize, "(", []string{"nested more than 64"}},
	{"edge13-d3", "mean(temp)", ErrName, "temp",
		[]string{"unknown variable `temp`", "the inputs are s, t, w, x, y, z"}},
	{"edge13-d3", "mena(x)", ErrName, "mena(x)", []string{`unknown function "mena"`, "did you mean mean(x)?"}},
	{"edge13-d3", "var2(x)", ErrName, "var2(x)", []string{"did you mean var(x)?"}},
	{"edge13-d3", "sud(x)", ErrName, "sud(x)", []string{"did you mean std(x)?"}},
	{"edge13-d3", "average(x)", ErrName, "average(x)", []string{"did you mean mean(x)?"}},
	{"edge13-d3", "fourier(x)", ErrName, "fourier(x)",
		[]string{"the functions are abs, all, any, clip, count, cov, dot, fleet.count"}},
	{"edge13-d3", "mean", ErrName, "mean", []string{"mean is a function: mean(x)"}},
	{"edge13-d3", "let x = 2; x", ErrName, "", []string{"let redefines the input x"}},
	{"edge13-d3", "let sum = 2; x*sum", ErrName, "", []string{"let redefines the function sum"}},
}

// deepExpr is nested deeper than expressions may be.
var deepExpr = strings.Repeat("(", MaxNesting+1) + "x" + strings.Repeat(")", MaxNesting+1)

var refusedTypes = []refusal{
	{"edge13-d3", "mean(x, y)", ErrType, "mean(x, y)", []string{"has 2 arguments, mean takes 1", "write mean(x)"}},
	{"edge13-d3", "mean(mean(x))", ErrType, "mean(mean(x))", []string{"needs a window", "single value"}},
	{"edge13-d3", "rms(mean(x))", ErrType, "", []string{"needs a window"}},
	{"edge13-d3", "mean(3)", ErrConstant, "mean(3)", []string{"constant 3"}},
	{"edge13-d3", "x + s", ErrType, "x + s", []string{"windows of 20 and 5 samples"}},
	{"edge13-d3", "x * s", ErrType, "x * s", []string{"windows of 20 and 5 samples"}},
	{"edge13-d3", "cov(x, s)", ErrType, "cov(x, s)", []string{"windows of 20 and 5 samples"}},
	{"edge13-d3", "dot(s, [1, 2])", ErrType, "[1, 2]", []string{"2 weights for a window of 5 samples"}},
	{"edge13-d3", "dot(s, mean(s))", ErrType, "mean(s)", []string{"neither a list of weights nor a window"}},
	{"edge13-d3", "dot(s, [x, 1, 1, 1, 1])", ErrType, "x", []string{"not a constant"}},
	{"edge13-d3", "poly(x, [1e308, 1e308, 1e308])", ErrConstant, "", []string{"beyond the range of float64"}},
	{"edge13-d3", "poly(x, 3)", ErrType, "3", []string{"not a list of constants"}},
	{"edge13-d3", "poly(x, [])", ErrType, "[]", []string{"empty"}},
	{"edge13-d3", "x + [1, 2]", ErrType, "[1, 2]", []string{"list where a value is needed"}},
	{"edge13-d3", `x + "a"`, ErrType, `"a"`, []string{"not a number"}},
	{"edge13-d3", "lag(x, 1.5)", ErrType, "1.5", []string{"whole number"}},
	{"edge13-d3", "lag(lag(x, 40), 40)", ErrSize, "", []string{"80 windows back"}},
}

var refusedOperations = []refusal{
	{"edge13-d3", "x > 3", ErrUnsupported, "x > 3", []string{"compares encrypted values", "resolution: 0.5"}},
	{"edge13-d3", "x == y", ErrUnsupported, "x == y", nil},
	{"edge13-d3", "x % 2", ErrUnsupported, "x % 2", []string{"remainder"}},
	{"edge13-d3", "x and y", ErrType, "x", []string{"is no comparison"}},
	{"edge13-d3", "not x", ErrType, "x", []string{"is no comparison"}},
	{"edge13-d3", "x ? y : z", ErrUnsupported, "x ? y : z", []string{"branches"}},
	{"edge13-d3", "x[0]", ErrUnsupported, "x[0]", []string{"selects part"}},
	{"edge13-d3", "x / y", ErrUnsupported, "x / y", []string{"divides by the encrypted value `y`"}},
	{"edge13-d3", "x / 0", ErrConstant, "x / 0", []string{"by zero"}},
	{"edge13-d3", "x ^ y", ErrUnsupported, "x ^ y", []string{"which is not a constant"}},
	{"edge13-d3", "x ^ 0.5", ErrUnsupported, "x ^ 0.5", []string{"sqrt"}},
	{"edge13-d3", "x ^ -1", ErrUnsupported, "x ^ -1", []string{"whole numbers"}},
	{"edge13-d3", "x ^ 65", ErrSize, "x ^ 65", []string{"at most 64"}},
	{"edge13-d3", "1 + sqrt(mean(y))", ErrUnsupported, "1 + sqrt(mean(y))", []string{"must be outermost"}},
	{"edge13-d3", "-std(y)", ErrUnsupported, "-std(y)", []string{"must be outermost"}},
	{"edge13-d3", "rms(x) * rms(y)", ErrUnsupported, "", []string{"must be outermost"}},
	{"edge13-d3", "mean(sqrt(y))", ErrUnsupported, "", []string{"must be outermost"}},
	{"edge13-d3", "sqrt(x - 10)", ErrUnsupported, "x - 10", []string{"never positive"}},
	{"edge13-d3", "max(x)", ErrUnsupported, "max(x)", []string{"compares encrypted values", "mode: histogram"}},
	{"edge13-d3", "abs(x)", ErrUnsupported, "abs(x)", nil},
	{"edge13-d3", "filter(x, # > 1)", ErrName, "", nil},
}

var refusedPlans = []refusal{
	{"edge13-d3", "x - x", ErrConstant, "x - x", []string{"is the constant 0"}},
	{"edge13-d3", "3", ErrConstant, "3", []string{"is the constant 3"}},
	{"edge13-d3", "x * 1e999", ErrSyntax, "", nil},
	{"edge13-d3", "x * 1e200 * 1e200", ErrConstant, "", []string{"not a finite number"}},
	{"edge12-d1", "x*x*y + z", ErrDepth, "x*x*y", []string{"needs level 2", "edge12-d1 have 1",
		"use parameters edge13-d3"}},
	{"edge13-d3", "x^64", ErrDepth, "x^64", []string{"needs level 6", "use parameters"}},
	{"edge12-d1", "2*poly(x, [0, 1, 1, 1, 1, 1, 1, 1, 1, 1])", ErrDepth, "",
		[]string{"needs level 4", "edge12-d1 have 1"}},
	{"edge12-d1", "x^3*y^5 + z", ErrDepth, "x^3*y^5", []string{"needs level 3"}},
	{"edge12-add", "z + x*y", ErrDepth, "x*y", []string{"no special primes", "use parameters edge12-d1"}},
	{"edge12-add", "mean(x)", ErrDepth, "mean(x)", []string{"no special primes"}},
	{"edge12-d1", "mean(x*y)", ErrMagnitude, "",
		[]string{"does not fit", "set log_scale:", "use parameters edge13-d3"}},
}

func TestErrorText(t *testing.T) {
	_, err := compileFor(t, "edge12-d1", "z +\n  2*(x*x*y) - 1")
	want := "program \"p\": `x*x*y` needs level 2 (multiplications one after another), parameters edge12-d1 have 1\n" +
		"      2*(x*x*y) - 1\n" +
		"         ^~~~~\n" +
		"  use parameters edge13-d3 (promised error "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Fatalf("got\n%v\nwant\n%s", err, want)
	}
	var e *Error
	errors.As(err, &e)
	if line, col := e.position(); line != 2 || col != 6 {
		t.Errorf("position %d:%d, want 2:6", line, col)
	}
}

func TestPosition(t *testing.T) {
	_, err := compileFor(t, "edge13-d3", "mean(temp)")
	var e *Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	if line, col := e.position(); line != 1 || col != 6 {
		t.Errorf("position %d:%d, want 1:6", line, col)
	}
}

func TestLongExpressionIsCut(t *testing.T) {
	expr := strings.Repeat("x + ", 100) + "nonsense" + strings.Repeat(" + x", 100)
	_, err := compileFor(t, "edge13-d3", expr)
	if err == nil {
		t.Fatal("compiled")
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		if len(line) > 160 {
			t.Errorf("line of %d bytes: %s", len(line), line)
		}
	}
	lines := strings.Split(err.Error(), "\n")
	if strings.Index(lines[1], "nonsense") != strings.Index(lines[2], "^") {
		t.Errorf("the caret is not under the sub-expression:\n%v", err)
	}
}

// TestFolding: programs that mean the same make the same steps.
func TestFolding(t *testing.T) {
	for _, c := range [][2]string{
		{"2*mean(x)", "mean(x + x)"},
		{"mean(x) + mean(x)", "2*mean(x)"},
		{"var(3*x + 7)", "9*var(x)"},
		{"var(x - mean(x))", "var(x)"},
		{"cov(x, x)", "var(x)"},
		{"mean((x - mean(x))^2)", "var(x)"},
		{"2*mean((x - mean(x))*(y - mean(y)))", "2*cov(x, y)"},
		{"mean(y*(x - mean(x)))", "cov(x, y)"},
		{"mean((3*y - 3*mean(y))*x)", "3*cov(y, x)"},
		{"mean((x - mean(x) + 1)*y)", "cov(x, y) + mean(y)"},
		{"mean((x - mean(x) + 2)^2)", "var(x) + 4"},
		{"sqrt(mean((y - mean(y))^2))", "std(y)"},
		{"cov(x, z) + cov(z, x)", "2*cov(x, z)"},
		{"mean(y) + cov(x, z - z)", "mean(y)"},
		{"mean(y) + cov(z - z, x)", "mean(y)"},
		{"x*x*x*x", "x^4"},
		{"(x*y)*(x*y)", "x^2*y^2"},
		{"poly(x, [0, 0, 1])", "x^2"},
		{"poly(2*x + 1, [1, 1, 1])", "poly(x, [3, 6, 4])"},
		{"poly(x, [4, 2])", "2*x + 4"},
		{"dot(s, [2, 2, 2, 2, 2])", "2*sum(s)"},
		{"dot(x, y)", "sum(x*y)"},
		{"let a = x*y; a + a", "2*x*y"},
		{"prev(prev(x))", "lag(x, 2)"},
		{"prev(x - mean(x))", "prev(x) - mean(prev(x))"},
		{"let m = mean(x); prev(m)", "mean(prev(x))"},
		{"2*std(y)", "sqrt(4*var(y))"},
		{"std(y)*3/3", "std(y)"},
		{"x - -y", "x + y"},
		{"+x", "x"},
		{"x | mean()", "mean(x)"},
		{"mean(x*mean(y))", "mean(x)*mean(y)"},
		{"x**2", "x^2"},
		{"(x - x) + y", "y"},
		{"mean(x) + 0*y - mean(x) + x", "x"},
	} {
		a, b := mustCompile(t, "std14-d5", c[0]), mustCompile(t, "std14-d5", c[1])
		if len(a.steps) != len(b.steps) {
			t.Errorf("%s has %d steps, %s has %d", c[0], len(a.steps), c[1], len(b.steps))
			continue
		}
		for i := range a.steps {
			if a.steps[i].String() != b.steps[i].String() || !near(a.steps[i].scale, b.steps[i].scale) {
				t.Errorf("%s and %s differ at step %d: %s and %s", c[0], c[1], i, &a.steps[i], &b.steps[i])
				break
			}
		}
		if math.Abs(a.out.A-b.out.A) > 1e-9*math.Abs(b.out.A) ||
			math.Abs(a.out.B-b.out.B) > 1e-9*(1+math.Abs(b.out.B)) {
			t.Errorf("%s and %s are read differently: %+v, %+v", c[0], c[1], a.out, b.out)
		}
	}
}

// TestLetOnce: what has a name is computed once, for each window that it is asked of.
func TestLetOnce(t *testing.T) {
	expr := "let a0 = x + prev(y); "
	for i := range 40 {
		expr += fmt.Sprintf("let a%d = a%d - a%d/2; ", i+1, i, i)
	}
	c := mustCompile(t, "edge13-d3", expr+"1099511627776*a40")
	checkPlain(t, c, rand.New(rand.NewPCG(7, 7)))
}

// TestCentredOnce: a centred window of centred windows takes no longer with every one.
func TestCentredOnce(t *testing.T) {
	expr := "let a0 = x; "
	for i := range 60 {
		expr += fmt.Sprintf("let a%d = a%d*a%d - mean(a%d*a%d) + 1; ", i+1, i, i, i, i)
	}
	if _, err := compileFor(t, "edge13-d3", expr+"mean(a60*a60)"); !errors.Is(err, ErrDepth) {
		t.Errorf("error %v, want %v", err, ErrDepth)
	}
}

func TestPolyRange(t *testing.T) {
	if lo, hi := polyRange([]float64{1, 0, 1}, 20, 30); lo != 351 || hi != 901 {
		t.Errorf("1 + x^2 over 20 to 30: %g to %g, want 351 to 901 (at 25: 626, 50*5 and 25)", lo, hi)
	}
}

func TestDepth(t *testing.T) {
	for expr, depth := range map[string]int{
		"x + y": 0, "mean(x)": 0, "3*x": 0, "x*y": 1, "var(x)": 1, "x^3": 2, "x^4": 2, "x^5": 3,
		"x*y*z*w": 2, "x^3*y": 2,
		"poly(x, [1, 1, 1, 1, 1])": 2, "poly(x, [1, 1, 1, 1, 1, 1, 1, 1, 1])": 3, "x^7*y": 3, "x - mean(x)": 1,
	} {
		c := mustCompile(t, "std14-d5", expr)
		if c.Depth() != depth {
			t.Errorf("%s has depth %d, want %d", expr, c.Depth(), depth)
		}
		root, err := newGraph().lower(c.src, &c.prog, c.tree)
		if err != nil {
			t.Fatal(err)
		}
		if d := (depths{}).of(root); d != depth {
			t.Errorf("%s is said to need depth %d, want %d", expr, d, depth)
		}
	}
}

func TestNeeds(t *testing.T) {
	c := mustCompile(t, "edge13-d3", "mean(x) + mean(y)*mean(z)")
	if !c.NeedsRelin() {
		t.Error("a product needs the relinearisation key")
	}
	for _, k := range c.Rotations() {
		if k <= 0 || k&(k-1) != 0 {
			t.Errorf("rotation by %d is not a power of two", k)
		}
	}
	if c := mustCompile(t, "edge13-d3", "2*x + 1"); c.NeedsRelin() || len(c.Rotations()) > 0 {
		t.Error("2*x + 1 needs no keys")
	}
	if ins := mustCompile(t, "edge13-d3", "x + y + prev(z) + w").Inputs(); len(ins) != 3 ||
		ins[0].String() != "a/one" || ins[1].String() != "a/two@1" || ins[2].String() != "b/one" {
		t.Errorf("inputs %v", ins)
	}
}

// TestGentleLevels: a result goes back in as few limbs as hold it.
func TestGentleLevels(t *testing.T) {
	for _, expr := range []string{"x", "mean(x)", "var(x)", "x*y", "x^4"} {
		if c := mustCompile(t, "edge13-d3", expr); c.Level() != 0 {
			t.Errorf("%s goes back at level %d", expr, c.Level())
		}
	}
}

func TestCheckSource(t *testing.T) {
	p := mustParams(t, "edge13-d3")
	for name, change := range map[string]func(*Source){
		"no inputs are declared": func(s *Source) { s.Vars = nil },
		"has no channel 7":       func(s *Source) { s.Vars["x"] = Var{"a", s.Vars["x"].Stream, 7} },
		"compiled for edge13-d3": func(s *Source) { v := s.Vars["x"]; v.Stream.Params = "std14-d5"; s.Vars["x"] = v },
		"no usable range": func(s *Source) {
			v := s.Vars["x"]
			v.Stream = testStream("one", "edge13-d3", 20, [2]float64{1, 1}, [2]float64{0, 1})
			s.Vars = map[string]Var{"x": v}
		},
		"needs 8192 slots": func(s *Source) {
			v := s.Vars["x"]
			v.Stream.Window.Samples = 4096
			s.Vars = map[string]Var{"x": v}
		},
		"described in two ways": func(s *Source) { v := s.Vars["x"]; v.Stream.LogScale = 20; s.Vars["x"] = v },
		"is not an input":       func(s *Source) { s.Present = map[Input]int{{"a", "nine", 0}: 3} },
		"windows hold 1 to 20":  func(s *Source) { s.Present = map[Input]int{{"a", "one", 0}: 21} },
		"has levels 0 to 3": func(s *Source) {
			v := s.Vars["x"]
			v.Stream.Level = new(int)
			*v.Stream.Level = 4
			s.Vars = map[string]Var{"x": v}
		},
		"leave out level:": func(s *Source) {
			l := 0
			for name, v := range s.Vars {
				v.Stream.Level, v.Stream.LogScale = &l, 29
				s.Vars[name] = v
			}
			s.Expr = "mean(x*z)"
		},
		"`var(x)` does not depend on its inputs": func(s *Source) {
			s.Expr, s.Vars = "var(x)",
				testVars("edge13-d3", 1)
		},
		"set log_scale: 29": func(s *Source) {
			v := s.Vars["x"]
			v.Stream.LogScale = 200
			s.Vars = map[string]Var{"x": v}
		},
	} {
		src := Source{Name: "p", Expr: "mean(x)", Vars: testVars("edge13-d3", 20)}
		change(&src)
		_, err := Compile(src, p)
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "have levels", "has levels"), name) {
			t.Errorf("error %v, want one that says %q", err, name)
		}
	}
}
