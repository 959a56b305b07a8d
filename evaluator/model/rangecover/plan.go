package rangecover

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/hencedge/hencedge/evaluator/model"
	"github.com/hencedge/hencedge/henc/bfv/steps"
)

// Entry is a number in a slot.
type Entry struct {
	Slot  int
	Value int64
}

// Form is a linear form in the bits of a row, one in each slot: constants, and for some bits what they are multiplied
// by.
type Form struct {
	Const []Entry
	Terms []FormTerm // in the order of their bits
}

// FormTerm is what one bit of the code is multiplied by.
type FormTerm struct {
	Bit     int
	Entries []Entry
}

// Place is a leaf of a tree and the slot of its number of wrong splits.
type Place struct {
	Slot int
	Tree int
	Leaf []int64
}

// Block is what one ciphertext holds: rows of one tree, or whole trees.
type Block struct {
	Forms  []Form  // the slots hold the product of these, at least one
	Add    []Entry // and this is added
	Log    int     // then the slots are summed up over 2^Log slots back, each in its row
	Places []Place
	Parts  []Part // whole trees; none: all places are of one tree
}

// Part is a whole tree in a block of several. In the result its places are in a segment of their own, of Plan.Segment
// slots of the same row.
type Part struct {
	First  int // slot where its walk begins
	To     int // first slot of the segment
	Places []Place
}

// Plan is a forest laid out over slots: two rows of Slots/2, which rotate apart.
type Plan struct {
	Code    *steps.Code
	Slots   int
	T       uint64 // plaintext modulus
	Blocks  []Block
	Trees   int // that have splits
	Outputs int
	Words   int     // of WordBits, that hold a sum of an output
	Segment int     // slots of a tree in a result of several, a power of two; 0: no block holds several
	Base    []int64 // base scores, and trees without splits
	splits  int
	terms   int
}

// NewPlan lays a forest out over slots modulo t. It fails with ErrPlan.
func NewPlan(f *model.Forest, slots int, t uint64) (*Plan, error) {
	tops := make([]int, len(f.Grids))
	for i, g := range f.Grids {
		tops[i] = g.Top
	}
	code, err := steps.NewCode(tops)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlan, err)
	}
	if slots < 8 || slots&(slots-1) != 0 || t < 1<<8 || t >= 1<<31 {
		return nil, fmt.Errorf("%w: %d slots modulo %d", ErrPlan, slots, t)
	}
	if code.Size() > slots {
		return nil, fmt.Errorf("%w: %d bits a row, and %d slots: use coarser grids or a larger ring",
			ErrPlan, code.Size(), slots)
	}
	p := &Plan{Code: code, Slots: slots, T: t, Outputs: f.Outputs, splits: f.Splits()}
	p.Base = append(p.Base, f.Base...)
	p.Words = (bits.Len64(uint64(2*f.Bound())) + p.WordBits() - 1) / p.WordBits()
	p.Words = max(p.Words, 1)
	if p.Words*p.WordBits() > 62 {
		return nil, fmt.Errorf("%w: sums up to %d: choose a smaller scale", ErrPlan, f.Bound())
	}
	var small []sequence // whole trees of one row
	for i := range f.Trees {
		tree := &f.Trees[i]
		if len(tree.Nodes) == 0 {
			for o, v := range tree.Leaves[0] {
				p.Base[o] += v
			}
			continue
		}
		w, err := p.walk(tree)
		if err != nil {
			return nil, fmt.Errorf("%w (tree %d)", err, i)
		}
		if len(w.rows) == 1 && w.open {
			small = append(small, w.rows[0])
		} else {
			p.large(w)
		}
		p.Trees++
	}
	if p.Trees == 0 {
		return nil, fmt.Errorf("%w: every row of the grids gets the same answer", ErrPlan)
	}
	p.pack(small)
	return p, nil
}

// pack puts whole trees next to each other. A walk around a tree adds up to nothing, so that sums of slots up to a leaf
// of the next one are not changed by it.
func (p *Plan) pack(small []sequence) {
	if len(small) == 1 {
		p.Blocks = append(p.Blocks, p.block(small))
		return
	}
	for _, s := range small {
		for p.Segment < s.span() {
			p.Segment = max(1, 2*p.Segment)
		}
	}
	var rows []sequence
	var held [][]sequence // trees of each row
next:
	for _, s := range small {
		for i := range rows {
			if len(rows[i].terms)+len(s.terms) <= p.Slots/4 && (len(held[i])+1)*p.Segment <= p.Slots/2 {
				held[i] = append(held[i], s.after(len(rows[i].terms)))
				rows[i].terms = append(rows[i].terms, s.terms...)
				continue next
			}
		}
		rows, held = append(rows, sequence{terms: slices.Clone(s.terms)}), append(held, []sequence{s})
	}
	for i := 0; i < len(rows); i += 2 {
		end := min(i+2, len(rows))
		b := p.block(rows[i:end])
		for r, trees := range held[i:end] {
			for k, s := range trees {
				part := Part{First: r*p.Slots/2 + s.first, To: r*p.Slots/2 + k*p.Segment}
				for _, place := range s.places {
					place.Slot += r * p.Slots / 2
					part.Places = append(part.Places, place)
				}
				b.Parts, b.Places = append(b.Parts, part), append(b.Places, part.Places...)
			}
		}
		p.Blocks = append(p.Blocks, b)
	}
}

// WordBits returns how many bits of a value one number modulo t carries.
func (p *Plan) WordBits() int { return bits.Len64(p.T) - 1 }

// sequence is the walk around a tree through one row of slots.
type sequence struct {
	first  int // slot where it begins
	terms  []weighted
	places []Place // slots counted from the row's first
}

// span is how many slots lie between its first slot and the last place.
func (s sequence) span() int { return s.places[len(s.places)-1].Slot - s.first + 1 }

// after is the sequence so many slots later.
func (s sequence) after(slots int) sequence {
	out := sequence{first: s.first + slots, terms: s.terms, places: slices.Clone(s.places)}
	for i := range out.places {
		out.places[i].Slot += slots
	}
	return out
}

// weighted is a term in a slot, with its feature, its factor, and what is added.
type weighted struct {
	feature   int
	term      term
	mul, plus int64
}

// split is a node as it is laid out: "after" is the branch that is taken where a term holds.
type split struct {
	feature       int
	terms         []term
	before, after int
}

// walker lays a tree out. The walk is recursive in the depth of the tree, at most model.MaxDepth.
type walker struct {
	tree  *model.WholeTree
	count int // of trees before it
	grids []int
	room  int
	path  []step
	rows  []sequence
	open  bool
}

// step is a split above the present place, and whether the walk is in its second branch.
type step struct {
	split  split
	second bool
}

func (p *Plan) walk(t *model.WholeTree) (*walker, error) {
	// Sums reach back at most half a row, so the other half stays empty: around the row's end they reach zeros.
	w := &walker{tree: t, count: p.Trees, grids: p.Code.Tops(), room: p.Slots / 4}
	return w, w.walk(0)
}

// large gives a tree blocks of its own.
func (p *Plan) large(w *walker) {
	for i := 0; i < len(w.rows); i += 2 {
		p.Blocks = append(p.Blocks, p.block(w.rows[i:min(i+2, len(w.rows))]))
	}
}

func (w *walker) walk(at int) error {
	if at < 0 {
		return w.leaf(w.tree.Leaves[^at])
	}
	s := w.split(&w.tree.Nodes[at])
	w.path = append(w.path, step{split: s})
	w.put(s, 1, 0) // c
	if err := w.walk(s.before); err != nil {
		return err
	}
	w.path[len(w.path)-1].second = true
	w.put(s, -2, 1) // 1-2c
	if err := w.walk(s.after); err != nil {
		return err
	}
	w.path = w.path[:len(w.path)-1]
	w.put(s, 1, -1) // c-1
	return nil
}

// split chooses the side of a node that takes fewer terms.
func (w *walker) split(n *model.WholeNode) split {
	top := w.grids[n.Feature]
	right, left := cover(n.Right, top), cover(outside(n.Right, top), top)
	if len(left) < len(right) {
		return split{n.Feature, left, n.After, n.Left}
	}
	return split{n.Feature, right, n.Left, n.After}
}

// put adds mul*c+plus to the open row, or closes it where that does not fit.
func (w *walker) put(s split, mul, plus int64) {
	if !w.open {
		return
	}
	row := &w.rows[len(w.rows)-1]
	if len(row.terms)+len(s.terms) > w.room {
		w.open = false
		return
	}
	for _, t := range s.terms {
		row.terms = append(row.terms, weighted{s.feature, t, mul, plus})
		plus = 0 // once
	}
}

// leaf notes where the sum of a leaf is found: in the last slot so far. A new row begins with the splits of the path.
func (w *walker) leaf(values []int64) error {
	if !w.open {
		w.rows, w.open = append(w.rows, sequence{}), true
		for _, s := range w.path {
			if s.second {
				w.put(s.split, -1, 1)
			} else {
				w.put(s.split, 1, 0)
			}
		}
		if !w.open {
			return fmt.Errorf("%w: the splits of one path take more than %d slots: limit the depth, use coarser grids "+
				"or a larger ring", ErrPlan, w.room)
		}
	}
	row := &w.rows[len(w.rows)-1]
	row.places = append(row.places, Place{len(row.terms) - 1, w.count, values})
	return nil
}

// block makes the forms of one or two rows.
func (p *Plan) block(rows []sequence) Block {
	var b Block
	terms := make([]map[int][]Entry, 0, steps.Width)
	for r, row := range rows {
		first := r * p.Slots / 2
		for b.Log < bits.Len(uint(len(row.terms)-1)) {
			b.Log++
		}
		p.terms += len(row.terms)
		for i, w := range row.terms {
			slot := first + i
			if w.plus != 0 {
				b.Add = append(b.Add, Entry{slot, w.plus})
			}
			for len(b.Forms) < len(w.term) {
				b.Forms = append(b.Forms, Form{})
				terms = append(terms, map[int][]Entry{})
			}
			p.forms(&b, terms, slot, w)
		}
		for _, place := range row.places {
			b.Places = append(b.Places, Place{first + place.Slot, place.Tree, place.Leaf})
		}
	}
	p.pad(&b, rows)
	for i := range b.Forms {
		for bit := range p.Code.Size() {
			if e := terms[i][bit]; len(e) > 0 {
				b.Forms[i].Terms = append(b.Forms[i].Terms, FormTerm{bit, e})
			}
		}
	}
	return b
}

// forms adds one term of a cover: of each digit, the form that is 1 for the allowed values and 0 for the others. The
// form of the lowest digit carries the factor.
func (p *Plan) forms(b *Block, terms []map[int][]Entry, slot int, w weighted) {
	for i, allowed := range w.term {
		mul := int64(1)
		if i == 0 {
			mul = w.mul
		}
		now := int64(allowed & 1)
		if now != 0 {
			b.Forms[i].Const = append(b.Forms[i].Const, Entry{slot, mul})
		}
		for k := 1; k <= steps.Largest(p.Code.Tops()[w.feature], i); k++ {
			next := int64(allowed >> k & 1)
			if next != now {
				bit := p.Code.First(w.feature, i) + k - 1
				terms[i][bit] = append(terms[i][bit], Entry{slot, mul * (next - now)})
			}
			now = next
		}
	}
}

// pad sets the forms of digits that a slot's feature lacks to 1.
func (p *Plan) pad(b *Block, rows []sequence) {
	for r, row := range rows {
		for i, w := range row.terms {
			for d := len(w.term); d < len(b.Forms); d++ {
				b.Forms[d].Const = append(b.Forms[d].Const, Entry{r*p.Slots/2 + i, 1})
			}
		}
	}
}
