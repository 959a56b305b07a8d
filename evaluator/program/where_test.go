package program

// part returns the text of the refused sub-expression, shortened to one line.
func (e *Error) part() string { return excerpt(e.Expr, e.From, e.To) }

// position returns the 1-based line and column of the sub-expression in Expr.
func (e *Error) position() (line, column int) {
	line, column = 1, 1
	for i, r := range []rune(e.Expr) {
		if i == e.From {
			break
		}
		if r == '\n' {
			line, column = line+1, 1
		} else {
			column++
		}
	}
	return line, column
}
