//go:build !evaluatoronly

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
)

// A value that a flag cannot take is refused in words, with the flag and what it takes:
// never in those of the function that could not parse it.
func TestFlagErrors(t *testing.T) {
	tried := 0
	var visit func(cmd *cobra.Command, path []string)
	visit = func(cmd *cobra.Command, path []string) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			switch f.Value.Type() {
			case "string", "stringArray", "stringSlice":
				return
			}
			tried++
			var errs bytes.Buffer
			code := run(append(path, "--"+f.Name+"=12 parsecs"),
				cli.Streams{In: strings.NewReader(""), Out: &errs, Err: &errs})
			got, _, _ := strings.Cut(errs.String(), "\n")
			if want := "hencedge: --" + f.Name + ` "12 parsecs": use `; code != cli.ExitUsage ||
				!strings.HasPrefix(got, want) || strings.Contains(got, "strconv") {
				t.Errorf("%v --%s: exit code %d, %q", path, f.Name, code, got)
			}
		})
		for _, c := range cmd.Commands() {
			visit(c, append(path[:len(path):len(path)], c.Name()))
		}
	}
	visit(newRoot(cli.Streams{}), nil)
	if tried < 20 {
		t.Errorf("%d flags tried", tried)
	}
}
