package manual

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/internal/testenv"
)

func tree() *cobra.Command {
	root := &cobra.Command{Use: "prog", Short: "does things",
		Long: "First.\n\n  a table\n\n.Last begins with a dot and " +
			"has a \\ in it."}
	group := &cobra.Command{Use: "grp", Short: "a group"}
	run := &cobra.Command{Use: "run FILE", Short: "runs", Example: "  prog grp run --rate 5 x",
		Run: func(*cobra.Command, []string) {}}
	run.Flags().IntP("rate", "r", 3, "times a `second`")
	run.Flags().Bool("secret", false, "not shown")
	if err := run.Flags().MarkHidden("secret"); err != nil {
		panic(err)
	}
	hidden := &cobra.Command{Use: "inner", Hidden: true, Run: func(*cobra.Command, []string) {}}
	group.AddCommand(run)
	root.AddCommand(group, hidden)
	return root
}

func TestPages(t *testing.T) {
	info := Info{Version: "v1", Date: time.Unix(1700000000, 0)}
	pages := Pages(tree(), info)
	if len(pages) != 2 {
		t.Fatalf("%d pages", len(pages))
	}
	top, group := string(pages["prog.1"]), string(pages["prog-grp.1"])
	for text, where := range map[string]string{
		".TH \"PROG\" 1 \"2023\\-11\\-14\" \"hencedge v1\"":      top,
		"prog \\- does things\n":                                 top,
		"\n\\&.Last begins":                                      top,
		"has a \\e in it":                                        top,
		".nf\n  a table\n.fi":                                    top,
		"prog\\-grp(1)":                                          top,
		".B prog grp run FILE [flags]":                           group,
		".B \\-r, \\-\\-rate second\ntimes a second (default 3)": group,
		"prog grp run \\-\\-rate 5 x":                            group,
	} {
		if !strings.Contains(where, text) {
			t.Errorf("no %q in\n%s", text, where)
		}
	}
	if strings.Contains(top+group, "secret") || strings.Contains(top+group, "inner") {
		t.Error("what is hidden is shown")
	}
	if again := Pages(tree(), info); !bytes.Equal(again["prog.1"], pages["prog.1"]) {
		t.Error("the same commands give other bytes")
	}
}

// groff has nothing to complain about.
func TestGroff(t *testing.T) {
	tool := testenv.Program(t, "groff", "groff")
	for name, p := range Pages(tree(), Info{Version: "v1", Date: time.Unix(1700000000, 0)}) {
		cmd := exec.Command(tool, "-man", "-Tutf8", "-ww", "-z")
		cmd.Stdin = bytes.NewReader(p)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
