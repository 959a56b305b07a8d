package henc

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/hencedge/hencedge/henc/internal/kdf"
)

// Seed is the secret randomness of one encryption, or of one secret key. Use a
// seed for one purpose and one message only: two encryptions under one seed
// reveal the difference of their messages. Wipe it after use.
type Seed [32]byte

// seeds counts the seeds of this process.
var seeds atomic.Uint64

// process is this process's number, asked for once: each question is a call of the system.
var process = uint64(os.Getpid())

// NewSeed draws a fresh seed: HKDF-SHA256 (RFC 5869) over 32 bytes of the
// operating system's entropy and the hedge inputs. Hedges (device id, boot id,
// a persisted counter) separate the seeds of cloned images and of boards with little
// entropy at boot. A digest of the message also separates copies of a running machine,
// whose kernels may return the same bytes. Hedges need not be secret, and they never
// weaken the seed. NewSeed always adds the time, the process and a count of the
// process's seeds. It fails only if the operating system has no entropy.
func NewSeed(hedge ...[]byte) (*Seed, error) {
	ambient := binary.LittleEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
	ambient = binary.LittleEndian.AppendUint64(ambient, process)
	ambient = binary.LittleEndian.AppendUint64(ambient, seeds.Add(1))
	size := 32 + 8 + len(ambient)
	for _, h := range hedge {
		size += 8 + len(h)
	}
	ikm := make([]byte, 32, size)
	defer clear(ikm[:cap(ikm)])
	if _, err := rand.Read(ikm); err != nil {
		return nil, fmt.Errorf("new seed: operating system entropy: %w", err)
	}
	for _, h := range append(hedge[:len(hedge):len(hedge)], ambient) {
		ikm = binary.LittleEndian.AppendUint64(ikm, uint64(len(h)))
		ikm = append(ikm, h...)
	}
	return expandSeed(ikm, "hencedge seed v1"), nil
}

// Derive returns the seed for one named use of s: HKDF-SHA256 with the label,
// a zero byte and the context words (little-endian) as info. Seeds derived
// under different labels or contexts are independent; knowing one of them
// reveals neither s nor another.
func (s *Seed) Derive(label string, context ...uint64) (*Seed, error) {
	if s == nil {
		return nil, fmt.Errorf("derive seed %q: %w: nil seed", label, ErrParams)
	}
	info := append([]byte(label), 0)
	for _, c := range context {
		info = binary.LittleEndian.AppendUint64(info, c)
	}
	return expandSeed(s[:], string(info)), nil
}

// Wipe overwrites the seed with zeros. A nil seed is left alone.
func (s *Seed) Wipe() {
	if s != nil {
		clear(s[:])
	}
}

func expandSeed(ikm []byte, info string) *Seed {
	s := new(Seed)
	kdf.Derive((*[kdf.Size]byte)(s), ikm, info)
	return s
}
