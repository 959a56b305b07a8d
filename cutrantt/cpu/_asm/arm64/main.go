// Command arm64 writes the NEON code of package cpu (see the go:generate line in
// vector.go there). Go's assembler has no integer products for vectors, so vector
// instructions are words with their mnemonic beside them; encode.go makes both, and
// its test reads them back with a disassembler.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	out := flag.String("out", "", "assembly to write")
	stubs := flag.String("stubs", "", "declarations to write")
	pkg := flag.String("pkg", "cpu", "package of the declarations")
	flag.Parse()
	f := generate()
	for name, text := range map[string][]byte{*out: f.assembly(), *stubs: f.declarations(*pkg)} {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "arm64:", err)
			os.Exit(1)
		}
	}
}

// generate describes every function.
func generate() *file {
	f := &file{}
	passes(f)
	forwardLast(f)
	inverseFirst(f)
	elementwise(f)
	products(f)
	inner(f)
	basis(f)
	integers(f)
	operands(f)
	permute(f)
	return f
}
