package program

import (
	"slices"
	"strings"
)

// function describes one function of the language.
type function struct {
	args string // how it is called, for messages and documentation
	min  int    // least number of arguments
	max  int
	doc  string
}

// functions are all functions of the language.
var functions = map[string]function{
	"sum":  {"sum(x)", 1, 1, "sum of the samples of a window"},
	"mean": {"mean(x)", 1, 1, "arithmetic mean of a window"},
	"var":  {"var(x)", 1, 1, "population variance of a window"},
	"std":  {"std(x)", 1, 1, "population standard deviation; outermost only"},
	"rms":  {"rms(x)", 1, 1, "root mean square of a window; outermost only"},
	"sqrt": {"sqrt(v)", 1, 1, "square root; outermost only"},
	"cov":  {"cov(x, y)", 2, 2, "population covariance of two windows"},
	"dot":  {"dot(x, [w0, w1, ...])", 2, 2, "sum of the samples times weights, or times the samples of another window"},
	"poly": {"poly(x, [c0, c1, c2, ...])", 2, 2, "c0 + c1*x + c2*x^2 + ..."},
	"prev": {"prev(x)", 1, 1, "the window before"},
	"lag":  {"lag(x, k)", 2, 2, "the window k windows ago"},

	"count":    {"count(x > t)", 1, 1, "samples of a histogram that a comparison holds for"},
	"fraction": {"fraction(a < x < b)", 1, 1, "their share of all samples"},
	"quantile": {"quantile(x, p)", 2, 2, "least sample of a histogram that a share p of all samples does not exceed"},
	"median":   {"median(x)", 1, 1, "quantile(x, 0.5)"},
	"min":      {"min(x)", 1, 1, "least sample of a histogram"},
	"max":      {"max(x)", 1, 1, "largest sample of a histogram"},
	"last":     {"last(x, k)", 2, 2, "the k newest windows of a histogram as one"},

	"fleet.sum":  {"fleet.sum(x)", 1, 1, "sum of the samples of all devices of a class"},
	"fleet.mean": {"fleet.mean(x)", 1, 1, "arithmetic mean over all samples of all devices of a class"},
	"fleet.var":  {"fleet.var(x)", 1, 1, "population variance over all samples of all devices of a class"},

	"fleet.count":    {"fleet.count(x > t)", 1, 1, "as count, over all devices of a class"},
	"fleet.fraction": {"fleet.fraction(a < x < b)", 1, 1, "as fraction, over all devices of a class"},
	"fleet.quantile": {"fleet.quantile(x, p)", 2, 2, "as quantile, over all devices of a class"},
	"fleet.median":   {"fleet.median(x)", 1, 1, "as median, over all devices of a class"},
	"fleet.min":      {"fleet.min(x)", 1, 1, "as min, over all devices of a class"},
	"fleet.max":      {"fleet.max(x)", 1, 1, "as max, over all devices of a class"},
}

// refused are functions that people try, with the reason why they cannot work.
var refused = map[string]string{
	"abs":   "the sign of an encrypted value is not known; use x^2, rms(x) or a polynomial",
	"sign":  "the sign of an encrypted value is not known",
	"round": "rounding is not a polynomial",
	"floor": "rounding is not a polynomial",
	"ceil":  "rounding is not a polynomial",
	"int":   "rounding is not a polynomial",
	"exp":   "it is not a polynomial; use poly(x, [...]) with coefficients fitted to the channel's range",
	"log":   "it is not a polynomial; use poly(x, [...]) with coefficients fitted to the channel's range",
	"ln":    "it is not a polynomial; use poly(x, [...]) with coefficients fitted to the channel's range",
	"sin":   "it is not a polynomial; use poly(x, [...]) with coefficients fitted to the channel's range",
	"cos":   "it is not a polynomial; use poly(x, [...]) with coefficients fitted to the channel's range",
	"corr": "it divides by encrypted values; compute cov(x, y), var(x) and var(y) as three programs and divide after " +
		"decryption",
	"len": "the number of samples travels with the result in the clear",
	"if":  "a branch on an encrypted value would reveal it",
}

// synonyms are names of functions under which people look for them.
var synonyms = map[string]string{
	"avg": "mean", "average": "mean", "total": "sum", "variance": "var", "stddev": "std", "stdev": "std",
	"sd": "std", "sigma": "std", "covariance": "cov", "inner": "dot", "weighted": "dot", "polynomial": "poly",
	"delay": "lag", "shift": "lag", "previous": "prev", "last": "prev", "pow": "poly", "norm": "rms",
}

// functionNames lists the functions in alphabetical order.
func functionNames() []string {
	names := make([]string, 0, len(functions))
	for n := range functions {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// nearest returns the candidate that differs from name by the fewest edits, at most
// a third of its length; "" if none does, the first of several.
func nearest(name string, candidates []string) string {
	if len(name) > 64 {
		return ""
	}
	best, at := max(1, len(name)/3)+1, ""
	for _, c := range candidates {
		if len(c) > 64 {
			continue
		}
		if d := distance(strings.ToLower(name), strings.ToLower(c)); d < best {
			best, at = d, c
		}
	}
	return at
}

// distance returns the number of insertions, deletions, replacements and swaps of
// neighbours between a and b (optimal string alignment).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(x)][len(y)]
}
