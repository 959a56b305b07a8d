package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/hencedge/hencedge"

// neverLinks lists what a package must not depend on, directly or through
// others: whoever takes over an evaluator must find no code that could read, and
// what tests share is no part of the product.
var neverLinks = map[string][]string{
	"evaluator":         {"henc/secret"},
	"evaluator/engine":  {"henc/secret", "evaluator/store"},
	"evaluator/program": {"henc/secret", "transport"},
	"evaluator/store":   {"henc"},
	"henc":              {"henc/secret"},
	"henc/bootstrap":    {"henc/secret"},
	"henc/compact":      {"henc/secret"},
	"keyset":            {"henc/secret"},
	"keyholder/alert":   {"henc", "henc/secret", "keyset"},
	"cmd/hencedge":      {"internal/testenv", "internal/testrig", "internal/vectors", "cutrantt/internal/fault"},
	"transport":         {"transport/mqtt", "transport/spool", "transport/delivery"},
	"transport/mqtt":    {"transport/spool", "transport/delivery"},
}

// driverPackage is the only package that may call into a C library, by whichever
// module that needs.
const driverPackage, callsC = "cutrantt/cuda/internal/driver", "github.com/ebitengine/purego"

// mostFiles bounds the files of a package that no generator wrote.
const mostFiles = 30

// TestImports compares the table of packages in ARCHITECTURE.md with the tree: every
// package stands in it, and imports what its row allows and nothing else. What a row
// allows is also used. Tests are left out.
func TestImports(t *testing.T) {
	pkgs, table := goList(t), readTable(t)
	if len(pkgs) < 10 || len(table) < 10 {
		t.Fatalf("%d packages and %d rows; is the module path still %s?", len(pkgs), len(table), module)
	}
	for name, p := range pkgs {
		part := table.rowOf(name)
		if part == "" || part != name && !strings.Contains(table[part].holds, "`"+path.Base(name)+"`") {
			t.Errorf("%s has no row in the table of ARCHITECTURE.md, and the row %q does not name it", name, part)
			continue
		}
		table[part].packages++
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, callsC) && name != driverPackage || imp == "C" {
				t.Errorf("%s imports %s: only %s calls a C library, and without cgo", name, imp, driverPackage)
			}
			dep, ok := ours(imp)
			if !ok || table.rowOf(dep) == part {
				continue
			}
			if !table[part].allows(table.rowOf(dep)) {
				t.Errorf("%s imports %s: ARCHITECTURE.md does not allow it to %s", name, dep, part)
			}
		}
	}
	for part, r := range table {
		if r.packages == 0 {
			t.Errorf("ARCHITECTURE.md has a row for %s, which holds no package", part)
		}
		for allowed, used := range r.imports {
			if !used {
				t.Errorf("ARCHITECTURE.md allows %s to import %s, which it does not do", part, allowed)
			}
		}
	}
	for name, bad := range neverLinks {
		p, ok := pkgs[name]
		if !ok {
			t.Errorf("%s does not exist: mend neverLinks", name)
			continue
		}
		for _, d := range p.Deps {
			if dep, ok := ours(d); ok && slices.Contains(bad, dep) {
				t.Errorf("%s links %s", name, dep)
			}
		}
	}
}

// TestPackageSizes counts the files of every package, those for other platforms
// included, tests and generated files left out.
func TestPackageSizes(t *testing.T) {
	for name, p := range goList(t) {
		n := 0
		for _, file := range slices.Concat(p.GoFiles, p.IgnoredGoFiles) {
			source, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(file, "_test.go") && !generated.Match(source) {
				n++
			}
		}
		if n > mostFiles {
			t.Errorf("%s has %d files, at most %d are allowed: split it", name, n, mostFiles)
		}
	}
}

// generated is the header of a generated file, as Go defines it.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// table is the table of packages in ARCHITECTURE.md by the first column.
type table map[string]*row

type row struct {
	holds string
	// imports are the entries of the third column, and whether anything used them.
	imports  map[string]bool
	packages int
}

// allows reports whether the row allows an import of a package of the row part, and
// marks the entry as used.
func (r *row) allows(part string) (ok bool) {
	for entry := range r.imports {
		below, all := strings.CutSuffix(entry, "/...")
		if part == entry || all && (part == below || strings.HasPrefix(part, below+"/")) {
			r.imports[entry], ok = true, true
		}
	}
	return ok
}

// rowOf returns the longest first column that name lies in, or "".
func (rows table) rowOf(name string) string {
	best := ""
	for part := range rows {
		if (name == part || strings.HasPrefix(name, part+"/")) && len(part) > len(best) {
			best = part
		}
	}
	return best
}

func readTable(t *testing.T) table {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(raw), "\n| path | holds | may import |\n|---|---|---|\n")
	if !ok {
		t.Fatal("ARCHITECTURE.md has no table of packages")
	}
	rows := table{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if line == "\n" {
			break
		}
		quoted := inBackticks.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(cells) != 3 || (len(quoted) == 0) != (cells[2] == "nothing") {
			t.Fatalf("ARCHITECTURE.md: not a row of the table of packages: %s", line)
		}
		r := &row{holds: cells[1], imports: map[string]bool{}}
		for _, q := range quoted {
			r.imports[q[1]] = false
		}
		rows[strings.Trim(cells[0], "`")] = r
	}
	return rows
}

var inBackticks = regexp.MustCompile("`([^`]+)`")

type listed struct {
	ImportPath, Dir         string
	GoFiles, IgnoredGoFiles []string
	Imports, Deps           []string
}

// goList describes every package of the module by its path below the root.
func goList(t *testing.T) map[string]listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,IgnoredGoFiles,Imports,Deps", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	pkgs := make(map[string]listed)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		if name, ok := ours(p.ImportPath); ok {
			pkgs[name] = p
		}
	}
}

// ours strips the module path.
func ours(path string) (string, bool) {
	return strings.CutPrefix(path, module+"/")
}
