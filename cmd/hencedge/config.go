package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
)

func (a *app) configCommand() *cobra.Command {
	schema := &cobra.Command{
		Use:   "schema ROLE",
		Short: "print the JSON Schema of a role's configuration, for editors",
		Long: `schema prints the JSON Schema (draft 2020-12) of agent.yaml, evaluator.yaml or
keyholder.yaml: keys, types, forms of text, fixed sets of values, and what each
key means. ROLE is ` + strings.Join(config.Roles(), ", ") + `.

Mistakes between fields are beyond a schema; the role's check command finds them.`,
		Example: `  hencedge config schema agent >agent.schema.json
  # first line of agent.yaml, for editors with a YAML language server:
  # yaml-language-server: $schema=agent.schema.json`,
		Args: exactArgs("ROLE"),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := config.Schema(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			_, err = a.std.Out.Write(text)
			return err
		},
	}
	return groupCommand("config", "about configuration files",
		`The configuration of each role is one YAML file; docs/configuration.md explains
every key. "hencedge agent check" and "hencedge evaluator check" find mistakes.`, schema)
}
