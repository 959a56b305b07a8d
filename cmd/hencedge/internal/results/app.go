package results

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/keys"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/transport"
)

// app is the command line with the commands of this package.
type app struct{ *cli.App }

// holderFlags say whose results are read with which keys.
type holderFlags struct {
	config  string
	dir     string
	signers []string
}

func (f *holderFlags) register(cmd *cobra.Command) {
	f.registerKeySet(cmd)
	cmd.Flags().StringArrayVar(&f.signers, "signer", nil, "trusted evaluator as name=ed25519:... (may be repeated)")
}

// registerKeySet adds the flags that say which key set is opened.
func (f *holderFlags) registerKeySet(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.config, "config", "c", "", "configuration file (default "+defaultHolder+")")
	cmd.Flags().StringVar(&f.dir, "dir", "", "key set directory (default the configuration's, or keys)")
}

// load reads the configuration that the flags name, or else keyholder.yaml if that exists
// and no signers are given. It returns nil without one.
func (f *holderFlags) load() (*config.KeyHolder, error) {
	if f.config == "" && len(f.signers) == 0 && cli.Exists(defaultHolder) {
		f.config = defaultHolder
	}
	if f.config == "" {
		return nil, nil
	}
	cfg, err := config.LoadKeyHolder(f.config)
	if err != nil {
		return nil, cli.NotLoaded(err)
	}
	if f.dir == "" {
		f.dir = cfg.KeySet
	}
	return cfg, nil
}

// keySet opens the key set of the flags and of the configuration that load has read.
func (f *holderFlags) keySet() (*keyholder.Set, error) {
	return keyholder.Open(cmp.Or(f.dir, keys.DefaultDir))
}

// open returns a reader of results with the keys and signers of the flags and of cfg,
// which may be nil.
func (f *holderFlags) open(cmd *cobra.Command, cfg *config.KeyHolder,
	o keyholder.ReaderOptions) (*keyholder.Reader, error) {
	if cfg != nil {
		signers, err := keyholder.Signers(cfg.Evaluators)
		if err != nil {
			return nil, cli.Usage(err)
		}
		o.Signers, o.MaxObject, o.TopicPrefix = signers, int(cfg.Limits.Object), cfg.Broker.TopicPrefix
	}
	if err := f.addSigners(&o); err != nil {
		return nil, cli.UsageHint(cmd, err)
	}
	if len(o.Signers) == 0 {
		return nil, cli.UsageHint(cmd, errors.New(
			"no evaluator is trusted: give --config keyholder.yaml or --signer name=ed25519:..."))
	}
	set, err := f.keySet()
	if err != nil {
		return nil, err
	}
	return keyholder.NewReader(set, o)
}

// receipts returns what signs the receipts that cfg asks for, or nil if it asks for none.
func (f *holderFlags) receipts(cfg *config.KeyHolder, log *slog.Logger) (*keyholder.Receipts, error) {
	if !cfg.Receipts {
		return nil, nil
	}
	set, err := f.keySet()
	if err != nil {
		return nil, err
	}
	signers, err := keyholder.Signers(cfg.Evaluators)
	if err != nil {
		return nil, cli.Usage(err)
	}
	return keyholder.NewReceipts(set, keyholder.ReceiptOptions{
		TopicPrefix: cfg.Broker.TopicPrefix, Evaluators: signers, State: cfg.State, Logger: log,
	})
}

func (f *holderFlags) addSigners(o *keyholder.ReaderOptions) error {
	for _, s := range f.signers {
		name, text, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("--signer %q: use name=ed25519:...", s)
		}
		if err := transport.CheckName(name); err != nil {
			return fmt.Errorf("--signer: %w", err)
		}
		pub, err := transport.ParsePublicKey(text)
		if err != nil {
			return fmt.Errorf("--signer %s: %w", name, err)
		}
		if o.Signers == nil {
			o.Signers = map[string][]ed25519.PublicKey{}
		}
		o.Signers[name] = append(o.Signers[name], pub)
	}
	return nil
}

// defaultHolder is the configuration that is read where none is named.
const defaultHolder = "keyholder.yaml"
