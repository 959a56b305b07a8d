// Command duplicates finds blocks of code that stand in two of the given folders, such
// as two roles of the program: the same code, or code that differs only in its names and
// literals. It exits with status 1 if it finds any.
//
//	go run ./cross/duplicates agent evaluator keyholder
//
// Comments, imports, tests and generated files do not count.
package main

import (
	"fmt"
	"os"
)

// maxLines is the longest block that may stand in two folders, in lines of code.
const maxLines = 12

func main() {
	var trees []tree
	for _, dir := range os.Args[1:] {
		t, err := readTree(dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, "duplicates:", err)
			os.Exit(2)
		}
		trees = append(trees, t)
	}
	found := compareAll(trees, maxLines)
	for _, b := range found {
		fmt.Fprintf(os.Stderr, "duplicates: %s\n", b)
	}
	if len(found) > 0 {
		fmt.Fprintf(os.Stderr, "duplicates: %d blocks of more than %d lines stand twice; put what they share into one "+
			"place, such as internal/role\n", len(found), maxLines)
		os.Exit(1)
	}
}
