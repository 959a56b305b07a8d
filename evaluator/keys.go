package evaluator

import (
	"fmt"
	"time"

	"github.com/hencedge/hencedge/evaluator/engine"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/transport"
)

// admitKeys returns the key epochs in use. It refuses keys that do not go together or
// cannot do what the programs need.
func admitKeys(plan *Plan, all []engine.Keys) (map[transport.KeyRef]keyEpoch, error) {
	contexts := map[[32]byte]*henc.Context{}
	epochs := map[transport.KeyRef]keyEpoch{}
	for _, k := range all {
		if k.Context == nil || k.Evaluation == nil {
			return nil, fmt.Errorf("%w: keys without a context", engine.ErrKeys)
		}
		params := k.Context.Parameters()
		if c := contexts[params.Hash()]; c != nil && c != k.Context {
			return nil, fmt.Errorf("%w: keys for %s come with different contexts", engine.ErrKeys, params.Name())
		}
		contexts[params.Hash()] = k.Context
		ref := k.Ref()
		if _, known := epochs[ref]; known {
			return nil, fmt.Errorf("%w: epoch %d of key set %x is there twice", engine.ErrKeys, ref.Epoch, ref.ID)
		}
		epochs[ref] = keyEpoch{params: params, until: k.AcceptUntil}
	}
	for _, n := range plan.Needs() {
		if err := checkNeed(n, all); err != nil {
			return nil, err
		}
	}
	return epochs, nil
}

// checkNeed refuses keys for the parameters of a need that lack something.
func checkNeed(n Need, all []engine.Keys) error {
	const remedy = "ask the key holder for keys made with --for this configuration"
	found := false
	for _, k := range all {
		p := k.Context.Parameters()
		if p.Name() != n.Params {
			continue
		}
		found = true
		where := fmt.Sprintf("epoch %d of key set %x (%s)", k.Evaluation.Epoch, k.Evaluation.KeyID, n.Params)
		if n.Relinearise && k.Evaluation.Relin == nil {
			return fmt.Errorf("%w: %s has no relinearisation key; %s", engine.ErrKeys, where, remedy)
		}
		if n.Bootstrap {
			if lacks := k.BootstrapLacks(); lacks != "" {
				return fmt.Errorf("%w: %s cannot bootstrap, it lacks %s; %s", engine.ErrKeys, where, lacks, remedy)
			}
		}
		var missing []int
		for _, r := range n.Rotations {
			if k.Evaluation.Galois[henc.GaloisElement(p, r)] == nil {
				missing = append(missing, r)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("%w: %s lacks rotations by %v; %s", engine.ErrKeys, where, missing, remedy)
		}
	}
	if !found {
		return fmt.Errorf("%w: there are no keys for parameters %s; add the key set to key_sets",
			engine.ErrKeys, n.Params)
	}
	return nil
}

// keyEpoch is a key epoch in use.
type keyEpoch struct {
	params henc.Parameters
	until  time.Time // readings of windows that end later are refused; zero: none are
}
