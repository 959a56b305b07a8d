package evaluator

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/evaluator/program"
	"github.com/hencedge/hencedge/evaluator/store"
	"github.com/hencedge/hencedge/internal/daemon"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
)

// CheckFiles is Check, and looks at what the configuration names outside of
// itself: the signing key, the broker's TLS files and password, the directories of
// state and store, and whether enrolled devices can be read. With all also each
// enrolled device, and the key sets and whether they serve the programs. It changes
// nothing and does not connect. The error is a *CheckError with all faults; it wraps
// ErrAbsent when each is about something that may appear.
func CheckFiles(cfg *config.Evaluator, all bool) error {
	faults := new(CheckError)
	plan := compile(cfg, faults)
	signer, err := transport.LoadSigningKey(cfg.SigningKey)
	switch {
	case err == nil:
		defer signer.Wipe()
	case errors.Is(err, fs.ErrNotExist):
		faults.file(cfg, "signing_key", "make one with `hencedge keys identity FILE`, as the user that the "+
			"evaluator runs as, or correct the path", err)
	case errors.Is(err, fs.ErrPermission):
		faults.file(cfg, "signing_key", "give the file to the user that the evaluator runs as: chown, chmod 600", err)
	default:
		faults.file(cfg, "signing_key", "do as the message says, as root or the file's owner", err)
	}
	fail := func(path, remedy string, err error) { faults.file(cfg, path, remedy, err) }
	daemon.CheckBroker(cfg.Broker, "the user that the evaluator runs as", "hencedge-evaluator", fail)
	if t := cfg.Traces; t != nil {
		daemon.CheckWeb(&t.HTTP, "the user that the evaluator runs as", "traces.", fail)
	}
	checkDirectories(cfg, faults)
	checkEnrolled(cfg, all, faults)
	if all {
		checkKeySets(cfg, plan, faults)
	}
	return faults.err()
}

// file notes what is wrong with something that the configuration names.
func (c *CheckError) file(cfg *config.Evaluator, path, remedy string, err error) {
	place := cfg.Problem(path, err.Error(), remedy)
	c.faults = append(c.faults, fault{place, place})
	for _, e := range []error{engine.ErrKeys, config.ErrSecret, fs.ErrNotExist, fs.ErrPermission} {
		if errors.Is(err, e) {
			c.absent++
			return
		}
	}
}

func checkDirectories(cfg *config.Evaluator, faults *CheckError) {
	const remedy = "make it, owned by the user that the evaluator runs as"
	switch dir := filepath.Dir(cfg.State); {
	case cfg.State == "":
	case !isDirectory(dir):
		faults.file(cfg, "state", remedy, fmt.Errorf("the directory %s does not exist%w", dir, silent{fs.ErrNotExist}))
	default:
		if err := unix.Access(dir, unix.W_OK|unix.X_OK); errors.Is(err, fs.ErrPermission) {
			faults.file(cfg, "state", "give the directory to the user that the evaluator runs as",
				fmt.Errorf("the directory %s cannot be written: %w", dir, err))
		}
	}
	st := cfg.Store
	if st == nil {
		return
	}
	if !isDirectory(st.Dir) {
		faults.file(cfg, "store.dir", remedy, fmt.Errorf("the directory %s does not exist%w", st.Dir,
			silent{fs.ErrNotExist}))
	} else if err := store.Check(st.Dir); err != nil {
		faults.file(cfg, "store.dir", "name a directory of its own", err)
	}
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// silent is an error whose kind counts and whose text is said already.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }

// checkEnrolled looks at the files of enrolled devices. A service leaves out what is wrong in
// them and goes on with the others: only with all is that a fault.
func checkEnrolled(cfg *config.Evaluator, all bool, faults *CheckError) {
	_, wrong := config.NewRoll(cfg).Read()
	for _, e := range wrong {
		if absent := e.Path != ""; all || absent {
			faults.faults = append(faults.faults, fault{e, e})
			if absent { // a path of the configuration
				faults.absent++
			}
		}
	}
}

// checkKeySets loads the key sets and checks that they serve the programs; plan may be
// nil.
func checkKeySets(cfg *config.Evaluator, plan *Plan, faults *CheckError) {
	newContext := engine.NewContext(nil).Shared()
	var all []engine.Keys
	before := len(faults.faults)
	trust, err := engine.Trusted(cfg)
	if err != nil {
		faults.file(cfg, "keys.holder", keysRemedy(err), err)
		trust = keyset.Anyone() // so that all faults are found at once
	}
	for i, dir := range cfg.KeySets {
		keys, err := engine.LoadKeys(dir, trust, newContext)
		if err != nil {
			faults.file(cfg, fmt.Sprintf("key_sets[%d]", i), keysRemedy(err), err)
		}
		all = append(all, keys...)
	}
	if plan == nil || len(faults.faults) > before {
		return
	}
	if _, err := admitKeys(plan, all); err != nil {
		faults.file(cfg, "key_sets", "", err)
	}
}

// keysRemedy returns what to do about evaluation keys that cannot be used.
func keysRemedy(err error) string {
	if known := keyset.Remedy(err, "keys: {holder: ...}"); known != "" {
		return known
	}
	if errors.Is(err, fs.ErrPermission) {
		return "let the user that the evaluator runs as read all of it; nothing there is secret"
	}
	return "put there what `hencedge keys export --role evaluator --out DIR` wrote, all of it"
}

// Warnings returns properties of a configuration that work but deserve thought.
func Warnings(cfg *config.Evaluator) []string {
	var out []string
	if slices.Contains(cfg.Keys.Holder, config.HolderNone) {
		out = append(out, "keys.holder is none: nobody checks who signed the key sets; write the fingerprint that "+
			"`hencedge keys show` prints at the key holder")
	}
	for i, p := range cfg.Programs {
		if p.Model != nil {
			continue // Check compares the inputs with the features
		}
		for _, name := range program.Unused(p.Expr, slices.Collect(maps.Keys(p.Inputs))) {
			out = append(out,
				fmt.Sprintf("programs[%d].inputs.%s: the expression of %s does not use it; remove it, or "+
					"correct the expression", i, name, p.Name))
		}
	}
	return append(out, fleetWarnings(cfg)...)
}

// fleetWarnings points out what a configuration with programs across devices may lack. Those
// that do not compile are left to Check.
func fleetWarnings(cfg *config.Evaluator) (out []string) {
	if !slices.ContainsFunc(cfg.Programs, func(p config.Program) bool {
		return p.For != "" && strings.Contains(p.Expr, "fleet.")
	}) {
		return nil
	}
	devices := devicesOf(cfg)
	for i := range cfg.Programs {
		p, err := planProgram(cfg, &cfg.Programs[i])
		if err != nil || p.Circuit.Capacity() == 0 {
			continue
		}
		n := devices[p.Circuit.Class()]
		if most := int64(p.Circuit.Capacity()); n > most {
			out = append(out, fmt.Sprintf("programs[%d]: a result of %s takes %d windows at most, and the class %s "+
				"has %d devices: windows beyond that are left out", i, p.Name, most, p.Circuit.Class(), n))
		}
		c, in := p.Circuit, p.Circuit.Inputs()[0]
		window := wireBytes(c.Parameters(), p.sourceOf(in))
		if st := cfg.Store; st != nil && n*window > int64(st.Bytes) {
			out = append(out, fmt.Sprintf("store.bytes: the windows of one interval of the class %s take %d MiB, "+
				"and they stay in the store until program %s has its result; with %d MiB, devices wait and may come "+
				"too late",
				c.Class(), n*window>>20, p.Name, int64(st.Bytes)>>20))
		}
	}
	return out
}

// devicesOf returns the number of devices of each class. What is wrong in files of enrolled
// devices is left to CheckFiles.
func devicesOf(cfg *config.Evaluator) map[string]int64 {
	devices := map[string]int64{}
	for _, d := range cfg.Devices {
		devices[d.Class]++
	}
	enrolled, _ := config.NewRoll(cfg).Read()
	for _, d := range enrolled {
		devices[d.Class]++
	}
	return devices
}
