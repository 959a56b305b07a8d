package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/henc"
)

// streamLevel is the level that the programs of an evaluator need of a stream.
type streamLevel struct {
	Device   string   `json:"device,omitempty"`
	Class    string   `json:"class,omitempty"` // in place of the device: of each of the class
	Stream   string   `json:"stream"`
	Programs []string `json:"programs"`
	Level    int      `json:"level"`       // that the file asks for
	Least    int      `json:"least"`       // that is enough
	Bytes    int      `json:"bytes"`       // of a window's ciphertext under the public key
	Fewest   int      `json:"least_bytes"` // the same at the least level
	Good     bool     `json:"good"`        // the two are the same
}

func (a *app) evaluatorLevels() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "levels",
		Short: "find the lowest level at which each stream can be encrypted",
		Long: `levels compiles the programs of a configuration. For every stream it prints the level
at which it is encrypted now, and the lowest that serves its programs without doubling
their promised error. A lower level means fewer bytes and less work for the board. The
"level" in the board's file and in the evaluator's must be the same. levels needs no
keys and no broker.

The exit code is 1 if a stream is encrypted at a higher level than necessary.`,
		Example: "  hencedge evaluator levels -c evaluator.yaml\n  hencedge evaluator levels -c evaluator.yaml --json",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := config.LoadEvaluator(file)
			if err != nil {
				return cli.Usage(err)
			}
			list, err := streamLevels(cfg)
			if err != nil {
				return cli.Usage(err)
			}
			return a.printLevels(list)
		},
	}
	cli.ConfigFlag(cmd, &file, "evaluator.yaml")
	a.JSONFlag(cmd, "one JSON object a stream")
	return cmd
}

// streamLevels returns the levels of every stream.
func streamLevels(cfg *config.Evaluator) ([]streamLevel, error) {
	plan, err := evaluator.Check(cfg)
	if err != nil {
		return nil, err
	}
	var out []streamLevel
	type owned struct {
		device, class string
		config.Stream
	}
	var all []owned
	for _, s := range cfg.Streams {
		all = append(all, owned{s.Device, "", s.Stream})
	}
	for _, c := range cfg.Classes {
		for _, s := range c.Streams {
			all = append(all, owned{"", c.Name, s})
		}
	}
	for _, s := range all {
		if s.Compact() > 0 {
			continue // it has none
		}
		params, err := henc.Named(s.Params)
		if err != nil {
			return nil, err
		}
		n := needsOf(plan, s.device, s.class)[s.Name]
		l := streamLevel{Device: s.device, Class: s.class, Stream: s.Name,
			Programs: n.Programs, Level: s.LevelAt(params.Depth()),
			Least: n.Level}
		l.Bytes, l.Fewest = params.CiphertextBytes(l.Level, false), params.CiphertextBytes(l.Least, false)
		l.Good = l.Level == l.Least
		out = append(out, l)
	}
	return out, nil
}

func (a *app) printLevels(list []streamLevel) error {
	high := 0
	for _, l := range list {
		if !l.Good {
			high++
		}
		if a.JSON {
			if err := cli.JSONLine(a.Std.Out, l); err != nil {
				return err
			}
			continue
		}
		users := cmp.Or(strings.Join(l.Programs, ", "), "no program at all")
		owner := cmp.Or(l.Device, "each "+l.Class)
		text := fmt.Sprintf("%s/%s: level %d, as needed for %s", owner, l.Stream, l.Level, users)
		if !l.Good {
			text = fmt.Sprintf("%s/%s: level %d, and %d is enough for %s: write \"level: %d\" here and in the "+
				"device's file, %s instead of %s a window",
				owner, l.Stream, l.Level, l.Least, users, l.Least, cli.Bytes(int64(l.Fewest)),
				cli.Bytes(int64(l.Bytes)))
		}
		if _, err := fmt.Fprintln(a.Std.Out, text); err != nil {
			return err
		}
	}
	if high > 0 {
		return fmt.Errorf("%d of %d streams: %w", high, len(list), cli.ErrQuiet)
	}
	return nil
}

// levelNeed is what programs need of a stream; see plan.LevelNeed.
type levelNeed struct {
	Programs       []string
	Level, Accepts int
}

// inputOf returns the stream of an input, and whether it is one of a device, or one that
// every device of its class has.
func inputOf(e *program.Explanation, in program.InputInfo, device, class string) (stream string, ours bool) {
	name, _, _ := strings.Cut(in.Name, "@") // without the lag
	if e.Class != "" {
		return name, e.Class == class
	}
	return strings.CutPrefix(name, device+"/")
}

// needsOf returns what the programs need of the streams of a device of a class, or of none.
func needsOf(plan *evaluator.Plan, device, class string) map[string]levelNeed {
	needs := map[string]levelNeed{}
	for _, p := range plan.Programs {
		e := p.Circuit.Explain()
		for _, in := range e.Inputs {
			stream, ours := inputOf(&e, in, device, class)
			if !ours {
				continue
			}
			least := in.Level
			if e.Least != nil {
				least = e.Least.Level
			}
			n := needs[stream]
			if !slices.Contains(n.Programs, p.Name) {
				n.Programs = append(n.Programs, p.Name)
			}
			n.Level, n.Accepts = max(n.Level, least), max(n.Accepts, in.Level)
			needs[stream] = n
		}
	}
	return needs
}
