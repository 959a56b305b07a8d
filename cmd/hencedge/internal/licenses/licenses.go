// Package licenses holds the licences of the software that hencedge is built with.
package licenses

import "strings"

//go:generate go run ./gen -out zlicenses.txt
//go:generate go run ./gen -out zlicensesboard.txt -without nostore

// Std is the name of the standard library in ByModule.
const Std = "Go standard library and runtime"

// ByModule returns the SPDX identifiers of each module's licences, by "PATH VERSION".
func ByModule() map[string][]string {
	table, _, _ := strings.Cut(Text, "\nTexts\n")
	found := map[string][]string{}
	module := ""
	for line := range strings.Lines(table) {
		line = strings.TrimRight(line, "\n")
		rest, indented := strings.CutPrefix(line, "    ")
		if !indented {
			module = line
			continue
		}
		names, _, _ := strings.Cut(rest, ": ")
		for name := range strings.SplitSeq(names, ", ") {
			id, _, _ := strings.Cut(name, " ") // without a remark in brackets
			found[module] = append(found[module], id)
		}
	}
	return found
}
