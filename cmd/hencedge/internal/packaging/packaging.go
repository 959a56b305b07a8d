// Package packaging writes what a package of an operating system holds beside the program.
package packaging

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/licenses"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/manual"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/systemd"
)

// Command returns the hidden command that writes what a package holds beside the program:
// manual pages, completions, units, drop-ins. The same input gives the same bytes; dates
// are $SOURCE_DATE_EPOCH. Units are those of roles.
func Command(version string, roles []systemd.Role) *cobra.Command {
	return &cobra.Command{
		Use:    "package-files DIR",
		Short:  "write the files of a package beside the program",
		Hidden: true,
		Args:   cli.ExactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			date, err := sourceDate()
			if err != nil {
				return err
			}
			files, err := shareFiles(cmd.Root(), manual.Info{Version: version, Date: date}, roles)
			if err != nil {
				return err
			}
			for name, content := range files {
				path := filepath.Join(args[0], name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					return err
				}
				if err := os.WriteFile(path, content, 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// sourceDate returns $SOURCE_DATE_EPOCH, or the time now.
func sourceDate() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Now(), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, cli.Usagef("SOURCE_DATE_EPOCH %q: want seconds since 1970", text)
	}
	return time.Unix(n, 0), nil
}

// shareFiles returns the files by path.
func shareFiles(root *cobra.Command, info manual.Info, roles []systemd.Role) (map[string][]byte, error) {
	files := map[string][]byte{"sysusers/hencedge.conf": []byte(systemd.Sysusers(roles...)),
		"licenses": []byte(licenses.Text)}
	for name, text := range manual.Pages(root, info) {
		packed, err := compressed(text)
		if err != nil {
			return nil, err
		}
		files["man/"+name+".gz"] = packed
	}
	for _, r := range roles {
		page := "hencedge-" + strings.Fields(r.Command())[0]
		unit, err := systemd.Unit(r, systemd.Options{})
		if err != nil {
			return nil, err
		}
		files["units/"+r.Name()+".service"] = []byte(unit)
		files["default/"+r.Name()] = fmt.Appendf(nil,
			"# Options of %s.service; see %s(1). Every user can read this\n# "+
				"file: secrets belong elsewhere (docs/security.md).\n#HENCEDGE_OPTIONS=\"--log-level debug\"\n",
			r.Name(), page)
	}
	for _, role := range config.Schemas() {
		text, err := config.Schema(role)
		if err != nil {
			return nil, err
		}
		files["schema/"+role+".json"] = text
	}
	for name, text := range systemd.DropIns() {
		files["drop-ins/"+name] = []byte(text)
	}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"completions/hencedge":      func(b *bytes.Buffer) error { return root.GenBashCompletionV2(b, true) },
		"completions/_hencedge":     func(b *bytes.Buffer) error { return root.GenZshCompletion(b) },
		"completions/hencedge.fish": func(b *bytes.Buffer) error { return root.GenFishCompletion(b, true) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return nil, err
		}
		files[name] = b.Bytes()
	}
	return files, nil
}

func compressed(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
