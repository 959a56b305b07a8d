package main

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

// The bill of this test's own program, which links what the licences are compared with.
func TestBillOfAProgram(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var one, two bytes.Buffer
	for _, out := range []*bytes.Buffer{&one, &two} {
		if err := run([]string{self, "hencedge", "v1.2.3"}, out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("two bills of one program differ")
	}
	var b bill
	if err := json.Unmarshal(one.Bytes(), &b); err != nil {
		t.Fatal(err)
	}
	if b.Metadata.Timestamp != "2023-11-14T22:13:20Z" || b.Metadata.Component.Version != "v1.2.3" ||
		b.Format != "CycloneDX" {
		t.Errorf("%+v", b.Metadata)
	}
	if len(b.Components) == 0 || b.Components[0].Name != "std" ||
		b.Components[0].Licenses[0].License.ID != "BSD-3-Clause" {
		t.Errorf("the standard library is not the first component: %+v", b.Components)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if err := run([]string{self, "hencedge", "v1.2.3"}, &one); err == nil {
		t.Error("a time that is none was taken")
	}
}

func TestBillOfModules(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Path: "github.com/hencedge/hencedge"},
		Deps: []*debug.Module{
			{Path: "filippo.io/age", Version: "v1.3.2", Sum: "h1:x"},
		}}
	b, err := newBill(info, "hencedge", "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	age := b.Components[1]
	if age.URL != "pkg:golang/filippo.io/age@v1.3.2" || age.Licenses[0].License.ID != "BSD-3-Clause" ||
		age.Properties[0].Value != "h1:x" {
		t.Errorf("%+v", age)
	}
	info.Deps[0].Version = "v0.0.1"
	if _, err := newBill(info, "hencedge", "v1.2.3"); err == nil ||
		!strings.Contains(err.Error(), "filippo.io/age v0.0.1") {
		t.Errorf("a module without a licence: %v", err)
	}
}
