package keyholder

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/bootstrap"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/durable"
	"github.com/hencedge/hencedge/keyset"
)

// generate makes the keys of an epoch and moves them into its directory in one step. The
// caller adds the epoch to the manifest. Evaluation keys go to disk one by one. After an
// error nothing is left; sweep removes what a killed process left.
func (s *Set) generate(number uint32, needs Needs, now time.Time, o generateOptions) (e Epoch, err error) {
	needs, err = needs.normalise(s.params)
	if err != nil {
		return Epoch{}, err
	}
	ctx, err := henc.NewContext(s.params, o.context...)
	if err != nil {
		return Epoch{}, err
	}
	hedges, wipe := s.hedges(number)
	seed, err := henc.NewSeed(hedges...)
	wipe()
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
	g := &generator{ctx: ctx, key: key, needs: needs, options: o, epoch: Epoch{
		Epoch: number, Created: now, Rotations: needs.Rotations, Conjugation: needs.Conjugation,
		Relinearise: !needs.NoRelinearise, Bootstrap: needs.Bootstrap, Files: map[string]string{},
	}}
	for _, k := range needs.Rotations {
		g.elements = append(g.elements, henc.GaloisElement(s.params, k))
	}
	if needs.Conjugation {
		g.elements = append(g.elements, henc.ConjugationElement(s.params))
	}
	slices.Sort(g.elements)
	if g.dir, err = os.MkdirTemp(s.dir, temporaryEpoch); err != nil {
		return Epoch{}, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(g.dir)
		}
	}()
	if err := g.write(); err != nil {
		return Epoch{}, err
	}
	if err := os.Rename(g.dir, filepath.Join(s.dir, g.epoch.Dir())); err != nil {
		return Epoch{}, err
	}
	return g.epoch, durable.SyncDir(s.dir)
}

// generateOptions are the options that Create and Rotate share.
type generateOptions struct {
	context  []henc.Option
	progress func(Progress) error
	devices  []string // that get keys of compact windows
}

// hedges returns what a new key's seed takes in besides the operating system's entropy:
// the machine, the directory, the parameters, the time and the process. Copies of one
// machine then make different keys even if they draw the same entropy. A rotation adds the
// secret key of the current epoch, so that the new key is secret even if the entropy is
// known. wipe clears that.
func (s *Set) hedges(number uint32) (h [][]byte, wipe func()) {
	host, _ := os.Hostname()
	h = [][]byte{
		[]byte(host), []byte(s.dir), []byte(s.params.Name()),
		fmt.Appendf(nil, "%d %d %d", number, time.Now().UnixNano(), os.Getpid()),
	}
	for _, file := range []string{"/etc/machine-id", "/proc/sys/kernel/random/boot_id"} {
		b, _ := os.ReadFile(file) // absent in some containers
		h = append(h, b)
	}
	if s.manifest == nil {
		return h, func() {}
	}
	// The current secret may be kept elsewhere by now.
	b, err := readSecret(filepath.Join(s.dir, s.manifest.Current().Dir(), SecretFile), maxSecretFile)
	if err == nil {
		h = append(h, b)
	}
	return h, func() { clear(b) }
}

// Needs says which evaluation keys an epoch gets.
type Needs struct {
	// Rotations by slots that get a Galois key; nil means PowersOfTwo. Sets for integers get those of bfv.KeyRotations
	// in any case, and all other keys.
	Rotations   []int
	Conjugation bool
	// NoRelinearise leaves out the key for products of ciphertexts.
	NoRelinearise bool
	// Bootstrap adds what bootstrapping needs, all of it: for sets with levels for it only.
	Bootstrap keyset.Bootstrap
}

// Size is how many keys an epoch with the needs has, and about how many bytes the file of those for
// evaluators. It fails where Create would.
func (n Needs) Size(p henc.Parameters) (keys int, bytes int64, err error) {
	if n, err = n.normalise(p); err != nil {
		return 0, 0, err
	}
	keys = len(n.Rotations)
	for _, one := range []bool{n.Conjugation, !n.NoRelinearise, n.Bootstrap != keyset.BootstrapNone} {
		if one {
			keys++
		}
	}
	return 1 + keys, int64(keys) * int64(p.SwitchingKeyBytes()), nil
}

// PowersOfTwo returns the rotations 1, 2, 4, ..., N/4. Every other rotation is a sequence
// of these.
func PowersOfTwo(p henc.Parameters) []int {
	var r []int
	for k := 1; k < p.Slots(); k *= 2 {
		r = append(r, k)
	}
	return r
}

// normalise returns the needs with all rotations, in ascending order, each once. It refuses those outside
// 1..N/2-1, which are mistakes: 0 is no rotation, and there are only N/2 slots.
func (n Needs) normalise(p henc.Parameters) (Needs, error) {
	if p.Integers() { // whatever the model
		n.Rotations, n.Conjugation, n.NoRelinearise = slices.Concat(n.Rotations, bfv.KeyRotations(p)), true, false
	}
	n.NoRelinearise = n.NoRelinearise || p.Alpha() == 0
	if n.Rotations == nil && p.Alpha() > 0 {
		n.Rotations = PowersOfTwo(p)
	}
	out := []int{}
	for _, k := range n.Rotations {
		if k < 1 || k >= p.Slots() {
			return n, fmt.Errorf("%w by %d: %s has %d slots, so that rotations are by 1 to %d (to the right by k is "+
				"to the left by %d-k)", ErrRotation, k, p.Name(), p.Slots(), p.Slots()-1, p.Slots())
		}
		out = append(out, k)
	}
	if n.Bootstrap != keyset.BootstrapNone {
		more, err := bootstrapRotations(p, n.Bootstrap)
		if err != nil {
			return n, err
		}
		out = append(out, more...)
		n.Conjugation, n.NoRelinearise = true, false
	}
	slices.Sort(out)
	n.Rotations = slices.Compact(out)
	if p.Alpha() == 0 && (len(out) > 0 || n.Conjugation) {
		return n, fmt.Errorf("parameters %s have no special primes, so no rotation keys; use a set that has them, "+
			"such as edge12-d1", p.Name())
	}
	return n, nil
}

// bootstrapRotations returns the rotations of bootstrapping, from 1 to N/2-1.
func bootstrapRotations(p henc.Parameters, b keyset.Bootstrap) ([]int, error) {
	lit, err := bootstrap.LiteralOf(p)
	if err != nil {
		return nil, err
	}
	plan, err := bootstrap.NewPlan(p, lit)
	if err != nil {
		return nil, err
	}
	var ks []int
	switch b {
	case keyset.BootstrapFast:
		ks = plan.Rotations()
	case keyset.BootstrapSmall:
		ks = plan.LeastRotations()
	default:
		return nil, fmt.Errorf("keys of bootstrapping are %s or %s, not %q", keyset.BootstrapFast,
			keyset.BootstrapSmall, b)
	}
	for i, k := range ks {
		ks[i] = (k + p.Slots()) % p.Slots()
	}
	return ks, nil
}

// Progress tells how many keys are made.
type Progress struct {
	// Public, relinearisation and Galois keys, one for the two of bootstrapping, and where there are devices with
	// compact windows one for each and one for those that they share.
	Done, Total int
}

// generator makes the keys of one epoch.
type generator struct {
	ctx      *henc.Context
	key      *secret.Key
	needs    Needs
	elements []uint64 // Galois elements, ascending
	options  generateOptions
	done     int
	dir      string // where the files go
	epoch    Epoch
}

// step counts a finished key. Its error ends the generation.
func (g *generator) step() error {
	g.done++
	return g.told()
}

func (g *generator) told() error {
	if g.options.progress == nil {
		return nil
	}
	total := 1 + len(g.elements)
	if g.epoch.Relinearise {
		total++
	}
	if g.epoch.Bootstrap != keyset.BootstrapNone {
		total++
	}
	if n := len(g.options.devices); n > 0 {
		total += 1 + n
	}
	return g.options.progress(Progress{Done: g.done, Total: total})
}

// write makes the keys and their files.
func (g *generator) write() error {
	if err := g.told(); err != nil {
		return err
	}
	pub, err := g.key.PublicKey()
	if err != nil {
		return err
	}
	publicBytes, err := g.ctx.MarshalPublicKey(pub)
	if err != nil {
		return err
	}
	g.ctx.Ring().Free(pub.Value)
	if err := writeNew(filepath.Join(g.dir, PublicFile), publicBytes, publicMode); err != nil {
		return err
	}
	g.epoch.KeyID = hex.EncodeToString(pub.KeyID[:])
	g.epoch.PublicBytes, g.epoch.Files[PublicFile] = int64(len(publicBytes)), digest(publicBytes)
	if err := g.step(); err != nil {
		return err
	}
	if err := g.writeEvaluation(pub.KeyID); err != nil {
		return err
	}
	if err := g.writeCompact(); err != nil {
		return err
	}
	secretBytes, err := g.key.Marshal()
	if err != nil {
		return err
	}
	defer clear(secretBytes)
	return writeNew(filepath.Join(g.dir, SecretFile), secretBytes, secretMode)
}

// writeCompact makes the keys of compact windows.
func (g *generator) writeCompact() error {
	if len(g.options.devices) == 0 {
		return nil
	}
	m, err := newCompactMaker(g.key, g.options.context)
	if err != nil {
		return err
	}
	defer m.close()
	return m.write(g.dir, &g.epoch, g.options.devices, g.step)
}

// writeEvaluation makes the evaluation keys one by one. Each is written and freed before
// the next.
func (g *generator) writeEvaluation(id [16]byte) error {
	var last, sparse *henc.SwitchingKey
	free := func() {
		for _, k := range []*henc.SwitchingKey{last, sparse} {
			if k != nil {
				g.ctx.Ring().Free(k.Value)
			}
		}
		last, sparse = nil, nil
	}
	defer free()
	next := func(k *henc.SwitchingKey, err error) (*henc.SwitchingKey, error) {
		last = k
		if err == nil {
			err = g.step()
		}
		return k, err
	}
	stream := henc.EvaluationKeyStream{KeyID: id, Epoch: g.epoch.Epoch, Elements: g.elements}
	stream.Galois = func(element uint64) (*henc.SwitchingKey, error) {
		free()
		made, err := g.key.GaloisKeys([]uint64{element})
		return next(made[element], err)
	}
	if g.epoch.Bootstrap != keyset.BootstrapNone {
		stream.Sparse = func() (*henc.SparseKeys, error) {
			free()
			made, err := g.key.SparseKeys()
			if err != nil {
				return nil, err
			}
			sparse = made.To
			_, err = next(made.From, nil)
			return made, err
		}
	}
	if g.epoch.Relinearise {
		stream.Relin = func() (*henc.SwitchingKey, error) { return next(g.key.RelinKey()) }
	}
	var err error
	g.epoch.EvaluationBytes, g.epoch.Files[EvaluationFile], err = streamNew(filepath.Join(g.dir, EvaluationFile),
		publicMode,
		func(w io.Writer) error { return g.ctx.WriteEvaluationKeys(w, stream) })
	return err
}
