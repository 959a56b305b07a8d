package yamlx

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"
)

// nodePosition returns where a node starts in the file.
func nodePosition(n ast.Node) Position {
	if n == nil {
		return Position{}
	}
	switch m := n.(type) {
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 && m.Values[0].Key != nil {
			return nodePosition(m.Values[0].Key)
		}
	case *ast.MappingValueNode:
		if m.Key != nil {
			return nodePosition(m.Key)
		}
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return Position{}
	}
	return Position{t.Position.Line, t.Position.Column}
}

// describe names what a node is, for messages.
func describe(n ast.Node) string {
	named := func(kind string) string {
		return kind + " " + Quote(n.GetToken().Value)
	}
	switch m := n.(type) {
	case *ast.StringNode:
		return named("the text")
	case *ast.IntegerNode, *ast.FloatNode:
		return named("the number")
	case *ast.BoolNode:
		return named("the truth value")
	case *ast.InfinityNode, *ast.NanNode:
		return named("the value")
	case *ast.LiteralNode:
		return "a block of text"
	case *ast.SequenceNode:
		return fmt.Sprintf("a list of %d", len(m.Values))
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys and values"
	case *ast.NullNode:
		return "nothing"
	}
	return "something else"
}

func keyText(k ast.MapKeyNode) (string, bool) {
	switch s := k.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.IntegerNode, *ast.BoolNode:
		return k.GetToken().Value, true
	}
	return "", false
}
