package licenses

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestEveryModuleIsListed: each module that the program links stands in the list with its
// version, and licences that demand a notice and a way to the source code have both.
// (check-generated compares the whole file.)
func TestEveryModuleIsListed(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		for tag, file := range map[string]string{"": "zlicenses.txt", "nostore": "zlicensesboard.txt"} {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(string(text), "\n")
			cmd := exec.Command("go", "list", "-deps", "-tags", tag, "-f",
				"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}",
				"github.com/hencedge/hencedge/cmd/hencedge")
			cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			for module := range strings.Lines(string(out)) {
				if module = strings.TrimSpace(module); module != "" && !slices.Contains(lines, module) {
					t.Errorf("%s is linked and not listed: go generate ./cmd/hencedge/internal/licenses", module)
				}
			}
		}
	}
	for _, want := range []string{
		"\ngithub.com/eclipse/paho.mqtt.golang v", "EPL-2.0, BSD-3-Clause (EDL 1.0)", "Eclipse Public License - v 2.0",
		"Eclipse Distribution License - v 1.0", "go mod download", "\nnpm:uplot 1.", "Copyright (c) 2022 Leon Sorokin",
	} {
		if !strings.Contains(Text, want) {
			t.Errorf("the list lacks %q", want)
		}
	}
}

// Each module's licences are identifiers of SPDX.
func TestByModule(t *testing.T) {
	found := ByModule()
	if got := found[Std]; !slices.Equal(got, []string{"BSD-3-Clause"}) {
		t.Errorf("the standard library is under %q", got)
	}
	for module, ids := range found {
		if strings.HasPrefix(module, "github.com/eclipse/paho.mqtt.golang v") &&
			!slices.Equal(ids, []string{"EPL-2.0", "BSD-3-Clause"}) {
			t.Errorf("%s is under %q", module, ids)
		}
		for _, id := range ids {
			if strings.ContainsAny(id, " ():[]") {
				t.Errorf("%s: %q is no identifier", module, id)
			}
		}
	}
	if len(found) < 10 {
		t.Errorf("licences of %d modules were found", len(found))
	}
}
