package main

import (
	"crypto/ed25519"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/transport"
)

// enrolment is the JSON form of both enroll commands.
type enrolment struct {
	Device      string `json:"device"`
	PublicKey   string `json:"public_key"`
	Fingerprint string `json:"fingerprint"`
	Class       string `json:"class,omitempty"`
}

func (a *app) printEnrolment(device string, pub ed25519.PublicKey, class string) error {
	e := enrolment{device, transport.FormatPublicKey(pub), transport.Fingerprint(pub), class}
	if a.JSON {
		return cli.JSONLine(a.Std.Out, e)
	}
	text := fmt.Sprintf("# fingerprint %s\n- name: %s\n  public_key: %s\n", e.Fingerprint, e.Device, e.PublicKey)
	if class != "" {
		text += "  class: " + class + "\n"
	}
	_, err := fmt.Fprint(a.Std.Out, text)
	return err
}

func (a *app) evaluatorEnroll() *cobra.Command {
	var fingerprint, class string
	cmd := &cobra.Command{
		Use:   "enroll FILE",
		Short: "read a device's certificate request",
		Long: `enroll checks a certificate request of "hencedge agent enroll --csr" and prints the
lines for the devices of evaluator.yaml, or with --class for a file of its "enrolled".
FILE "-" is standard input.

The request proves that its sender holds the key, not who the sender is. Ask the
device's operator for the fingerprint over a channel that you trust, and give it with
--fingerprint: a request with another key is then refused.`,
		Example: `  hencedge evaluator enroll board1.csr --fingerprint k7qd2-4mzra-xxb3e-jq6hn-2hvwp
  hencedge evaluator enroll pump17.csr --class pump >devices.d/pump17.yaml`,
		Args: cli.ExactArgs("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			if class != "" && !config.ValidName(class) {
				return cli.Usagef("--class: invalid name %q", class)
			}
			if fingerprint != "" {
				read, err := transport.ParseFingerprint(fingerprint)
				if err != nil {
					return cli.Usagef("--fingerprint: %w", err)
				}
				fingerprint = read
			}
			text, err := a.ReadInput(args[0])
			if err != nil {
				return err
			}
			name, pub, err := transport.ParseCertificateRequest(text)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if got := transport.Fingerprint(pub); fingerprint != "" && fingerprint != got {
				return fmt.Errorf("%s: the key of the request is %s, not %s: do not trust it", args[0],
					got, fingerprint)
			}
			return a.printEnrolment(name, pub, class)
		},
	}
	cmd.Flags().StringVar(&fingerprint, "fingerprint", "", "refuse a request whose key has another fingerprint")
	cmd.Flags().StringVar(&class, "class", "", "the class of the device, one of the evaluator's classes")
	a.JSONFlag(cmd, "one JSON object")
	return cmd
}
