// Command image writes a container image for several architectures: an archive in the OCI
// image layout (OCI Image Format 1.1), which podman, skopeo, containerd, and Docker with
// containerd's image store load. It needs no container engine and no network. The same files give the same bytes.
//
//	go run ./cross/image -out hencedge.tar -version v0.1.0 -created 1700000000 \
//	    -file LICENSE=licenses/LICENSE amd64=dist/hencedge-linux-amd64-static ...
//
// The image has the program as /usr/bin/hencedge, the files, a user and folders for what the
// services keep. It has no shell.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// pairs are values of the form NAME=PATH, in the order in which they were given.
type pairs []pair

type pair struct{ name, path string }

func (p *pairs) String() string { return fmt.Sprint(*p) }

func (p *pairs) Set(s string) error {
	name, path, ok := strings.Cut(s, "=")
	if !ok || name == "" || path == "" {
		return fmt.Errorf("%q is not NAME=PATH", s)
	}
	*p = append(*p, pair{name, path})
	return nil
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	out := flags.String("out", "", "archive to write")
	version := flags.String("version", "", "version of the program, for the labels and the name of the image")
	revision := flags.String("revision", "", "commit, for the labels")
	name := flags.String("name", "hencedge", "name of the image")
	created := flags.Int64("created", 0, "date of everything in the image, Unix time in seconds")
	var files, programs pairs
	flags.Var(&files, "file", "PATH=SOURCE: another file of the image, several times")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, a := range flags.Args() {
		if err := programs.Set(a); err != nil {
			return fmt.Errorf("%w: give each program as ARCHITECTURE=FILE", err)
		}
	}
	if *out == "" || *version == "" || len(programs) == 0 {
		return errors.New("-out, -version and at least one ARCHITECTURE=PROGRAM are needed")
	}
	im := image{name: *name, version: *version, revision: *revision, created: time.Unix(*created, 0).UTC()}
	common, err := im.common(files)
	if err != nil {
		return err
	}
	for _, p := range programs {
		if err := im.add(p.name, p.path, common); err != nil {
			return fmt.Errorf("%s: %w", p.path, err)
		}
	}
	return im.write(*out)
}
