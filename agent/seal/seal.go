package seal

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hencedge/hencedge/agent/source"
	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/internal/role"
	"github.com/hencedge/hencedge/transport"
)

// Sealed is an encrypted and signed window.
type Sealed struct {
	Meta    transport.Meta
	Object  []byte
	Body    int           // bytes of the ciphertext
	Encrypt time.Duration // encoding and encrypting
}

// Seal encodes, encrypts and signs a window.
func (k *Keys) Seal(s *Stream, w *source.Window, id Identity, clock role.Clock) (*Sealed, error) {
	if s.Config.Compact() > 0 {
		return k.sealCompact(s, w, id, clock)
	}
	if s.Config.Whole() {
		return k.sealWhole(s, w, id, clock)
	}
	first := s.Config.Place(s.Place, k.Context.Parameters().Slots())
	if s.slots == nil {
		s.slots = make([]float64, first+s.Config.Slots())
	}
	u := s.slots
	defer clear(u[first:])
	source.FillSlots(u[first:], s.Config, w.Values)
	seed, err := k.seed(s, id, u, s.Scale)
	if err != nil {
		return nil, err
	}
	defer seed.Wipe()
	size := k.Context.Parameters().CiphertextBytes(s.Level, k.Seeded)
	reclaim(size) // of the window before, and its delivery
	began := clock.Mono()
	ct, err := k.encryptor.EncryptReal(u, s.Level, s.Scale, seed)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	took := clock.Mono() - began
	// The ciphertext is written into the buffer that is signed and sent.
	b, err := k.Context.AppendCiphertext(s.memory(transport.SealRoom, transport.SealRoom+size+transport.SealTail), ct)
	k.Context.Ring().Free(ct.Value)
	reclaim(size)
	if err != nil {
		return nil, fmt.Errorf("encode the ciphertext: %w", err)
	}
	meta := transport.Meta{
		Kind: transport.KindReading, Device: id.Device, Stream: s.Config.Name,
		KeyID: k.ID, KeyEpoch: k.Epoch, BootEpoch: id.Boot, Sequence: id.Sequence,
		Params: k.Context.Parameters().Hash(), Layout: s.Layout, Level: ct.Level, Scale: ct.Scale,
		Start: w.Start.UnixNano(), End: w.End.UnixNano(), Samples: uint32(w.Samples),
		Place: uint32(s.Place),
	}
	body := len(b) - transport.SealRoom
	object, err := transport.SealInPlace(meta, b, transport.SealRoom, k.Signing)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return &Sealed{Meta: meta, Object: object, Body: body, Encrypt: took}, nil
}

// seed draws the seed of a window, which the caller wipes.
func (k *Keys) seed(s *Stream, id Identity, values []float64, scale float64) (*henc.Seed, error) {
	counter := binary.BigEndian.AppendUint64(nil, id.Boot)
	counter = binary.BigEndian.AppendUint64(counter, id.Sequence)
	// The digest of the values, the scale and the key keep copies of one machine apart
	// that agree in all else, the state of the kernel's generator included: then equal
	// seeds are seeds of equal ciphertexts, which say nothing.
	content := digest(values)
	defer clear(content[:])
	encoded := binary.BigEndian.AppendUint64(nil, math.Float64bits(scale))
	newSeed := henc.NewSeed
	if k.newSeed != nil {
		newSeed = k.newSeed
	}
	return newSeed([]byte(id.Device), []byte(s.Config.Name), id.BootID, counter, content[:], encoded, k.ID[:])
}

// Stream is how the windows of one stream are sealed.
type Stream struct {
	Config config.Stream
	Level  int
	Scale  float64 // 0: the parameters' own
	Layout [32]byte
	Place  int // of the device, below Config.Places; 0 without them
	Topic  string

	// Memory that one window after the other uses.
	slots  []float64 // of a window, zeros
	object []byte    // of a sealed window
	lent   bool      // object belongs to a window that is not on disk
}

// memory returns a buffer of n bytes that has room for a sealed window. It is the buffer
// of the window before, if that is on disk; large ones are not kept.
func (s *Stream) memory(n, room int) []byte {
	if s.lent || cap(s.object) < room {
		s.object = make([]byte, room)
	}
	s.lent = true
	return s.object[:n]
}

// Kept says that the object of the last window is on disk, so that its memory is free.
func (s *Stream) Kept() {
	if s.lent = cap(s.object) >= largeBody; s.lent {
		s.object = nil
	}
}

// Identity are the parts of the header that name the sender.
type Identity struct {
	Device         string
	Boot, Sequence uint64
	BootID         []byte // of the kernel's present start
}

// digest returns a hash of values: SHA-256 of 256 of them after that of those before,
// so that only a small buffer has to be wiped. A block of zeros follows the values,
// since SHA-256 leaves the last 64 bytes that it takes on the stack.
func digest(values []float64) (sum [32]byte) {
	var b [32 + 8*256 + sha256.BlockSize]byte
	defer clear(b[:])
	for part := range slices.Chunk(values, 256) {
		end := 32 + 8*len(part)
		copy(b[:], sum[:])
		for i, v := range part {
			binary.LittleEndian.PutUint64(b[32+8*i:], math.Float64bits(v))
		}
		clear(b[end:])
		sum = sha256.Sum256(b[:end+sha256.BlockSize])
	}
	return sum
}
