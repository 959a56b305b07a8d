// Command sbom prints the bill of materials of a program that Go built: the modules that
// it links with their versions, sums and licences, as CycloneDX 1.6 in JSON. The same
// program gives the same bytes. The time is $SOURCE_DATE_EPOCH, if it is set.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/licenses"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 3 {
		return errors.New("usage: sbom PROGRAM NAME VERSION")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	b, err := newBill(info, args[1], args[2])
	if err != nil {
		return err
	}
	if text := os.Getenv("SOURCE_DATE_EPOCH"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH %q: want seconds since 1970", text)
		}
		b.Metadata.Timestamp = time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(b)
}

// newBill returns the bill of a program, called name, of a version.
func newBill(info *debug.BuildInfo, name, version string) (*bill, error) {
	b := &bill{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{Component: component{
		Type: "application", Ref: name, Name: name, Version: version,
		URL:      "pkg:golang/" + info.Main.Path + "@" + version,
		Licenses: []choice{{license{ID: "Apache-2.0"}}},
	}}}
	known := licenses.ByModule()
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	add := func(c component, licensed string) error {
		ids := known[licensed]
		if len(ids) == 0 {
			return fmt.Errorf("no licence is known of %s; run: go generate ./cmd/hencedge/internal/licenses", licensed)
		}
		for _, id := range ids {
			c.Licenses = append(c.Licenses, choice{license{ID: id}})
		}
		c.Type, c.Ref = "library", c.URL
		b.Components = append(b.Components, c)
		return nil
	}
	err := add(component{Name: "std", Version: goVersion, URL: "pkg:golang/std@" + goVersion}, licenses.Std)
	for _, m := range info.Deps {
		sum := m.Sum
		if m.Replace != nil {
			m = m.Replace
			sum = m.Sum
		}
		c := component{Name: m.Path, Version: m.Version, URL: "pkg:golang/" + m.Path + "@" + m.Version}
		if sum != "" {
			c.Properties = []property{{"go:sum", sum}}
		}
		err = errors.Join(err, add(c, m.Path+" "+m.Version))
	}
	return b, err
}

// bill is the part of a CycloneDX document that is used here.
type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Timestamp string    `json:"timestamp,omitempty"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	URL        string     `json:"purl"`
	Licenses   []choice   `json:"licenses"`
	Properties []property `json:"properties,omitempty"`
}

type choice struct {
	License license `json:"license"`
}

type license struct {
	ID string `json:"id"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}
