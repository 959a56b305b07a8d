package agent

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/transport"
)

// sealStream is how the windows of one stream are sealed.
type sealStream struct {
	cfg    config.Stream
	level  int
	scale  float64 // 0: the parameters' own
	layout [32]byte
	topic  string

	// Memory that one window after the other uses.
	slots  []float64 // of a window, zeros
	object []byte    // of a sealed window
	lent   bool      // object belongs to a window that is not on disk
}

// sealed is an encrypted and signed window.
type sealed struct {
	meta    transport.Meta
	object  []byte
	body    int           // bytes of the ciphertext
	encrypt time.Duration // encoding and encrypting
}

// identity are the parts of the header that name the sender.
type identity struct {
	device         string
	boot, sequence uint64
	bootID         []byte // of the kernel's present start
}

// largeBody is the size, in bytes, from which dead memory is collected at once
// instead of when the heap has grown by a share: with objects of 20 MiB that
// share is most of what a board has.
const largeBody = 4 << 20

// reclaim collects dead memory after something of size bytes has been freed.
func reclaim(size int) {
	if size >= largeBody {
		runtime.GC()
	}
}

// memory is a buffer of n bytes with a capacity of room for a sealed window: that of the
// window before, if its object is on disk. Large ones are not kept.
func (s *sealStream) memory(n, room int) []byte {
	if s.lent || cap(s.object) < room {
		s.object = make([]byte, room)
	}
	s.lent = true
	return s.object[:n]
}

// written takes the memory of the last window back: its object is on disk.
func (s *sealStream) written() {
	if s.lent = cap(s.object) >= largeBody; s.lent {
		s.object = nil
	}
}

// seal encodes, encrypts and signs a window.
func (k *keys) seal(s *sealStream, w *source.Window, id identity, clock role.Clock) (*sealed, error) {
	if s.slots == nil {
		s.slots = make([]float64, s.cfg.Slots())
	}
	u := s.slots
	defer clear(u)
	source.FillSlots(u, s.cfg, w.Values)
	counter := binary.BigEndian.AppendUint64(nil, id.boot)
	counter = binary.BigEndian.AppendUint64(counter, id.sequence)
	// The digest of the values, the scale and the key keep copies of one machine apart
	// that agree in all else, the state of the kernel's generator included: then equal
	// seeds are seeds of equal ciphertexts, which say nothing.
	content := digest(u)
	defer clear(content[:])
	scale := binary.BigEndian.AppendUint64(nil, math.Float64bits(s.scale))
	newSeed := henc.NewSeed
	if k.newSeed != nil {
		newSeed = k.newSeed
	}
	seed, err := newSeed([]byte(id.device), []byte(s.cfg.Name), id.bootID, counter, content[:], scale, k.id[:])
	if err != nil {
		return nil, err
	}
	defer seed.Wipe()
	size := k.ctx.Parameters().CiphertextBytes(s.level, k.seeded)
	reclaim(size) // of the window before, and its delivery
	began := clock.Mono()
	ct, err := k.encryptor.EncryptReal(u, s.level, s.scale, seed)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	took := clock.Mono() - began
	// The ciphertext is written into the buffer that is signed and sent.
	b, err := k.ctx.AppendCiphertext(s.memory(transport.SealRoom, transport.SealRoom+size+transport.SealTail), ct)
	k.ctx.Ring().Free(ct.Value)
	reclaim(size)
	if err != nil {
		return nil, fmt.Errorf("encode the ciphertext: %w", err)
	}
	meta := transport.Meta{
		Kind: transport.KindReading, Device: id.device, Stream: s.cfg.Name,
		KeyID: k.id, KeyEpoch: k.epoch, BootEpoch: id.boot, Sequence: id.sequence,
		Params: k.ctx.Parameters().Hash(), Layout: s.layout, Level: ct.Level, Scale: ct.Scale,
		Start: w.Start.UnixNano(), End: w.End.UnixNano(), Samples: uint32(w.Samples),
	}
	body := len(b) - transport.SealRoom
	object, err := transport.SealInPlace(meta, b, transport.SealRoom, k.signing)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return &sealed{meta: meta, object: object, body: body, encrypt: took}, nil
}

// digest is a hash of values: SHA-256 of 256 of them after that of those before,
// so that only a small buffer has to be wiped.
func digest(values []float64) (sum [32]byte) {
	var b [32 + 8*256]byte
	defer clear(b[:])
	for part := range slices.Chunk(values, 256) {
		copy(b[:], sum[:])
		for i, v := range part {
			binary.LittleEndian.PutUint64(b[32+8*i:], math.Float64bits(v))
		}
		sum = sha256.Sum256(b[:32+8*len(part)])
	}
	return sum
}
