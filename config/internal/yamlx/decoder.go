package yamlx

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// A Decoder turns a YAML tree into structs and collects every mistake. Fields carry the tag
// yaml:"name" (or ",inline") and may carry cfg:"OPTIONS", separated by commas:
//
//	required  the key must be given
//	path      the text names a file, relative to the configuration's directory
//	blank     the text may be white space alone
//	zero      the number may be 0; elsewhere 0 stands for the default
//	one       a single text stands for a list of one
type Decoder struct {
	Doc  *Document
	Errs []*Error
	Bad  []string // paths whose value could not be decoded

	options Options
	body    ast.Node
}

// Options tell a decoder what it cannot see in the types that it fills.
type Options struct {
	// Examples show how a key is written, by its name.
	Examples map[string]string
	// Texts rewrite the texts of types that hold paths, which resolve makes absolute.
	Texts map[reflect.Type]func(text string, resolve func(path string) string) string
}

func (d *Decoder) fail(n ast.Node, path, cause, remedy string) {
	d.Bad = append(d.Bad, path)
	d.report(n, path, cause, remedy)
}

// report reports a mistake that leaves the value at path usable.
func (d *Decoder) report(n ast.Node, path, cause, remedy string) {
	d.Errs = append(d.Errs, d.Doc.ErrorAt(nodePosition(n), path, cause, remedy))
}

// example returns how a key is written.
func (d *Decoder) example(key string) string {
	if e, ok := d.options.Examples[key]; ok {
		return e
	}
	return strconv.Quote(key)
}

// plain refuses anchors, aliases and tags: with them a file means more than it shows.
func (d *Decoder) plain(n ast.Node, path string) bool {
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

func (d *Decoder) mismatch(n ast.Node, path, want, remedy string) {
	d.fail(n, path, fmt.Sprintf("expected %s, found %s", want, describe(n)), remedy)
}

// resolve makes a path relative to the directory of the configuration.
func (d *Decoder) resolve(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(d.Doc.dir, path)
}

// path resolves the value of a field that names a file. "cred:name" is the file of
// a systemd credential.
func (d *Decoder) path(n ast.Node, value, path string) string {
	name, credential := strings.CutPrefix(value, "cred:")
	if !credential {
		return d.resolve(value)
	}
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	switch {
	case name == "" || strings.ContainsAny(name, `/\`) || name == "." || name == "..":
		d.fail(n, path, fmt.Sprintf("%q is no credential", value),
			"write cred: and the plain name that LoadCredential= gives it")
	case dir == "":
		d.fail(n, path, fmt.Sprintf("the credential %q exists only in a service that systemd started", name),
			fmt.Sprintf("add LoadCredential=%s:/path to the unit, and try `systemctl reload`; or name a file", name))
	}
	return filepath.Join(dir, name)
}

// valueRemedy returns how to give a value to the key at path, or to do without.
func (d *Decoder) valueRemedy(path, opts string) string {
	if strings.Contains(opts, "required") {
		return "write " + d.example(lastKey(path))
	}
	return "give it a value, or remove the key"
}

// listRemedy says how to write a list in place of n.
func listRemedy(n ast.Node, path string) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "start each entry with \"- \""
	}
	return fmt.Sprintf("write %s: [first, second], or each entry in a line of its own that starts with \"- \"",
		lastKey(path))
}
