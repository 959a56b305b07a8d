package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	gotoken "go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tree is the code of a folder: the tokens of its files, one file after the other.
type tree []token

// token is one token of Go. Its shape is what it is compared by: all names have one
// shape, and so have all literals of a kind.
type token struct {
	shape string
	file  string
	line  int
}

// readTree reads the Go files below dir.
func readTree(dir string) (t tree, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		tokens, err := tokenize(path, src)
		t = append(t, tokens...)
		return err
	})
	return t, err
}

// tokenize returns the tokens of a file without its imports, none for a generated one.
func tokenize(path string, src []byte) (t tree, err error) {
	set := gotoken.NewFileSet()
	parsed, err := parser.ParseFile(set, path, src, parser.ImportsOnly|parser.ParseComments)
	if err != nil || ast.IsGenerated(parsed) {
		return nil, err
	}
	code := parsed.Name.End()
	for _, d := range parsed.Decls {
		code = d.End()
	}
	from := set.Position(code).Offset
	file := set.AddFile(path, -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	for {
		pos, kind, literal := s.Scan()
		if kind == gotoken.EOF {
			return t, nil
		}
		if file.Offset(pos) > from { // beyond the end of that line
			t = append(t, token{shape(kind, literal), path, file.Line(pos)})
		}
	}
}

// shape returns what a token is compared by. Only names that a program chooses are alike:
// int stays int.
func shape(kind gotoken.Token, literal string) string {
	if kind == gotoken.IDENT && types.Universe.Lookup(literal) != nil {
		return literal
	}
	return kind.String()
}

// key returns the shapes of n tokens from the place i on.
func (t tree) key(i, n int) string {
	var b strings.Builder
	for _, token := range t[i : i+n] {
		b.WriteString(token.shape)
		b.WriteByte(' ')
	}
	return b.String()
}

// whole returns the lines that n tokens from the place i on fill, with their number.
func (t tree) whole(i, n int) (p place, lines int) {
	p.file = t[i].file
	for j := i; j < i+n; {
		end := j
		for end < len(t) && t[end].line == t[j].line && t[end].file == t[j].file {
			end++
		}
		cut := j > 0 && t[j-1].line == t[j].line && t[j-1].file == t[j].file || end > i+n
		if !cut && lines == 0 {
			p.first = t[j].line
		}
		if !cut {
			p.last = t[j].line
			lines++
		}
		j = end
	}
	return p, lines
}

// place is where a block stands: lines from first to last.
type place struct {
	file        string
	first, last int
}

func (p place) String() string { return fmt.Sprintf("%s:%d-%d", p.file, p.first, p.last) }
