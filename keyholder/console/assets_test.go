package console

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The page that is embedded was built from the sources that lie beside it ("make console").
// "make check-console" builds it anew and compares.
func TestAssetsAreBuilt(t *testing.T) {
	names, err := filepath.Glob("web/src/*")
	must(t, err)
	names = append(names, "web/build.mjs", "web/package-lock.json")
	slices.Sort(names)
	h := sha256.New()
	for _, name := range names {
		b, err := os.ReadFile(name)
		must(t, err)
		fmt.Fprintf(h, "%s\x00%s\x00", strings.TrimPrefix(name, "web/"), b)
	}
	want, err := embedded.ReadFile("assets/" + sources)
	must(t, err)
	if got := fmt.Sprintf("%x\n", h.Sum(nil)); got != string(want) || len(names) < 10 {
		t.Errorf("%d sources have the digest %s, built was %s: run make console", len(names), got, want)
	}
}

// The page loads nothing from elsewhere: its code names no other address, but for namespaces
// and the home of uPlot in licences.
func TestAssetsStayHere(t *testing.T) {
	for path, a := range assets() {
		text := string(a.plain)
		for _, allowed := range []string{"http://www.w3.org/", "https://github.com/leeoniya/uPlot"} {
			text = strings.ReplaceAll(text, allowed, "")
		}
		if path != "/licenses.txt" && strings.Contains(text, "://") {
			at := strings.Index(text, "://")
			t.Errorf("%s names another address: %q", path, text[max(0, at-40):min(len(text), at+40)])
		}
		if path == "/{$}" && (strings.Contains(text, "<script>") || strings.Contains(text, "style=")) {
			t.Errorf("%s has inline code, which the policy forbids", path)
		}
	}
}
