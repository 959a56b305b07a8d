package model_test

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/evaluator/model"
	"github.com/hencedge/hencedge/internal/testenv"
)

// scales are large enough that rounded scores say the same class for every held-out row.
const scale = 1 << 16

// quantised returns the fixtures whose rows lie on grids, with their forests.
func quantised(t testing.TB) map[string]struct {
	fixture
	forest *model.Forest
} {
	t.Helper()
	out := map[string]struct {
		fixture
		forest *model.Forest
	}{}
	keep := func(f fixture, grids []model.Grid) {
		forest, err := f.model.Quantise(grids, scale)
		if err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		out[f.name] = struct {
			fixture
			forest *model.Forest
		}{f, forest}
	}
	for _, name := range machineModels {
		keep(machine(t, name), sensors(t))
	}
	fixtures := lightgbm(t)
	var counts, thousandths []model.Grid
	for _, top := range []int{10, 11, 1, 21, 5, 100, 100, 230, 27000} {
		counts = append(counts, grid(t, 0, 1, top))
	}
	for range fixtures[1].model.Features {
		thousandths = append(thousandths, grid(t, -8, 0.001, 16000))
	}
	keep(fixtures[0], counts)
	keep(fixtures[1], thousandths)
	return out
}

// TestQuantised holds the whole-number form to the library's answers on every held-out row: the same leaves, scores
// within the stated error, the same class.
func TestQuantised(t *testing.T) {
	for name, f := range quantised(t) {
		t.Run(name, func(t *testing.T) {
			for i, row := range f.rows {
				steps, rounded, err := f.forest.Steps(row)
				if err != nil || len(rounded) > 0 {
					t.Fatalf("row %d: rounded %v, %v", i, rounded, err)
				}
				sums, err := f.forest.Whole(steps)
				if err != nil {
					t.Fatal(err)
				}
				scores, got := must(f.model.Scores(row))(t), f.forest.Scores(sums)
				bound := f.forest.Error() + 1e-12
				if f.model.Single {
					bound += 1e-6 * float64(len(f.model.Trees)) * (1 + math.Abs(scores[0]))
				}
				for o := range scores {
					if math.Abs(scores[o]-got[o]) > bound {
						t.Fatalf("row %d: score %d is %v, the library says %v", i, o, got[o], scores[o])
					}
				}
				if model.Class(scores) != model.Class(got) {
					t.Fatalf("row %d: %v and %v are different classes", i, got, scores)
				}
			}
		})
	}
}

func must[T any](v T, err error) func(testing.TB) T { return testenv.Must(v, err) }

// TestGridExact compares the readings of grids with what a program reads from their decimal text.
func TestGridExact(t *testing.T) {
	g := grid(t, -12.3, 0.001, 1<<16-1)
	if g.Bits() != 16 || grid(t, 0, 1, 1).Bits() != 1 || grid(t, 0, 1, 2).Bits() != 2 {
		t.Fatalf("bits: %d", g.Bits())
	}
	for k := 0; k <= g.Top; k++ {
		thousandths := -12300 + k
		text := strconv.Itoa(thousandths) + "e-3"
		want, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		if g.Value(k) != want {
			t.Fatalf("step %d is %v, text says %v", k, g.Value(k), want)
		}
		if at, exact := g.Nearest(want); at != k || !exact {
			t.Fatalf("reading %v is at step %d, %v", want, at, exact)
		}
	}
	for x, want := range map[float64]int{-1e300: 0, 1e300: g.Top, -12.3004: 0, -12.2986: 1} {
		if k, exact := g.Nearest(x); k != want || exact {
			t.Errorf("reading %v is at step %d, exact %v", x, k, exact)
		}
	}
	for _, bad := range []struct {
		low, step float64
		top       int
	}{
		{0, 0, 1}, {0, -1, 1}, {math.NaN(), 1, 1}, {0, math.Inf(1), 1}, {0, 1, 0}, {0, 1, 1 << 16}, {0, 1.0 / 3, 5},
		{1e16, 1, 5},
	} {
		if _, err := model.NewGrid(bad.low, bad.step, bad.top); !errors.Is(err, model.ErrModel) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestSplitsExact walks every step of the features of small trees: quantised splits send exactly those steps right
// that the library's comparison sends right.
func TestSplitsExact(t *testing.T) {
	for name, f := range quantised(t) {
		if f.forest.Splits() > 700 || f.forest.Splits() == 0 {
			continue
		}
		row := append([]float64(nil), f.rows[0]...)
		for feature, g := range f.forest.Grids {
			before := row[feature]
			for k := 0; k <= g.Top; k += 1 + g.Top/300 {
				row[feature] = g.Value(k)
				steps, _, err := f.forest.Steps(row)
				if err != nil {
					t.Fatal(err)
				}
				want := must(f.model.Scores(row))(t)
				got := f.forest.Scores(must(f.forest.Whole(steps))(t))
				if math.Abs(want[0]-got[0]) > f.forest.Error()+1e-5*(1+math.Abs(want[0])) {
					t.Fatalf("%s: feature %d at step %d: %v, the library's form says %v", name, feature, k, got, want)
				}
			}
			row[feature] = before
		}
	}
}

// TestDecided compares the class of a tree that says nothing but the class with scikit-learn's.
func TestDecided(t *testing.T) {
	f := machine(t, "sklearn-tree")
	d := must(f.model.Decided())(t)
	for i, row := range f.rows {
		scores := must(d.Scores(row))(t)
		if len(scores) != 1 || f.model.Classes[int(scores[0])] != f.predict[i] {
			t.Fatalf("row %d: %v, the library says %s", i, scores, f.predict[i])
		}
	}
	if _, err := machine(t, "sklearn-forest").model.Decided(); !errors.Is(err, model.ErrModel) {
		t.Errorf("a forest: %v", err)
	}
}

// TestRefusedRows and grids: each with its error.
func TestRefusedRows(t *testing.T) {
	f := quantised(t)["sklearn-forest"]
	if _, err := f.model.Scores([]float64{1}); !errors.Is(err, model.ErrRow) {
		t.Errorf("short row: %v", err)
	}
	row := append([]float64(nil), f.rows[0]...)
	row[2] = math.NaN()
	if _, err := f.model.Scores(row); !errors.Is(err, model.ErrRow) {
		t.Errorf("NaN: %v", err)
	}
	if _, _, err := f.forest.Steps(row); !errors.Is(err, model.ErrRow) {
		t.Errorf("steps of NaN: %v", err)
	}
	for _, steps := range [][]int{{1}, {-1, 0, 0, 0, 0, 0, 0, 0}, {2601, 0, 0, 0, 0, 0, 0, 0}} {
		if _, err := f.forest.Whole(steps); !errors.Is(err, model.ErrRow) {
			t.Errorf("%v: %v", steps, err)
		}
	}
	if _, err := f.model.Quantise(sensors(t)[1:], 1); !errors.Is(err, model.ErrModel) {
		t.Errorf("7 grids: %v", err)
	}
	if _, err := f.model.Quantise(make([]model.Grid, 8), 1); !errors.Is(err, model.ErrModel) {
		t.Errorf("empty grids: %v", err)
	}
	for _, s := range []float64{0, -1, math.NaN(), 1e300} {
		if _, err := f.model.Quantise(sensors(t), s); !errors.Is(err, model.ErrModel) {
			t.Errorf("scale %v: %v", s, err)
		}
	}
	if b := f.forest.Bound(); b < scale || b > scale*12+20 { // probabilities of 12 trees
		t.Errorf("bound %d", b)
	}
}

// TestQuantiseBounds refuses small files that would become much larger as whole numbers.
func TestQuantiseBounds(t *testing.T) {
	// tree is a chain of splits, each of which leads on to the right; more follows its lists.
	tree := func(out *strings.Builder, splits int, threshold, decision, more string) {
		var left, right []string
		for i := range splits - 1 {
			left, right = append(left, strconv.Itoa(^i)), append(right, strconv.Itoa(i+1))
		}
		left, right = append(left, strconv.Itoa(-splits)), append(right, strconv.Itoa(-splits-1))
		many := func(s string, n int) string { return strings.TrimSpace(strings.Repeat(s+" ", n)) }
		fmt.Fprintf(out, "\nTree=0\nnum_leaves=%d\nsplit_feature=%s\nthreshold=%s\ndecision_type=%s\nleft_child=%s\n"+
			"right_child=%s\nleaf_value=%s\n%s\n", splits+1, many("0", splits), many(threshold, splits),
			many(decision, splits), strings.Join(left, " "), strings.Join(right, " "), many("0", splits+1), more)
	}
	const head = "tree\nversion=v3\nnum_class=%d\nnum_tree_per_iteration=%[1]d\nobjective=%s\nfeature_names=a\n"
	var sets, scores strings.Builder
	fmt.Fprintf(&sets, head, 1, "regression")
	tree(&sets, 150, "0", "1", "num_cat=1\ncat_boundaries=0 2048\ncat_threshold="+
		strings.Repeat("1431655765 ", 2048)) // every other number of 16 bits
	fmt.Fprintf(&scores, head, 256, "multiclass")
	for range 600 {
		tree(&scores, 255, "0.5", "2", "num_cat=0")
	}
	for file, says := range map[string]string{sets.String(): "ranges of categories", scores.String(): "scores"} {
		m, err := model.Read(strings.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Quantise([]model.Grid{grid(t, 0, 1, 1<<16-1)}, 1)
		if !errors.Is(err, model.ErrModel) || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
