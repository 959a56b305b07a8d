package keys

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/transport"
)

func (a *app) identityCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "identity FILE",
		Short: "make the signing key of a device or evaluator, and print its public half",
		Long: `identity makes an Ed25519 signing key in FILE (mode 0600), unless FILE exists, and
prints its public half. That is the "public_key" of this device or evaluator in the
other roles' files. Make the key on the machine that uses it.`,
		Example: `  hencedge keys identity /etc/hencedge/signing.key`,
		Args:    cli.ExactArgs("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := transport.LoadSigningKey(args[0])
			made := errors.Is(err, fs.ErrNotExist)
			if made {
				if key, err = transport.NewSigningKey(); err == nil {
					err = key.Save(args[0])
				}
			}
			if err != nil {
				return err
			}
			defer key.Wipe()
			if a.JSON {
				return cli.JSONLine(a.Std.Out, struct {
					File      string `json:"file"`
					PublicKey string `json:"public_key"`
					Made      bool   `json:"made"`
				}{args[0], key.PublicText(), made})
			}
			_, err = fmt.Fprintln(a.Std.Out, key.PublicText())
			return err
		},
	}
	a.JSONFlag(cmd, "one JSON object")
	return cmd
}
