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
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/durable"
)

// generate makes the keys of an epoch and moves them into its directory in one step. The
// caller adds the epoch to the manifest. Evaluation keys go to disk one by one. After an
// error nothing is left; sweep removes what a killed process left.
func (s *Set) generate(number uint32, needs Needs, now time.Time, o generateOptions) (e Epoch, err error) {
	rotations, err := needs.normalise(s.params)
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
	g := &generator{ctx: ctx, key: key, needs: needs, progress: o.progress, epoch: Epoch{
		Epoch: number, Created: now, Rotations: rotations, Conjugation: needs.Conjugation,
		Relinearise: s.params.Alpha() > 0 && !needs.NoRelinearise, Files: map[string]string{},
	}}
	for _, k := range rotations {
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
	// Rotations by slots that get a Galois key; nil means PowersOfTwo.
	Rotations   []int
	Conjugation bool
	// NoRelinearise leaves out the key for products of ciphertexts.
	NoRelinearise bool
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

// normalise returns the rotations in ascending order, each once. It refuses those outside
// 1..N/2-1, which are mistakes: 0 is no rotation, and there are only N/2 slots.
func (n Needs) normalise(p henc.Parameters) ([]int, error) {
	if n.Rotations == nil && p.Alpha() > 0 {
		return PowersOfTwo(p), nil
	}
	out := []int{}
	for _, k := range n.Rotations {
		if k < 1 || k >= p.Slots() {
			return nil, fmt.Errorf("%w by %d: %s has %d slots, so that rotations are by 1 to %d (to the right by k is "+
				"to the left by %d-k)", ErrRotation, k, p.Name(), p.Slots(), p.Slots()-1, p.Slots())
		}
		out = append(out, k)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if p.Alpha() == 0 && (len(out) > 0 || n.Conjugation) {
		return nil, fmt.Errorf("parameters %s have no special primes, so no rotation keys; use a set that has them, "+
			"such as edge12-d1", p.Name())
	}
	return out, nil
}

// Progress tells how many keys are made.
type Progress struct {
	Done, Total int // public, relinearisation and Galois keys
}

// generator makes the keys of one epoch.
type generator struct {
	ctx      *henc.Context
	key      *secret.Key
	needs    Needs
	elements []uint64 // Galois elements, ascending
	progress func(Progress) error
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
	if g.progress == nil {
		return nil
	}
	total := 1 + len(g.elements)
	if g.epoch.Relinearise {
		total++
	}
	return g.progress(Progress{Done: g.done, Total: total})
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
	secretBytes, err := g.key.Marshal()
	if err != nil {
		return err
	}
	defer clear(secretBytes)
	return writeNew(filepath.Join(g.dir, SecretFile), secretBytes, secretMode)
}

// writeEvaluation makes the evaluation keys one by one. Each is written and freed before
// the next.
func (g *generator) writeEvaluation(id [16]byte) error {
	var last *henc.SwitchingKey
	free := func() {
		if last != nil {
			g.ctx.Ring().Free(last.Value)
		}
		last = nil
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
	if g.epoch.Relinearise {
		stream.Relin = func() (*henc.SwitchingKey, error) { return next(g.key.RelinKey()) }
	}
	var err error
	g.epoch.EvaluationBytes, g.epoch.Files[EvaluationFile], err = streamNew(filepath.Join(g.dir, EvaluationFile),
		publicMode,
		func(w io.Writer) error { return g.ctx.WriteEvaluationKeys(w, stream) })
	return err
}
