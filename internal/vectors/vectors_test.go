package vectors

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// record is a testing.TB that notes a failure instead of having one.
type record struct {
	testing.TB
	failed bool
}

func (r *record) Errorf(string, ...any) { r.failed = true }

// TestCheck: equal passes, another value and a missing file fail, and the variable
// writes.
func TestCheck(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(filepath.Join("docs", "vectors"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(updateVariable, "")
	type vector struct {
		Name string    `json:"name"`
		List []float64 `json:"list"`
	}
	one := vector{"<one>", []float64{1, -2.5, 1e300}}
	fails := func(v vector) bool {
		r := &record{TB: t}
		Check(r, "v.json", v)
		return r.failed
	}
	if !fails(one) {
		t.Error("a missing file passes")
	}
	t.Setenv(updateVariable, "1")
	if fails(one) {
		t.Error("what was written does not pass")
	}
	t.Setenv(updateVariable, "")
	if fails(one) {
		t.Error("what was written does not pass later")
	}
	if !fails(vector{"<one>", []float64{1, -2.5}}) {
		t.Error("another list passes")
	}
	var got vector
	if Read(t, "v.json", &got); !reflect.DeepEqual(got, one) {
		t.Errorf("%+v", got)
	}
	b, err := os.ReadFile(Path(t, "v.json"))
	if err != nil || !json.Valid(b) || string(b) != "{\n \"name\": \"<one>\",\n \"list\": [1, -2.5, 1e+300]\n}\n" {
		t.Errorf("%q, %v", b, err)
	}
}
