package rangecover_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/evaluator/model"
	"github.com/hencedge/hencedge/evaluator/model/rangecover"
	"github.com/hencedge/hencedge/henc/bfv/steps"
	"github.com/hencedge/hencedge/internal/testenv"
)

const modulus = 65537

func must[T any](v T, err error) func(testing.TB) T { return testenv.Must(v, err) }

func unpack(t testing.TB, name string) []byte { return testenv.Unpack(t, "../testdata/"+name) }

// forest reads a model of ../testdata on its grids, with its held-out rows as steps.
func forest(t testing.TB, name string) (*model.Forest, [][]int) {
	t.Helper()
	machine := [][3]float64{
		{-40, 0.0625, 2600}, {0, 0.001, 60000}, {300, 0.02, 40000}, {-20, 0.001, 40000}, {0, 0.1, 1000}, {0, 1, 6000},
		{30, 0.05, 2000}, {180, 0.01, 8000},
	}
	file, rows, separator, skip := name+".json.gz", "rows.csv.gz", ",", 0
	switch name {
	case "lightgbm-frequency":
		file, rows, separator = name+".txt.gz", name+".rows.tsv.gz", "\t"
		machine = nil
		for _, top := range []float64{10, 11, 1, 21, 5, 100, 100, 230, 27000} {
			machine = append(machine, [3]float64{0, 1, top})
		}
	case "lightgbm-multiclass":
		file, rows, separator, skip = name+".txt.gz", name+".rows.tsv.gz", "\t", 1
		machine = slices.Repeat([][3]float64{{-8, 0.001, 16000}}, 28)
	}
	var grids []model.Grid
	for _, g := range machine {
		grids = append(grids, must(model.NewGrid(g[0], g[1], int(g[2])))(t))
	}
	m := must(model.Read(bytes.NewReader(unpack(t, file))))(t)
	f := must(m.Quantise(grids, 1<<16))(t)
	var steps [][]int
	for _, line := range strings.Split(strings.TrimSpace(string(unpack(t, rows))), "\n") {
		var row []int
		for i, word := range strings.Split(line, separator)[skip:] {
			x, err := strconv.ParseFloat(word, 64)
			if err != nil {
				break // the header
			}
			k := int(x)
			if separator == "\t" {
				var exact bool
				if k, exact = grids[i].Nearest(x); !exact {
					t.Fatalf("%v is on no grid", x)
				}
			}
			row = append(row, k)
		}
		if len(row) > 0 {
			steps = append(steps, row)
		}
	}
	return f, steps
}

// slots is as few as the code of a row fits.
func slots(f *model.Forest) int {
	if len(f.Grids) > 20 {
		return 2048
	}
	return 1024
}

var names = []string{
	"sklearn-tree", "sklearn-life-tree", "sklearn-forest", "sklearn-life", "sklearn-boosted", "sklearn-boosted-two",
	"xgboost-alarm", "xgboost-state", "xgboost-life", "xgboost-counts", "lightgbm-frequency", "lightgbm-multiclass",
}

// TestLeaves evaluates every model on held-out rows with range covers on plain numbers modulo t. In each tree one
// leaf has no wrong split, and the sum of those leaves is that of walking through the trees, which package model
// compares with the libraries.
func TestLeaves(t *testing.T) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			f, rows := forest(t, name)
			p := must(rangecover.NewPlan(f, slots(f), modulus))(t)
			if os.Getenv("HENCEDGE_TEST_DEEP") != "1" { // which takes two minutes
				rows = rows[:max(3, 400/len(p.Blocks))]
			}
			answers := map[string]bool{}
			for i, row := range rows {
				m := must(p.NewPlain(must(p.Code.Bits(row))(t)))(t)
				got, found := slices.Clone(p.Base), map[int]int{}
				for b, block := range p.Blocks {
					wrong := must(rangecover.Wrong(p, m, b))(t)
					for _, place := range block.Places {
						if wrong[place.Slot] == 0 {
							found[place.Tree]++
							for o, v := range place.Leaf {
								got[o] += v
							}
						}
					}
				}
				want := must(f.Whole(row))(t)
				if !slices.Equal(got, want) || len(found) != p.Trees {
					t.Fatalf("row %d: %v, walking says %v (leaves of trees: %v)", i, got, want, found)
				}
				answers[fmt.Sprint(got)] = true
			}
			if len(answers) < 2 {
				t.Fatal("all answers are the same")
			}
		})
	}
}

// TestAnswers blinds what TestLeaves looks into, and opens it as the key holder does.
func TestAnswers(t *testing.T) {
	for _, name := range names {
		f, rows := forest(t, name)
		p := must(rangecover.NewPlan(f, slots(f), modulus))(t)
		random := rand.NewChaCha8([32]byte{1})
		for _, row := range rows[:max(2, 40/len(p.Blocks))] {
			m := must(p.NewPlain(must(p.Code.Bits(row))(t)))(t)
			got := must(p.Shape().Open(must(rangecover.Run(p, m, random, 1))(t)))(t)
			if want := must(f.Whole(row))(t); !slices.Equal(got, want) {
				t.Fatalf("%s: %v, walking says %v", name, got, want)
			}
		}
	}
}

// TestWrong looks at the numbers before blinding: at each place the splits on the leaf's path that decide otherwise.
func TestWrong(t *testing.T) {
	f, rows := forest(t, "sklearn-life-tree")
	p := must(rangecover.NewPlan(f, 1024, modulus))(t)
	if len(p.Blocks) < 2 {
		t.Fatal("one block: rows of slots are never left")
	}
	for _, row := range rows[:100] {
		m := must(p.NewPlain(must(p.Code.Bits(row))(t)))(t)
		counts := map[uint64]int{}
		leaves := 0
		for b := range p.Blocks {
			wrong := must(rangecover.Wrong(p, m, b))(t)
			for _, place := range p.Blocks[b].Places {
				counts[wrong[place.Slot]]++
				leaves++
			}
		}
		want := map[uint64]int{}
		count(&f.Trees[0], row, 0, 0, want)
		if leaves != len(f.Trees[0].Leaves) || fmt.Sprint(counts) != fmt.Sprint(want) || want[0] != 1 {
			t.Fatalf("wrong splits %v, by walking %v", counts, want)
		}
	}
}

// count counts the wrong splits of every leaf below a node.
func count(tree *model.WholeTree, row []int, at int, wrong uint64, to map[uint64]int) {
	if at < 0 {
		to[wrong]++
		return
	}
	n := &tree.Nodes[at]
	right := uint64(0)
	for _, s := range n.Right {
		if k := row[n.Feature]; k >= s.Lo && k < s.Hi {
			right = 1
		}
	}
	count(tree, row, n.Left, wrong+right, to)
	count(tree, row, n.After, wrong+1-right, to)
}

// TestBlinded checks what the key holder sees beside the answer of a tree with blocks of its own: zeros at random
// slots, in random blocks.
func TestBlinded(t *testing.T) {
	f, rows := forest(t, "sklearn-life-tree")
	p := must(rangecover.NewPlan(f, 1024, modulus))(t)
	if len(p.Blocks) < 2 || p.Segment != 0 {
		t.Fatalf("%d blocks, segments of %d", len(p.Blocks), p.Segment)
	}
	random := rand.NewChaCha8([32]byte{2})
	const rounds = 150
	slots, first := map[int]bool{}, 0
	m := must(p.NewPlain(must(p.Code.Bits(rows[0]))(t)))(t)
	for range rounds {
		for i, r := range must(rangecover.Run(p, m, random, 1))(t) {
			if at := slices.Index(r.Test, 0); at >= 0 {
				slots[at] = true
				if i == 0 {
					first++
				}
			}
		}
	}
	if len(slots) < 100 || first == 0 || first == rounds {
		t.Errorf("zeros in %d slots, in the first of %d blocks in %d of %d rounds", len(slots), len(p.Blocks), first,
			rounds)
	}
}

// TestPacked checks what the key holder sees of trees that share a block: one zero in the segment of each, at every
// slot as often as at any other, whichever leaf it stands for, and shares that differ from row to row.
func TestPacked(t *testing.T) {
	f, rows := forest(t, "xgboost-alarm")
	p := must(rangecover.NewPlan(f, 1024, modulus))(t)
	if 2*len(p.Blocks) > p.Trees || p.Segment < 2 {
		t.Fatalf("%d blocks for %d trees, segments of %d slots", len(p.Blocks), p.Trees, p.Segment)
	}
	random := rand.NewChaCha8([32]byte{5})
	const rounds = 40
	for _, row := range rows[:3] {
		shares, often := map[uint64]bool{}, make([]int, p.Segment)
		m := must(p.NewPlain(must(p.Code.Bits(row))(t)))(t)
		for range rounds {
			for _, r := range must(rangecover.Run(p, m, random, 1))(t) {
				segments := map[int]bool{}
				for at, v := range r.Test {
					if v == 0 {
						if segments[at/p.Segment] {
							t.Fatalf("two zeros in segment %d", at/p.Segment)
						}
						segments[at/p.Segment] = true
						often[at%p.Segment]++
						shares[r.Values[0][at]] = true
					}
				}
			}
		}
		found := rounds * p.Trees
		if len(shares) < found*95/100 {
			t.Errorf("%d shares of %d", len(shares), found)
		}
		mean, chi := float64(found)/float64(p.Segment), 0.0
		for _, n := range often {
			chi += (float64(n) - mean) * (float64(n) - mean) / mean
		}
		free := float64(p.Segment - 1)
		if chi > free+5*math.Sqrt(2*free) {
			t.Errorf("slots are not equally likely: chi-square of %.1f for %g degrees of freedom", chi, free)
		}
	}
}

// counting counts operations of a machine.
type counting struct {
	*rangecover.Plain
	products, plain, switches int
}

func (c *counting) Mul(a, b []uint64) ([]uint64, error) {
	c.products++
	return c.Plain.Mul(a, b)
}

func (c *counting) SumPlain(as, plains [][]uint64) ([]uint64, error) {
	c.plain += len(as)
	return c.Plain.SumPlain(as, plains)
}

func (c *counting) Back(a []uint64, k int) ([]uint64, error) {
	c.switches++
	return c.Plain.Back(a, k)
}

func (c *counting) Swap(a []uint64) ([]uint64, error) {
	c.switches++
	return c.Plain.Swap(a)
}

// TestCount compares what a plan says that it costs with the operations of runs.
func TestCount(t *testing.T) {
	for _, name := range []string{"sklearn-life-tree", "xgboost-alarm"} {
		f, rows := forest(t, name)
		p := must(rangecover.NewPlan(f, 1024, modulus))(t)
		want := p.Count()
		forms := 0
		for _, b := range p.Blocks {
			for _, form := range b.Forms {
				forms += len(form.Terms)
			}
		}
		const rounds = 20
		m := &counting{Plain: must(p.NewPlain(must(p.Code.Bits(rows[0]))(t)))(t)}
		random := rand.NewChaCha8([32]byte{4})
		for range rounds {
			must(rangecover.Run(p, m, random, 1))(t)
		}
		most := rounds * (want.PlainProducts - forms) // without those whose places are all in the other half
		if m.products != rounds*want.Products || m.plain > most || m.plain < most*8/10 ||
			m.plain != most && p.Segment == 0 {
			t.Errorf("%s: %d products and %d by plaintexts in %d rounds, and %d in forms; the plan says %+v",
				name, m.products, m.plain, rounds, forms, want)
		}
		if got := p.Code.Size() - 1 + m.switches/rounds; got < want.Switches*9/10 || got > want.Switches*11/10 {
			t.Errorf("%s: %d key switches, the plan says %d", name, got, want.Switches)
		}
		if want.Splits != f.Splits() || want.Depth != 2 || want.Trees != p.Trees || want.Blocks != len(p.Blocks) {
			t.Errorf("%s: %+v", name, want)
		}
		costs := rangecover.Costs{Product: 1000, PlainProduct: 10, Switch: 100}
		sum := 1000*want.Products + 10*want.PlainProducts + 100*want.Switches
		if got := want.Time(costs, 2); int(got) != sum/2 {
			t.Errorf("%s: time %d, not %d", name, got, sum/2)
		}
	}
}

// TestEveryStep compares one threshold after the other with every step of grids of all sizes of digits.
func TestEveryStep(t *testing.T) {
	for _, top := range []int{1, 2, 14, 15, 16, 17, 255, 256, 300, 4095, 4096} {
		g := must(model.NewGrid(0, 1, top))(t)
		for _, cut := range []int{1, 2, top / 2, top/2 + 1, top - 1, top} {
			if cut < 1 || cut > top {
				continue
			}
			file := fmt.Sprintf(`{"format":"hencedge-trees/1","features":["a"],"combine":"sum",`+
				`"link":"identity","trees":[{"feature":[0,-1,-1],"threshold":[%v,0,0],`+
				`"left":[1,-1,-1],"right":[2,-1,-1],"value":[[],[-3],[4]]}]}`,
				float64(cut)-0.5)
			f := must(must(model.Read(strings.NewReader(file)))(t).Quantise([]model.Grid{g}, 1))(t)
			p := must(rangecover.NewPlan(f, 128, modulus))(t)
			random := rand.NewChaCha8([32]byte{3})
			for k := 0; k <= top; k += 1 + top/300*(k%3) { // every step of small grids
				m := must(p.NewPlain(must(p.Code.Bits([]int{k}))(t)))(t)
				got := must(p.Shape().Open(must(rangecover.Run(p, m, random, 1))(t)))(t)
				if want := int64(map[bool]int{false: -3, true: 4}[k >= cut]); got[0] != want {
					t.Fatalf("step %d of %d with cut %d: %d", k, top, cut, got[0])
				}
			}
		}
	}
}

// TestRefused covers plans, rows and results that do not fit.
func TestRefused(t *testing.T) {
	f, rows := forest(t, "sklearn-life")
	for _, c := range []struct {
		slots int
		t     uint64
		says  string
	}{{1000, modulus, "1000 slots"}, {256, modulus, "bits a row"}, {1024, 3, "modulo 3"}} {
		if _, err := rangecover.NewPlan(f, c.slots, c.t); !errors.Is(err, rangecover.ErrPlan) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%d slots modulo %d: %v", c.slots, c.t, err)
		}
	}
	p := must(rangecover.NewPlan(f, 2048, modulus))(t)
	for _, row := range [][]int{rows[0][1:], append([]int{-1}, rows[0][1:]...), append([]int{2601}, rows[0][1:]...)} {
		if _, err := p.Code.Bits(row); !errors.Is(err, steps.ErrRow) {
			t.Errorf("%v: %v", row, err)
		}
	}
	if _, err := p.NewPlain(nil); !errors.Is(err, rangecover.ErrPlan) {
		t.Errorf("no bits: %v", err)
	}
	m := must(p.NewPlain(must(p.Code.Bits(rows[0]))(t)))(t)
	if _, err := rangecover.Run(p, m, bytes.NewReader(make([]byte, 5000)), 1); err == nil {
		t.Error("ran although the randomness ended")
	}
	results := must(rangecover.Run(p, m, rand.NewChaCha8([32]byte{}), 1))(t)
	if _, err := p.Shape().Open(results[1:]); !errors.Is(err, rangecover.ErrPlan) {
		t.Errorf("a block is missing: %v", err)
	}
	for _, s := range []rangecover.Shape{{}, {1, 1, 5, 16}, {1, 1, 1 << 62, 16}, {1, -1, 1, 16}, {1, 1, 1, -1}} {
		if _, err := s.Open(results); !errors.Is(err, rangecover.ErrPlan) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	results[0].Values = results[0].Values[1:]
	if _, err := p.Shape().Open(results); !errors.Is(err, rangecover.ErrPlan) {
		t.Errorf("a value is missing: %v", err)
	}
	for _, tops := range [][]int{{0}, {1 << 16}} {
		if _, err := steps.NewCode(tops); !errors.Is(err, steps.ErrCode) {
			t.Errorf("grid of %v steps: %v", tops, err)
		}
	}
}
