package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/hencedge/hencedge/evaluator/program/minimax"
)

// A composition is a list of degrees. The first polynomial takes [2^-alpha, 1] to [m, 1], scaled so that its
// largest value is 1 less a margin, the next one takes [m, 1] less the same margin on, and the last one takes
// what is left to within 2^-beta of 1. Margins are what noise may move values by.

// margin returns how far a value of [low, 1] may be off.
func margin(low float64) float64 { return math.Min(low/8, 0x1p-9) }

// firstLow returns from where on the first polynomial of alpha decides: an eighth below 2^-alpha.
func firstLow(alpha int) float64 { return math.Ldexp(0.875, -alpha) }

// next returns the lower end of what a polynomial with the error e gives, less the margin, and that margin.
func next(e float64) (low, off float64) {
	low = (1 - e) / (1 + e)
	off = margin(low)
	return (1-off)*low - off, off
}

// full are the degrees that use the depths 2 to 5 whole.
var full = []int{3, 7, 15, 31}

// maxDepth is the largest depth of a composition.
const maxDepth = 26

// way is a list of degrees, what it costs, and the lower end of what it gives.
type way struct {
	degrees  []int
	depth    int
	products int
	low      float64
}

// search finds compositions for one alpha: of least depth, then with fewest products.
type search struct {
	alpha int
	known map[string]float64 // errors of the last polynomial, by degrees
}

// chain returns the error of the last polynomial of a composition.
func (s *search) chain(degrees []int) (float64, error) {
	key := fmt.Sprint(degrees)
	if e, ok := s.known[key]; ok {
		return e, nil
	}
	low, last := firstLow(s.alpha), len(degrees)-1
	if last > 0 {
		before, err := s.chain(degrees[:last])
		if err != nil {
			return 0, err
		}
		low, _ = next(before)
	}
	_, e, err := remez64((degrees[last]+1)/2, low)
	s.known[key] = e
	return e, err
}

// shortest returns the degrees of least depth whose error is at most 2^-beta.
func (s *search) shortest(beta int) ([]int, error) {
	goal := math.Ldexp(1-0x1p-20, -beta)
	ways := map[int][]way{0: {{low: firstLow(s.alpha)}}}
	for depth := 2; depth <= maxDepth; depth++ {
		var all, done []way
		for _, degree := range full {
			for _, from := range ways[depth-minimax.Depth(degree)] {
				w := way{degrees: append(slices.Clone(from.degrees), degree), depth: depth,
					products: from.products + minimax.Products(degree, minimax.Baby(degree))}
				e, err := s.chain(w.degrees)
				if err != nil {
					return nil, err
				}
				if w.low, _ = next(e); e <= goal {
					done = append(done, w)
				}
				all = append(all, w)
			}
		}
		if len(done) > 0 {
			best := slices.MinFunc(done, func(a, b way) int { return a.products - b.products })
			return s.fewest(best.degrees, goal)
		}
		ways[depth] = pareto(all)
	}
	return nil, fmt.Errorf("no composition for alpha %d and beta %d up to depth %d", s.alpha, beta, maxDepth)
}

// pareto keeps of the ways of one depth those that no other beats in products and in the lower end: a higher one
// is better for every polynomial that follows.
func pareto(ways []way) (kept []way) {
	slices.SortStableFunc(ways, func(a, b way) int { return a.products - b.products })
	high := 0.0
	for _, w := range ways {
		if w.low > high {
			kept, high = append(kept, w), w.low
		}
	}
	return kept
}

// fewest lowers each degree as far as the error allows, the last one first.
func (s *search) fewest(degrees []int, goal float64) ([]int, error) {
	for i := len(degrees) - 1; i >= 0; i-- {
		for degrees[i] > 3 {
			lower := slices.Clone(degrees)
			lower[i] -= 2
			if minimax.Depth(lower[i]) < minimax.Depth(degrees[i]) {
				break
			}
			e, err := s.chain(lower)
			if err != nil {
				return nil, err
			}
			if e > goal {
				break
			}
			degrees = lower
		}
	}
	return degrees, nil
}
