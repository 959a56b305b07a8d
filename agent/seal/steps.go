package seal

import (
	"errors"
	"fmt"

	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/bfv"
	"github.com/hencedge/hencedge/henc/bfv/compare"
	"github.com/hencedge/hencedge/henc/bfv/steps"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/transport"
)

// whole is what whole numbers are encrypted with.
type whole struct {
	ctx       *bfv.Context
	encryptor *bfv.Encryptor
}

// useWhole makes the encryptor of whole numbers, for parameters that hold whole numbers.
func (k *Keys) useWhole(pk *henc.PublicKey) error {
	ctx, err := bfv.ContextOf(k.Context)
	if err != nil {
		return err
	}
	e, err := bfv.NewEncryptor(ctx, pk)
	if err != nil {
		return err
	}
	k.whole, k.ID, k.Epoch = &whole{ctx, e}, pk.KeyID, pk.Epoch
	return nil
}

// Row returns the code of a stream of mode steps and the steps of its channels. It fails if the row has more bits than
// keys can take apart.
func Row(s config.Stream, p henc.Parameters) (*steps.Code, []config.Grid, error) {
	var grids []config.Grid
	var tops []int
	for _, ch := range s.Channels {
		g, err := ch.StepGrid()
		if err != nil {
			return nil, nil, fmt.Errorf("channel %s: %w", ch.Name, err)
		}
		grids, tops = append(grids, g), append(tops, g.Bins)
	}
	code, err := steps.NewCode(tops)
	if err != nil {
		return nil, nil, err
	}
	if most := p.N() / 2; code.Size() > most {
		return nil, nil, fmt.Errorf("a row has %d bits; %s has room for %d", code.Size(), p.Name(), most)
	}
	return code, grids, nil
}

// Digits returns how the samples of a stream of mode digits stand in a ciphertext, and the steps of its channel. It
// fails if there is not one channel, or no room for a window.
func Digits(s config.Stream, p henc.Parameters) (compare.Window, config.Grid, error) {
	fail := func(err error) (compare.Window, config.Grid, error) { return compare.Window{}, config.Grid{}, err }
	if len(s.Channels) != 1 {
		return fail(fmt.Errorf("a stream of mode digits has one channel, not %d", len(s.Channels)))
	}
	g, err := s.Channels[0].StepGrid()
	if err != nil {
		return fail(fmt.Errorf("channel %s: %w", s.Channels[0].Name, err))
	}
	integers, err := bfv.NewParameters(p, henc.DefaultT)
	if err != nil {
		return fail(err)
	}
	w, err := compare.NewWindow(integers, g.Bins)
	if err != nil {
		return fail(err)
	}
	if s.Window.Samples > w.Numbers() {
		return fail(fmt.Errorf("a window has %d samples; %s has room for %d of %d bits", s.Window.Samples, p.Name(),
			w.Numbers(), w.Bits()))
	}
	return w, g, nil
}

// encodeWhole encodes a window of whole numbers. It also returns these, the steps of the readings.
func (k *Keys) encodeWhole(s *Stream, w *source.Window) (*bfv.Plaintext, []int, error) {
	p := k.Context.Parameters()
	if s.Config.Digits() {
		digits, grid, err := Digits(s.Config, p)
		if err != nil {
			return nil, nil, err
		}
		if len(w.Values) != 1 {
			return nil, nil, fmt.Errorf("readings of %d channels, there is 1", len(w.Values))
		}
		row := make([]int, len(w.Values[0]))
		for i, v := range w.Values[0] {
			row[i] = grid.Nearest(v)
		}
		pt, err := digits.Encode(k.whole.ctx, row)
		return pt, row, err
	}
	code, grids, err := Row(s.Config, p)
	if err != nil {
		return nil, nil, err
	}
	if len(w.Values) != len(grids) {
		return nil, nil, fmt.Errorf("readings of %d channels, a row has %d", len(w.Values), len(grids))
	}
	row := make([]int, len(grids))
	for i, g := range grids {
		if len(w.Values[i]) != 1 {
			return nil, nil, fmt.Errorf("channel %s has %d samples, a row has 1", s.Config.Channels[i].Name,
				len(w.Values[i]))
		}
		row[i] = g.Nearest(w.Values[i][0])
	}
	pt, err := steps.Encode(k.whole.ctx, code, row)
	return pt, row, err
}

// sealWhole encodes, encrypts and signs a window of whole numbers.
func (k *Keys) sealWhole(s *Stream, w *source.Window, id Identity, clock role.Clock) (*Sealed, error) {
	if k.whole == nil {
		return nil, errors.New("there is no key of whole numbers")
	}
	began := clock.Mono()
	pt, row, err := k.encodeWhole(s, w)
	defer clear(row)
	if err != nil {
		return nil, err
	}
	defer k.whole.ctx.Wipe(pt)
	values := make([]float64, len(row))
	defer clear(values)
	for i, v := range row {
		values[i] = float64(v)
	}
	seed, err := k.seed(s, id, values, henc.DefaultT)
	if err != nil {
		return nil, err
	}
	defer seed.Wipe()
	ct, err := k.whole.encryptor.Encrypt(pt, seed)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	defer k.whole.ctx.Free(ct)
	took := clock.Mono() - began
	size := k.Context.Parameters().CiphertextBytes(s.Level, false)
	b, err := k.Context.AppendCiphertext(s.memory(transport.SealRoom, transport.SealRoom+size+transport.SealTail),
		k.whole.ctx.Scaled(ct))
	if err != nil {
		return nil, fmt.Errorf("encode the ciphertext: %w", err)
	}
	meta := transport.Meta{
		Kind: transport.KindReading, Device: id.Device, Stream: s.Config.Name,
		KeyID: k.ID, KeyEpoch: k.Epoch, BootEpoch: id.Boot, Sequence: id.Sequence,
		Params: k.Context.Parameters().Hash(), Layout: s.Layout, Level: s.Level, Scale: henc.DefaultT,
		Start: w.Start.UnixNano(), End: w.End.UnixNano(), Samples: uint32(w.Samples),
	}
	body := len(b) - transport.SealRoom
	object, err := transport.SealInPlace(meta, b, transport.SealRoom, k.Signing)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return &Sealed{Meta: meta, Object: object, Body: body, Encrypt: took}, nil
}
