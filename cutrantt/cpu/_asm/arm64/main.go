// Command arm64 writes the NEON code of packages cpu, prng, embed, wire and crt (see the go:generate
// lines in their files vector.go). Go's assembler has no integer products for vectors, so vector
// instructions are words with their mnemonic beside them; encode.go makes both, and
// its test reads them back with a disassembler.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	out := flag.String("out", "", "assembly to write")
	stubs := flag.String("stubs", "", "declarations to write")
	pkg := flag.String("pkg", "cpu", "the package: cpu, prng, embed, wire or crt")
	flag.Parse()
	f, ok := packages[*pkg]
	if !ok {
		fmt.Fprintln(os.Stderr, "arm64: no package", *pkg)
		os.Exit(1)
	}
	g := &file{command: strings.Join(os.Args[1:], " ")}
	f(g)
	for name, text := range map[string][]byte{*out: g.assembly(), *stubs: g.declarations(*pkg)} {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "arm64:", err)
			os.Exit(1)
		}
	}
}

// packages describe every function of a package.
var packages = map[string]func(g *file){"cpu": arithmetic, "prng": samplers, "embed": embedding, "wire": packing,
	"crt": reconstruction}

func arithmetic(g *file) {
	passes(g)
	forwardLast(g)
	lazy(g)
	inverseFirst(g)
	elementwise(g)
	products(g)
	inner(g)
	basis(g)
	integers(g)
	operands(g)
	permute(g)
}
