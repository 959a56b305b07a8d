package compare

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/config"
)

var update = flag.Bool("update", false, "rewrite the expected differences in testdata")

const examples = "../../../../config/examples"

// shipped reads the shipped example of a role.
func shipped(t *testing.T, role string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(examples, role+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// parse makes the files of a comparison from their texts.
func parse(t *testing.T, texts map[string]string) Files {
	t.Helper()
	a, err := config.ParseAgent("agent.yaml", []byte(texts["agent"]))
	if err != nil {
		t.Fatal(err)
	}
	e, err := config.ParseEvaluator("evaluator.yaml", []byte(texts["evaluator"]))
	if err != nil {
		t.Fatal(err)
	}
	k, err := config.ParseKeyHolder("keyholder.yaml", []byte(texts["keyholder"]))
	if err != nil {
		t.Fatal(err)
	}
	return Files{Agents: []Agent{{"agent.yaml", a}}, Evaluator: &Evaluator{"evaluator.yaml", e},
		KeyHolder: &KeyHolder{"keyholder.yaml", k}}
}

// Each case is a list of edits to the shipped examples, a line of dashes, and the
// differences and warnings that follow, word for word. An edit is "role: old => new";
// without "=>" the text is added at the end.
func TestCompare(t *testing.T) {
	t.Setenv("CREDENTIALS_DIRECTORY", "/run/credentials")
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	const divider = "\n-----\n"
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			edits, want, _ := strings.Cut(string(raw), divider)
			texts := map[string]string{"agent": shipped(t, "agent"), "evaluator": shipped(t, "evaluator"),
				"keyholder": shipped(t, "keyholder")}
			for line := range strings.SplitSeq(edits, "\n") {
				role, edit, _ := strings.Cut(line, ": ")
				before, after, replace := strings.Cut(strings.ReplaceAll(edit, `\n`, "\n"), " => ")
				switch {
				case !replace:
					texts[role] += "\n" + edit + "\n"
				case strings.Contains(texts[role], before):
					texts[role] = strings.Replace(texts[role], before, after, 1)
				default:
					t.Fatalf("%s has no %q", role, before)
				}
			}
			r := Compare(parse(t, texts))
			var got strings.Builder
			for _, d := range r.Differences {
				got.WriteString(d.Error() + "\n")
				if len(d.Sides) != 2 || d.Sides[0].Line == 0 || d.Sides[1].Line == 0 || d.Cause == "" || d.Fix == "" {
					t.Errorf("incomplete: %+v", d)
				}
			}
			for _, w := range r.Warnings {
				got.WriteString("warning: " + w.Error() + "\n")
			}
			if *update {
				if err := os.WriteFile(file, []byte(edits+divider+got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got.String() != want {
				t.Errorf("got\n%s\nwant\n%s", &got, want)
			}
		})
	}
}

// The shipped examples agree.
func TestExamplesAgree(t *testing.T) {
	t.Setenv("CREDENTIALS_DIRECTORY", "/run/credentials")
	f := parse(t, map[string]string{"agent": shipped(t, "agent"), "evaluator": shipped(t, "evaluator"),
		"keyholder": shipped(t, "keyholder")})
	if r := Compare(f); len(r.Differences) > 0 {
		t.Errorf("%v", r.Differences)
	}
	for _, name := range []string{"agent-durable", "agent-service"} { // boards beside the first
		cfg, err := config.LoadAgent(filepath.Join(examples, name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if r := Compare(Files{Agents: []Agent{f.Agents[0], {name, cfg}}, KeyHolder: f.KeyHolder}); len(
			r.Differences) > 0 {
			t.Errorf("%s: %v", name, r.Differences)
		}
	}
}
