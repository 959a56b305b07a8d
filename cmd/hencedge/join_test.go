//go:build !evaluatoronly

package main

import (
	"encoding/json"
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"
)

// setJSON is "json NAME FILE KEY": the text of a key of one JSON object.
func setJSON(ts *testscript.TestScript, _ bool, args []string) {
	var out map[string]any
	ts.Check(json.Unmarshal([]byte(readFile(ts, args[1])), &out))
	text, ok := out[args[2]].(string)
	if !ok {
		ts.Fatalf("%s holds no text %q", args[1], args[2])
	}
	ts.Setenv(args[0], text)
}

// setFingerprint is "fingerprint FILE": the fingerprint that "agent join" has shown, for
// $FINGERPRINT.
func setFingerprint(ts *testscript.TestScript, _ bool, args []string) {
	m := regexp.MustCompile(`(?m)^fingerprint ([a-z2-7-]{29})$`).FindStringSubmatch(readFile(ts, args[0]))
	if m == nil {
		ts.Fatalf("no fingerprint in %s", args[0])
	}
	ts.Setenv("FINGERPRINT", m[1])
}
