package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mostLines bounds the pages that people open to get an overview.
var mostLines = map[string]int{"README.md": 120, "docs/benchmarks.md": 250}

// TestDocuments reads every page of the repository: relative links lead to files and
// headings that exist, and every test that a page names is in the code.
func TestDocuments(t *testing.T) {
	root := filepath.Join("..", "..")
	tests := map[string]bool{}
	for _, name := range files(t, root, "_test.go") {
		for _, m := range testFunction.FindAllStringSubmatch(read(t, root, name), -1) {
			tests[m[1]] = true
		}
	}
	pages := map[string]string{}
	for _, name := range files(t, root, ".md") {
		pages[name] = fenced.ReplaceAllString(read(t, root, name), "")
	}
	if len(tests) < 100 || len(pages) < 10 {
		t.Fatalf("only %d tests and %d pages were found", len(tests), len(pages))
	}
	for name, text := range pages {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, heading, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = filepath.Join(filepath.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			} else if page, ok := pages[target]; ok && heading != "" && !hasHeading(page, heading) {
				t.Errorf("%s links to %s: %s has no such heading", name, m[1], target)
			}
		}
		for _, m := range testName.FindAllString(text, -1) {
			if !tests[m] {
				t.Errorf("%s names %s, which is no test", name, m)
			}
		}
		if limit, ok := mostLines[name]; ok {
			if n := strings.Count(read(t, root, name), "\n"); n >= limit {
				t.Errorf("%s has %d lines, it stays under %d: move details to another page", name, n, limit)
			}
		}
	}
}

var (
	fenced       = regexp.MustCompile("(?s)```.*?\n```")
	link         = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings     = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInHeading = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	testName     = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`)
)

// hasHeading reports whether a page has the heading that the part of a link after #
// stands for: lower case, without punctuation, spaces as hyphens.
func hasHeading(page, anchor string) bool {
	for _, m := range headings.FindAllStringSubmatch(page, -1) {
		text := notInHeading.ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(text, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// files lists the files of the repository, below root, whose names end with suffix,
// except those that targets make.
func files(t *testing.T, root, suffix string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (name[0] == '.' || name == "bin" || name == "dist" ||
			name == "node_modules") {
			return fs.SkipDir
		}
		if d.Type().IsRegular() && strings.HasSuffix(name, suffix) {
			below, err := filepath.Rel(root, path)
			names = append(names, below)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, root, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
