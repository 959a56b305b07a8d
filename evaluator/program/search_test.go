package program

import (
	"math"
	"strings"
	"testing"
)

// TestCheapestPlan: of the plans whose promise is within half a bit of the best, the
// cheapest is taken. Several programs have plans of which only the cost differs.
func TestCheapestPlan(t *testing.T) {
	const set = "std14-d5"
	p := mustParams(t, set)
	differ := 0
	for _, expr := range []string{"var(y)", "cov(x, w)", "x^3*y", "mean(x*y) - mean(x)*mean(y)",
		"poly(x, [1, 1, 1, 1, 1, 1, 1, 1, 1])", "mean((z - mean(z))^2)", "x^8"} {
		c := mustCompile(t, set, expr)
		root, err := newGraph().lower(c.src, &c.prog, c.tree)
		if err != nil {
			t.Fatal(err)
		}
		s := &search{prog: &c.prog, src: c.src, root: root, ch: newChain(p)}
		var plans []*plan
		least, highest := math.Inf(1), 0.0
		for _, pol := range s.policies() {
			if pl, err := s.plan(pol); err == nil {
				plans = append(plans, pl)
				least = min(least, pl.out.Bound)
			}
		}
		cost := s.ch.cost(c.steps)
		if c.out.Bound > least*math.Sqrt2 {
			t.Errorf("%s: promises %g, the best plan %g", expr, c.out.Bound, least)
		}
		for _, pl := range plans {
			if pl.out.Bound > least*math.Sqrt2 {
				continue
			}
			highest = max(highest, pl.cost)
			if cost > pl.cost {
				t.Errorf("%s: costs %g, with %v it would be %g", expr, cost, pl.policy, pl.cost)
			}
		}
		if highest > cost {
			differ++
		}
	}
	if differ < 3 {
		t.Errorf("the choice mattered for %d programs only", differ)
	}
}

// TestGiantSteps: a polynomial of degree 15 takes fewer products than it has powers.
func TestGiantSteps(t *testing.T) {
	c := mustCompile(t, "std14-d5", "poly(x, [1"+strings.Repeat(", 0.1", 15)+"])")
	products := 0
	for i := range c.steps {
		if op := c.steps[i].op; op == stepMul || op == stepMulRescale {
			products++
		}
	}
	if products > 8 {
		t.Errorf("%d products, with %v", products, c.policy)
	}
}
