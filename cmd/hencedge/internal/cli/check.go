package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hencedge/hencedge/config"
)

// mistake is one error of "check --json".
type mistake struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Path   string `json:"path,omitempty"`
	Cause  string `json:"cause"`
	Remedy string `json:"remedy,omitempty"`
}

// Checked reports the outcome of a check command.
func (a *App) Checked(file string, err error, warnings []string) error {
	for _, w := range warnings {
		fmt.Fprintf(a.Std.Err, "warning: %s: %s\n", file, w)
	}
	if !a.JSON {
		if err != nil {
			return Usage(err)
		}
		_, err := fmt.Fprintf(a.Std.Out, "%s: good\n", file)
		return err
	}
	out := struct {
		OK       bool      `json:"ok"`
		File     string    `json:"file"`
		Errors   []mistake `json:"errors"`
		Warnings []string  `json:"warnings,omitempty"`
	}{err == nil, file, mistakes(err), warnings}
	if werr := JSONLine(a.Std.Out, out); werr != nil {
		return werr
	}
	if err != nil {
		return Usagef("%s: %w", file, ErrQuiet)
	}
	return nil
}

// mistakes takes an error apart.
func mistakes(err error) []mistake {
	out := []mistake{}
	if err == nil {
		return out
	}
	var list *config.Errors
	if !errors.As(err, &list) {
		for line := range strings.SplitSeq(err.Error(), "\n\n") {
			out = append(out, mistake{Cause: line})
		}
		return out
	}
	for _, e := range list.List {
		out = append(out, mistake{e.File, e.Line, e.Column, e.Path, e.Cause, e.Remedy})
	}
	return out
}
