package keys

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
)

func (a *app) verifyCommand() *cobra.Command {
	var holder string
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "check who signed exported keys, and that they are unchanged",
		Long: `verify checks a directory that "hencedge keys export" wrote: that its manifest has a
valid signature, and that every file is the one that was signed.

--holder is the fingerprint that "hencedge keys show" prints at the key holder, or the
holder's public key. Get it over another channel than the directory. Without --holder,
verify finds damage only: whoever exchanged the keys can sign them too.`,
		Example: "  hencedge keys verify for-agents --holder k7qd2-4mzra-xxb3e-jq6hn-2hvwp",
		Args:    cli.ExactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			trust := keyset.Anyone()
			if holder != "" {
				var err error
				if trust, err = keyset.Trusted(holder); err != nil {
					return cli.UsageHint(cmd, fmt.Errorf("--holder: %w", err))
				}
			}
			export, err := keyset.OpenExport(args[0], trust)
			if err == nil {
				p := a.Progress("bytes")
				err = export.VerifyTelling(func(done, total int64) error {
					p.Update(done, total)
					return interrupted(cmd.Context())
				})
				p.Done()
			}
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return a.verified(export, holder != "")
		},
	}
	cmd.Flags().StringVar(&holder, "holder", "", "fingerprint or public key of the key holder who must have signed")
	a.JSONFlag(cmd, "one JSON object")
	return cmd
}

func (a *app) verified(export *keyset.Export, pinned bool) error {
	m := export.Manifest
	fingerprint := transport.Fingerprint(export.Holder)
	if a.JSON {
		return cli.JSONLine(a.Std.Out, struct {
			Dir    string `json:"dir"`
			Holder string `json:"holder"`
			Pinned bool   `json:"pinned"`
			*keyset.Manifest
		}{export.Dir, fingerprint, pinned, m})
	}
	if !pinned {
		fmt.Fprintf(a.Std.Err, "warning: nothing is damaged; whose keys they are is not checked. Compare %s with the "+
			"key holder, or give it with --holder\n", fingerprint)
	}
	_, err := fmt.Fprintf(a.Std.Out, "%s: whole, %s, %d epochs, signed by %s\n", export.Dir, m.Params, len(m.Epochs),
		fingerprint)
	return err
}

// interrupted fails once ctx has ended.
func interrupted(ctx context.Context) error {
	if ctx.Err() != nil {
		return errors.New("interrupted; nothing was left behind")
	}
	return nil
}
