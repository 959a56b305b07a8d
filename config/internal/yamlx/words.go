package yamlx

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// longestQuote is the most bytes of the file that a cause repeats; the line itself
// stands below it.
const longestQuote = 64

// Quote returns a text in quotes, cut if it is long.
func Quote(s string) string {
	if len(s) > longestQuote {
		return strconv.Quote(strings.ToValidUTF8(s[:longestQuote], "")) + "..."
	}
	return strconv.Quote(s)
}

// Plural returns n with a noun: "1 channel", "2 channels".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// suggestKey returns the remedy for an unknown key.
func suggestKey(key string, known []string) string {
	if s := Nearest(key, known); s != "" {
		return fmt.Sprintf("did you mean %q?", s)
	}
	return "remove it; known keys here: " + strings.Join(known, ", ")
}

// mostKnown is how many values are listed besides a suggestion.
const mostKnown = 8

// SuggestValue returns the remedy for a value outside a fixed set.
func SuggestValue(value string, known []string) string {
	known = slices.DeleteFunc(slices.Clone(known), func(s string) bool { return s == "" })
	near := Nearest(value, known)
	switch {
	case len(known) == 0:
		return "define it first"
	case len(known) == 1:
		return fmt.Sprintf("write %q", known[0])
	case near == "":
		return "use one of " + strings.Join(known, ", ")
	case len(known) <= mostKnown:
		return fmt.Sprintf("did you mean %q? use one of %s", near, strings.Join(known, ", "))
	}
	return fmt.Sprintf("did you mean %q?", near)
}

// Nearest returns the known word at the smallest edit distance from word, or "" when
// none is close.
func Nearest(word string, known []string) string {
	if len(word) > longestQuote {
		return ""
	}
	fold := func(s string) string {
		return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
	}
	best, limit := "", len(word)/3+1
	w := fold(word)
	for _, k := range known {
		if d := distance(w, fold(k)); d < limit {
			best, limit = k, d
		}
	}
	if best == "" {
		for _, k := range known {
			if abbreviates(w, fold(k)) {
				return k
			}
		}
	}
	return best
}

// abbreviates reports whether short is long with letters left out: "pubkey" for
// "publickey". It starts alike and keeps half.
func abbreviates(short, long string) bool {
	if len(short) < 3 || len(long) == 0 || 2*len(short) < len(long) || short[0] != long[0] {
		return false
	}
	i := 0
	for j := 0; i < len(short) && j < len(long); j++ {
		if short[i] == long[j] {
			i++
		}
	}
	return i == len(short)
}

// distance returns the optimal string alignment distance: insertions, deletions,
// substitutions and swaps of neighbours, in bytes.
func distance(a, b string) int {
	var prev2 []int
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur := make([]int, len(b)+1)
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev = prev, cur
	}
	return prev[len(b)]
}
