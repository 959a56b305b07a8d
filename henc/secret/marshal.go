package secret

import (
	"fmt"
	"math"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/internal/wire"
)

// A secret key is the strict deterministic CBOR array
//
//	[version, 4, params, epoch, root, s]
//
// with the 32-byte root seed and s as N/4 bytes: coefficient 4i+j, plus one, in
// bits 2j and 2j+1 of byte i. Whoever reads it can decrypt everything.

// Marshal writes the secret key. It fails with henc.ErrInsecureKey for insecure
// parameters. The caller must store the bytes with owner-only permissions and clear
// them.
func (k *Key) Marshal() ([]byte, error) {
	_, release, err := k.use()
	if err != nil {
		return nil, fmt.Errorf("write secret key: %w", err)
	}
	defer release()
	p := k.ctx.Parameters()
	if err := p.CheckKeys(); err != nil {
		return nil, fmt.Errorf("write secret key: %w", err)
	}
	packed := make([]byte, len(k.small)/4)
	defer clear(packed)
	for i, v := range k.small {
		packed[i/4] |= byte(v+1) << (2 * (i % 4))
	}
	// The size hint covers everything, so that no partial copy is left behind.
	w := wire.NewWriter(wire.KindSecretKey, p.Hash(), 6, len(packed)+128)
	w.Uint(uint64(k.epoch))
	w.Secret(k.root[:])
	w.Secret(packed)
	return w.Bytes()
}

// Unmarshal reads what Marshal wrote, and nothing else. It does not keep b. It
// fails with henc.ErrInsecureKey, henc.ErrParams (other parameters),
// henc.ErrMalformed, henc.ErrTruncated, henc.ErrVersion or henc.ErrKind.
func Unmarshal(ctx *henc.Context, b []byte) (*Key, error) {
	k, err := unmarshal(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("read secret key: %w", err)
	}
	return k, nil
}

func unmarshal(ctx *henc.Context, b []byte) (*Key, error) {
	if ctx.Ring() == nil {
		return nil, fmt.Errorf("%w: no context", henc.ErrParams)
	}
	p := ctx.Parameters()
	if err := p.CheckKeys(); err != nil {
		return nil, err
	}
	r, err := wire.NewReader(b, wire.KindSecretKey, 6)
	if err != nil {
		return nil, err
	}
	if r.Head.Params != p.Hash() {
		return nil, fmt.Errorf(
			"%w: the key is for %s, not for %s", henc.ErrParams, henc.NameOf(r.Head.Params), p.Name(),
		)
	}
	epoch, root, packed := r.Uint(), r.Blob(32), r.Blob(p.N()/4)
	if err := r.Close(); err != nil {
		return nil, err
	}
	if epoch > math.MaxUint32 {
		return nil, fmt.Errorf("%w: epoch %d", henc.ErrMalformed, epoch)
	}
	small := make([]int32, p.N())
	bad := byte(0)
	for i := range small {
		v := packed[i/4] >> (2 * (i % 4)) & 3
		bad |= v & (v >> 1)
		small[i] = int32(v) - 1
	}
	seed := henc.Seed(root)
	defer seed.Wipe()
	if bad != 0 {
		clear(small)
		return nil, fmt.Errorf("%w: a coefficient is not -1, 0 or 1", henc.ErrMalformed)
	}
	k, err := newKey(ctx, small, &seed)
	if err != nil {
		clear(small)
		return nil, err
	}
	k.epoch = uint32(epoch)
	return k, nil
}
