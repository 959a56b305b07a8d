package program

import (
	"slices"

	"github.com/expr-lang/expr/ast"
)

// Unused lists those of the names that an expression does not mention, sorted. Of an
// expression that cannot be parsed, which Compile refuses, it says nothing.
func Unused(expr string, names []string) []string {
	_, tree, err := parse("", expr)
	if err != nil {
		return nil
	}
	m := mentioned{}
	ast.Walk(&tree, m)
	out := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return m[name] })
	slices.Sort(out)
	return out
}

// mentioned are the identifiers of an expression.
type mentioned map[string]bool

// Visit is ast.Visitor's.
func (m mentioned) Visit(n *ast.Node) {
	if id, ok := (*n).(*ast.IdentifierNode); ok {
		m[id.Value] = true
	}
}
