package config

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// TestFileOfAnotherRole: a file that was given to the wrong role's command is told as
// that, once. A slip of the pen in the right file is not.
func TestFileOfAnotherRole(t *testing.T) {
	parse := map[string]func(string, []byte) error{
		"agent":     func(n string, b []byte) error { _, err := ParseAgent(n, b); return err },
		"evaluator": func(n string, b []byte) error { _, err := ParseEvaluator(n, b); return err },
		"keyholder": func(n string, b []byte) error { _, err := ParseKeyHolder(n, b); return err },
	}
	for file := range parse {
		text, err := os.ReadFile("examples/" + file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		for role, f := range parse {
			err := f(file, text)
			var list *Errors
			switch {
			case role == file:
				if err != nil {
					t.Errorf("%s: %v", file, err)
				}
			case !errors.As(err, &list) || len(list.List) != 1 || !strings.Contains(err.Error(),
				"this is the file of a"):
				t.Errorf("%s as that of the %s: %v", file, role, err)
			}
		}
	}
	text, err := os.ReadFile("examples/evaluator.yaml")
	if err != nil {
		t.Fatal(err)
	}
	slip := strings.Replace(string(text), "\ndevices:", "\ndevice:", 1)
	if _, err := ParseEvaluator("e", []byte(slip)); err == nil || strings.Contains(err.Error(), "this is the file of") {
		t.Errorf("a key that is misspelt: %v", err)
	}
}
