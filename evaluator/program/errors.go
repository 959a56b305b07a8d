package program

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Why a program is refused; test with errors.Is. Compile returns an *Error that
// wraps one of them.
var (
	// ErrSyntax: the text is not an expression of the language.
	ErrSyntax = errors.New("program: syntax")
	// ErrName: an unknown variable or function.
	ErrName = errors.New("program: unknown name")
	// ErrType: operands do not fit each other (window lengths, arguments).
	ErrType = errors.New("program: operands do not fit")
	// ErrUnsupported: the operation cannot be computed on encrypted values.
	ErrUnsupported = errors.New("program: not computable on encrypted values")
	// ErrConstant: the result does not depend on any input, or a constant is
	// not a finite number.
	ErrConstant = errors.New("program: unusable constant")
	// ErrSize: the program exceeds a limit of the compiler.
	ErrSize = errors.New("program: too large")
	// ErrDepth: more levels are needed than the parameters or inputs have.
	ErrDepth = errors.New("program: too deep")
	// ErrMagnitude: an intermediate value exceeds the modulus of its level.
	ErrMagnitude = errors.New("program: value too large for its level")
	// ErrParams: the parameters or the inputs' streams cannot serve the program.
	ErrParams = errors.New("program: unusable parameters")
	// ErrInput: Run or Reference was given other inputs than the circuit needs.
	ErrInput = errors.New("program: wrong inputs")
)

// Error says why a program was refused and where. From and To are the rune
// offsets of the sub-expression in Expr; both are 0 where it has none.
type Error struct {
	Program  string
	Expr     string
	From, To int
	Kind     error  // one of the sentinels above
	Message  string // what is wrong
	Hint     string // what to do; may be empty
}

// Unwrap gives the sentinel.
func (e *Error) Unwrap() error { return e.Kind }

// Error is the message, the line of the expression with a caret under the
// sub-expression, and the hint.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Program != "" {
		fmt.Fprintf(&b, "program %q: ", e.Program)
	}
	b.WriteString(e.Message)
	if line, caret := e.marked(); line != "" {
		fmt.Fprintf(&b, "\n    %s\n    %s", line, caret)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, "\n  %s", e.Hint)
	}
	return b.String()
}

// maxShown is the widest excerpt of an expression in a message, in runes.
const maxShown = 100

// marked returns the line that the sub-expression starts in, cut to maxShown runes
// around it, and the line of carets below.
func (e *Error) marked() (line, caret string) {
	if e.To <= e.From {
		return "", ""
	}
	runes := []rune(e.Expr)
	from, to := min(e.From, len(runes)), min(e.To, len(runes))
	start, end := from, from
	for start > 0 && runes[start-1] != '\n' {
		start--
	}
	for end < len(runes) && runes[end] != '\n' {
		end++
	}
	to = max(min(to, end), min(from+1, end))
	prefix, suffix := "", ""
	if end-start > maxShown {
		if from-start > maxShown/3 {
			start, prefix = from-maxShown/3, "..."
		}
		if end-start > maxShown {
			end, suffix = start+maxShown, "..."
		}
		to = min(to, end)
	}
	clean := func(r []rune) string {
		return strings.Map(func(c rune) rune {
			if c < ' ' || c == 0x7f {
				return ' '
			}
			return c
		}, string(r))
	}
	line = prefix + clean(runes[start:end]) + suffix
	caret = strings.Repeat(" ", utf8.RuneCountInString(prefix)+from-start) + "^" + strings.Repeat("~",
		max(to-from-1, 0))
	return line, caret
}

// excerpt returns runes [from, to) of text on one line, at most 60 runes.
func excerpt(text string, from, to int) string {
	runes := []rune(text)
	from, to = max(min(from, len(runes)), 0), max(min(to, len(runes)), 0)
	if from >= to {
		return ""
	}
	s := strings.Join(strings.Fields(string(runes[from:to])), " ")
	if r := []rune(s); len(r) > 60 {
		s = string(r[:42]) + " ... " + string(r[len(r)-13:])
	}
	return s
}
