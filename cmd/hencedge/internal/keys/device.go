//go:build !evaluatoronly

package keys

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyset"
)

func (a *app) deviceCommand() *cobra.Command {
	var dir, out string
	cmd := &cobra.Command{
		Use:   "device NAME",
		Short: "make the keys of compact windows of a device",
		Long: `device gives the device NAME a secret of its own, for streams of mode compact, and
writes what its agent may hold to an empty or new directory: public.key and board.key
(mode 0600), beside the signed manifest. Whoever takes the board can read the compact
windows of this device and of no other.

The key set gets the evaluator's key for the device. Export for the evaluators again:
they refuse compact windows of devices that they have no key of. The set needs keys of
bootstrapping. "keys rotate" makes the keys of all devices anew.`,
		Example: `  hencedge keys device pump-7 --out for-pump-7
  hencedge keys export --role evaluator --out for-evaluators`,
		Args: cli.ExactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return cli.UsageHint(cmd, errors.New("--out names the directory to write"))
			}
			set, err := keyholder.Open(dir)
			if err != nil {
				return err
			}
			m := set.Manifest()
			if err := bootstraps(m.Current(), dir, m.Params); err != nil {
				return err
			}
			if _, err := set.AddDevice(args[0], keyholder.DeviceOptions{}); err != nil {
				return err
			}
			done, err := set.Export(keyholder.RoleAgent, out, keyholder.ExportOptions{Device: args[0]})
			if err != nil {
				return fmt.Errorf("%w; the device has its keys, so write them with: hencedge keys export --dir %s "+
					"--role agent --device %s --out DIR", err, dir, args[0])
			}
			return a.exported(done)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", DefaultDir, "key set directory")
	cmd.Flags().StringVar(&out, "out", "", "directory to write for the agent, empty or new")
	a.JSONFlag(cmd, "one JSON object")
	return cmd
}

// bootstraps fails unless evaluators can bootstrap in an epoch, as compact windows need it.
func bootstraps(e keyholder.Epoch, dir, params string) error {
	if e.Bootstrap != keyset.BootstrapNone {
		return nil
	}
	return fmt.Errorf("epoch %d of %s (%s) has no keys of bootstrapping, without which nobody can use compact "+
		"windows; make a set with: hencedge keys new --params boot16, or an epoch with: hencedge keys rotate "+
		"--bootstrap fast", e.Epoch, dir, params)
}
