package results

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/access"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/systemd"
)

// KeyHolderCommand returns "keyholder" with all that is below it.
func KeyHolderCommand(c *cli.App) *cobra.Command {
	a := &app{c}
	return cli.Group("keyholder", "check the key holder's configuration",
		`The key holder works with "hencedge keys" and "hencedge results". The commands here are
for the configuration that both use.`, a.checkCommand())
}

func (a *app) checkCommand() *cobra.Command {
	var file, dir string
	var noKeys bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "find every mistake in a configuration, without connecting",
		Long: `check reads a configuration and everything that it names: the key set with the
permissions of its secrets, the evaluators' public keys, TLS files, the password and
the directory of the state. Every mistake is shown with file, line and column, the
line itself, and what to do. It changes nothing. The exit code is 2 if results could
not be read.

--no-keys checks the configuration alone. "hencedge check" compares it with the
evaluator's file.`,
		Example: "  hencedge keyholder check -c keyholder.yaml\n  hencedge keyholder check --no-keys --json",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if noKeys {
				dir = cli.AnyCredentials(dir)
			}
			cli.UseCredentials(dir)
			cfg, err := config.LoadKeyHolder(file)
			var warnings []string
			if err == nil {
				warnings = append(keyholder.Warnings(cfg), access.Unreadable(systemd.KeyHolder, file, cfg.Broker.CA,
					cfg.Broker.Cert)...)
				warnings = append(warnings, access.Unwritable(systemd.KeyHolder, file, cfg.State)...)
				if !noKeys {
					err = errors.Join(keyholder.Check(cfg), checkPage(cfg))
				}
			}
			return a.Checked(file, err, warnings)
		},
	}
	cli.ConfigFlag(cmd, &file, defaultHolder)
	cli.CredentialsFlag(cmd, &dir)
	cmd.Flags().BoolVar(&noKeys, "no-keys", false,
		"open nothing that the configuration names: no keys, secrets or directories")
	a.JSONFlag(cmd, "one JSON object")
	return cmd
}
