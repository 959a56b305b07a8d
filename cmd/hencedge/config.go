package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport"
)

func (a *app) configCommand() *cobra.Command {
	schema := &cobra.Command{
		Use:   "schema ROLE",
		Short: "print the JSON Schema of a role's configuration, for editors",
		Long: `schema prints the JSON Schema (draft 2020-12) of agent.yaml, evaluator.yaml,
keyholder.yaml, or of what "config sign" signs. It has the keys and what they mean,
types, forms of text, bounds, fixed sets of values, and which keys need or exclude each
other. ROLE is ` + strings.Join(config.Schemas(), ", ") + `.

A schema cannot check references between places, arithmetic or files. The role's check
command does.`,
		Example: `  hencedge config schema agent >agent.schema.json
  # first line of agent.yaml, for editors with a YAML language server:
  # yaml-language-server: $schema=agent.schema.json`,
		Args: cli.ExactArgs("ROLE"),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := config.Schema(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			_, err = a.Std.Out.Write(text)
			return err
		},
	}
	return cli.Group("config", "about configuration files",
		`The configuration of each role is one YAML file; docs/configuration.md explains
every key. "hencedge agent check" and "hencedge evaluator check" find mistakes.`, schema, a.configSign())
}

func (a *app) configSign() *cobra.Command {
	var key, device, base, out string
	var version uint64
	var valid time.Duration
	cmd := &cobra.Command{
		Use:   "sign FILE",
		Short: "sign a remote configuration for a device",
		Long: `sign makes the message with which an operator changes a device's configuration
remotely: a COSE_Sign1 with the sections of FILE, the device's name and a version. The
device must have the operator's public key under "remote" in its own file, and accepts
only some sections. Each message needs a higher version than the one before.

--valid limits how long devices accept the message, by their own clocks. A device that
comes back after months then ignores it. A device that accepted it in time keeps it.

--check checks FILE against the device's own file before it is signed. Publish the
message, retained, on <prefix>/cfg/<device>.`,
		Example: `  hencedge keys identity operator.key
  hencedge config sign --key operator.key --device board1 --revision 3 --out board1.cfg faster.yaml
  mosquitto_pub -r -q 1 -t hencedge/v1/cfg/board1 -f board1.cfg ...`,
		Args: cli.ExactArgs("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case device == "" || version == 0 || out == "":
				return cli.Usagef("--device, --revision (1 or more) and --out are needed")
			case valid < 0:
				return cli.Usagef("--valid %v: use a positive duration, such as 168h", valid)
			}
			text, err := a.ReadInput(args[0])
			if err != nil {
				return err
			}
			trusted := ""
			if base != "" {
				cfg, err := config.LoadAgent(base)
				if err == nil && cfg.Device != device {
					err = fmt.Errorf("%s is the configuration of %q, not of %q", base, cfg.Device, device)
				}
				if err == nil {
					_, err = cfg.WithRemote(args[0], text)
				}
				if err != nil {
					return cli.Usage(err)
				}
				trusted = cfg.Remote.OperatorKey
			}
			k, err := transport.LoadSigningKey(key)
			if err != nil {
				return err
			}
			defer k.Wipe()
			if trusted != "" && trusted != k.PublicText() {
				return cli.Usagef("%s signs as %s; %s takes messages of %s only (remote.operator_key)", key,
					k.PublicText(),
					device, trusted)
			}
			msg := transport.RemoteConfig{Device: device, Version: version, Text: text}
			if valid > 0 {
				msg.Until = time.Now().Add(valid).Unix()
			}
			sealed, err := transport.SealRemote(msg, k)
			if err != nil {
				return err
			}
			return os.WriteFile(out, sealed, 0o644)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&key, "key", "operator.key", "the operator's signing key")
	fs.StringVar(&device, "device", "", "name of the device")
	fs.Uint64Var(&version, "revision", 0, "version of this configuration, higher than all before")
	fs.StringVar(&base, "check", "", "the device's agent.yaml, to check FILE against")
	fs.DurationVar(&valid, "valid", 0, "how long from now devices accept it, such as 168h; 0 means for ever")
	fs.StringVar(&out, "out", "", "file for the message")
	return cmd
}
