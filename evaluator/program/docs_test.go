package program

import (
	"os"
	"strings"
	"testing"
)

// TestEveryFunctionIsDocumented keeps the table of the document complete.
func TestEveryFunctionIsDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../docs/programs.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range functionNames() {
		if call := functions[n].args; !strings.Contains(string(raw), "`"+call) {
			t.Errorf("docs/programs.md does not show %s", call)
		}
	}
}
