package loadbench

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
)

// makeKeys makes a key set for the programs, approves them, exports the evaluation keys and
// opens the key holder's reader.
func (b *bed) makeKeys(ctx context.Context) (err error) {
	needs := keyholder.Needs{Rotations: []int{}, NoRelinearise: true}
	for _, n := range b.plan.Needs() {
		needs.Rotations = append(needs.Rotations, n.Rotations...)
		needs.NoRelinearise = needs.NoRelinearise && !n.Relinearise
		if n.Bootstrap {
			needs.Bootstrap = keyset.BootstrapFast
		}
	}
	if b.o.Compact > 0 {
		needs.Bootstrap = keyset.BootstrapFast
	}
	if b.set, err = keyholder.Create(b.path("holder"), keyholder.CreateOptions{Params: b.o.Params,
		Needs: needs, Progress: func(keyholder.Progress) error { return ctx.Err() }}); err != nil {
		return err
	}
	approvals := make([]keyholder.Approval, len(b.plan.Programs))
	for i := range b.plan.Programs {
		if approvals[i], _, err = keyholder.NewApproval(evaluatorName, b.plan.Programs[i].Published(),
			time.Now()); err != nil {
			return err
		}
	}
	if err := b.set.Approve(approvals...); err != nil {
		return err
	}
	if err := b.makeBoards(); err != nil {
		return err
	}
	manifest := b.set.Manifest()
	b.cfg.Keys.Holder = []string{manifest.Fingerprint()}
	if _, err := b.set.Export(keyholder.RoleEvaluator, b.path("for-evaluator"),
		keyholder.ExportOptions{}); err != nil {
		return err
	}
	// An archive is read in any order: the kept results are verified in parallel, and the
	// checker has counted them before.
	b.reader, err = keyholder.NewReader(b.set, keyholder.ReaderOptions{Archive: true,
		Signers:     map[string][]ed25519.PublicKey{evaluatorName: {b.signer}},
		TopicPrefix: b.cfg.Broker.TopicPrefix})
	if err != nil {
		return err
	}
	return b.reader.Load()
}

// secretKey reads the secret key, which the caller wipes.
func (b *bed) secretKey(ctx *henc.Context) (*secret.Key, error) {
	epoch := b.set.Manifest().Epochs[0]
	raw, err := os.ReadFile(filepath.Join(b.set.Dir(), epoch.Dir(), keyholder.SecretFile))
	if err != nil {
		return nil, err
	}
	defer clear(raw)
	return secret.Unmarshal(ctx, raw)
}

// encryptor returns the encryptor of the windows, its secret key, which the caller wipes even
// after an error, and its public key.
func (b *bed) encryptor(
	ctx *henc.Context,
) (e henc.RealEncryptor, key *secret.Key, public *henc.PublicKey, err error) {
	if key, err = b.secretKey(ctx); err != nil {
		return nil, nil, nil, err
	}
	if public, err = key.PublicKey(); err != nil {
		return nil, key, nil, err
	}
	if b.o.Seeded {
		return secret.NewSeededEncryptor(ctx, key), key, public, nil
	}
	e, err = henc.NewEncryptor(ctx, public)
	return e, key, public, err
}

// encrypt makes the windows that every device keeps in rotation.
func (b *bed) encrypt(until context.Context) error {
	if b.o.Compact > 0 {
		return b.encryptCompact(until)
	}
	ctx, err := henc.NewContext(b.o.Params)
	if err != nil {
		return err
	}
	e, key, public, err := b.encryptor(ctx)
	if key != nil {
		defer key.Wipe()
	}
	if err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, d := range b.devices {
		d.bodies = make([]body, b.o.Windows)
		for n := range d.bodies {
			g.Go(func() error {
				if until.Err() != nil {
					return until.Err()
				}
				w, err := b.window(ctx, e, uint64(i), uint64(n))
				d.bodies[n] = w
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("encrypt the windows: %w", err)
	}
	p := b.o.Params
	h, err := henc.PeekCiphertext(b.devices[0].bodies[0].ciphertext)
	if err != nil {
		return err
	}
	b.meta = transport.Meta{Kind: transport.KindReading, Stream: streamName, KeyID: public.KeyID,
		KeyEpoch: public.Epoch, BootEpoch: 1, Params: p.Hash(), Layout: b.stream.LayoutHash(), Level: h.Level,
		Scale: h.Scale, Samples: uint32(b.o.Samples)}
	b.remark("%d devices with %s each, encrypted: %s", b.o.Devices, cli.Plural(b.o.Windows, "window"),
		cli.Bytes(b.ciphertextBytes()*int64(b.o.Windows)*int64(b.o.Devices)))
	return nil
}

// window makes window n of a device.
func (b *bed) window(ctx *henc.Context, e henc.RealEncryptor, device, n uint64) (w body, err error) {
	w.values = b.samples(device, n)
	first := b.stream.Place(b.devices[device].place, b.o.Params.Slots())
	slots := make([]float64, first+b.stream.Slots())
	source.FillSlots(slots[first:], b.stream, w.values)
	ct, err := e.EncryptReal(slots, b.o.Params.Depth(), 0, nil)
	if err != nil {
		return w, err
	}
	defer ctx.Ring().Free(ct.Value)
	w.ciphertext, err = ctx.MarshalCiphertext(ct)
	return w, err
}

// samples makes what window n of a device holds: each channel is a slow wave with noise around a
// random centre.
func (b *bed) samples(device, n uint64) (out [][]float64) {
	r := rand.New(rand.NewPCG(device, n))
	for range b.stream.Channels {
		centre, height, phase := 20+60*r.Float64(), 15*r.Float64(), 2*math.Pi*r.Float64()
		values := make([]float64, b.o.Samples)
		for i := range values {
			turn := 2 * math.Pi * float64(i) / float64(b.o.Samples)
			values[i] = centre + height*math.Sin(turn+phase) + 2*r.Float64() - 1
		}
		out = append(out, values)
	}
	return out
}
