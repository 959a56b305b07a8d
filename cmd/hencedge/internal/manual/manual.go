// Package manual writes manual pages from the command line's own description:
// one page for the program and one for each of its groups of commands.
package manual

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Info is what the commands do not know.
type Info struct {
	Version string
	Date    time.Time // in the footer; the same date gives the same bytes
}

// Pages renders the pages of root by file name ("hencedge-agent.1"), in roff with
// the man macros (man(7)).
func Pages(root *cobra.Command, info Info) map[string][]byte {
	out := map[string][]byte{root.Name() + ".1": page(root, info, false)}
	for _, c := range visible(root) {
		out[root.Name()+"-"+c.Name()+".1"] = page(c, info, true)
	}
	return out
}

func visible(c *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, k := range c.Commands() {
		if k.IsAvailableCommand() && k.Name() != "help" {
			out = append(out, k)
		}
	}
	return out
}

// page returns one page: the command with everything below it, or, for the root, with
// the names of its groups only.
func page(c *cobra.Command, info Info, deep bool) []byte {
	var b bytes.Buffer
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 %s %s %s\n", quote(strings.ToUpper(name)), quote(info.Date.UTC().Format("2006-01-02")),
		quote("hencedge "+info.Version), quote("hencedge manual"))
	b.WriteString(".nh\n.ad l\n")
	section(&b, "NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", escape(name), escape(c.Short))
	section(&b, "SYNOPSIS")
	synopsis(&b, c)
	section(&b, "DESCRIPTION")
	paragraphs(&b, long(c))
	options(&b, c.NonInheritedFlags())
	if deep {
		for _, k := range visible(c) {
			section(&b, strings.ToUpper(k.Name()))
			synopsis(&b, k)
			b.WriteString(".PP\n")
			paragraphs(&b, long(k))
			examples(&b, k)
			flags(&b, k.NonInheritedFlags())
		}
	} else {
		section(&b, "COMMANDS")
		for _, k := range visible(c) {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s; see %s(1)\n", escape(k.CommandPath()), escape(k.Short),
				escape(name+"-"+k.Name()))
		}
		section(&b, "FILES")
		for _, f := range [][2]string{
			{"/etc/hencedge/agent.yaml, evaluator.yaml", "configurations of the services"},
			{"/etc/default/hencedge-agent, hencedge-evaluator", "options of the services"},
			{"/var/lib/hencedge", "state and signing keys of the services"},
			{"/usr/share/doc/hencedge", "documents and examples"},
		} {
			fmt.Fprintf(&b, ".TP\n.I %s\n%s\n", escape(f[0]), escape(f[1]))
		}
	}
	examples(&b, c)
	section(&b, "EXIT STATUS")
	b.WriteString("0 good, 1 failed, 2 wrong usage or invalid configuration.\n")
	seeAlso(&b, c)
	return b.Bytes()
}

func seeAlso(b *bytes.Buffer, c *cobra.Command) {
	section(b, "SEE ALSO")
	root := c.Root()
	var names []string
	if c != root {
		names = append(names, root.Name())
	}
	for _, k := range visible(root) {
		if k != c {
			names = append(names, root.Name()+"-"+k.Name())
		}
	}
	for i, n := range names {
		sep := ","
		if i == len(names)-1 {
			sep = ""
		}
		fmt.Fprintf(b, ".BR %s (1)%s\n", escape(n), sep)
	}
}

func section(b *bytes.Buffer, title string) { fmt.Fprintf(b, ".SH %s\n", quote(title)) }

func synopsis(b *bytes.Buffer, c *cobra.Command) {
	use := c.CommandPath()
	if _, args, ok := strings.Cut(c.Use, " "); ok {
		use += " " + args
	}
	if c.HasSubCommands() {
		use += " COMMAND"
	}
	if c.HasAvailableFlags() {
		use += " [flags]"
	}
	fmt.Fprintf(b, ".B %s\n", escape(use))
}

func long(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return strings.ToUpper(c.Short[:1]) + c.Short[1:] + "."
}

// paragraphs writes text: blank lines part paragraphs, indented ones stay as they
// are.
func paragraphs(b *bytes.Buffer, text string) {
	for i, p := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(p, "  ") {
			verbatim(b, p)
			continue
		}
		for line := range strings.SplitSeq(p, "\n") {
			b.WriteString(escape(line) + "\n")
		}
	}
}

func verbatim(b *bytes.Buffer, text string) {
	b.WriteString(".nf\n")
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		b.WriteString(escape(line) + "\n")
	}
	b.WriteString(".fi\n")
}

func examples(b *bytes.Buffer, c *cobra.Command) {
	if c.Example == "" {
		return
	}
	b.WriteString(".PP\nExamples:\n.PP\n")
	verbatim(b, c.Example)
}

func options(b *bytes.Buffer, set *pflag.FlagSet) {
	if set.HasAvailableFlags() {
		section(b, "OPTIONS")
		flags(b, set)
	}
}

func flags(b *bytes.Buffer, set *pflag.FlagSet) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind != "" {
			name += " " + kind
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && !strings.Contains(usage, "(default") {
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", escape(name), escape(usage))
	})
}

// escape makes text safe in roff: backslashes, hyphens that are to stay hyphens,
// and control characters at the start of a line.
func escape(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

// quote makes one argument of a macro.
func quote(s string) string { return `"` + strings.ReplaceAll(escape(s), `"`, `\(dq`) + `"` }
