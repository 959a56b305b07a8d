package main

import (
	"encoding/binary"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/arch/arm64/arm64asm"
)

var word = regexp.MustCompile(`^\tWORD \$0x([0-9a-f]{8}) // (.*)$`)

// all is the functions of all packages.
func all() (functions []*function) {
	for _, describe := range packages {
		g := &file{}
		describe(g)
		functions = append(functions, g.functions...)
	}
	return functions
}

// TestWords reads every word back: the disassembler has to give its mnemonic.
func TestWords(t *testing.T) {
	kinds := map[string]bool{}
	for _, f := range all() {
		for _, line := range f.lines {
			m := word.FindStringSubmatch(line)
			if m == nil {
				if strings.Contains(line, "WORD") {
					t.Errorf("%s: a word without its mnemonic: %s", f.name, line)
				}
				continue
			}
			code, err := strconv.ParseUint(m[1], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			i, err := arm64asm.Decode(binary.LittleEndian.AppendUint32(nil, uint32(code)))
			if err != nil {
				t.Fatalf("%s: %s: %v", f.name, line, err)
			}
			if got := arm64asm.GNUSyntax(i); got != m[2] {
				t.Fatalf("%s: %s is %s", f.name, m[2], got)
			}
			kinds[strings.Fields(m[2])[0]] = true
		}
	}
	if len(kinds) < 45 {
		t.Errorf("only %d kinds of instructions: %v", len(kinds), kinds)
	}
}

// TestRegisters: no function uses a register that Go, the system or the linker keeps.
func TestRegisters(t *testing.T) {
	kept := regexp.MustCompile(`\bR(1[678]|2[6-9]|3[01])\b|\[?x(1[678]|2[6-9]|3[01])\b`)
	for _, f := range all() {
		for _, line := range f.lines {
			if kept.MatchString(line) {
				t.Errorf("%s uses a register that is not its own: %s", f.name, line)
			}
		}
	}
}

// TestParameters: offsets follow the sizes and alignment of the types.
func TestParameters(t *testing.T) {
	f := (&file{}).new("f", "a, b *uint32, c uint32, d int, e, g uint32", "")
	for name, want := range map[string]int{"a": 0, "b": 8, "c": 16, "d": 24, "e": 32, "g": 36} {
		if f.at[name] != want {
			t.Errorf("parameter %s at %d, want %d", name, f.at[name], want)
		}
	}
	if f.size != 40 {
		t.Errorf("%d bytes of parameters, want 40", f.size)
	}
}
