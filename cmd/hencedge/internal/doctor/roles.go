package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/agent/seal"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/systemd"
	"github.com/hencedge/hencedge/transport"
)

// roles examines the configured roles and what their files point to.
func roles(ctx context.Context, o Options) []Check {
	var out []Check
	if o.Agent != "" {
		cfg, err := config.LoadAgent(o.Agent)
		out = append(out, loaded("agent", o.Agent, err))
		if err == nil {
			out = append(out, trusted("agent", os.Geteuid(), append(believed(cfg), o.Agent)...))
			out = append(out, agentFiles(cfg, filepath.Dir(o.Agent), o)...)
			out = append(out, secretFiles("agent", cfg.Secrets()...)...)
			out = append(out, inputKeys(cfg)...)
			out = append(out, running(ctx, systemd.Agent, cfg.Control.Socket))
			out = append(out, brokerChecks(ctx, "agent", cfg.Broker, o)...)
		}
	}
	if o.Evaluator != "" {
		cfg, err := config.LoadEvaluator(o.Evaluator)
		out = append(out, loaded("evaluator", o.Evaluator, err))
		if err == nil {
			out = append(out, trusted("evaluator", os.Geteuid(), o.Evaluator, cfg.Broker.CA, cfg.Broker.Cert))
			out = append(out, evaluatorFiles(cfg, filepath.Dir(o.Evaluator), o)...)
			out = append(out, secretFiles("evaluator", config.NamedSecret{Path: "broker.password",
				Secret: cfg.Broker.Password})...)
			out = append(out, running(ctx, systemd.Evaluator, cfg.Control.Socket))
			out = append(out, brokerChecks(ctx, "evaluator", cfg.Broker, o)...)
		}
	}
	if o.KeyHolder != "" {
		cfg, err := config.LoadKeyHolder(o.KeyHolder)
		out = append(out, loaded("key holder", o.KeyHolder, err))
		if err == nil {
			out = append(out, trusted("key holder", os.Geteuid(), o.KeyHolder, cfg.Broker.CA, cfg.Broker.Cert))
			out = append(out, holderFiles(cfg)...)
			out = append(out, secretFiles("key holder", config.NamedSecret{Path: "broker.password",
				Secret: cfg.Broker.Password})...)
			out = append(out, brokerChecks(ctx, "key holder", cfg.Broker, o)...)
		}
	}
	return out
}

// believed returns the files of an agent that nothing signs: keys and authorities, and
// the programs that it executes.
func believed(cfg *config.Agent) []string {
	out := []string{cfg.Keys.PublicKey, cfg.Broker.CA, cfg.Broker.Cert}
	if cfg.Keys.BoardKey != "" {
		out = append(out, cfg.Keys.BoardKey)
	}
	for _, in := range cfg.Inputs {
		switch {
		case in.Exec != nil:
			out = append(out, in.Exec.Command[0])
		case in.HTTP != nil:
			out = append(out, in.HTTP.CA, in.HTTP.Cert)
		case in.MQTT != nil:
			out = append(out, in.MQTT.CA, in.MQTT.Cert)
		}
	}
	return out
}

// inputKeys checks the TLS keys of an agent's inputs.
func inputKeys(cfg *config.Agent) []Check {
	var out []Check
	for _, in := range cfg.Inputs {
		key := ""
		switch {
		case in.HTTP != nil:
			key = in.HTTP.Key
		case in.MQTT != nil:
			key = in.MQTT.Key
		}
		if key != "" {
			out = append(out, privateFile("agent TLS key of input "+in.Name, key))
		}
	}
	return out
}

func loaded(role, path string, err error) Check {
	c := Check{Name: role + " configuration", Status: OK, Detail: path}
	if err != nil {
		c.Status, c.Detail, c.Remedy = Fail, err.Error(), "correct "+path
		if errors.Is(err, fs.ErrNotExist) {
			c.Remedy = "write it; examples are in /usr/share/doc/hencedge/examples"
		}
	}
	return c
}

// agentFiles: an edge board should hold nothing worth stealing.
func agentFiles(cfg *config.Agent, dir string, o Options) []Check {
	out := []Check{signingKey(cfg), writable("agent state", cfg.State),
		disk("disk of the agent's state", filepath.Dir(cfg.State), unix.Statfs)}
	if cfg.Keys.Mode == config.KeyModeSymmetric {
		c := privateFile("agent secret key", cfg.Keys.SecretKey)
		if c.Status == OK {
			c.Status, c.Detail = Warn,
				c.Detail+": symmetric mode, whoever takes this board can read everything under its key"
			c.Remedy = "use mode public, or give this board a key set of its own"
		}
		return append(out, c)
	}
	keys := filepath.Dir(cmp.Or(cfg.Keys.PublicKey, cfg.Keys.BoardKey))
	dirs, own := []string{dir, keys, filepath.Dir(cfg.State), filepath.Dir(cfg.SigningKey)}, []string{cfg.SigningKey}
	if cfg.Keys.BoardKey != "" {
		out, own = append(out, boardKey(cfg)), append(own, cfg.Keys.BoardKey)
	}
	if !cfg.AllCompact() {
		out = append(out, publicKeys(cfg)...)
	}
	out = append(out, pinnedHolder("key holder of the agent", keys, o, cfg.Keys.Holder))
	return append(out, noSecrets("secrets on this board", dirs, own...), nothingToSteal(o, own...))
}

// boardKey checks the key of the device's compact windows, which is a secret.
func boardKey(cfg *config.Agent) Check {
	c := privateFile("agent board key", cfg.Keys.BoardKey)
	if c.Status == OK {
		c.Status = Warn
		c.Detail += ": compact windows, whoever takes this board can read those of " + cfg.Device + ", and nothing else"
		c.Remedy = "rotate the key set when a board is stolen"
	}
	return c
}

// signingKey checks the device's signing key, which need not exist before the first start.
func signingKey(cfg *config.Agent) Check {
	if seal.FirstStart(cfg) {
		return Check{Name: "agent signing key", Status: Info, Detail: cfg.SigningKey + " is made at the first start"}
	}
	return privateFile("agent signing key", cfg.SigningKey)
}

// publicKeys checks that the public key is one, for every parameter set in use.
func publicKeys(cfg *config.Agent) []Check {
	var out []Check
	seen := map[string]bool{}
	for _, s := range cfg.Streams {
		if seen[s.Params] {
			continue
		}
		seen[s.Params] = true
		c := Check{Name: "agent public key", Status: OK}
		pk, err := publicKey(cfg.Keys.PublicKey, s.Params)
		if err != nil {
			c.Status, c.Detail = Fail, err.Error()
			c.Remedy = "copy public.key from: hencedge keys export --role agent"
		} else {
			c.Detail = fmt.Sprintf("%s, key %x, epoch %d", s.Params, pk.KeyID, pk.Epoch)
		}
		out = append(out, c)
	}
	return out
}

func publicKey(path, params string) (*henc.PublicKey, error) {
	p, err := henc.Named(params)
	if err != nil {
		return nil, err
	}
	ctx, err := henc.NewContext(p)
	if err != nil {
		return nil, err
	}
	b, err := readSmall(path, 64<<20)
	if err != nil {
		return nil, err
	}
	pk, err := ctx.UnmarshalPublicKey(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return pk, nil
}

// pinnedHolder checks that an export is whole and signed by the key holder that the
// configuration names.
func pinnedHolder(name, dir string, o Options, holders ...string) Check {
	c := Check{Name: name, Status: OK}
	trust, err := keyset.Trusted(holders...)
	var export *keyset.Export
	if err == nil {
		export, err = keyset.OpenExport(dir, trust)
	}
	if err == nil {
		err = export.VerifyTelling(func(done, total int64) error { return o.tell("bytes", done, total) })
	}
	switch {
	case errors.Is(err, keyset.ErrNoHolder):
		c.Status, c.Detail, c.Remedy = Fail, err.Error(),
			"write keys.holder: the fingerprint that hencedge keys show prints at the key holder"
	case errors.Is(err, keyset.ErrHolder):
		c.Status, c.Detail, c.Remedy = Fail, dir+": "+err.Error(),
			"compare the fingerprint with the key holder: somebody may have changed the keys on their way"
	case err != nil:
		c.Status, c.Detail, c.Remedy = Fail, err.Error(),
			"copy the whole directory again that hencedge keys export wrote"
	default:
		m := export.Manifest
		c.Detail = fmt.Sprintf("%s: %s, %d epochs, signed by %s", dir, m.Params, len(m.Epochs),
			transport.Fingerprint(export.Holder))
		if slices.Contains(holders, config.HolderNone) {
			c.Status, c.Detail, c.Remedy = Warn, c.Detail+", which nobody checks: keys.holder is none",
				"write that fingerprint there, once the key holder has confirmed it"
		}
	}
	return c
}

func evaluatorFiles(cfg *config.Evaluator, dir string, o Options) []Check {
	out := []Check{privateFile("evaluator signing key", cfg.SigningKey), writable("evaluator state", cfg.State),
		disk("disk of the evaluator's state", filepath.Dir(cfg.State), unix.Statfs)}
	dirs := append([]string{dir}, cfg.KeySets...)
	for _, d := range cfg.KeySets {
		out = append(out, pinnedHolder("evaluation keys", d, o, cfg.Keys.Holder...))
	}
	c := Check{Name: "programs", Status: OK}
	checked, err := evaluator.Check(cfg)
	if err != nil {
		c.Status, c.Detail, c.Remedy = Fail, err.Error(), "see hencedge evaluator explain"
	} else {
		c.Detail = fmt.Sprintf("%d compile", len(checked.Programs))
	}
	return append(out, c, noSecrets("secrets of the key holder here", dirs))
}

func holderFiles(cfg *config.KeyHolder) []Check {
	set, err := keyholder.Open(cfg.KeySet)
	if err != nil {
		return []Check{{Name: "key set", Status: Fail, Detail: err.Error(), Remedy: "see hencedge keys show"}}
	}
	m := set.Manifest()
	out := []Check{{Name: "key set", Status: OK, Detail: fmt.Sprintf("%s: %s, epoch %d", set.Dir(), m.Params,
		m.Current().Epoch)}}
	for _, e := range m.Epochs {
		out = append(out, privateFile(fmt.Sprintf("secret key of epoch %d", e.Epoch),
			filepath.Join(set.Dir(), e.Dir(), keyholder.SecretFile)))
	}
	return append(append(out, consoleFiles(cfg.Console)...), passkeyFiles(cfg)...)
}

// consoleFiles looks at the page of "results serve", if there is one.
func consoleFiles(page *config.Console) []Check {
	if page == nil {
		return nil
	}
	c := Check{Name: "console", Status: OK, Detail: "the page is at " + page.Listen + ", for this machine alone"}
	out := []Check{c}
	if page.Cert != "" {
		out[0].Detail = "the page is at " + page.Listen + ", over TLS"
		out = append(out, privateFile("console TLS key", page.Key),
			certificate("console certificate", page.Cert, time.Now()))
	}
	return append(out, operatorFiles(page.Enrolment)...)
}

// passkeyFiles looks at what logs in to a page without a link.
func passkeyFiles(cfg *config.KeyHolder) []Check {
	if cfg.Console == nil {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(cfg.State+".passkeys", "*.json"))
	if err != nil || len(files) == 0 {
		return nil
	}
	c := Check{Name: "passkeys", Status: OK,
		Detail: fmt.Sprintf("%d log in to the page; hencedge console passkeys lists and revokes them", len(files))}
	host, _, err := net.SplitHostPort(cfg.Console.Listen)
	if err == nil && cfg.Console.Cert == "" && net.ParseIP(host) != nil {
		c.Status, c.Remedy = Warn, "listen on localhost, or give the page a certificate for a host name"
		c.Detail = fmt.Sprintf("%d cannot log in to a page at %s, which has no name", len(files), host)
	}
	return []Check{c}
}

// operatorFiles looks at the operator's files that a page names.
func operatorFiles(e *config.ConsoleEnrolment) []Check {
	if e == nil {
		return nil
	}
	c := Check{Name: "requests of boards", Status: OK,
		Detail: "the page shows them; the operator's key is not in " + e.Dir}
	if _, err := config.LoadEvaluator(e.Evaluator); err != nil {
		c.Status, c.Detail, c.Remedy = Fail, err.Error(), "correct console.enrolment.evaluator"
		return []Check{c}
	}
	key := filepath.Join(e.Dir, "operator.key")
	if _, err := os.Stat(key); errors.Is(err, fs.ErrNotExist) {
		return []Check{c}
	}
	c.Detail = "the page answers them: whoever has a session as holder lets boards in"
	return []Check{c, privateFile("operator's key", key)}
}
