//go:build !evaluatoronly

package keys

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyset"
)

// Command returns "keys" with all that is below it.
func Command(c *cli.App) *cobra.Command {
	a := &app{c}
	return cli.Group("keys", "make key sets and hand out what each role may hold",
		`A key set is one directory with all keys of one key holder: the secret key, which
never leaves it unless you export it on purpose, the public key for agents, and the
evaluation keys for evaluators. Rotation adds an epoch. Results of earlier epochs can
still be decrypted.`,
		a.newCommand(), a.showCommand(), a.exportCommand(), a.deviceCommand(), a.verifyCommand(), a.rotateCommand(),
		a.identityCommand())
}

func (a *app) newCommand() *cobra.Command {
	var dir, params string
	var f needsFlags
	cmd := &cobra.Command{
		Use:   "new",
		Short: "make a key set",
		Long: `new makes a key set with its first epoch in an empty or new directory (mode 0700;
secrets have mode 0600). The largest sets take some minutes and a few hundred MiB of
memory; it says how large they are and how long they take. Ctrl-C stops it and leaves no
key.

Parameter sets, smallest first: ` + strings.Join(henc.Names(), ", ") + `,
and with levels for bootstrapping ` + strings.Join(henc.BootstrapNames(), ", ") + `.
Insecure parameters have no key sets.

--bootstrap says which keys of bootstrapping are made: fast makes one for each of its
rotations, small about half of them, which makes it slower, and none leaves them out.`,
		Example: `  hencedge keys new --params edge13-d3
  hencedge keys new --params boot16 --bootstrap small
  hencedge keys new --dir plant7-keys --for evaluator.yaml`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, n, err := f.needs()
			if err != nil {
				return err
			}
			switch {
			case params == "" && p.N() == 0:
				return cli.UsageHint(cmd, errors.New("name the parameters with --params or a configuration with --for"))
			case params != "" && p.N() > 0 && params != p.Name():
				return cli.UsageHint(cmd, fmt.Errorf("--params %s: the programs of %s are for %s", params,
					f.forFile, p.Name()))
			case p.N() == 0:
				if p, err = henc.Named(params); err != nil {
					return cli.UsageHint(cmd, fmt.Errorf("--params: %w", err))
				}
			}
			if n.Bootstrap == keyset.BootstrapNone && f.bootstrap == "" && f.forFile == "" && p.UpperLevels() > 0 {
				n.Bootstrap = keyset.BootstrapFast
			}
			if err := a.announce(p, n); err != nil {
				return cli.UsageHint(cmd, err)
			}
			progress, done := a.progress(cmd.Context())
			set, err := keyholder.Create(dir, keyholder.CreateOptions{Params: p, Needs: n, Progress: progress})
			done()
			if err != nil {
				return err
			}
			return a.describe(set)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", DefaultDir, "key set directory")
	cmd.Flags().StringVar(&params, "params", "", "named parameter set")
	f.register(cmd)
	a.JSONFlag(cmd, "one JSON object")
	return cmd
}

// needsFlags say what evaluation keys are made.
type needsFlags struct {
	forFile     string
	rotations   []int
	conjugation bool
	bootstrap   string
}

func (f *needsFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.forFile, "for", "", "evaluator.yaml: make exactly the keys that its programs need")
	cmd.Flags().IntSliceVar(&f.rotations, "rotations", nil,
		"rotations by slots to make keys for (default all powers of two)")
	cmd.Flags().BoolVar(&f.conjugation, "conjugation", false, "also make the key of complex conjugation")
	cmd.Flags().StringVar(&f.bootstrap, "bootstrap", "",
		"keys of bootstrapping: fast, small or none (default fast where the parameters, or the programs of --for, "+
			"are for it)")
}

// bootstrapping reads --bootstrap.
func (f *needsFlags) bootstrapping() (keyset.Bootstrap, error) {
	switch f.bootstrap {
	case "", "none":
		return keyset.BootstrapNone, nil
	case string(keyset.BootstrapFast), string(keyset.BootstrapSmall):
		return keyset.Bootstrap(f.bootstrap), nil
	}
	return "", cli.Usagef("--bootstrap %q: use fast, small or none", f.bootstrap)
}

// needs reads the flags; params is zero unless --for names parameters.
func (f *needsFlags) needs() (params henc.Parameters, n keyholder.Needs, err error) {
	boot, err := f.bootstrapping()
	if err != nil {
		return params, n, err
	}
	if f.forFile == "" {
		return params, keyholder.Needs{Rotations: f.rotations, Conjugation: f.conjugation, Bootstrap: boot}, nil
	}
	if f.rotations != nil {
		return params, n, cli.Usagef("--for and --rotations exclude each other")
	}
	cfg, err := config.LoadEvaluator(f.forFile)
	if err != nil {
		return params, n, cli.Usage(err)
	}
	checked, err := evaluator.Check(cfg)
	if err != nil {
		return params, n, cli.Usage(err)
	}
	needs := checked.Needs()
	if len(needs) != 1 {
		names := make([]string, len(needs))
		for i, n := range needs {
			names[i] = n.Params
		}
		return params, n, cli.Usagef("%s: its programs are for %s; a key set is for one parameter set, so split "+
			"the file",
			f.forFile, strings.Join(names, " and "))
	}
	if params, err = henc.Named(needs[0].Params); err != nil {
		return params, n, cli.Usagef("%s: %w", f.forFile, err)
	}
	n = keyholder.Needs{Rotations: append([]int{}, needs[0].Rotations...), NoRelinearise: !needs[0].Relinearise}
	n.Conjugation, n.Bootstrap = f.conjugation, boot
	if needs[0].Bootstrap && f.bootstrap == "" {
		n.Bootstrap = keyset.BootstrapFast
	}
	return params, n, nil
}

// progress returns a function that shows on standard error how many keys are made, and
// that fails when ctx ends. done removes the line.
func (a *app) progress(ctx context.Context) (progress func(keyholder.Progress) error, done func()) {
	p := a.Progress("keys")
	return func(at keyholder.Progress) error {
		if ctx.Err() != nil {
			return errors.New("interrupted; no key was kept")
		}
		if at.Done > 0 && at.Total > 1 { // the public key takes no time beside the others
			p.Update(int64(at.Done-1), int64(at.Total-1))
		}
		return nil
	}, p.Done
}

// announce says on standard error how large the keys are that will be made, where they are large.
func (a *app) announce(p henc.Parameters, n keyholder.Needs) error {
	count, bytes, err := n.Size(p)
	if err == nil && bytes >= 64<<20 {
		fmt.Fprintf(a.Std.Err, "hencedge: %d keys, about %s on disk\n", count, cli.Bytes(bytes))
	}
	return err
}

func (a *app) showCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "show what a key set is, without secrets",
		Example: "  hencedge keys show --dir plant7-keys --json",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			set, err := keyholder.Open(dir)
			if err != nil {
				return err
			}
			return a.describe(set)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", DefaultDir, "key set directory")
	a.JSONFlag(cmd, "one JSON object")
	return cmd
}

func (a *app) rotateCommand() *cobra.Command {
	var dir string
	var overlap time.Duration
	var drop []string
	var f needsFlags
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "add an epoch with fresh keys",
		Long: `rotate adds an epoch with fresh keys and makes it the current one. It keeps the
rotations of the current epoch unless --for, --rotations or --bootstrap says otherwise.
Devices with keys of compact windows get new ones, but for those of --drop.

Then export again, to new directories: first for the evaluators, which then know both
epochs, and after that for the agents. A running "results watch" needs nothing. Readings
under the old epoch are accepted during the overlap. Results that were computed from
them can always be decrypted.`,
		Example: `  hencedge keys rotate --dir plant7-keys --overlap 168h
  hencedge keys rotate --for evaluator.yaml`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if overlap < 0 {
				return cli.UsageHint(cmd, errors.New("--overlap must not be negative"))
			}
			p, n, err := f.needs()
			if err != nil {
				return err
			}
			set, err := keyholder.Open(dir)
			if err != nil {
				return err
			}
			if p.N() > 0 && !p.Equal(set.Parameters()) {
				return cli.Usagef("the programs of %s are for %s, the key set is for %s", f.forFile, p.Name(),
					set.Parameters().Name())
			}
			progress, done := a.progress(cmd.Context())
			o := keyholder.RotateOptions{Overlap: overlap, Progress: progress, Drop: drop}
			if f.forFile != "" || f.rotations != nil || f.bootstrap != "" {
				o.Needs = &n
				m := set.Manifest()
				if left := len(m.Current().CompactDevices()) - len(drop); left > 0 &&
					n.Bootstrap == keyset.BootstrapNone {
					return cli.UsageHint(cmd, fmt.Errorf("%d devices have keys of compact windows, which need those "+
						"of bootstrapping: add --bootstrap fast or small, or drop the devices with --drop", left))
				}
				if err := a.announce(set.Parameters(), n); err != nil {
					return cli.UsageHint(cmd, err)
				}
			}
			_, err = set.Rotate(o)
			done()
			if err != nil {
				return err
			}
			return a.describe(set)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", DefaultDir, "key set directory")
	cmd.Flags().DurationVar(&overlap, "overlap", 30*24*time.Hour,
		"how long readings under the old epoch are accepted; 0 means for ever")
	cmd.Flags().StringSliceVar(&drop, "drop", nil, "devices that get no keys of compact windows any more")
	f.register(cmd)
	a.JSONFlag(cmd, "one JSON object")
	return cmd
}

func (a *app) exportCommand() *cobra.Command {
	var dir, role, out, device string
	var symmetric bool
	var epoch uint32
	cmd := &cobra.Command{
		Use:   "export",
		Short: "write exactly what a role may hold",
		Long: `export writes exactly what a role may hold to an empty or new directory:

  agent       public.key
  evaluator   evaluation.key of every epoch that is still accepted, and the keys of
              compact windows of all devices

It adds keyset.json, which describes the export, and keyset.cose, the holder's
signature over that and over the digests of the files.

--symmetric gives an agent the secret key too. The agent then sends half the bytes, but
whoever takes the board can read everything under this key set. Give such a device a key
set of its own. --device gives an agent board.key too, the key of its compact windows
("hencedge keys device").`,
		Example: `  hencedge keys export --role agent --out for-agents
  hencedge keys export --role evaluator --out for-evaluators`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := keyholder.Role(role)
			if !slices.Contains([]keyholder.Role{keyholder.RoleAgent, keyholder.RoleEvaluator}, r) {
				return cli.UsageHint(cmd, fmt.Errorf("--role %q: use agent or evaluator", role))
			}
			if out == "" {
				return cli.UsageHint(cmd, errors.New("--out names the directory to write"))
			}
			if symmetric && r != keyholder.RoleAgent {
				return cli.UsageHint(cmd,
					errors.New("--symmetric is for agents: an evaluator never holds a secret key"))
			}
			if device != "" && (symmetric || r != keyholder.RoleAgent) {
				return cli.UsageHint(cmd, errors.New("--device is for --role agent without --symmetric"))
			}
			set, err := keyholder.Open(dir)
			if err != nil {
				return err
			}
			p := a.Progress("bytes")
			done, err := set.Export(r, out, keyholder.ExportOptions{Symmetric: symmetric, Device: device,
				Epoch: epoch, Progress: func(copied, total int64) error {
					p.Update(copied, total)
					return interrupted(cmd.Context())
				}})
			p.Done()
			if err != nil {
				return err
			}
			return a.exported(done)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", DefaultDir, "key set directory")
	cmd.Flags().StringVar(&role, "role", "", "agent or evaluator")
	cmd.Flags().StringVar(&out, "out", "", "directory to write, empty or new")
	cmd.Flags().BoolVar(&symmetric, "symmetric", false, "give an agent the secret key (read the help first)")
	cmd.Flags().StringVar(&device, "device", "", "give an agent the key of this device's compact windows")
	cmd.Flags().Uint32Var(&epoch, "epoch", 0,
		"only this epoch (default: the current one for agents, all accepted ones for evaluators)")
	a.JSONFlag(cmd, "one JSON object")
	return cmd
}

func (a *app) exported(done *keyholder.Exported) error {
	if done.Secret {
		fmt.Fprintf(a.Std.Err, "warning: %s holds the secret key; whoever reads it can decrypt everything under this "+
			"key set\n", done.Dir)
	}
	if done.Device != "" {
		fmt.Fprintf(a.Std.Err, "warning: %s holds the key of device %s; whoever reads it can decrypt the compact "+
			"windows of that device\n", done.Dir, done.Device)
	}
	if a.JSON {
		return cli.JSONLine(a.Std.Out, struct {
			Role   keyholder.Role `json:"role"`
			Dir    string         `json:"dir"`
			Epochs []uint32       `json:"epochs"`
			Files  []string       `json:"files"`
			Secret bool           `json:"secret"`
			Device string         `json:"device,omitempty"`
			Holder string         `json:"holder"`
		}{done.Role, done.Dir, done.Epochs, done.Files, done.Secret, done.Device, done.Holder})
	}
	lines := evaluatorLines(done.Dir, done.Holder)
	switch {
	case done.Device != "":
		lines = boardLines(done.Dir, done.Device, done.Holder)
	case done.Role == keyholder.RoleAgent:
		lines = agentLines(done.Dir, done.Secret, done.Holder)
	}
	_, err := fmt.Fprintf(a.Std.Out, "wrote for %s to %s: %s\n\n%s", done.Role, done.Dir,
		strings.Join(done.Files, ", "),
		lines)
	return err
}

// agentLines returns what agent.yaml says of an export in dir.
func agentLines(dir string, symmetric bool, holder string) string {
	if symmetric {
		return fmt.Sprintf("# agent.yaml\nkeys: {mode: symmetric, secret_key: %s, holder: %s}\n",
			filepath.Join(dir, keyholder.SecretFile), holder)
	}
	return fmt.Sprintf("# agent.yaml\nkeys: {public_key: %s, holder: %s}\n", filepath.Join(dir, keyholder.PublicFile),
		holder)
}

// boardLines returns what agent.yaml says of an export in dir for streams of mode compact.
func boardLines(dir, device, holder string) string {
	return fmt.Sprintf("# agent.yaml\ndevice: %s\nkeys: {board_key: %s, holder: %s}\n"+
		"# with streams of other modes: also public_key: %s\n", device, filepath.Join(dir, keyset.BoardFile), holder,
		filepath.Join(dir, keyholder.PublicFile))
}

// evaluatorLines returns what evaluator.yaml says of an export in dir.
func evaluatorLines(dir, holder string) string {
	return fmt.Sprintf("# evaluator.yaml\nkey_sets: [%s]\nkeys: {holder: %s}\n", dir, holder)
}

// describe prints what a key set is.
func (a *app) describe(set *keyholder.Set) error {
	m, p := set.Manifest(), set.Parameters()
	if a.JSON {
		return cli.JSONLine(a.Std.Out, struct {
			Dir string `json:"dir"`
			keyholder.Manifest
			Current     uint32 `json:"current"`
			Fingerprint string `json:"fingerprint"`
		}{set.Dir(), m, m.Current().Epoch, m.Fingerprint()})
	}
	out := a.Std.Out
	fmt.Fprintf(out, "key set     %s\n", set.Dir())
	fmt.Fprintf(out, "parameters  %s (N = 2^%d, depth %d, log2(QP) = %.0f of at most %d)\n", p.Name(), p.LogN(),
		p.Depth(), p.LogQP(), p.SecurityBound())
	fmt.Fprintf(out, "hash        %s\n", m.ParamsHash)
	fmt.Fprintf(out, "signer      %s\n", m.Signer)
	fmt.Fprintf(out, "fingerprint %s\n\n", m.Fingerprint())
	t := cli.NewTable(out,
		cli.Column{Title: "epoch", Right: true}, cli.Column{Title: "key id", Width: 32},
		cli.Column{Title: "created", Width: 20},
		cli.Column{Title: "accepted until", Width: 20}, cli.Column{Title: "public", Width: 9, Right: true},
		cli.Column{Title: "evaluation", Width: 10, Right: true}, cli.Column{Title: "rotations"})
	if err := t.Header(); err != nil {
		return err
	}
	for _, e := range m.Epochs {
		until := "no end"
		if !e.AcceptUntil.IsZero() {
			until = e.AcceptUntil.Format(time.RFC3339)
		}
		err := t.Row(fmt.Sprint(e.Epoch), e.KeyID, e.Created.Format(time.RFC3339), until,
			cli.Bytes(e.PublicBytes), cli.Bytes(e.EvaluationBytes), rotations(e))
		if err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "\n%s\n%s", agentLines("agent-keys", false, m.Fingerprint()),
		evaluatorLines("evaluator-keys", m.Fingerprint()))
	return err
}

func rotations(e keyholder.Epoch) string {
	var parts []string
	for i, k := range e.Rotations {
		if i == 12 {
			parts = append(parts, fmt.Sprintf("... (%d)", len(e.Rotations)))
			break
		}
		parts = append(parts, fmt.Sprint(k))
	}
	if e.Conjugation {
		parts = append(parts, "conjugation")
	}
	if e.Bootstrap != keyset.BootstrapNone {
		parts = append(parts, fmt.Sprintf("bootstrapping (%s)", e.Bootstrap))
	}
	if n := len(e.CompactDevices()); n > 0 {
		parts = append(parts, fmt.Sprintf("compact windows (%d devices)", n))
	}
	if len(parts) == 0 {
		parts = append(parts, "none")
	}
	return strings.Join(parts, " ")
}
