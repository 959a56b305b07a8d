//go:build !evaluatoronly

package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
)

// TestCompose: the images of the example are those of this release, and what runs in them are
// commands with flags that exist.
func TestCompose(t *testing.T) {
	text, err := os.ReadFile("../../config/examples/compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Image   string
			Command []string
			Build   struct {
				Inline string `yaml:"dockerfile_inline"`
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	images := map[string]string{"evaluator": "localhost/hencedge-evaluator:" + release,
		"keyholder": "localhost/hencedge:" + release}
	for name, image := range images {
		if got := file.Services[name].Image; got != image {
			t.Errorf("%s has the image %q, want %q", name, got, image)
		}
	}
	deb := "hencedge-evaluator_" + release + "_amd64.deb"
	if !strings.Contains(file.Services["evaluator-gpu"].Build.Inline, deb) {
		t.Errorf("evaluator-gpu does not install %s", deb)
	}
	root := newRoot(cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
	for name, service := range file.Services {
		if name == "broker" {
			continue
		}
		cmd, rest, err := root.Find(service.Command)
		if err != nil || !cmd.Runnable() {
			t.Errorf("%s: %v: %v", name, service.Command, err)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil || cmd.Flags().NArg() > 0 {
			t.Errorf("%s: %v: %v", name, rest, err)
		}
	}
}
