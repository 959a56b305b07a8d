package results

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/keyholder"
)

func (a *app) approveCommand() *cobra.Command {
	var f approveFlags
	cmd := &cobra.Command{
		Use:   "approve [PROGRAM...]",
		Short: "choose the programs whose results may be decrypted",
		Long: `approve fetches the programs that the trusted evaluators publish on the broker, or
reads them from an evaluator.yaml. It compiles each and shows what it computes, from
which inputs and with which error. After you confirm, results of exactly these programs
are decrypted. All others are refused as not_approved, and their evaluator keeps them.
The approval is stored in the key set directory. A running "results watch" notices it.

A changed program has another hash and needs another approval. The old approval stays
until --revoke, so that stored results can still be read.`,
		Example: `  hencedge results approve -c keyholder.yaml
  hencedge results approve -c keyholder.yaml cpu-mean cpu-variance --yes
  hencedge results approve --dir keys --evaluator evaluator.yaml
  hencedge results approve --dir keys --list`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.yes && f.list || f.list && f.revoke {
				return cli.UsageHint(cmd, errors.New("--list cannot be combined with --yes or --revoke"))
			}
			cfg, err := f.holder.load()
			if err != nil {
				return err
			}
			set, err := f.holder.keySet()
			if err != nil {
				return err
			}
			if f.list || f.revoke {
				return a.approvals(set, f.revoke, args)
			}
			offers, err := f.offers(cmd, a, cfg)
			if err != nil {
				return err
			}
			return a.approve(set, offers, args, f.yes)
		},
	}
	f.holder.registerKeySet(cmd)
	cmd.Flags().StringVar(&f.evaluator, "evaluator", "",
		"take the programs from this evaluator.yaml instead of the broker")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "approve without asking")
	cmd.Flags().BoolVar(&f.list, "list", false, "list what is approved")
	cmd.Flags().BoolVar(&f.revoke, "revoke", false, "remove the approvals of the named programs, or all")
	a.JSONFlag(cmd, "one JSON object a line for each program")
	return cmd
}

// approveFlags say which programs are approved for which key set.
type approveFlags struct {
	holder       holderFlags
	evaluator    string
	yes          bool
	list, revoke bool
}

// offers returns the programs to choose from.
func (f *approveFlags) offers(cmd *cobra.Command, a *app, holder *config.KeyHolder) ([]keyholder.Offer, error) {
	if f.evaluator != "" {
		cfg, err := config.LoadEvaluator(f.evaluator)
		if err != nil {
			return nil, cli.Usage(err)
		}
		plan, err := evaluator.Check(cfg)
		if err != nil {
			return nil, err
		}
		var out []keyholder.Offer
		for i := range plan.Programs {
			offer, err := keyholder.NewOffer(cfg.Name, plan.Programs[i].Published())
			if err != nil {
				return nil, err
			}
			out = append(out, offer)
		}
		return out, nil
	}
	if holder == nil {
		return nil, cli.UsageHint(cmd, errors.New(
			"give --config keyholder.yaml, with the broker to ask, or --evaluator evaluator.yaml"))
	}
	log, err := a.Logger()
	if err != nil {
		return nil, err
	}
	signers, err := keyholder.Signers(holder.Evaluators)
	if err != nil {
		return nil, cli.Usage(err)
	}
	offers, err := keyholder.Fetch(cmd.Context(), holder.Broker, signers, log)
	if err != nil && len(offers) > 0 {
		fmt.Fprintf(a.Std.Err, "hencedge: %v\n", err)
		err = nil
	}
	if err == nil && len(offers) == 0 {
		err = errors.New("no evaluator has published a program; is one running, and may it publish to the topics " +
			"prg/ of the broker? Else use --evaluator evaluator.yaml")
	}
	return offers, err
}

// approve shows programs and approves them once that is confirmed.
func (a *app) approve(set *keyholder.Set, offers []keyholder.Offer, names []string, yes bool) error {
	for _, name := range names {
		if !slices.ContainsFunc(offers, func(o keyholder.Offer) bool { return o.Program.Name == name }) {
			return fmt.Errorf("no evaluator offers a program %q", name)
		}
	}
	var add []keyholder.Approval
	for i := range offers {
		o := &offers[i]
		if len(names) > 0 && !slices.Contains(names, o.Program.Name) {
			continue
		}
		add = append(add, o.Approval)
		if a.JSON {
			if err := cli.JSONLine(a.Std.Out, approvalLine(o)); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprint(a.Std.Out, o.Describe(o.Circuit)); err != nil {
			return err
		}
	}
	if !yes {
		fmt.Fprint(a.Std.Err, "decrypt the results of the programs above from now on? [y/N] ")
		answer, _ := bufio.NewReader(a.Std.In).ReadString('\n')
		if !slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))) {
			return errors.New("nothing was approved")
		}
	}
	if err := set.Approve(add...); err != nil {
		return err
	}
	fmt.Fprintf(a.Std.Err, "approved: %d\n", len(add))
	return nil
}

// approvalJSON is what "results approve --json" prints of a program.
type approvalJSON struct {
	keyholder.Approval
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Count int     `json:"values"`
	Bound float64 `json:"bound"`
}

func approvalLine(o *keyholder.Offer) approvalJSON {
	low, high := o.Circuit.Range()
	return approvalJSON{o.Approval, low, high, o.Circuit.Output().Count, o.Circuit.Output().Bound}
}

// approvals lists approvals, or removes them.
func (a *app) approvals(set *keyholder.Set, revoke bool, names []string) error {
	list, err := set.Approvals()
	if err != nil {
		return err
	}
	named := func(p keyholder.Approval) bool { return len(names) == 0 || slices.Contains(names, p.Program.Name) }
	for _, p := range list {
		if !named(p) {
			continue
		}
		if a.JSON {
			err = cli.JSONLine(a.Std.Out, p)
		} else {
			_, err = fmt.Fprintf(a.Std.Out, "%s of %s: %s  %s  %s\n", p.Program.Name, p.Evaluator,
				p.Program.Expr, p.Hash,
				p.At.Format(time.DateOnly))
		}
		if err != nil {
			return err
		}
	}
	if !revoke {
		return nil
	}
	return set.Revoke(named)
}
