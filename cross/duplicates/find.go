package main

import (
	"cmp"
	"fmt"
	"slices"
)

// block is a run of tokens that stands in two trees.
type block struct {
	a, b  place
	lines int // of code, on the side where it has fewer
}

func (b block) String() string {
	return fmt.Sprintf("%s ~ %s: %d lines", b.a, b.b, b.lines)
}

// compareAll returns the blocks of more than most lines that stand in two of the trees,
// longest first.
func compareAll(trees []tree, most int) []block {
	var found []block
	for i, a := range trees {
		for _, b := range trees[i+1:] {
			found = append(found, compare(a, b, most)...)
		}
	}
	slices.SortStableFunc(found, func(x, y block) int { return cmp.Compare(y.lines, x.lines) })
	return found
}

// compare returns the maximal blocks of more than most lines that stand in both trees.
// Each token of b is reported once.
func compare(a, b tree, most int) (found []block) {
	least := 2 * (most + 1) // tokens: no line has fewer than two, its end included
	index := map[string][]int{}
	for i := range len(a) - least + 1 {
		k := a.key(i, least)
		index[k] = append(index[k], i)
	}
	for j := 0; j <= len(b)-least; {
		best := block{}
		next := j + 1
		for _, i := range index[b.key(j, least)] {
			n := common(a[i:], b[j:])
			inA, linesA := a.whole(i, n)
			inB, linesB := b.whole(j, n)
			if lines := min(linesA, linesB); lines > max(most, best.lines) {
				best = block{inA, inB, lines}
				next = j + n
			}
		}
		if best.lines > 0 {
			found = append(found, best)
		}
		j = next
	}
	return found
}

// common returns how many tokens a and b have in common at their start, within one file.
func common(a, b tree) int {
	n := 0
	for n < len(a) && n < len(b) && a[n].shape == b[n].shape && a[n].file == a[0].file && b[n].file == b[0].file {
		n++
	}
	return n
}
