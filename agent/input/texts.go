package input

import "github.com/hencedge/hencedge/config"

// Texts are the quantities that are taken out of one text.
type Texts struct {
	count  *Counters
	points []textPoint
}

type textPoint struct {
	text Text
	cell *Cell
}

// NewTexts makes an empty set whose outcomes are counted in count.
func NewTexts(count *Counters) *Texts { return &Texts{count: count} }

// Add adds the quantity of a source and gives the cell that will hold it.
func (t *Texts) Add(src config.Source, in config.Input) (*Cell, error) {
	text, err := NewText(src)
	if err != nil {
		return nil, err
	}
	c := NewCell(in.MaxAge)
	t.points = append(t.points, textPoint{text, c})
	return c, nil
}

// Take takes every quantity out of a text. Whether it is JSON is found out once.
func (t *Texts) Take(text string) {
	checked, invalid := false, error(nil)
	for _, p := range t.points {
		var v float64
		var err error
		switch {
		case !p.text.JSON():
			v, err = p.text.Number(text)
		case !checked:
			checked, invalid = true, ValidJSON(text)
			fallthrough
		default:
			if err = invalid; err == nil {
				v, err = p.text.InJSON(text)
			}
		}
		t.Put(p.cell, v, err)
	}
}

// TakeMatching is Take for one of several kinds of texts: quantities whose
// pattern does not match it stay as they are.
func (t *Texts) TakeMatching(text string) {
	for _, p := range t.points {
		if p.text.pattern != nil && !p.text.pattern.MatchString(text) {
			continue
		}
		v, err := p.text.Number(text)
		t.Put(p.cell, v, err)
	}
}

// Put stores one outcome.
func (t *Texts) Put(c *Cell, v float64, err error) {
	if err != nil {
		t.count.Bad.Add(1)
		c.Fail(err)
		return
	}
	t.count.Values.Add(1)
	c.Set(v)
}
