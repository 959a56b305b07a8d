package input

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// shown is the most bytes of foreign text in a message.
const shown = 40

// Clip shortens foreign text for messages. It is for text that is no reading, such as
// what a command complains about; for readings there is Shape.
func Clip(s string) string {
	s = strings.TrimSpace(s)
	if len(s) <= shown {
		return s
	}
	n := shown
	for n > shown-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// Shape returns the form of a text that holds a reading, without the reading: logs and
// the status are read by others than results. A run of digits becomes one 9 and loses
// its sign, a run of letters one a, a run of the same other character one of it:
// "-23,5 °C" and "7,25 °F" both are "9,9 °a". It is at most 43 bytes long.
func Shape(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > 4*shown { // runs collapse; most of what follows would be cut off
		s = s[:4*shown]
	}
	var b strings.Builder
	last := rune(-1) // as written
	for i, r := range s {
		switch {
		case unicode.IsDigit(r):
			r = '9'
		case unicode.IsLetter(r):
			r = 'a'
		case (r == '-' || r == '+') && last != '9' && signs(s[i+1:]):
			continue
		}
		if r == last {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > shown {
			return b.String() + "..."
		}
		b.WriteRune(r)
		last = r
	}
	return b.String()
}

// signs reports whether a sign before rest belongs to a number.
func signs(rest string) bool {
	r, _ := utf8.DecodeRuneInString(strings.TrimPrefix(rest, "."))
	return unicode.IsDigit(r)
}
