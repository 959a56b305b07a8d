package config

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// decoder turns a YAML tree into structs and collects every mistake. Fields
// carry the tag yaml:"name" (or ",inline") and optionally cfg:"required,path"; cfg:"blank"
// says that a text may be white space alone.
type decoder struct {
	doc  *document
	errs []*Error
	bad  []string // paths whose value could not be decoded
}

func (d *decoder) fail(n ast.Node, path, cause, remedy string) {
	d.bad = append(d.bad, path)
	d.report(n, path, cause, remedy)
}

// report is fail for mistakes that leave the value at path usable.
func (d *decoder) report(n ast.Node, path, cause, remedy string) {
	d.errs = append(d.errs, d.doc.errorAt(nodePosition(n), path, cause, remedy))
}

var (
	durationType = reflect.TypeFor[Duration]()
	sizeType     = reflect.TypeFor[Size]()
	secretType   = reflect.TypeFor[Secret]()

	oneOrMoreType = reflect.TypeFor[OneOrMore]()
)

// value decodes n into v. opts are the cfg options of the field.
func (d *decoder) value(n ast.Node, v reflect.Value, path, opts string) {
	if !d.plain(n, path) {
		return
	}
	if _, null := n.(*ast.NullNode); null {
		d.fail(n, path, "has no value", valueRemedy(path, opts))
		return
	}
	switch v.Type() {
	case durationType:
		d.duration(n, v, path)
		d.notZero(n, v, path, opts)
		return
	case sizeType:
		d.size(n, v, path)
		d.notZero(n, v, path, opts)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path, opts)
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Slice:
		if _, one := n.(*ast.StringNode); one && v.Type() == oneOrMoreType {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			d.doc.at[path+"[0]"] = nodePosition(n)
			d.value(n, v.Index(0), path, opts)
			return
		}
		d.list(n, v, path, opts)
	case reflect.Array:
		d.array(n, v, path)
	case reflect.Map:
		d.stringMap(n, v, path)
	case reflect.String:
		if s, ok := d.text(n, path); ok {
			switch {
			case s == "", strings.TrimSpace(s) == "" && !strings.Contains(opts, "blank"):
				d.fail(n, path, "the text is empty", valueRemedy(path, opts))
			case v.Type() == secretType:
				s = d.resolveSecret(s)
			case strings.Contains(opts, "path"):
				s = d.path(n, s, path)
			}
			v.SetString(s)
		}
	case reflect.Bool:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			d.mismatch(n, path, "true or false", "write true or false")
			return
		}
		v.SetBool(b.Value)
	case reflect.Int:
		d.integer(n, v, path)
		d.notZero(n, v, path, opts)
	case reflect.Float64:
		if f, ok := d.number(n, path); ok {
			v.SetFloat(f)
			d.notZero(n, v, path, opts)
		}
	default:
		d.fail(n, path, "cannot be set", "remove it")
	}
}

// notZero refuses a zero written out where zero stands for the default, which
// would otherwise be put in its place without a word.
func (d *decoder) notZero(n ast.Node, v reflect.Value, path, opts string) {
	remedy := "write a positive value, or remove the key for the default"
	if v.Kind() == reflect.Float64 {
		remedy = "write another value, or remove the key for the default"
	}
	if v.IsZero() && !strings.Contains(opts, "zero") && !slices.Contains(d.bad, path) {
		d.fail(n, path, "must not be 0", remedy)
	}
}

// plain refuses what makes a file say something other than it seems to.
func (d *decoder) plain(n ast.Node, path string) bool {
	switch n.(type) {
	case nil:
		return false
	case *ast.AnchorNode, *ast.AliasNode:
		d.fail(n, path, "anchors and aliases are not supported", "write the value out")
	case *ast.TagNode:
		d.fail(n, path, "tags are not supported", "remove the tag")
	default:
		return true
	}
	return false
}

func (d *decoder) mismatch(n ast.Node, path, want, remedy string) {
	d.fail(n, path, fmt.Sprintf("expected %s, found %s", want, describe(n)), remedy)
}

func (d *decoder) text(n ast.Node, path string) (string, bool) {
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

func (d *decoder) integer(n ast.Node, v reflect.Value, path string) {
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

func (d *decoder) number(n ast.Node, path string) (float64, bool) {
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

func (d *decoder) duration(n ast.Node, v reflect.Value, path string) {
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
	t, err := parseDuration(s.Value)
	if err != nil {
		remedy := "write a number with one of the units ms, s, m, h or d, such as 250ms, 1m30s"
		if meant := meantDuration(s.Value); meant != "" {
			remedy = fmt.Sprintf("did you mean %s? the units are ms, s, m, h and d", meant)
		}
		d.fail(n, path, "invalid duration "+quote(s.Value), remedy)
		return
	}
	if t < 0 {
		d.fail(n, path, fmt.Sprintf("the duration %s is negative", s.Value), "write a positive duration")
		return
	}
	v.SetInt(int64(t))
}

func (d *decoder) size(n ast.Node, v reflect.Value, path string) {
	remedy := "write a number with one of the units B, KiB, MiB, GiB, kB, MB or GB, such as 112KiB"
	s, ok := n.(*ast.StringNode)
	if !ok {
		if _, whole := n.(*ast.IntegerNode); whole {
			remedy = fmt.Sprintf("add the unit, such as %[1]sB or %[1]sKiB; the others are MiB, GiB, kB, MB and GB", n.GetToken().Value)
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

// resolve makes a path relative to the directory of the configuration.
func (d *decoder) resolve(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(d.doc.dir, path)
}

// path resolves the value of a field that names a file. "cred:name" is the file of
// a systemd credential.
func (d *decoder) path(n ast.Node, value, path string) string {
	name, credential := strings.CutPrefix(value, "cred:")
	if !credential {
		return d.resolve(value)
	}
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	switch {
	case name == "" || strings.ContainsAny(name, `/\`) || name == "." || name == "..":
		d.fail(n, path, fmt.Sprintf("%q is no credential", value), "write cred: and the plain name that LoadCredential= gives it")
	case dir == "":
		d.fail(n, path, fmt.Sprintf("the credential %q is there only for a service that systemd started", name),
			fmt.Sprintf("add LoadCredential=%s:/path to the unit, and try `systemctl reload`; or name a file", name))
	}
	return filepath.Join(dir, name)
}

// resolveSecret resolves the paths of file: and age: references.
func (d *decoder) resolveSecret(ref string) string {
	if path, ok := strings.CutPrefix(ref, "file:"); ok {
		return "file:" + d.resolve(path)
	}
	if sealed, ok := strings.CutPrefix(ref, "age:"); ok {
		file, identity := splitSealed(sealed)
		return "age:" + d.resolve(file) + "@" + d.resolveSecret(string(identity))
	}
	return ref
}

func (d *decoder) list(n ast.Node, v reflect.Value, path, opts string) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.mismatch(n, path, "a list", listRemedy(n, path))
		return
	}
	if len(seq.Values) == 0 {
		remedy := "add an entry, or remove the key"
		if strings.Contains(opts, "required") {
			remedy = "add at least one entry"
		}
		d.fail(n, path, "the list is empty", remedy)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values)))
	for i, e := range seq.Values {
		p := fmt.Sprintf("%s[%d]", path, i)
		if e == nil {
			d.fail(n, p, "has no value", "give it a value, or remove the entry")
			continue
		}
		d.doc.at[p] = nodePosition(e)
		d.value(e, v.Index(i), p, opts)
	}
}

func (d *decoder) array(n ast.Node, v reflect.Value, path string) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok || len(seq.Values) != v.Len() {
		d.mismatch(n, path, fmt.Sprintf("a list of %d numbers", v.Len()), "write [minimum, maximum]")
		return
	}
	for i, e := range seq.Values {
		p := fmt.Sprintf("%s[%d]", path, i)
		d.doc.at[p] = nodePosition(e)
		d.value(e, v.Index(i), p, "zero")
	}
}

// valueRemedy says how to give a value to the key at path, or to do without.
func valueRemedy(path, opts string) string {
	if strings.Contains(opts, "required") {
		return "write " + exampleOf(lastKey(path))
	}
	return "give it a value, or remove the key"
}

// listRemedy says how to write a list in place of n.
func listRemedy(n ast.Node, path string) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "start each entry with \"- \""
	}
	return fmt.Sprintf("write %s: [first, second], or each entry in a line of its own that starts with \"- \"", lastKey(path))
}

// lastKey is the last key of a path, without indices.
func lastKey(path string) string {
	path = path[strings.LastIndexByte(path, '.')+1:]
	key, _, _ := strings.Cut(path, "[")
	return key
}
