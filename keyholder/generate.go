package keyholder

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// normalise gives the rotations in 1..N/2-1, ascending, each once.
func (n Needs) normalise(p henc.Parameters) ([]int, error) {
	if n.Rotations == nil && p.Alpha() > 0 {
		return PowersOfTwo(p), nil
	}
	out := []int{}
	for _, k := range n.Rotations {
		if k = (k%p.Slots() + p.Slots()) % p.Slots(); k != 0 {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if p.Alpha() == 0 && (len(out) > 0 || n.Conjugation) {
		return nil, fmt.Errorf("parameters %s have no special primes, so no rotation keys; use a set that has them, such as edge12-d1", p.Name())
	}
	return out, nil
}

// generate makes the keys of an epoch and puts them into its directory in one
// step; the caller adds the epoch to the manifest.
func (s *Set) generate(number uint32, needs Needs, now time.Time, options []henc.Option) (e Epoch, err error) {
	rotations, err := needs.normalise(s.params)
	if err != nil {
		return Epoch{}, err
	}
	ctx, err := henc.NewContext(s.params, options...)
	if err != nil {
		return Epoch{}, err
	}
	seed, err := henc.NewSeed()
	if err != nil {
		return Epoch{}, err
	}
	defer seed.Wipe()
	key, err := secret.Generate(ctx, seed)
	if err != nil {
		return Epoch{}, err
	}
	defer func() { err = errors.Join(err, key.Wipe()) }()
	key.SetEpoch(number)
	pub, err := key.PublicKey()
	if err != nil {
		return Epoch{}, err
	}
	evk, err := key.EvaluationKeys(rotations, needs.Conjugation)
	if err != nil {
		return Epoch{}, err
	}
	if needs.NoRelinearise {
		evk.Relin = nil
	}
	e = Epoch{
		Epoch: number, KeyID: hex.EncodeToString(pub.KeyID[:]), Created: now, Rotations: rotations,
		Conjugation: needs.Conjugation, Relinearise: evk.Relin != nil, Files: map[string]string{},
	}
	secretBytes, err := key.Marshal()
	if err != nil {
		return Epoch{}, err
	}
	defer clear(secretBytes)
	publicBytes, err := ctx.MarshalPublicKey(pub)
	if err != nil {
		return Epoch{}, err
	}
	evaluationBytes, err := ctx.MarshalEvaluationKeys(evk)
	if err != nil {
		return Epoch{}, err
	}
	e.PublicBytes, e.EvaluationBytes = int64(len(publicBytes)), int64(len(evaluationBytes))
	e.Files[PublicFile], e.Files[EvaluationFile] = digest(publicBytes), digest(evaluationBytes)

	tmp, err := os.MkdirTemp(s.dir, ".epoch-")
	if err != nil {
		return Epoch{}, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(tmp)
		}
	}()
	if err := writeNew(filepath.Join(tmp, SecretFile), secretBytes, secretMode); err != nil {
		return Epoch{}, err
	}
	if err := writeNew(filepath.Join(tmp, PublicFile), publicBytes, publicMode); err != nil {
		return Epoch{}, err
	}
	if err := writeNew(filepath.Join(tmp, EvaluationFile), evaluationBytes, publicMode); err != nil {
		return Epoch{}, err
	}
	if err := os.Rename(tmp, filepath.Join(s.dir, e.Dir())); err != nil {
		return Epoch{}, err
	}
	return e, syncDir(s.dir)
}
