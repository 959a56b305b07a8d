package main

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/agent"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/systemd"
	"github.com/hencedge/hencedge/transport"
)

// enrolment is the JSON form of both enroll commands.
type enrolment struct {
	Device      string `json:"device"`
	PublicKey   string `json:"public_key"`
	Fingerprint string `json:"fingerprint"`
}

func (a *app) agentEnroll() *cobra.Command {
	var file, out string
	var csr bool
	cmd := &cobra.Command{
		Use:   "enroll",
		Short: "show this device's signing key to those who are to trust it",
		Long: `enroll makes the device's signing key unless it is there (mode 0600, on disk before
anything is shown) and prints what the cloud operator needs: the lines for the
devices of evaluator.yaml and the key's fingerprint, or, with --csr, a
certificate request (PKCS#10) that the key has signed, for "hencedge evaluator
enroll" or a certificate authority.

Compare the fingerprint over a way that you trust: it is what binds the key to
this device. Run it as the user that the agent runs as.`,
		Example: `  sudo -u hencedge-agent hencedge agent enroll -c /etc/hencedge/agent.yaml
  hencedge agent enroll -c agent.yaml --csr --out board1.csr`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := config.LoadAgent(file)
			if err != nil {
				return cli.Usage(err)
			}
			key, err := signingKey(cfg)
			if errors.Is(err, fs.ErrPermission) {
				err = fmt.Errorf("%w; run this as the user that the agent runs as: sudo -u %s", err, systemd.Agent.Name())
			}
			if err != nil {
				return err
			}
			defer key.Wipe()
			if !csr {
				return a.printEnrolment(cfg.Device, key.Public())
			}
			text, err := key.CertificateRequest(cfg.Device)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.std.Err, "fingerprint of the key: %s\n", transport.Fingerprint(key.Public()))
			if out == "" {
				_, err = a.std.Out.Write(text)
				return err
			}
			return os.WriteFile(out, text, 0o644)
		},
	}
	configFlag(cmd, &file, "agent.yaml")
	cmd.Flags().BoolVar(&csr, "csr", false, "a certificate request instead of the public key")
	cmd.Flags().StringVar(&out, "out", "", "file for the request (default standard output)")
	a.jsonFlag(cmd, "one JSON object (without --csr)")
	return cmd
}

// signingKey loads the device's key, or makes it before a first start.
func signingKey(cfg *config.Agent) (*transport.SigningKey, error) {
	key, err := transport.LoadSigningKey(cfg.SigningKey)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if !agent.FirstStart(cfg) {
		return nil, fmt.Errorf("%w; %s shows that this device had a key: restore it, or remove the state to enrol anew", err, cfg.State)
	}
	if key, err = transport.NewSigningKey(); err != nil {
		return nil, err
	}
	return key, key.Save(cfg.SigningKey)
}

func (a *app) printEnrolment(device string, pub ed25519.PublicKey) error {
	e := enrolment{device, transport.FormatPublicKey(pub), transport.Fingerprint(pub)}
	if a.json {
		return cli.JSONLine(a.std.Out, e)
	}
	_, err := fmt.Fprintf(a.std.Out, "# fingerprint %s\n- name: %s\n  public_key: %s\n", e.Fingerprint, e.Device, e.PublicKey)
	return err
}

func (a *app) evaluatorEnroll() *cobra.Command {
	var fingerprint string
	cmd := &cobra.Command{
		Use:   "enroll FILE",
		Short: "read a device's certificate request",
		Long: `enroll checks a certificate request of "hencedge agent enroll --csr" and prints the
lines for the devices of evaluator.yaml. FILE "-" is standard input.

The request proves that its sender holds the key, not who the sender is: give the
fingerprint that the device's operator read to you with --fingerprint, and a
request with another key is refused.`,
		Example: "  hencedge evaluator enroll board1.csr --fingerprint k7qd2-4mzra-xxb3e-jq6hn-2hvwp",
		Args:    exactArgs("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			if fingerprint != "" {
				read, err := transport.ParseFingerprint(fingerprint)
				if err != nil {
					return cli.Usagef("--fingerprint: %w", err)
				}
				fingerprint = read
			}
			text, err := a.readInput(args[0])
			if err != nil {
				return err
			}
			name, pub, err := transport.ParseCertificateRequest(text)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if got := transport.Fingerprint(pub); fingerprint != "" && fingerprint != got {
				return fmt.Errorf("%s: the key of the request is %s, not %s: do not trust it", args[0], got, fingerprint)
			}
			return a.printEnrolment(name, pub)
		},
	}
	cmd.Flags().StringVar(&fingerprint, "fingerprint", "", "fingerprint that the key must have")
	a.jsonFlag(cmd, "one JSON object")
	return cmd
}

// readInput reads a small file, or standard input for "-".
func (a *app) readInput(name string) ([]byte, error) {
	const limit = 1 << 20
	in := a.std.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && len(b) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return b, err
}
