package seal

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/henc/secret"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/keyset"
	"github.com/hencedge/hencedge/transport"
)

// board is what compact windows are encrypted with.
type board struct {
	encryptor *secret.CompactEncryptor
	id        [16]byte // of the key pair under whose secret the results are
	epoch     uint32
	params    [32]byte // hash of the parameters of the results
}

// GivenBoard takes the place of the board's key that a configuration names.
type GivenBoard struct {
	Key   *secret.Key
	ID    [16]byte // of the key pair of the key set
	Epoch uint32
}

// loadBoard makes the encryptor of compact windows, and reports what is wrong with its key.
func (k *Keys) loadBoard(cfg *config.Agent, given Given, fail func(path string, err error)) {
	params, err := henc.Named(cfg.Streams[0].Params)
	if err != nil {
		return // told already
	}
	b := board{params: params.Hash()}
	var key *secret.Key
	if given.Board != nil {
		key, b.id, b.epoch = given.Board.Key, given.Board.ID, given.Board.Epoch
	} else if key, err = k.readBoard(cfg, params, &b, fail); err != nil || key == nil {
		if err != nil {
			fail("keys.board_key", err)
		}
		return
	}
	if b.encryptor, err = secret.NewCompactEncryptor(key); err != nil {
		fail("keys.board_key", err)
		return
	}
	filed := given.Board == nil && given.Public == nil && given.Secret == nil
	if filed && k.encryptor != nil && (b.id != k.ID || b.epoch != k.Epoch) {
		fail("keys.board_key", fmt.Errorf("%w %s: it is of epoch %d of key set %x, and the other key of epoch %d of %x",
			ErrKey, cfg.Keys.BoardKey, b.epoch, b.id, k.Epoch, k.ID))
		return
	}
	k.board, k.ID, k.Epoch = &b, b.id, b.epoch
}

// readBoard reads the board's key and verifies that it is the one that the key holder made for this device. It returns
// no key if fail was called.
func (k *Keys) readBoard(cfg *config.Agent, params henc.Parameters, b *board,
	fail func(path string, err error)) (*secret.Key, error) {
	path := cfg.Keys.BoardKey
	trust, err := keyset.Trusted(cfg.Keys.Holder)
	if err != nil {
		fail("keys.holder", err)
		return nil, nil
	}
	raw, err := readKey(path, 0o077)
	if err != nil {
		return nil, err
	}
	defer clear(raw)
	export, err := keyset.OpenExport(filepath.Dir(path), trust)
	if errors.Is(err, keyset.ErrHolder) {
		fail("keys.holder", err)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w %s: its export: %w", ErrKey, path, err)
	}
	if !export.Params.Equal(params) {
		return nil, fmt.Errorf("%w %s: %w: its key set is for %s, the streams are for %s", ErrKey, path, henc.ErrParams,
			export.Params.Name(), params.Name())
	}
	e := export.Manifest.Current()
	device, ok := e.Compact.Device(cfg.Device)
	if !ok {
		return nil, fmt.Errorf("%w %s: %w %q; it is for %s", ErrKey, path, errOtherDevice, cfg.Device,
			strings.Join(e.CompactDevices(), ", "))
	}
	if b.id, err = e.ID(); err != nil {
		return nil, err
	}
	b.epoch = e.Epoch
	key, err := k.unmarshalBoard(params, raw)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrKey, path, err)
	}
	pub, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrKey, path, err)
	}
	key.Context().Ring().Free(pub.Value)
	if got := fmt.Sprintf("%x", pub.KeyID); got != device.Board || key.Epoch() != e.Epoch {
		return nil, fmt.Errorf("%w: %w: %s holds board %s of epoch %d, the signed manifest names %s of epoch %d for %s",
			ErrKey, keyset.ErrCorrupt, path, got, key.Epoch(), device.Board, e.Epoch, cfg.Device)
	}
	return key, nil
}

// errOtherDevice: the export of a board's key is for another device.
var errOtherDevice = errors.New("it is not the key of the device")

// unmarshalBoard reads a board's key, which is wiped with the others.
func (k *Keys) unmarshalBoard(params henc.Parameters, raw []byte) (*secret.Key, error) {
	ctx, err := k.boardContext(params)
	if err != nil {
		return nil, err
	}
	key, err := secret.Unmarshal(ctx, raw)
	if err != nil {
		return nil, err
	}
	k.WipeLater(func() { _ = key.Wipe() })
	return key, nil
}

// boardContext is the context of compact windows whose results have the parameters p: Context where all streams are
// compact.
func (k *Keys) boardContext(p henc.Parameters) (*henc.Context, error) {
	set, err := compact.Named(compact.SetFor(p))
	if err != nil {
		return nil, err
	}
	if k.Context != nil && k.Context.Parameters().Equal(set) {
		return k.Context, nil
	}
	return henc.NewContext(set, henc.WithFastestN2())
}

// MakeBoard makes a board's key that is in no key set, for predictions; results have the parameters params. It is
// wiped with the others.
func (k *Keys) MakeBoard(params henc.Parameters) (*GivenBoard, error) {
	ctx, err := k.boardContext(params)
	if err != nil {
		return nil, err
	}
	key, err := secret.Generate(ctx, nil)
	if err != nil {
		return nil, err
	}
	k.WipeLater(func() { _ = key.Wipe() })
	return &GivenBoard{Key: key, Epoch: 1}, nil
}

// sealCompact encodes, encrypts and signs a compact window.
func (k *Keys) sealCompact(s *Stream, w *source.Window, id Identity, clock role.Clock) (*Sealed, error) {
	if k.board == nil {
		return nil, errors.New("there is no key of compact windows")
	}
	if s.slots == nil {
		s.slots = make([]float64, s.Config.Slots())
	}
	defer clear(s.slots)
	source.FillSlots(s.slots, s.Config, w.Values)
	readings := compact.Order(s.slots)
	defer clear(readings)
	seed, err := k.seed(s, id, readings, s.Scale)
	if err != nil {
		return nil, err
	}
	defer seed.Wipe()
	began := clock.Mono()
	window, err := k.board.encryptor.Encrypt(readings, compact.Precision(s.Config.Compact()), compact.Origin{
		Device: id.Device, Stream: s.Config.Name, KeyID: k.board.id, KeyEpoch: k.board.epoch, BootEpoch: id.Boot,
		Sequence: id.Sequence}, seed)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	took := clock.Mono() - began
	body, err := window.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode the window: %w", err)
	}
	meta := transport.Meta{
		Kind: transport.KindReading, Device: id.Device, Stream: s.Config.Name,
		KeyID: k.board.id, KeyEpoch: k.board.epoch, BootEpoch: id.Boot, Sequence: id.Sequence,
		Params: k.board.params, Layout: s.Layout, Level: s.Level, Scale: s.Scale,
		Start: w.Start.UnixNano(), End: w.End.UnixNano(), Samples: uint32(w.Samples),
	}
	object, err := transport.SealShort(meta, body, k.Signing)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return &Sealed{Meta: meta, Object: object, Body: len(body), Encrypt: took}, nil
}
