package henc

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestParametersDocument keeps the tables in docs/parameters.md true.
func TestParametersDocument(t *testing.T) {
	b, err := os.ReadFile("../docs/parameters.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.ReplaceAll(string(b), "**", "")
	want := func(row string) {
		if !strings.Contains(doc, row) {
			t.Errorf("the document lacks %q", row)
		}
	}
	for _, l := range namedSets {
		p := mustNamed(t, l.Name)
		quantum, _ := SecurityBound(p.LogN(), 128, true)
		kept := "not kept"
		if p.LogQP() <= float64(quantum) {
			kept = "kept"
		}
		if p.SecurityBound() == 0 {
			want(fmt.Sprintf("| %s | %.1f | %.1f | - | - | - |", p.Name(), p.LogQ(p.MaxLevel()), p.LogQP()))
			continue
		}
		want(fmt.Sprintf("| %s | %.1f | %.1f | %d | %.1f | %d: %s |", p.Name(), p.LogQ(p.MaxLevel()), p.LogQP(),
			p.SecurityBound(), float64(p.SecurityBound())-p.LogQP(), quantum, kept))
		if l.Insecure {
			continue
		}
		unit := func(n int) string {
			if n >= 1800<<10 {
				return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
			}
			return fmt.Sprintf("%d KiB", n>>10)
		}
		top := p.MaxLevel()
		want(fmt.Sprintf("| %s | %s | %s | %s |", p.Name(), unit(p.CiphertextBytes(top, true)),
			unit(p.CiphertextBytes(top, false)), unit(p.CiphertextBytes(0, true))))
	}
	for logN := 12; logN <= 17; logN++ {
		row := fmt.Sprintf("| 2^%d |", logN)
		for _, bits := range []int{128, 192, 256} {
			c, ok := SecurityBound(logN, bits, false)
			q, _ := SecurityBound(logN, bits, true)
			if ok {
				row += fmt.Sprintf(" %d / %d |", c, q)
			} else {
				row += " - |"
			}
		}
		want(row)
	}
}

// TestPaperQWithoutKeysIsSecure: the benchmark set's Q alone is within the bound.
func TestPaperQWithoutKeysIsSecure(t *testing.T) {
	l := mustNamed(t, "bench-paper16-insecure").Literal()
	l.Name, l.P, l.PsiP, l.Alpha, l.Insecure = "paper16-q", nil, nil, 0, false
	if p, err := NewParameters(l); err != nil || p.Insecure() || p.Dnum(p.MaxLevel()) != 0 {
		t.Errorf("%v", err)
	}
}
