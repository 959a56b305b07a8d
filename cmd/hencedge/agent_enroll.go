//go:build !evaluatoronly

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/systemd"
	"github.com/hencedge/hencedge/transport"
)

func (a *app) agentEnroll() *cobra.Command {
	var file, out string
	var csr bool
	cmd := &cobra.Command{
		Use:   "enroll",
		Short: "print this device's public signing key, for the cloud operator",
		Long: `enroll prints what the cloud operator needs to know of this device: the lines for
the devices of evaluator.yaml, and the fingerprint of the device's signing key. If
there is no key yet, enroll makes it (mode 0600). With --csr it prints a certificate
request (PKCS#10) instead, for "hencedge evaluator enroll" or a certificate authority.

Compare the fingerprint over a channel that you trust: it shows that the key is this
device's. Run the command as the user that the agent runs as.`,
		Example: `  sudo -u hencedge-agent hencedge agent enroll -c /etc/hencedge/agent.yaml
  hencedge agent enroll -c agent.yaml --csr --out board1.csr`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := config.LoadAgent(file)
			if err != nil {
				return cli.Usage(err)
			}
			key, err := signingKey(cfg)
			if errors.Is(err, fs.ErrPermission) {
				err = fmt.Errorf("%w; run this as the user that the agent runs as: sudo -u %s", err,
					systemd.Agent.Name())
			}
			if err != nil {
				return err
			}
			defer key.Wipe()
			if !csr {
				return a.printEnrolment(cfg.Device, key.Public(), "")
			}
			text, err := key.CertificateRequest(cfg.Device)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Std.Err, "fingerprint of the key: %s\n", transport.Fingerprint(key.Public()))
			if out == "" {
				_, err = a.Std.Out.Write(text)
				return err
			}
			return os.WriteFile(out, text, 0o644)
		},
	}
	cli.ConfigFlag(cmd, &file, "agent.yaml")
	cmd.Flags().BoolVar(&csr, "csr", false, "print a certificate request instead of the public key")
	cmd.Flags().StringVar(&out, "out", "", "file for the request (default standard output)")
	a.JSONFlag(cmd, "one JSON object (without --csr)")
	return cmd
}

// signingKey loads the device's key. It makes one before the first start.
func signingKey(cfg *config.Agent) (*transport.SigningKey, error) {
	key, err := transport.LoadSigningKey(cfg.SigningKey)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if !seal.FirstStart(cfg) {
		return nil, seal.NoSigningKey(cfg, err)
	}
	if key, err = transport.NewSigningKey(); err != nil {
		return nil, err
	}
	return key, key.Save(cfg.SigningKey)
}
