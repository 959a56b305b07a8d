//go:build !evaluatoronly

package main

import (
	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/systemd"
)

func (a *app) keyholderCommand() *cobra.Command {
	return groupCommand("keyholder", "the configuration of the one who reads results",
		`The key holder's commands are "hencedge keys" and "hencedge results"; these are about
the configuration that both use.`, a.keyholderCheck())
}

func (a *app) keyholderCheck() *cobra.Command {
	var file, dir string
	var noKeys bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "find every mistake in a configuration, without connecting",
		Long: `check reads a configuration and everything that it names: the key set with the
permissions of its secrets, the evaluators' public keys, TLS files, the password and
the directory of the state. Every mistake is shown with file, line and column, the
line itself, and what to do. It changes nothing. The exit code is 2 when results
could not be read.

--no-keys looks at the configuration alone. Whether it agrees with the evaluator's
file is found by "hencedge check".`,
		Example: "  hencedge keyholder check -c keyholder.yaml\n  hencedge keyholder check --no-keys --json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if noKeys {
				dir = anyCredentials(dir)
			}
			credentials(dir)
			cfg, err := config.LoadKeyHolder(file)
			var warnings []string
			if err == nil {
				warnings = append(keyholder.Warnings(cfg), serviceReads(systemd.KeyHolder, file, cfg.Broker.CA, cfg.Broker.Cert)...)
				warnings = append(warnings, serviceWrites(systemd.KeyHolder, file, cfg.State)...)
				if !noKeys {
					err = keyholder.Check(cfg)
				}
			}
			return a.checked(file, err, warnings)
		},
	}
	configFlag(cmd, &file, defaultHolder)
	credentialsFlag(cmd, &dir)
	cmd.Flags().BoolVar(&noKeys, "no-keys", false, "open nothing that the configuration names: no keys, secrets or directories")
	a.jsonFlag(cmd, "one JSON object")
	return cmd
}
