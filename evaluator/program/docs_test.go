package program

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// TestEveryFunctionIsDocumented keeps the table of the document complete.
func TestEveryFunctionIsDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../docs/programs.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range functionNames() {
		if call := functions[n].args; !strings.Contains(string(raw), "`"+call) {
			t.Errorf("docs/programs.md does not show %s", call)
		}
	}
}

// TestComparisonTable keeps the table of what comparisons cost true.
func TestComparisonTable(t *testing.T) {
	raw, err := os.ReadFile("../../docs/programs.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, bits := range []int{4, 6, 8, 10, 12, 14} {
		row := fmt.Sprintf("| 1/%d |", 1<<bits)
		for _, expr := range []string{"x > 80", "count(x > 80)"} {
			p := mustParams(t, "deep16-d23")
			v := Var{"d", testStream("s", p.Name(), 4096, [2]float64{0, 100}), 0}
			c, err := Compile(Source{Name: "p", Expr: expr, Vars: map[string]Var{"x": v},
				Resolution: math.Ldexp(100, -bits)}, p)
			if err != nil {
				t.Fatal(err)
			}
			switches, limbs := c.switches()
			row += fmt.Sprintf(" %d | %d | %d |", c.Depth(), switches, limbs)
		}
		if !strings.Contains(string(raw), row) {
			t.Errorf("docs/programs.md lacks the row\n%s", row)
		}
	}
}
