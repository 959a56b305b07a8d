package loadbench

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/evaluator"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/keyholder"
	"github.com/hencedge/hencedge/transport"
)

const evaluatorName = "load"

// every is the length of a window. Windows join by their interval, so that programs can look
// back and read several devices.
const every = time.Second

// bed holds what a load needs before the service starts.
type bed struct {
	o       Options
	dir     string // private, removed at the end
	stream  config.Stream
	devices []*device
	given   []config.Program // before multiplied
	cfg     *config.Evaluator
	plan    *evaluator.Plan
	signer  ed25519.PublicKey // of the evaluator
	set     *keyholder.Set
	reader  *keyholder.Reader
	meta    transport.Meta // the fields that the headers of all windows share
	begin   int64          // start of each device's first window, in multiples of every
}

// device is a sender with its own signing key and its own data.
type device struct {
	name   string
	place  int // of its windows, of Options.Places
	topic  string
	key    *transport.SigningKey
	bodies []body // used in rotation: window n has bodies[n % len]
	board  *board // of compact windows; else nil
}

// body is an encrypted window and its plaintext.
type body struct {
	values     [][]float64 // by channel
	ciphertext []byte      // none of compact windows, each of which is encrypted for its number
}

func (b *bed) remark(format string, args ...any) { b.o.Remark(fmt.Sprintf(format, args...)) }

// close removes every file, secrets included.
func (b *bed) close() error {
	var err error
	if b.reader != nil {
		err = b.reader.Close()
	}
	for _, d := range b.devices {
		d.key.Wipe()
		d.board.wipe()
	}
	if b.dir != "" {
		err = errors.Join(err, os.RemoveAll(b.dir))
	}
	return err
}

func (b *bed) path(name string) string { return filepath.Join(b.dir, name) }

// ciphertextBytes returns the size of a window's ciphertext.
func (b *bed) ciphertextBytes() int64 {
	if b.o.Compact > 0 {
		return int64(compact.Bytes(b.stream.Readings(), compact.Precision(b.o.Compact)))
	}
	return int64(b.o.Params.CiphertextBytes(b.o.Params.Depth(), b.o.Seeded))
}

// free returns the memory that the ciphertexts leave for signed windows and kept results.
func (b *bed) free() int64 {
	return b.o.Memory - b.ciphertextBytes()*int64(b.o.Windows)*int64(len(b.devices))
}

// classed reports whether the devices are of one class, so that their windows share ciphertexts.
func (b *bed) classed() bool { return b.o.Places > 0 || b.o.Compact > 0 }

// slotRoom bounds what sealing and chunks add to a ciphertext, in bytes. It has some to spare,
// because numbers in headers differ in length.
const slotRoom = transport.SealRoom + transport.SealTail + 1024

// slotBytes returns the memory that a sealed window takes.
func (b *bed) slotBytes() int { return int(b.ciphertextBytes()) + slotRoom }
