package program

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// readOutput applies an Output to decrypted slots.
func readOutput(slots []float64, out Output) []float64 {
	v := make([]float64, out.Count)
	for i := range v {
		v[i] = out.A*slots[(out.Slot+i)%len(slots)] + out.B
		if out.Sqrt {
			v[i] = math.Sqrt(max(v[i], 0))
		}
	}
	return v
}

// worst is the largest error of a result against the plaintext truth.
func (b *bench) worst(t testing.TB, c *Circuit, rng *rand.Rand) float64 {
	t.Helper()
	cts, plain := b.sample(t, c, rng)
	ct, out, err := c.Run(b.evaluator(t, c), cts)
	if err != nil {
		t.Fatalf("%s: %v", c.prog.Expr, err)
	}
	got := b.decrypt(t, ct, out)
	want, err := c.Reference(plain)
	if err != nil {
		t.Fatalf("%s: %v", c.prog.Expr, err)
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", c.prog.Expr, len(got), len(want))
	}
	worst := 0.0
	for i := range got {
		if d := math.Abs(got[i] - want[i]); !(d <= worst) {
			worst = d
		}
	}
	return worst
}

// programs that every multiplying parameter set with room can run.
var samplePrograms = []string{
	"x", "-y", "2*x - 3", "x + y", "0.37*x - y/3 + z", "x - w + prev(x)",
	"sum(y)", "mean(x)", "mean(t) + mean(y)", "mean(x + y - z)",
	"var(y)", "std(y)", "rms(y)", "rms(x)", "cov(x, y)", "cov(x, w)", "3*std(z)",
	"x*y", "x*y + 0.5*z", "mean(x)*mean(prev(y))", "mean(x*y) - mean(x)*mean(y)",
	"x^2", "poly(y, [1, -2, 0.5])", "poly(mean(y), [0, 0, 1])",
	"mean((y - mean(y))^2)", "x - mean(x)", "let d = y - prev(y); mean(d*d)",
	"sqrt(mean(x)^2 + mean(z)^2)", "dot(s, [1, -0.5, 0.25, 0, 2]) + mean(t)", "dot(x, y)", "lag(y, 3) - y",
	"mean(s)*mean(x)", "s*mean(x)",
}

func TestRunWithinPromise(t *testing.T) {
	for _, set := range []string{"edge12-d1", "edge13-d3", "edge13-d2p"} {
		b := testBench(t, set)
		vars := testVars(set, 20)
		ran := 0
		for i, expr := range samplePrograms {
			c, err := Compile(Source{Name: "p", Expr: expr, Vars: vars}, b.ctx.Parameters())
			if err != nil {
				if errors.Is(err, ErrDepth) || errors.Is(err, ErrMagnitude) {
					continue
				}
				t.Errorf("%s: %s: %v", set, expr, err)
				continue
			}
			ran++
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			if w := b.worst(t, c, rng); w > c.out.Bound {
				t.Errorf("%s: %s: error %.3g, promised %.3g", set, expr, w, c.out.Bound)
			} else {
				t.Logf("%s: %-40s error %.3g, promised %.3g, ratio %.0f", set, expr, w, c.out.Bound, c.out.Bound/w)
			}
		}
		if set != "edge12-d1" && ran < len(samplePrograms)-4 {
			t.Errorf("%s: only %d of %d programs fit", set, ran, len(samplePrograms))
		}
	}
}
