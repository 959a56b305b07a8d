package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/hencedge/hencedge"

// mayImport lists, for each part of the tree, the parts that its packages may
// import (beside themselves, the standard library and other modules). It is the
// dependency graph of ARCHITECTURE.md; the longest matching prefix applies.
var mayImport = map[string][]string{
	"config":                {"config/internal/rule", "config/internal/yamlx"},
	"config/internal/rule":  {"config/internal/yamlx"},
	"config/internal/yamlx": {},
	"transport":             {"internal/durable", "internal/testenv"},
	"chaos":                 {"transport"},
	"kernels":               {},
	"cross":                 {},
	"systemd":               {},
	"internal/durable":      {},
	"internal/role":         {"internal/durable", "config", "cutrantt"},
	"internal/testenv":      {},
	"internal/testrig":      {"transport"},
	"internal/vectors":      {},
	"internal/taint":        {},
	"internal/meter":        {"cutrantt"},
	"cutrantt":              {"kernels", "internal/meter", "internal/taint", "internal/testenv"},
	"henc":                  {"cutrantt", "internal/taint"},
	"internal":              {"config", "transport"},
	"henc/secret":           {"henc", "cutrantt", "internal/taint"},
	"keyset":                {"transport", "henc"},
	"agent":                 {"agent/input", "agent/sensor", "agent/source", "internal", "internal/durable", "internal/role", "internal/testenv", "config", "transport", "keyset", "henc", "henc/secret", "cutrantt"},
	"agent/input":           {"internal", "internal/durable", "internal/role", "internal/testenv", "config", "transport"},
	"agent/source":          {"agent/input", "agent/sensor", "internal", "internal/role", "config"},
	"agent/sensor":          {"agent/input", "internal", "internal/role", "config"},
	"evaluator/program":     {"config", "henc", "cutrantt"},
	"evaluator/store":       {"internal/durable", "internal/role", "config", "transport"},
	"evaluator/engine":      {"internal/role", "evaluator/program", "config", "transport", "keyset", "henc", "cutrantt"},
	"evaluator":             {"internal", "internal/role", "evaluator/engine", "evaluator/program", "evaluator/store", "config", "transport", "keyset", "henc"},
	"keyholder":             {"internal", "internal/durable", "internal/role", "evaluator/program", "config", "transport", "keyset", "henc", "henc/secret", "cutrantt"},
	"cmd":                   {"internal", "internal/durable", "internal/meter", "systemd", "config", "transport", "kernels", "cutrantt", "henc", "henc/secret", "keyset", "agent", "agent/sensor", "agent/source", "evaluator", "evaluator/program", "keyholder"},
}

// neverLinks lists what a package must not depend on, directly or through
// others: whoever takes over an evaluator must find no code that could read, and
// what tests share is no part of the product.
var neverLinks = map[string][]string{
	"evaluator":         {"henc/secret"},
	"evaluator/engine":  {"henc/secret", "evaluator/store"},
	"evaluator/program": {"henc/secret", "transport"},
	"evaluator/store":   {"henc"},
	"henc":              {"henc/secret"},
	"keyset":            {"henc/secret"},
	"cmd/hencedge":      {"internal/testenv", "internal/testrig", "internal/vectors"},
	"transport":         {"transport/mqtt", "transport/spool", "transport/delivery"},
	"transport/mqtt":    {"transport/spool", "transport/delivery"},
}

// driverPackage is the only package that may call into a C library, by whichever
// module that needs.
const driverPackage, callsC = "cutrantt/cuda/internal/driver", "github.com/ebitengine/purego"

// TestImports checks the direction of every import between our packages, tests
// left out.
func TestImports(t *testing.T) {
	pkgs := goList(t)
	if len(pkgs) < 10 {
		t.Fatalf("go list found %d packages; is the module path still %s?", len(pkgs), module)
	}
	for name, p := range pkgs {
		part := partOf(name)
		if part == "" {
			t.Errorf("%s belongs to no part of the tree: add it to mayImport and to ARCHITECTURE.md", name)
			continue
		}
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, callsC) && name != driverPackage || imp == "C" {
				t.Errorf("%s imports %s: only %s calls a C library, and without cgo", name, imp, driverPackage)
			}
			dep, ok := ours(imp)
			if !ok || partOf(dep) == part {
				continue
			}
			if !slices.Contains(mayImport[part], partOf(dep)) {
				t.Errorf("%s imports %s: %s may import only %q", name, dep, part, mayImport[part])
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

type listed struct {
	ImportPath    string
	Imports, Deps []string
}

// goList describes every package of the module by its path below the root.
func goList(t *testing.T) map[string]listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", module+"/...")
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

// partOf is the longest key of mayImport that name lies in, or "".
func partOf(name string) string {
	best := ""
	for part := range mayImport {
		if (name == part || strings.HasPrefix(name, part+"/")) && len(part) > len(best) {
			best = part
		}
	}
	return best
}
