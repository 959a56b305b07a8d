package config

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// fleetFile is the configuration of an evaluator with the classes pump and tank.
const fleetFile = `name: e1
broker: {url: "tls://h"}
key_sets: [ks]
signing_key: s.key
state: st
enrolled: [devices.d, more.yaml]
devices:
  - {name: b1, public_key: "ed25519:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="}
classes:
  - name: pump
    streams:
      - name: s
        window: {samples: 8}
        params: edge12-d1
        channels:
          - {name: c, unit: "%", range: [0, 100]}
  - name: tank
    streams:
      - name: s
        window: {samples: 8}
        params: edge12-d1
        channels:
          - {name: c, unit: "%", range: [0, 100]}
programs:
  - {name: p, for: pump, expr: mean(x), inputs: {x: s/c}}
`

// testKey returns the text of public key n, which nobody holds.
func testKey(n int) string {
	return "ed25519:" + base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%032d", n))
}

// fleet writes files into a directory and returns the configuration that names them.
func fleet(t testing.TB, files map[string]string) (*Evaluator, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e, err := ParseEvaluator(filepath.Join(dir, "evaluator.yaml"), []byte(fleetFile))
	if err != nil {
		t.Fatal(err)
	}
	return e, dir
}

func namesOf(list []Enrolment) (out []string) {
	for _, d := range list {
		out = append(out, d.Name+" "+d.Class)
	}
	return out
}

func TestEnrolled(t *testing.T) {
	e, dir := fleet(t, map[string]string{
		"devices.d/b.yaml": "# fingerprint k7qd2\n- name: p2\n  public_key: " + testKey(2) + "\n  class: pump\n",
		"devices.d/a.yml": "---\n\n- name: p1 # the first\n  class: 'pump'\n  public_key: \"" + testKey(1) + "\"\n\n" +
			"-  name: t1\n  class: tank\n  public_key: " + testKey(3) + "\n",
		"devices.d/README":       "no list",
		"devices.d/.hidden.yaml": "no list",
		"more.yaml":              "- name: p4\r\n  public_key: " + testKey(4) + "\r\n  class: pump\r\n",
	})
	got, faults := NewRoll(e).Read()
	if want := []string{"p1 pump", "t1 tank", "p2 pump", "p4 pump"}; !slices.Equal(namesOf(got), want) ||
		len(faults) > 0 {
		t.Fatalf("%q, %v", namesOf(got), faults)
	}
	if at := got[1]; at.File != filepath.Join(dir, "devices.d/a.yml") || at.Line != 7 || at.PublicKey != testKey(3) {
		t.Errorf("%+v", at)
	}
}

// Each entry that breaks a rule is told with file and line, and left out; the others count.
func TestEnrolledMistakes(t *testing.T) {
	entry := func(name, key, class string) string {
		return fmt.Sprintf("- name: %s\n  public_key: %s\n  class: %s\n", name, key, class)
	}
	for _, tt := range []struct {
		name, text string
		want       string // of the first mistake, after the file
		sound      []string
	}{
		{"class", entry("x", testKey(8), "pumps"), `1:1: device "x": there is no class "pumps"`, nil},
		{"twice", entry("x", testKey(8), "pump") + entry("x", testKey(9), "pump"),
			`4:1: the device "x" is already listed at DIR/devices.d/x.yaml:1`, []string{"x pump"}},
		{"listed", entry("b1", testKey(8), "pump"),
			`1:1: the device "b1" is already listed at DIR/evaluator.yaml:8`, nil},
		{"key", entry("x", testKey(8), "pump") + entry("y", testKey(8), "pump"),
			`4:1: the device "y" has the same key as the one at DIR/devices.d/x.yaml:1`, []string{"x pump"}},
		{"listed key", entry("x", "ed25519:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=", "pump"),
			`1:1: the device "x" has the same key as the one at DIR/evaluator.yaml:8`, nil},
		{"evaluator", entry("e1", testKey(8), "pump"), `1:1: the evaluator has the name "e1" too`, nil},
		{"no class", "- name: x\n  public_key: " + testKey(8) + "\n" + entry("y", testKey(9), "pump"),
			`1:1: "class" is missing`, []string{"y pump"}},
		{"bad name", entry("a/b", testKey(8), "pump") + entry("y", testKey(9), "pump"),
			`1:9: name: invalid name "a/b"`, []string{"y pump"}},
		{"bad key", entry("x", "ed25519:abc", "pump"), `2:15: public_key: the public key is damaged`, nil},
		{"unknown", "- name: x\n  key: 3\n" + entry("y", testKey(9), "pump"), `2:3: neither name, public_key nor class`,
			[]string{"y pump"}},
		{"repeated", "- name: x\n  name: y\n", `2:3: "name" is given twice`, nil},
		{"no value", "- name:\n  class: pump\n", `1:3: "name" has no value`, nil},
		{"text", "hello\n" + entry("y", testKey(9), "pump"), `1:1: not a line of a list of devices`,
			[]string{"y pump"}},
		{"flow", "- {name: x, class: pump}\n", `1:3: neither name, public_key nor class`, nil},
		{"empty", "# nothing\n", `1:1: the file lists no device`, nil},
	} {
		e, dir := fleet(t, map[string]string{"devices.d/x.yaml": tt.text,
			"more.yaml": entry("last", testKey(99), "tank")})
		got, faults := NewRoll(e).Read()
		if want := append(tt.sound, "last tank"); !slices.Equal(namesOf(got), want) {
			t.Errorf("%s: %q", tt.name, namesOf(got))
		}
		want := filepath.Join(dir, "devices.d/x.yaml") + ":" + strings.ReplaceAll(tt.want, "DIR", dir)
		if len(faults) == 0 || !strings.HasPrefix(faults[0].Error(), want) || faults[0].Remedy == "" {
			t.Errorf("%s: %v, want %s", tt.name, faults, want)
		}
		var each []Enrolment
		wrong := NewRoll(e).Each(func(d Enrolment) { each = append(each, d) })
		if !slices.Equal(each, got) || fmt.Sprint(wrong) != fmt.Sprint(faults) {
			t.Errorf("%s: Each gives %v, %v; Read %v, %v", tt.name, each, wrong, got, faults)
		}
	}
}

func TestEnrolledUnreadable(t *testing.T) {
	e, dir := fleet(t, map[string]string{"more.yaml": "- name: p4\n  public_key: " + testKey(4) + "\n  class: pump\n"})
	got, faults := NewRoll(e).Read()
	if len(got) != 1 || len(faults) != 1 || faults[0].Line != 6 || faults[0].Path != "enrolled[0]" {
		t.Errorf("%v, %v", got, faults)
	}
	if err := os.MkdirAll(filepath.Join(dir, "devices.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere", filepath.Join(dir, "devices.d", "gone.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", filepath.Join(dir, "devices.d", "null.yaml")); err != nil {
		t.Fatal(err)
	}
	if got, faults = NewRoll(e).Read(); len(got) != 1 || len(faults) != 2 ||
		!strings.Contains(faults[0].Error(), "gone.yaml:1:1: cannot be read") ||
		!strings.Contains(faults[1].Error(), "null.yaml:1:1: cannot be read: it is not a regular file") {
		t.Errorf("%v, %v", got, faults)
	}
}

// A file is read again when it changes, and only then.
func TestEnrolledAgain(t *testing.T) {
	old := "- name: p1\n  public_key: " + testKey(1) + "\n  class: pump\n"
	e, dir := fleet(t, map[string]string{"devices.d/a.yaml": old, "more.yaml": "- name: p4\n  public_key: " +
		testKey(4) + "\n  class: pump\n"})
	path := filepath.Join(dir, "devices.d/a.yaml")
	long := time.Now().Add(-time.Hour)
	for _, f := range []string{path, filepath.Join(dir, "more.yaml")} {
		if err := os.Chtimes(f, long, long); err != nil {
			t.Fatal(err)
		}
	}
	r := NewRoll(e)
	r.Read()
	before := r.files[path]
	if r.Read(); r.files[path] != before {
		t.Error("an unchanged file was read again")
	}
	if err := os.WriteFile(path, []byte(strings.Replace(old, "p1", "p7", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a file that was just written may still change within the resolution of its time
		if got, faults := r.Read(); !slices.Equal(namesOf(got), []string{"p7 pump", "p4 pump"}) || len(faults) > 0 {
			t.Errorf("%q, %v", namesOf(got), faults)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got, _ := r.Read(); !slices.Equal(namesOf(got), []string{"p4 pump"}) {
		t.Errorf("%q", namesOf(got))
	}
}

func FuzzEnrolled(f *testing.F) {
	f.Add("- name: x\n  public_key: " + testKey(1) + "\n  class: pump\n")
	f.Add("---\n# a\n-  class: 'c'\n")
	e, err := ParseEvaluator("evaluator.yaml", []byte(fleetFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, faults := parseEnrolled("x.yaml", yamlx.NewLines("x.yaml", []byte(text)))
		for _, d := range list {
			if !ValidName(d.Name) || !ValidName(d.Class) || d.PublicKey == "" || d.Line < 1 {
				t.Errorf("%+v", d)
			}
			_ = NewRoll(e).members().refuse(&enrolledFile{lines: yamlx.NewLines("x.yaml", []byte(text))}, d)
		}
		for _, e := range faults {
			if e.Line < 1 || e.Column < 1 || e.Remedy == "" {
				t.Errorf("%+v", e)
			}
		}
		if len(list)+len(faults) == 0 {
			t.Error("neither devices nor mistakes")
		}
	})
}

// BenchmarkEnrolled reads 10,000 devices, each from a file of its own and all from one.
func BenchmarkEnrolled(b *testing.B) {
	const n = 10000
	var all strings.Builder
	each := map[string]string{}
	for i := range n {
		text := fmt.Sprintf("# fingerprint k7qd2-4mzra-xxb3e-jq6hn-2hvwp\n- name: pump%d\n  public_key: %s\n"+
			"  class: pump\n", i, testKey(i))
		all.WriteString(text)
		each[fmt.Sprintf("devices.d/pump%d.yaml", i)] = text
	}
	for name, files := range map[string]map[string]string{"files": each, "file": {"more.yaml": all.String()}} {
		b.Run(name, func(b *testing.B) {
			e, _ := fleet(b, files)
			for b.Loop() {
				if got, _ := NewRoll(e).Read(); len(got) != n {
					b.Fatal(len(got))
				}
			}
		})
	}
}

// The page of a key holder takes boards of any class, and reads the files again when their stamp has changed.
func TestDeviceRoll(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, n int, class string) {
		t.Helper()
		text := fmt.Sprintf("- name: %s\n  public_key: %s\n  class: %s\n", name, testKey(n), class)
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("b1", 1, "pump")
	write("b2", 2, "tank")
	write("b3", 2, "tank")
	r := NewDeviceRoll([]string{dir})
	list, faults := r.Read()
	if len(list) != 2 || list[0].Name != "b1" || list[1].Class != "tank" || len(faults) != 1 ||
		!strings.Contains(faults[0].Error(), "same key") {
		t.Errorf("%+v, %v", list, faults)
	}
	before := r.Stamp()
	write("b4", 4, "pump")
	added := r.Stamp()
	if err := os.Remove(filepath.Join(dir, "b1.yaml")); err != nil {
		t.Fatal(err)
	}
	if removed := r.Stamp(); before == added || added == removed {
		t.Error("the stamp stays the same over changes")
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, faults := r.Read(); len(faults) != 1 || !strings.Contains(faults[0].Error(), "no such file") {
		t.Errorf("without the directory: %v", faults)
	}
}
