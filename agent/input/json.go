package input

import (
	"fmt"

	"github.com/tidwall/gjson"
)

// maxDepth bounds the nesting of JSON. Checking it recurses, and a message of a
// million brackets would take some hundred MiB of stack.
const maxDepth = 128

// MaxText bounds a text that a number is taken from, in bytes: an answer, a
// message, the output of a command.
const MaxText = 1 << 20

// ValidJSON reports whether a text is JSON that paths can be looked up in: at most
// MaxText bytes, nested at most maxDepth levels.
func ValidJSON(text string) error {
	switch {
	case len(text) > MaxText:
		return fmt.Errorf("%w: %d bytes of text", ErrReading, len(text))
	case deep(text):
		return fmt.Errorf("%w: JSON that is nested deeper than %d levels", ErrReading, maxDepth)
	case !gjson.Valid(text):
		return notJSON(text)
	}
	return nil
}

func notJSON(text string) error {
	return fmt.Errorf("%w: text of the form %q is not JSON", ErrReading, Shape(text))
}

// deep reports whether brackets outside of strings nest deeper than maxDepth.
func deep(text string) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}
