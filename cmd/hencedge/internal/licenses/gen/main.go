// Command gen writes the licences of all modules that the program links, for every
// platform and build tag that is shipped. A module without a licence file, or with one
// that is not known here, is an error: somebody has to look at it.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const program = "github.com/hencedge/hencedge/cmd/hencedge"

func main() {
	out := flag.String("out", "zlicenses.txt", "file to write")
	without := flag.String("without", "", "build tag of the programs that are meant; empty: all of them")
	flag.Parse()
	text, err := generate(*without)
	if err == nil {
		err = os.WriteFile(*out, text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

// module is a module of which packages are linked.
type module struct {
	path, version, dir string
	files              map[string]bool // licence files, below dir
}

// listed is a package as go list describes it.
type listed struct {
	Dir    string
	Module *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// linked finds the modules that some build with the tag without links, by path.
func linked(without string) (map[string]*module, error) {
	found := map[string]*module{}
	for _, arch := range []string{"amd64", "arm64"} {
		for _, tags := range []string{"", "nogpu", "evaluatoronly"} {
			cmd := exec.Command("go", "list", "-deps", "-tags", tags+","+without, "-json=Dir,Module", program)
			cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
			cmd.Stderr = os.Stderr
			b, err := cmd.Output()
			if err != nil {
				return nil, fmt.Errorf("go list: %w", err)
			}
			for dec := json.NewDecoder(bytes.NewReader(b)); ; {
				var p listed
				if err := dec.Decode(&p); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					return nil, err
				}
				if p.Module == nil || p.Module.Main {
					continue
				}
				m := found[p.Module.Path]
				if m == nil {
					m = &module{p.Module.Path, p.Module.Version, p.Module.Dir, map[string]bool{}}
					found[m.path] = m
				}
				if err := m.collect(p.Dir); err != nil {
					return nil, err
				}
			}
		}
	}
	return found, nil
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|edl-v|epl-v)[^/]*$`)

// collect adds the licence files of a package's directory and of those above it, up to
// the module's: parts of a module may come from elsewhere.
func (m *module) collect(dir string) error {
	for ; strings.HasPrefix(dir, m.dir); dir = filepath.Dir(dir) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.Type().IsRegular() && licenceFile.MatchString(e.Name()) && !strings.HasSuffix(e.Name(), ".go") {
				rel, err := filepath.Rel(m.dir, filepath.Join(dir, e.Name()))
				if err != nil {
					return err
				}
				m.files[rel] = true
			}
		}
	}
	return nil
}

// known are licences by words that only their texts hold, the more special first.
var known = []struct{ id, words string }{
	{"EPL-2.0", "Eclipse Public License - v 2.0"},
	{"EPL-2.0", "Eclipse Public License 2.0"},
	{"BSD-3-Clause (EDL 1.0)", "Eclipse Distribution License - v 1.0"},
	{"MPL-2.0", "Mozilla Public License Version 2.0"},
	{"MPL-2.0", "Mozilla Public License, version 2.0"},
	{"Apache-2.0", "Apache License Version 2.0"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose"},
	{"Zlib", "This software is provided 'as-is', without any express or implied warranty"},
	{"BSD-3-Clause", "may be used to endorse or promote products derived from"},
	{"BSD-2-Clause", "Redistribution and use in source and binary forms"},
}

// identify names the licence of a text, "" for one that is none (a notice, say).
func identify(text string) string {
	plain := strings.Join(strings.Fields(text), " ")
	for _, k := range known {
		if strings.Contains(plain, k.words) {
			return k.id
		}
	}
	return ""
}

// page is where the page of "results serve" is, seen from where go generate runs.
const page = "../../../../keyholder/console"

// inPage returns an npm package that is part of the page, which programs for boards lack.
func inPage(name string) (*module, error) {
	b, err := os.ReadFile(filepath.Join(page, "web", "package.json"))
	if err != nil {
		return nil, err
	}
	var list struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, err
	}
	if list.Dependencies[name] == "" {
		return nil, fmt.Errorf("the page has no package %q", name)
	}
	return &module{"npm:" + name, list.Dependencies[name], filepath.Join(page, "assets"),
		map[string]bool{"licenses.txt": true}}, nil
}

func generate(without string) ([]byte, error) {
	modules, err := linked(without)
	if err != nil {
		return nil, err
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	// Its version is that of the toolchain, which the program tells.
	modules["Go"] = &module{path: "Go", version: "standard library and runtime", dir: strings.TrimSpace(string(root)),
		files: map[string]bool{"LICENSE": true, "PATENTS": true}}
	if without == "" {
		if modules["npm:uplot"], err = inPage("uplot"); err != nil {
			return nil, err
		}
	}
	var table, texts bytes.Buffer
	numbers := map[string]int{} // of texts, by text
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		m := modules[name]
		ids, refs := []string{}, []string{}
		for _, file := range slices.Sorted(maps.Keys(m.files)) {
			b, err := os.ReadFile(filepath.Join(m.dir, file))
			if errors.Is(err, fs.ErrNotExist) && name == "Go" { // some distributions keep them elsewhere
				b, err = os.ReadFile(filepath.Join("/usr/share/doc/golang", file))
			}
			if err != nil {
				return nil, err
			}
			text := strings.TrimSpace(strings.ReplaceAll(string(b), "\r\n", "\n"))
			if id := identify(text); id != "" && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
			if numbers[text] == 0 {
				numbers[text] = len(numbers) + 1
				fmt.Fprintf(&texts, "\n---- [%d] ----\n\n%s\n", numbers[text], text)
			}
			refs = append(refs, fmt.Sprintf("%s [%d]", filepath.ToSlash(file), numbers[text]))
		}
		if len(ids) == 0 {
			return nil, fmt.Errorf("%s %s: no known licence in %q", m.path, m.version,
				slices.Sorted(maps.Keys(m.files)))
		}
		fmt.Fprintf(&table, "%s %s\n    %s: %s\n", m.path, m.version, strings.Join(ids, ", "), strings.Join(refs, ", "))
	}
	var out bytes.Buffer
	out.WriteString(`Licences of the software that hencedge is built with
====================================================

hencedge itself is under the Apache License 2.0. It links the modules below, unchanged.
The source code of each is the Go module of that path and version ("go mod download
PATH@VERSION" fetches it); this holds for those under the Eclipse Public License 2.0 and
the Mozilla Public License 2.0 in particular, whose source code these licences make
available to everybody who has the program. What begins with npm: is a package of that
registry, and part of the page that "results serve" shows.

`)
	out.Write(table.Bytes())
	out.WriteString("\nTexts\n=====\n")
	out.Write(texts.Bytes())
	return out.Bytes(), nil
}
