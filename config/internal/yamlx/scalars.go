package yamlx

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

func (d *Decoder) text(n ast.Node, path string) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.LiteralNode:
		return strings.TrimSuffix(s.Value.Value, "\n"), true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		d.mismatch(n, path, "text", fmt.Sprintf("put it in quotes: %q", n.GetToken().Value))
		return "", false
	}
	d.mismatch(n, path, "text", "write one value")
	return "", false
}

func (d *Decoder) integer(n ast.Node, v reflect.Value, path string) {
	i, ok := n.(*ast.IntegerNode)
	if !ok {
		d.mismatch(n, path, "a whole number", "write a whole number, without quotes or unit")
		return
	}
	switch x := i.Value.(type) {
	case int64:
		if x >= math.MinInt32 && x <= math.MaxInt32 {
			v.SetInt(x)
			return
		}
	case uint64:
		if x <= math.MaxInt32 {
			v.SetInt(int64(x))
			return
		}
	}
	d.fail(n, path, fmt.Sprintf("the number %s is out of range", n.GetToken().Value), "write a smaller number")
}

var exponential = regexp.MustCompile(`^[-+]?[0-9]+[eE][-+]?[0-9]+$`)

func (d *Decoder) number(n ast.Node, path string) (float64, bool) {
	var f float64
	switch x := n.(type) {
	case *ast.FloatNode:
		f = x.Value
	case *ast.IntegerNode:
		switch i := x.Value.(type) {
		case int64:
			f = float64(i)
		case uint64:
			f = float64(i)
		}
	case *ast.InfinityNode, *ast.NanNode:
		d.mismatch(n, path, "a finite number", "write a finite number")
		return 0, false
	case *ast.StringNode:
		// 5e+08, as programs print numbers, is one in YAML 1.2 (section 10.3.2), and
		// text to parsers that follow YAML 1.1.
		if x.Token.Type != token.StringType || !exponential.MatchString(x.Value) {
			d.mismatch(n, path, "a number", "write a number, without quotes or unit")
			return 0, false
		}
		f, _ = strconv.ParseFloat(x.Value, 64) // what is too large is infinite
	default:
		d.mismatch(n, path, "a number", "write a number, without quotes or unit")
		return 0, false
	}
	if math.IsInf(f, 0) || math.IsNaN(f) {
		d.fail(n, path, "the number is out of range", "write a smaller number")
		return 0, false
	}
	return f, true
}

func (d *Decoder) duration(n ast.Node, v reflect.Value, path string) {
	s, ok := n.(*ast.StringNode)
	if !ok {
		remedy := "write a number with a unit, such as 250ms, 1s, 5m or 2h"
		switch n.(type) {
		case *ast.IntegerNode, *ast.FloatNode:
			remedy = fmt.Sprintf("add the unit, such as %ss for seconds or %sms for milliseconds",
				n.GetToken().Value, n.GetToken().Value)
		}
		d.mismatch(n, path, "a duration", remedy)
		return
	}
	t, err := ParseDuration(s.Value)
	if err != nil {
		remedy := "write a number with one of the units ms, s, m, h or d, such as 250ms, 1m30s"
		if meant := meantDuration(s.Value); meant != "" {
			remedy = fmt.Sprintf("did you mean %s? the units are ms, s, m, h and d", meant)
		}
		d.fail(n, path, "invalid duration "+Quote(s.Value), remedy)
		return
	}
	if t < 0 {
		d.fail(n, path, fmt.Sprintf("the duration %s is negative", s.Value), "write a positive duration")
		return
	}
	v.SetInt(int64(t))
}

func (d *Decoder) size(n ast.Node, v reflect.Value, path string) {
	remedy := "write a number with one of the units B, KiB, MiB, GiB, kB, MB or GB, such as 112KiB"
	s, ok := n.(*ast.StringNode)
	if !ok {
		if _, whole := n.(*ast.IntegerNode); whole {
			remedy = fmt.Sprintf("add the unit, such as %[1]sB or %[1]sKiB; the others are MiB, GiB, kB, MB and GB",
				n.GetToken().Value)
		}
		d.mismatch(n, path, "a size", remedy)
		return
	}
	size, err := ParseSize(s.Value)
	if err != nil {
		if meant := meantSize(s.Value); meant != "" {
			remedy = fmt.Sprintf("did you mean %s? the units are B, KiB, MiB, GiB, kB, MB and GB", meant)
		}
		d.fail(n, path, err.Error(), remedy)
		return
	}
	v.SetInt(int64(size))
}
