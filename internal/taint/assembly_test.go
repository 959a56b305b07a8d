package taint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// public are the functions that take addresses from words in memory, and what those
// words are: nothing secret.
var public = map[string]string{
	"permuteAVX2":    "the indices of an automorphism",
	"permuteAVX512":  "the indices of an automorphism",
	"permuteNEON":    "the indices of an automorphism",
	"retryAVX512":    "which uniform residues, all of them public, are drawn again",
	"retryAVX2":      "as retryAVX512",
	"retryNEON":      "as retryAVX512",
	"tileDownAVX2":   "the indices of the reversal of bits",
	"tileDownAVX512": "the indices of the reversal of bits",
	"tileDownNEON":   "the indices of the reversal of bits",
	"tileUpAVX2":     "the indices of the reversal of bits",
	"tileUpAVX512":   "the indices of the reversal of bits",
	"tileUpNEON":     "the indices of the reversal of bits",
}

// TestAssembly reads the vector code, also that which valgrind does not run
// (AVX-512, NEON): every branch and every address depends on arguments and constants
// only, not on what was loaded from memory or taken from a vector.
func TestAssembly(t *testing.T) {
	files, err := filepath.Glob("../../*/*/z*.s")
	deeper, err2 := filepath.Glob("../../*/*/*/z*.s")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if files = append(files, deeper...); len(files) < 5 {
		t.Fatalf("%d files only: %q", len(files), files)
	}
	functions, seen := 0, make(map[string]bool)
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(string(source), "\nTEXT ·")
		for _, part := range parts[1:] {
			functions++
			name, _, _ := strings.Cut(part, "(")
			found := leaks(part)
			if what, ok := public[name]; ok {
				seen[name] = true
				all := len(found)
				if found = slices.DeleteFunc(found, func(leak string) bool {
					return strings.Contains(leak, ": address: ")
				}); len(found) == all {
					t.Errorf("%s: %s has no address by %s: take it off the list", file, name, what)
				}
			}
			for _, leak := range found {
				t.Errorf("%s: %s: %s", file, name, leak)
			}
		}
	}
	for name := range public {
		if !seen[name] {
			t.Errorf("there is no %s: take it off the list", name)
		}
	}
	t.Logf("%d functions in %d files", functions, len(files))
}

// TestLeaks: the reader sees what it is for.
func TestLeaks(t *testing.T) {
	for _, tt := range []struct{ what, code string }{
		{"a branch on a loaded word", "MOVQ x+0(FP), AX\nMOVQ (AX), CX\nCMPQ CX, $3\nJNE out"},
		{"a branch on memory", "MOVQ x+0(FP), AX\nCMPQ (AX), $3\nJLT out"},
		{"a branch after arithmetic",
			"MOVQ x+0(FP), AX\nMOVQ (AX), CX\nADDQ CX, DX\nMOVQ DX, BX\nSUBQ $1, BX\nJEQ out"},
		{"a branch on a vector", "VMOVQ X1, AX\nTESTQ AX, AX\nJNE out"},
		{"a branch on masks", "KORTESTW K1, K1\nJNE out"},
		{"a branch on floating point", "VUCOMISD X1, X2\nJLT out"},
		{"an address", "MOVQ x+0(FP), AX\nMOVL 4(AX), CX\nMOVL (AX)(CX*4), DX"},
		{"an address of a vector", "MOVQ x+0(FP), AX\nKMOVW K1, CX\nVMOVDQU32 64(AX)(CX*8), Z1"},
		{"an address one turn later", "loop:\nMOVL (SI), DX\nMOVQ CX, SI\nMOVQ x+0(FP), AX\nMOVQ (AX), CX\nSUBQ $1, " +
			"BX\nJNE loop"},
		{"a gather", "VPGATHERDD (AX)(Z1*4), K1, Z2"},
		{"a scatter", "VPSCATTERDD Z2, K1, (AX)(Z1*4)"},
		{"a compression", "VPCOMPRESSD Z1, K1, (AX)"},
		{"a division", "MOVQ x+0(FP), AX\nMOVQ (AX), CX\nDIVQ CX"},
		{"arm64: a branch", "MOVD x+0(FP), R1\nMOVD (R1), R2\nSUBS $1, R2\nBNE out"},
		{"arm64: a branch on zero", "MOVD x+0(FP), R1\nMOVWU 4(R1), R2\nCBZ R2, out"},
		{"arm64: an address from a vector", "WORD $0x0e043c02 // umov w2, v0.s[0]\nMOVWU (R1)(R2), R3"},
		{"arm64: an address in a word", "MOVD x+0(FP), R1\nMOVD (R1), R2\nWORD $0x3ce26824 // ldr q4, [x1,x2]"},
	} {
		if len(leaks("x(SB)\n"+tt.code)) == 0 {
			t.Errorf("%s was not seen", tt.what)
		}
	}
	if l := leaks("x(SB)\nMOVQ x+0(FP), AX\nMOVQ n+8(FP), CX\nloop:\nVMOVDQU (AX)(CX*1), Y0\nADDQ $32, AX\nDECQ " +
		"CX\nJNE loop"); len(l) != 0 {
		t.Errorf("a loop counter: %q", l)
	}
}

var (
	generalRegister = regexp.MustCompile(`\b(AX|BX|CX|DX|SI|DI|R\d+)\b`)
	vectorRegister  = regexp.MustCompile(`\b([XYZKFV]\d+)\b`)
	memoryOperand   = regexp.MustCompile(`\((?:AX|BX|CX|DX|SI|DI|R\d+|[XYZ]\d+)[)*]`)
	comparison      = regexp.MustCompile(`^(KORTEST|KTEST|VPTEST|PTEST|VTESTP|V?U?COMIS|FCMP)`)
	setsFlags       = regexp.MustCompile(
		`^(CMP|TEST|SUB|ADD|DEC|INC|AND|OR|XOR|NEG|SHL|SHR|SAR|ADC|SBB|BT|SUBS|ADDS|ANDS|TST|CMN)[SBWLQ]?$`)
	conditional = regexp.MustCompile(`^(J[A-LN-Z][A-Z]*|B(EQ|NE|L[TEOS]|G[TE]|H[IS]|MI|PL|VS|VC|CS|CC))$`)
	onRegister  = regexp.MustCompile(`^(CBZ|CBNZ|TBZ|TBNZ)W?$`)
	compares    = regexp.MustCompile(`^(CMP|CMN|TEST|TST)[WLQB]?$`)
	division    = regexp.MustCompile(`^[IUS]?DIV[WLQB]?$`)
	byFlags     = regexp.MustCompile(`^(SET|CMOV|CSEL|CSET|CINC|ADC|SBB)`)
	moves       = regexp.MustCompile(`^(V|K)?MOV|^LEAQ$`)
	byData      = regexp.MustCompile(`^VP?(GATHER|SCATTER|COMPRESS|EXPAND)`)
	vectorWord  = regexp.MustCompile(`^WORD \$0x[0-9a-f]+ // (\S+) (.*)$`)
	armRegister = regexp.MustCompile(`\b[xw](\d+)\b`)
)

// leaks returns the lines of a function whose branches or addresses depend on data: on
// words from memory, other than arguments, or from vectors.
func leaks(code string) (found []string) {
	r := &reader{data: make(map[string]bool)}
	for range 4 { // loops carry data around
		r.found = nil
		for i, line := range strings.Split(code, "\n")[1:] {
			r.line, r.number = strings.TrimSpace(line), i+2
			if m := vectorWord.FindStringSubmatch(r.line); m != nil {
				r.word(m[1], armRegister.ReplaceAllString(m[2], "R$1"))
			} else {
				r.instruction()
			}
		}
	}
	return r.found
}

// reader follows data through the general registers of a function, line by line.
type reader struct {
	data   map[string]bool // registers that hold data
	flags  bool            // whether the flags come from data
	line   string
	number int
	found  []string
}

func (r *reader) leak(what string) {
	r.found = append(r.found, fmt.Sprintf("line %d of the function: %s: %s", r.number, what, r.line))
}

// holds reports whether a register in s holds data.
func (r *reader) holds(s string) bool {
	return slices.ContainsFunc(generalRegister.FindAllString(s, -1), func(name string) bool { return r.data[name] })
}

// word is an arm64 instruction on vectors, as its comment says.
func (r *reader) word(op, operands string) {
	to, rest, _ := strings.Cut(operands, ",")
	if _, address, ok := strings.Cut(rest, "[R"); ok && r.holds("R"+address) {
		r.leak("address")
	}
	if generalRegister.MatchString(to) {
		r.data[to] = true
	}
}

func (r *reader) instruction() {
	line, _, _ := strings.Cut(r.line, "//")
	op, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	if op == "" || strings.HasSuffix(op, ":") {
		return
	}
	operands := splitOperands(rest)
	memory := slices.ContainsFunc(operands, memoryOperand.MatchString) && op != "LEAQ"
	if slices.ContainsFunc(operands, func(o string) bool {
		return memoryOperand.MatchString(o) && op != "LEAQ" &&
			r.holds(o)
	}) {
		r.leak("address")
	}
	data := memory || r.holds(rest) || vectorRegister.MatchString(rest)
	switch {
	case byData.MatchString(op):
		r.leak("addresses or lengths in a vector")
	case onRegister.MatchString(op) && data, conditional.MatchString(op) && r.flags:
		r.leak("branch")
	case division.MatchString(op) && data:
		r.leak("time of a division")
	}
	switch {
	case onRegister.MatchString(op), conditional.MatchString(op):
		return
	case comparison.MatchString(op):
		r.flags = true
		return
	case setsFlags.MatchString(op):
		r.flags = data
	case byFlags.MatchString(op):
		data = data || r.flags
	}
	if compares.MatchString(op) || len(operands) == 0 {
		return
	}
	to := operands[len(operands)-1]
	if !generalRegister.MatchString(to) || strings.Contains(to, "(") || vectorRegister.MatchString(to) {
		return
	}
	if moves.MatchString(op) { // what the register held is gone
		from := strings.Join(operands[:len(operands)-1], ",")
		data = memory || r.holds(from) || vectorRegister.MatchString(from)
	}
	r.data[to] = data
}

// splitOperands splits at commas.
func splitOperands(s string) (parts []string) {
	for p := range strings.SplitSeq(s, ",") {
		if p = strings.TrimSpace(p); p != "" {
			parts = append(parts, p)
		}
	}
	return parts
}
