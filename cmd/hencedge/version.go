package main

import (
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/licenses"
	"github.com/hencedge/hencedge/kernels"
)

// release is the newest version in CHANGELOG.md. A build that was given no version calls
// itself a development version of it.
const release = "0.1.0"

// version and commit can be set by the linker: -X main.version=v1.2.3.
var version, commit string

// buildVersion is what "hencedge version --json" prints.
type buildVersion struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Built    string `json:"commit_time,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Roles    string `json:"roles"` // "every role" or "evaluators only"
	// Kernels is what the GPU's code was made from; nil in a build without it.
	Kernels *kernelVersion `json:"kernels,omitempty"`
}

// kernelVersion identifies the GPU's code.
type kernelVersion struct {
	Source        string `json:"source_sha256"`
	Image         string `json:"image_sha256"`
	Compiler      string `json:"compiler"`
	Architectures string `json:"architectures"` // compute capabilities times 10, with spaces between
}

// String returns a line with the first digits of the hashes.
func (k kernelVersion) String() string {
	return fmt.Sprintf("kernels source %.12s image %.12s for sm %s by %s", k.Source, k.Image,
		strings.ReplaceAll(k.Architectures, " ", ","), k.Compiler)
}

// readVersion joins what the linker was told with what the Go toolchain recorded; the
// former wins. A version that Go made up for a commit without a tag counts as none: the
// commit is told beside it.
func readVersion(info *debug.BuildInfo) buildVersion {
	v := buildVersion{Version: version, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" +
		runtime.GOARCH, Roles: builtFor}
	if builtWithGPU {
		v.Kernels = &kernelVersion{kernels.SourceHash, kernels.ImageHash, kernels.Compiler, kernels.Architectures}
	}
	if info != nil {
		if made := info.Main.Version; v.Version == "" && made != "(devel)" && !pseudo.MatchString(made) {
			v.Version = made
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				if v.Commit == "" {
					v.Commit = s.Value
				}
			case "vcs.modified":
				v.Modified = s.Value == "true"
			case "vcs.time":
				v.Built = s.Value
			}
		}
	}
	if v.Version == "" {
		v.Version = "v" + release + "-dev"
	}
	return v
}

// pseudo matches versions that end in the time and the digest of a commit, as Go makes
// them for one without a tag, and those of a modified tree.
var pseudo = regexp.MustCompile(`[-.]\d{14}-[0-9a-f]{12}(\+.*)?$|\+dirty$`)

// thisVersion returns the version that roles tell in status messages.
func thisVersion() string {
	info, _ := debug.ReadBuildInfo()
	return readVersion(info).Version
}

func (a *app) versionCommand() *cobra.Command {
	var list bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "print version, commit and the GPU code's hashes",
		Example: `  hencedge version --json
  hencedge version --licenses | less`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if list {
				_, err := io.WriteString(a.Std.Out, licenses.Text)
				return err
			}
			info, _ := debug.ReadBuildInfo()
			v := readVersion(info)
			if a.JSON {
				return cli.JSONLine(a.Std.Out, v)
			}
			line := "hencedge " + v.Version
			if v.Commit != "" {
				line += " (" + v.Commit
				if v.Modified {
					line += ", modified"
				}
				line += ")"
			}
			gpu := "built without GPU support"
			if v.Kernels != nil {
				gpu = v.Kernels.String()
			}
			_, err := fmt.Fprintf(a.Std.Out, "%s %s %s\n%s\nbuilt for %s\n", line, v.Go, v.Platform, gpu, builtFor)
			return err
		},
	}
	cmd.Flags().BoolVar(&list, "licenses", false, "print the licences of the software in this program")
	a.JSONFlag(cmd, "one JSON object")
	return cmd
}
